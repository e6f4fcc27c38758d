/* checksum_fast - checksum_of_two() (checksum.h) for those who read much: twice as fast where the
 * processor has AVX2. Not for the capture core, which is to need no more than it must. */
#ifndef MALLOCTAPE_CHECKSUM_FAST_H
#define MALLOCTAPE_CHECKSUM_FAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t checksum_fast_of_two(const uint8_t *first, size_t first_bytes, const uint8_t *second,
                              size_t second_bytes);

#ifdef __cplusplus
}
#endif
#endif
