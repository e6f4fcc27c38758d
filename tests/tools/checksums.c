/* checksums - the checksum of both formats (FORMAT.md 2.3) for the sample builder, which is written
 * in Ruby and has no XXH3.
 *
 *   stdin    messages: a length in four bytes, little-endian, and so many bytes
 *   stdout   for each, at once, the four bytes of its checksum */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* A header, a payload and some more. */
enum { MESSAGE_BYTES_MAX = 2 * 1024 * 1024 };

static uint32_t u32_get(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void u32_put(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

int main(void)
{
    static uint8_t message[MESSAGE_BYTES_MAX];
    uint8_t number[4];
    while (fread(number, sizeof number, 1, stdin) == 1) {
        uint32_t bytes = u32_get(number);
        if (bytes > sizeof message || fread(message, 1, bytes, stdin) != bytes) {
            fputs("checksums: a message is too long or cut\n", stderr);
            return EXIT_FAILURE;
        }
        u32_put(number, (uint32_t)XXH3_64bits(message, bytes));
        fwrite(number, sizeof number, 1, stdout);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
