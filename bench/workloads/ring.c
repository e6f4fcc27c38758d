/* ring - one thread allocates, another one frees, both as fast as they can.
 *
 *   ring OBJECTS [SLOTS]
 *
 * The main thread allocates OBJECTS objects of 1 to 1000 bytes, writes the first byte of each, and
 * puts them one by one into a ring of SLOTS (4096, a power of two); a second thread takes them out
 * and frees them. A thread that finds the ring full or empty yields the processor and tries again.
 *
 * Apart from creating the thread, it makes exactly OBJECTS allocations and frees. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/atomic.h"

static char **ring_slots_of;
static uint64_t ring_slots = 4096;
static uint64_t ring_objects;

/* Each thread's own counter on a cache line of its own. */
static struct {
    _Alignas(128) uint64_t put;
    _Alignas(128) uint64_t taken;
} counts;

static void ring_fail(const char *what)
{
    fprintf(stderr, "ring: %s\n", what);
    _Exit(1);
}

static void ring_produce(void)
{
    uint64_t random_state = 1;
    for (uint64_t i = 0; i < ring_objects; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        char *object = malloc(1 + (random_state >> 33) % 1000);
        if (!object) ring_fail("out of memory");
        *object = 1;
        while (i - atomic_load_acquire(&counts.taken) == ring_slots)
            sched_yield();
        ring_slots_of[i % ring_slots] = object;
        atomic_store_release(&counts.put, i + 1);
    }
}

static void *ring_consume(void *unused)
{
    for (uint64_t i = 0; i < ring_objects; i++) {
        while (atomic_load_acquire(&counts.put) == i)
            sched_yield();
        free(ring_slots_of[i % ring_slots]);
        atomic_store_release(&counts.taken, i + 1);
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t consumer;
    if (count != 2 && count != 3) {
        fputs("usage: ring OBJECTS [SLOTS]\n", stderr);
        return 2;
    }
    ring_objects = strtoull(words[1], NULL, 10);
    if (count == 3) ring_slots = strtoull(words[2], NULL, 10);
    ring_slots_of = calloc(ring_slots, sizeof *ring_slots_of);
    if (!ring_slots_of || pthread_create(&consumer, NULL, ring_consume, NULL) != 0)
        ring_fail("cannot set up");
    ring_produce();
    pthread_join(consumer, NULL);
    free(ring_slots_of);
    return 0;
}
