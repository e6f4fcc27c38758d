/* numbered - makes objects whose sizes count them, until it has made enough, or is killed: what is in
 * a recording can be compared with what happened, call by call.
 *
 *   numbered FILE THREADS COUNT [PAUSE_US [LEAK]]
 *
 * The object n of a thread t has NUMBERED_BASE + n % NUMBERED_CYCLE * THREADS + t bytes; the thread
 * frees object n - NUMBERED_LIVE after that. FILE has four numbers for each thread: allocations begun
 * and done, frees begun and done. After each NUMBERED_BURST objects it pauses. Each LEAKth object is
 * filled, and never freed. */
#include "common/atomic.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NUMBERED_BASE = 5000,
    NUMBERED_CYCLE = 997,
    NUMBERED_LIVE = 100,
    NUMBERED_BURST = 500,
    THREADS_MAX = 16
};

struct numbered_count {
    uint64_t begun, done, freeing, freed;
};

static struct numbered_count *counts;
static uint64_t threads, objects, leak;
static unsigned pause_us;

static void *numbered_run(void *of)
{
    const uint64_t thread = (uint64_t)(uintptr_t)of;
    struct numbered_count *count = &counts[thread];
    void *live[NUMBERED_LIVE] = {NULL};
    for (uint64_t n = 0; n < objects; n++) {
        void **object = &live[n % NUMBERED_LIVE];
        const size_t bytes = NUMBERED_BASE + n % NUMBERED_CYCLE * threads + thread;
        if (*object != NULL) {
            atomic_store_release(&count->freeing, n - NUMBERED_LIVE + 1);
            free(*object);
            atomic_store_release(&count->freed, n - NUMBERED_LIVE + 1);
        }
        atomic_store_release(&count->begun, n + 1);
        *object = malloc(bytes);
        atomic_store_release(&count->done, n + 1);
        if (leak > 0 && n % leak == 0 && *object != NULL) {
            memset(*object, 1, bytes);
            *object = NULL;
        }
        if (pause_us > 0 && n % NUMBERED_BURST == 0) usleep(pause_us);
    }
    return NULL;
}

int main(int arguments, char **words)
{
    pthread_t ids[THREADS_MAX];
    if (arguments < 4) return 2;
    threads = strtoull(words[2], NULL, 10);
    objects = strtoull(words[3], NULL, 10);
    if (arguments > 4) pause_us = (unsigned)strtoul(words[4], NULL, 10);
    if (arguments > 5) leak = strtoull(words[5], NULL, 10);
    const int file = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (threads == 0 || threads > THREADS_MAX || file < 0 ||
        ftruncate(file, (off_t)(threads * sizeof *counts)) != 0)
        return 2;
    counts = mmap(NULL, threads * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) return 2;
    for (uint64_t i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, numbered_run, (void *)(uintptr_t)i) != 0) return 2;
    numbered_run((void *)0);
    for (uint64_t i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    return 0;
}
