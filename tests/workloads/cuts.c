/* cuts - threads whose objects have sizes of all magnitudes, so that an allocator cuts and joins
 * their memory, and hand some of them to each other.
 *
 *   cuts THREADS STEPS
 *
 * A step frees an object and allocates another one of 16 bytes to 64 KiB, most of them small. One
 * in ten is one that any thread may free; one in ten is a realloc. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/atomic.h"

enum { THREADS_MAX = 64, OWN = 512, SHARED = 4096 };

static void *shared[SHARED];
static long steps;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t some_size(uint64_t *state)
{
    const unsigned bits = 4 + next_random(state) % 13;
    return 16 + next_random(state) % (UINT64_C(1) << bits);
}

static void *run(void *number)
{
    uint64_t state = UINT64_C(88172645463325252) + (uintptr_t)number * 7919;
    void *own[OWN] = {NULL};
    for (long i = 0; i < steps; i++) {
        const uint64_t what = next_random(&state) % 10, at = next_random(&state);
        void **mine = &own[at % OWN];
        if (what == 0) {
            void *object = malloc(some_size(&state));
            free(atomic_exchange_acq_rel(&shared[at % SHARED], object));
        } else if (what == 1) {
            *mine = realloc(*mine, some_size(&state));
        } else {
            free(*mine);
            *mine = malloc(some_size(&state));
        }
    }
    for (size_t i = 0; i < OWN; i++)
        free(own[i]);
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS_MAX];
    const int number = count > 2 ? atoi(words[1]) : 0;
    if (number < 1 || number > THREADS_MAX) {
        fputs("usage: cuts THREADS STEPS\n", stderr);
        return 2;
    }
    steps = atol(words[2]);
    for (int i = 0; i < number; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i) != 0) return 1;
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SHARED; i++)
        free(shared[i]);
    return 0;
}
