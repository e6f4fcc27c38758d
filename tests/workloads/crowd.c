/* crowd - many threads that live at the same time.
 *
 *   crowd THREADS PAIRS [SIZES [ASKS [GAP]]]
 *
 * They begin GAP microseconds (default 0) one after the other. Each thread asks ASKS times (default 0) how large an object is that it has not made, allocates
 * and frees an object PAIRS times, of SIZES (default 4) sizes in turn, and then waits until all have done so. Prints "N ms, M KiB, S sleeps": how long that took, the
 * resident memory of the process while all were there, and how often threads slept before that. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/atomic.h"

enum { THREADS_MAX = 60000, STACK_BYTES = 65536 };

static unsigned long pairs, sizes = 4, asks, gap_us;
static void *asked_of;
static long sleeps;
static pthread_barrier_t all_are_done, may_end;

static void fail(const char *what)
{
    fprintf(stderr, "crowd: %s\n", what);
    _Exit(1);
}

static void *run(void *unused)
{
    struct rusage usage;
    (void)unused;
    for (unsigned long i = 0; i < asks; i++)
        if (malloc_usable_size(asked_of) < 16) fail("a size is wrong");
    for (unsigned long i = 0; i < pairs; i++) {
        char *object = malloc(16 + i % sizes * 48);
        if (!object) fail("out of memory");
        *object = 1;
        free(object);
    }
    getrusage(RUSAGE_THREAD, &usage);
    atomic_add_relaxed(&sleeps, usage.ru_nvcsw);
    pthread_barrier_wait(&all_are_done);
    pthread_barrier_wait(&may_end);
    return NULL;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmRSS:", 6) == 0) kib = strtol(line + 6, NULL, 10);
    if (status) fclose(status);
    return kib;
}

int main(int count, char **words)
{
    static pthread_t threads[THREADS_MAX];
    unsigned long alive = count > 2 ? strtoul(words[1], NULL, 10) : 0;
    pthread_attr_t attributes;
    if (count > 2) pairs = strtoul(words[2], NULL, 10);
    if (count > 3) sizes = strtoul(words[3], NULL, 10);
    if (count > 4) asks = strtoul(words[4], NULL, 10);
    if (count > 5) gap_us = strtoul(words[5], NULL, 10);
    if (count < 3 || count > 6 || alive < 1 || alive > THREADS_MAX || sizes < 1) {
        fputs("usage: crowd THREADS PAIRS [SIZES [ASKS [GAP]]]\n", stderr);
        return 2;
    }
    if (pthread_barrier_init(&all_are_done, NULL, (unsigned)alive + 1) != 0 ||
        pthread_barrier_init(&may_end, NULL, (unsigned)alive + 1) != 0 ||
        pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0)
        fail("cannot set up");
    asked_of = malloc(16);
    long since = now_ms();
    for (unsigned long i = 0; i < alive; i++) {
        if (gap_us) usleep((useconds_t)gap_us);
        if (pthread_create(&threads[i], &attributes, run, NULL) != 0)
            fail("cannot create a thread");
    }
    pthread_barrier_wait(&all_are_done);
    long ms = now_ms() - since;
    printf("%ld ms, %ld KiB, %ld sleeps\n", ms, resident_kib(), sleeps);
    fflush(stdout);
    pthread_barrier_wait(&may_end);
    for (unsigned long i = 0; i < alive; i++)
        pthread_join(threads[i], NULL);
    free(asked_of);
    return 0;
}
