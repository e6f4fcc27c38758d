/* half_bytes - columns of half-bytes (INSTRUCTIONS.md 4.3).
 *
 *   instructions   0  1  2  3  4            byte i has that of 2 * i in its lower half,
 *   bytes          10 32 04                 and that of 2 * i + 1 in its upper half */
#ifndef MALLOCTAPE_HALF_BYTES_H
#define MALLOCTAPE_HALF_BYTES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HALF_BYTES_VALUES 16u /* values of a half-byte */

/* Bytes behind the last one that are overwritten: it is done in whole vectors. */
#define HALF_BYTES_SLACK 15u

/* The bytes of a column of `count` half-bytes. */
static inline size_t half_bytes_size(size_t count)
{
    return (count + 1) / 2;
}

/* Makes half-bytes of `count` bytes less than 16, in place. The half behind an odd count becomes 0. */
void half_bytes_pack(uint8_t *bytes, size_t count);

/* The same with the index of each byte in a list, where it occurs once. */
void half_bytes_pack_indices(uint8_t *bytes, size_t count, const uint8_t *list, unsigned listed);

/* to[i] = table[half-byte i] for i < count, and for one more if that is odd. */
void half_bytes_look_up(const uint8_t *from, size_t count, const uint8_t table[HALF_BYTES_VALUES],
                        uint8_t *to);

#ifdef __cplusplus
}
#endif
#endif
