/* raw_unpack - unpacks what pack.h has packed (FORMAT.md 5.5). */
#ifndef MALLOCTAPE_STREAM_RAW_UNPACK_H
#define MALLOCTAPE_STREAM_RAW_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Unpacks the units of a packed chunk, by the entries of pack_fill_entries(). Writes little-endian
 * units to `to`, at most `*units`, and stores in `*units` how many they are. False: the `bytes` at
 * `from` are no whole codes, or have more units. */
bool raw_unpack(const uint32_t *entries, const uint8_t *from, uint32_t bytes, uint8_t *to,
                uint32_t *units);

#ifdef __cplusplus
}
#endif
#endif
