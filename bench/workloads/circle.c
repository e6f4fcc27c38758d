/* circle - threads, each of which frees what another one has allocated.
 *
 *   circle THREADS OBJECTS
 *
 * Each of THREADS threads allocates OBJECTS objects of 16 to 527 bytes, writes the first 8 bytes of
 * each, and hands them to the next thread, the last one to the first, through a ring of 1024. In
 * between it frees what it has been given. No thread frees an object of its own. A thread that can
 * do neither yields the processor and tries again.
 *
 * Apart from creating threads, it makes exactly THREADS * OBJECTS allocations and frees. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/atomic.h"

enum { SLOTS = 1024, THREADS_MAX = 64 };

/* From one thread to the next: each counter has one writer. */
struct ring {
    _Alignas(128) uint64_t put;
    _Alignas(128) uint64_t taken;
    uint64_t *objects[SLOTS];
};

static struct ring rings[THREADS_MAX]; /* to the thread of that number */
static unsigned circle_threads;
static uint64_t circle_objects;

static void circle_fail(const char *what)
{
    fprintf(stderr, "circle: %s\n", what);
    _Exit(1);
}

static bool circle_put(struct ring *ring, uint64_t *random_state)
{
    uint64_t at = ring->put;
    if (at == circle_objects || at - atomic_load_acquire(&ring->taken) == SLOTS) return false;
    *random_state = *random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t *object = malloc(16 + ((*random_state >> 33) & 511));
    if (!object) circle_fail("out of memory");
    *object = at;
    ring->objects[at % SLOTS] = object;
    atomic_store_release(&ring->put, at + 1);
    return true;
}

static bool circle_take(struct ring *ring)
{
    uint64_t at = ring->taken;
    if (atomic_load_acquire(&ring->put) == at) return false;
    free(ring->objects[at % SLOTS]);
    atomic_store_release(&ring->taken, at + 1);
    return true;
}

static void *circle_work(void *argument)
{
    struct ring *own = argument;
    struct ring *next = &rings[((size_t)(own - rings) + 1) % circle_threads];
    uint64_t random_state = (uint64_t)(own - rings) + 1;
    while (next->put < circle_objects || own->taken < circle_objects) {
        bool has_put = circle_put(next, &random_state);
        bool has_taken = circle_take(own);
        if (!has_put && !has_taken) sched_yield();
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t thread[THREADS_MAX];
    if (count != 3 || (circle_threads = (unsigned)atoi(words[1])) < 2 ||
        circle_threads > THREADS_MAX) {
        fputs("usage: circle THREADS OBJECTS (2 to 64 threads)\n", stderr);
        return 2;
    }
    circle_objects = strtoull(words[2], NULL, 10);
    for (unsigned i = 0; i < circle_threads; i++)
        if (pthread_create(&thread[i], NULL, circle_work, &rings[i]) != 0)
            circle_fail("cannot set up");
    for (unsigned i = 0; i < circle_threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
