/* churn - the allocator's everyday work, as fast as it can be asked for.
 *
 *   churn [-t] [-d DEPTH] THREADS SLOTS STEPS [cross]
 *
 * Each of THREADS threads owns SLOTS slots and a generator of its own, seeded by its number, and
 * takes STEPS steps. A step picks a random slot, frees the object in it, allocates 16 to 527 bytes
 * in its place and writes the first 8. With "cross", one step in 16 swaps its new object into a
 * table shared by all threads and frees what came out, so that objects die in other threads than
 * they were allocated in. At the end everything is freed.
 *
 *   -t   prints the wall seconds that the threads took
 *   -d   all that is DEPTH functions further in
 *
 * Apart from the table of slots and thread stacks, a thread makes exactly STEPS allocations and
 * STEPS frees. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/atomic.h"

enum {
    THREADS_MAX = 1024,
    SHARED_SLOTS = 4096,  /* a power of two */
    CROSS_STEPS_MASK = 15 /* one step in 16 crosses */
};

struct options {
    int threads;
    size_t slots;
    uint64_t steps;
    int cross;
    int print_seconds;
    int depth;
};

struct worker {
    pthread_t thread;
    uint64_t random_state;
};

static struct options options;
static struct worker workers[THREADS_MAX];
static void *shared[SHARED_SLOTS];

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

static void *object_new(uint64_t random)
{
    uint64_t *object = malloc(16 + ((random >> 32) & 511));
    if (!object) {
        fputs("churn: out of memory\n", stderr);
        _Exit(1);
    }
    *object = random;
    return object;
}

static __attribute__((noinline)) void *worker_run(struct worker *worker)
{
    void **slots = calloc(options.slots, sizeof *slots);
    if (!slots) return NULL;
    for (uint64_t step = 0; step < options.steps; step++) {
        uint64_t random = random_next(&worker->random_state);
        void **slot = &slots[(uint32_t)random % options.slots];
        free(*slot);
        *slot = object_new(random);
        if (options.cross && (step & CROSS_STEPS_MASK) == 0) {
            void **exchange = &shared[(random >> 48) & (SHARED_SLOTS - 1)];
            *slot = atomic_exchange_acq_rel(exchange, *slot);
            free(*slot);
            *slot = NULL;
        }
    }
    for (size_t i = 0; i < options.slots; i++)
        free(slots[i]);
    free(slots);
    return NULL;
}

static __attribute__((noinline)) void *worker_run_in(struct worker *worker, int depth)
{
    void *result = depth > 0 ? worker_run_in(worker, depth - 1) : worker_run(worker);
    __asm__ volatile("" ::: "memory");
    return result;
}

static void *worker_begin(void *worker)
{
    return worker_run_in(worker, options.depth);
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int options_parse(int count, char **words)
{
    int i = 1;
    if (i < count && strcmp(words[i], "-t") == 0) {
        options.print_seconds = 1;
        i++;
    }
    if (i + 1 < count && strcmp(words[i], "-d") == 0) {
        options.depth = atoi(words[i + 1]);
        i += 2;
    }
    if (count - i < 3 || count - i > 4) return 0;
    options.threads = atoi(words[i]);
    options.slots = strtoull(words[i + 1], NULL, 10);
    options.steps = strtoull(words[i + 2], NULL, 10);
    options.cross = count - i == 4;
    if (options.cross && strcmp(words[i + 3], "cross") != 0) return 0;
    return options.threads >= 1 && options.threads <= THREADS_MAX && options.slots >= 1;
}

/* The first worker is the main thread, so that "churn 1" is a program of one thread. */
static void workers_run(void)
{
    for (int i = 0; i < options.threads; i++)
        workers[i].random_state = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
    for (int i = 1; i < options.threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_begin, &workers[i]) != 0) {
            fputs("churn: cannot create a thread\n", stderr);
            _Exit(1);
        }
    }
    worker_begin(&workers[0]);
    for (int i = 1; i < options.threads; i++)
        pthread_join(workers[i].thread, NULL);
}

int main(int count, char **words)
{
    if (!options_parse(count, words)) {
        fputs("usage: churn [-t] [-d DEPTH] THREADS SLOTS STEPS [cross]\n", stderr);
        return 2;
    }
    double start_seconds = now_seconds();
    workers_run();
    double wall_seconds = now_seconds() - start_seconds;
    for (size_t i = 0; i < SHARED_SLOTS; i++)
        free(shared[i]);
    if (options.print_seconds) printf("%.6f\n", wall_seconds);
    return 0;
}
