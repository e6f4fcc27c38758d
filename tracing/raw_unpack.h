/* raw_unpack - the units of packed chunks (FORMAT.md 5.5), those for objects by age among them.
 *
 * A unit is one to three bytes, and how many the first one says (raw_packed_entries()).
 *
 * Cost     about ten instructions for a unit. */
#ifndef MALLOCTAPE_RAW_UNPACK_H
#define MALLOCTAPE_RAW_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `entries`: of raw_packed_entries(). Writes little-endian units to `to`, at most `*units`, and says
 * in `*units` how many they are. False: the `bytes` at `from` are no codes, or of more units. */
bool raw_unpack(const uint32_t *entries, const uint8_t *from, uint32_t bytes, uint8_t *to,
                uint32_t *units);

#ifdef __cplusplus
}
#endif
#endif
