/* chunk - what threads wrote into their slots, as chunks of the raw stream (FORMAT.md 4.2, 5.5).
 *
 * Pure: memory in, memory out, no system call. */
#ifndef MALLOCTAPE_CHUNK_H
#define MALLOCTAPE_CHUNK_H

#include "raw_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes that a chunk of so many units can need. */
#define CHUNK_BYTES_MAX(units) \
    (RAW_CHUNK_HEADER_BYTES + RAW_PROFILE_BYTES + 3 * (size_t)(units) + 4)
#define CHUNK_TICK_BYTES_MAX (RAW_CHUNK_HEADER_BYTES + 64)

/* Whole records of one run. */
struct chunk_units {
    uint32_t lane;
    unsigned flags; /* RAW_CHUNK_FLAG_... */
    uint64_t first_unit;
    uint64_t first_birth; /* of the run */
    const uint8_t *profile;
    const uint16_t *units;
    size_t count;
};

/* Tables for packing. */
struct chunk_packer {
    uint8_t row[256];    /* by the upper byte of a unit: its row in `one` */
    uint8_t one[6][256]; /* by the lower byte: the code of one byte, or NO_CODE */
    uint8_t page[256];   /* by the upper byte: the first of two bytes, or RAW_PACKED_UNIT */
};

void chunk_packer_init(struct chunk_packer *packer);

/* Writes a chunk at `out`, which has CHUNK_BYTES_MAX(run->count) bytes; packed if run->flags say so.
 * Returns its length. */
size_t chunk_write(const struct chunk_packer *packer, const struct chunk_units *run, uint8_t *out);

/* A tick chunk (FORMAT.md 4.3), the `ticks`th from 0. Needs CHUNK_TICK_BYTES_MAX bytes. */
size_t chunk_write_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes,
                        uint8_t *out);

/* Completes a chunk of a type without units whose payload of `payload` bytes stands behind the
 * header's place at `out`. */
size_t chunk_seal(uint8_t *out, unsigned type, size_t payload, uint64_t first);

#endif
