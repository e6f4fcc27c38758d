/* big - objects of many pages, which no thread cache holds.
 *
 *   big STEPS
 *
 * 64 slots. A step picks one of them at random, frees the object in it, allocates 256 KiB to 4 MiB
 * in its place and writes the first and the last byte. Every call goes to the page heap, under its
 * lock. At the end everything is freed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 64 /* a power of two */, OBJECT_BYTES_MIN = 256 << 10, OBJECT_BYTES_MAX = 4 << 20 };

static char *big_slots[SLOTS];

static uint64_t big_random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static char *big_object_new(size_t size)
{
    char *object = malloc(size);
    if (!object) {
        fputs("big: out of memory\n", stderr);
        _Exit(1);
    }
    object[0] = object[size - 1] = 1;
    return object;
}

int main(int count, char **words)
{
    if (count != 2) {
        fputs("usage: big STEPS\n", stderr);
        return 2;
    }
    uint64_t steps = strtoull(words[1], NULL, 10);
    uint64_t random_state = 1;
    for (uint64_t step = 0; step < steps; step++) {
        char **slot = &big_slots[big_random_next(&random_state) % SLOTS];
        free(*slot);
        *slot = big_object_new(OBJECT_BYTES_MIN + big_random_next(&random_state) %
                                                      (OBJECT_BYTES_MAX - OBJECT_BYTES_MIN + 1));
    }
    for (int i = 0; i < SLOTS; i++)
        free(big_slots[i]);
    return 0;
}
