/* growth - buffers that grow by realloc, as strings and arrays do.
 *
 *   growth STEPS
 *
 * 64 buffers. A step picks one of them at random and reallocates it to one and a half times its
 * size plus 16 bytes, then writes the last byte; one that would be larger than 64 KiB is freed, and
 * starts again from nothing. So a buffer lives through 18 reallocs, most of which move it and copy
 * what is in it: the copying is part of what is measured, as it is in programs. At the end
 * everything is freed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 64, /* a power of two */ BUFFER_BYTES_MAX = 65536 };

struct buffer {
    char *bytes;
    size_t size;
};

static struct buffer buffers[BUFFERS];

static uint64_t growth_random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void buffer_end(struct buffer *buffer)
{
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->size = 0;
}

static void buffer_grow(struct buffer *buffer)
{
    size_t size = buffer->size + buffer->size / 2 + 16;
    if (size > BUFFER_BYTES_MAX) {
        buffer_end(buffer);
        return;
    }
    char *bytes = realloc(buffer->bytes, size);
    if (!bytes) {
        fputs("growth: out of memory\n", stderr);
        _Exit(1);
    }
    bytes[size - 1] = 1;
    buffer->bytes = bytes;
    buffer->size = size;
}

int main(int count, char **words)
{
    if (count != 2) {
        fputs("usage: growth STEPS\n", stderr);
        return 2;
    }
    uint64_t steps = strtoull(words[1], NULL, 10);
    uint64_t random_state = 1;
    for (uint64_t step = 0; step < steps; step++)
        buffer_grow(&buffers[growth_random_next(&random_state) % BUFFERS]);
    for (int i = 0; i < BUFFERS; i++)
        buffer_end(&buffers[i]);
    return 0;
}
