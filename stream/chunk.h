/* chunk - what threads wrote into their slots, as chunks of the raw stream (FORMAT.md 4.2, 5.5).
 *
 * Memory in, memory out, no system call but for what a packer needs. */
#ifndef MALLOCTAPE_CHUNK_H
#define MALLOCTAPE_CHUNK_H

#include "stream/chunk_seal.h"
#include "stream/pack.h"
#include "stream/raw_format.h"

#include <stdbool.h>
#include <stddef.h>

/* The most bytes that a chunk with this many units can need. */
#define CHUNK_BYTES_MAX(units)   (RAW_CHUNK_HEADER_BYTES + RAW_PROFILE_BYTES + PACK_BYTES_MAX(units))
/* Those of a chunk that is not packed and begins no segment. */
#define CHUNK_BYTES_PLAIN(units) (RAW_CHUNK_HEADER_BYTES + 2 * (size_t)(units))

/* Whole records of one segment. */
struct chunk_units {
    uint32_t lane;
    unsigned flags; /* RAW_CHUNK_FLAG_... */
    uint64_t first_unit;
    uint64_t first_allocation; /* of the segment */
    struct pack_records records;
    struct pack_lane *followed; /* if it is packed; may be NULL */
};

/* Writes a chunk at `out`, which has CHUNK_BYTES_MAX(chunk->records.count) bytes; packed if its
 * flags say so. If it cannot be, they do not say so any more. Returns its length. */
size_t chunk_write(struct packer *packer, struct chunk_units *chunk, uint8_t *out);

#endif
