/* raw_unpack - the units of packed chunks (FORMAT.md 5.5), those for objects by age among them.
 *
 * A unit is one to three bytes, and how many the first one says: the table has, for each first
 * byte, the unit and which of the next two bytes are added to it.
 *
 *   entry   | mask, 16 bits | base, 16 bits |        unit = base + (the next two bytes & mask)
 *
 * Cost     about ten instructions for a unit. Memory: the table. Threads: a table that was made is
 *          only read. */
#ifndef MALLOCTAPE_RAW_UNPACK_H
#define MALLOCTAPE_RAW_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct raw_unpack_table {
    uint32_t entries[256];
};

/* `opaque`: for an opaque stream (FORMAT.md 5.6). */
void raw_unpack_make_table(struct raw_unpack_table *table, bool opaque);

/* Writes little-endian units to `to`, at most `*units`, and says in `*units` how many they are.
 * False: the `bytes` at `from` are no codes, or of more units. */
bool raw_unpack(const struct raw_unpack_table *table, const uint8_t *from, uint32_t bytes,
                uint8_t *to, uint32_t *units);

#ifdef __cplusplus
}
#endif
#endif
