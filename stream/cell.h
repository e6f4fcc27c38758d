/* cell - a mapping in the cells of a spool (FORMAT.md 8), for the recorder and for readers.
 *
 * A mapping takes as many consecutive cells of the ring as its name needs. Several threads write at
 * the same time, each its own cells; the number of the first one is stored last (release). */
#ifndef MALLOCTAPE_CELL_H
#define MALLOCTAPE_CELL_H

#include "common/atomic.h"
#include "stream/mapping.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A ring: number `i`, from 1, lies at (i - 1) % count. */
struct cell_ring {
    uint64_t *words;
    uint32_t count;
};

/* How many cells the record takes. */
static inline uint32_t cells_of(const struct mapping_record *record)
{
    const uint32_t first = 8 * (SPOOL_CELL_WORDS - SPOOL_CELL_NAME);
    const uint32_t others = 8 * (SPOOL_CELL_WORDS - SPOOL_CELL_MORE_NAME);
    return record->name_bytes <= first ? 1 : 1 + (record->name_bytes - first + others - 1) / others;
}

/* Writes the record, whose name has at most SPOOL_CELL_NAME_BYTES_MAX bytes, into the cells from
 * this number on. */
void cell_put(const struct cell_ring *ring, uint64_t number, const struct mapping_record *record);

/* Reads the record whose first cell has this number; its name goes to `name`, which has
 * SPOOL_CELL_NAME_BYTES_MAX bytes. Returns how many cells it takes; 0: it is not complete. */
uint32_t cell_take(const struct cell_ring *ring, uint64_t number, struct mapping_record *record,
                   char *name);

#ifdef __cplusplus
}
#endif

#endif
