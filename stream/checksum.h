/* checksum - of both formats (FORMAT.md 2.3, INSTRUCTIONS.md 2.3): the low half of XXH3-64.
 *
 * Everything that is covered lies in two pieces with the checksum itself between them. */
#ifndef MALLOCTAPE_CHECKSUM_H
#define MALLOCTAPE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t checksum_of_two(const uint8_t *first, size_t first_bytes, const uint8_t *second,
                         size_t second_bytes);

#ifdef __cplusplus
}
#endif
#endif
