/* varint - unsigned integers of one to nine bytes, little-endian, length first.
 *
 * The number of trailing zero bits of the first byte, plus one, is the length in bytes; a first
 * byte of zero means nine bytes, of which the last eight are the value.
 *
 *   bytes   first byte    value bits
 *     1     vvvvvvv1           7
 *     2     vvvvvv10          14
 *     3     vvvvv100          21
 *    ...
 *     8     10000000          56
 *     9     00000000          64
 *
 * The length is known from one byte, so that neither side needs a branch per byte. Writers use the
 * shortest form; readers accept any (FORMAT.md 2.2, INSTRUCTIONS.md 2.2).
 *
 * varint_put() and varint_get() touch VARINT_SLACK bytes from the given position whatever the
 * length: the caller keeps that much room after the data. */
#ifndef MALLOCTAPE_VARINT_H
#define MALLOCTAPE_VARINT_H

#include <stdint.h>
#include <string.h>

/* 9 for the longest form; the fast paths load and store 8 at once. */
#define VARINT_SLACK     16
#define VARINT_BYTES_MAX 9

/* Writes `value` at `at`; returns the position after it. */
static inline uint8_t *varint_put(uint8_t *at, uint64_t value)
{
    unsigned bits = 64u - (unsigned)__builtin_clzll(value | 1);
    unsigned bytes = (bits + 6) / 7;
    if (__builtin_expect(bytes > 8, 0)) {
        *at = 0;
        memcpy(at + 1, &value, 8);
        return at + 9;
    }
    uint64_t word = ((value << 1) | 1) << (bytes - 1);
    memcpy(at, &word, 8);
    return at + bytes;
}

/* Length in bytes of the integer whose first byte is `first`. */
static inline unsigned varint_bytes(uint8_t first)
{
    return (unsigned)__builtin_ctz((unsigned)first | 0x100) + 1;
}

/* Reads the integer at `*at` and advances `*at` past it. The caller has made sure of VARINT_SLACK
 * readable bytes, and checks afterwards that `*at` has not passed the end of its data. */
static inline uint64_t varint_get(const uint8_t **at)
{
    unsigned bytes = varint_bytes(**at);
    uint64_t word;
    if (__builtin_expect(bytes > 8, 0)) {
        memcpy(&word, *at + 1, 8);
        *at += 9;
        return word;
    }
    memcpy(&word, *at, 8);
    *at += bytes;
    return (word << (64 - 8 * bytes)) >> (64 - 7 * bytes);
}

/* Signed differences: small magnitudes of either sign become small unsigned numbers. */
static inline uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t unzigzag(uint64_t coded)
{
    return (int64_t)(coded >> 1) ^ -(int64_t)(coded & 1);
}

#endif
