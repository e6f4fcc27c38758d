/* requests - threads that serve requests, and rest in between.
 *
 *   requests THREADS REQUESTS
 *
 * Each of THREADS threads makes REQUESTS requests. A request makes 10 000 to 30 000 objects of 16 to
 * 527 bytes, writes the first 8 bytes of each, and frees them all, in the order in which it has made
 * them; then the thread sleeps for 0 to 8 ms. So how much is alive at a time depends on how many
 * threads are in a request at the same time, and that on how long a request takes: with one lock for
 * all (MALLOC_ARENA_MAX=1) threads wait for each other.
 *
 * What each thread allocates depends only on the arguments. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    THREADS_MAX = 64,
    OBJECTS_LEAST = 10000,
    OBJECTS_MORE = 20001,
    BYTES_LEAST = 16,
    BYTES_MORE = 512
};
#define REST_NS 8000000

static unsigned long requests_count;

static void requests_fail(const char *what)
{
    fprintf(stderr, "requests: %s\n", what);
    _Exit(1);
}

static uint64_t requests_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void requests_serve(uint64_t *state, uint64_t **objects)
{
    const size_t count = OBJECTS_LEAST + requests_random(state) % OBJECTS_MORE;
    for (size_t i = 0; i < count; i++) {
        objects[i] = malloc(BYTES_LEAST + requests_random(state) % BYTES_MORE);
        if (!objects[i]) requests_fail("no memory");
        *objects[i] = i;
    }
    for (size_t i = 0; i < count; i++)
        free(objects[i]);
}

static void *requests_work(void *number)
{
    uint64_t state = (uintptr_t)number;
    uint64_t **objects = malloc((OBJECTS_LEAST + OBJECTS_MORE) * sizeof *objects);
    if (!objects) requests_fail("no memory");
    for (unsigned long i = 0; i < requests_count; i++) {
        const struct timespec rest = {0, (long)(requests_random(&state) % REST_NS)};
        requests_serve(&state, objects);
        nanosleep(&rest, NULL);
    }
    free(objects);
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS_MAX];
    if (count != 3) requests_fail("usage: requests THREADS REQUESTS");
    const unsigned long all = strtoul(words[1], NULL, 10);
    requests_count = strtoul(words[2], NULL, 10);
    if (all < 1 || all > THREADS_MAX) requests_fail("1 to 64 threads");
    for (unsigned long i = 0; i < all; i++)
        if (pthread_create(&threads[i], NULL, requests_work, (void *)(uintptr_t)(i + 1)) != 0)
            requests_fail("no thread");
    for (unsigned long i = 0; i < all; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
