/* chunk_seal - what surrounds the payload of a chunk (FORMAT.md 4.2), for the writer and for
 * whoever finishes a stream.
 *
 * Memory in, memory out. Each returns the length of the chunk. */
#ifndef MALLOCTAPE_CHUNK_SEAL_H
#define MALLOCTAPE_CHUNK_SEAL_H

#include "stream/raw_format.h"
#include "stream/varint.h"

#include <stddef.h>
#include <stdint.h>

#define CHUNK_TICK_BYTES_MAX \
    (RAW_CHUNK_HEADER_BYTES + (7 + ORIGINAL_STATISTICS_MAX) * VARINT_BYTES_MAX + VARINT_SLACK)

/* Completes a chunk of `units`, whose payload follows the room for its header at `out`. */
size_t chunk_seal_units(uint8_t *out, unsigned flags, uint32_t lane, size_t payload, size_t units,
                        uint64_t first_unit, uint64_t first_allocation);

/* A tick chunk (FORMAT.md 4.3), the `ticks`th from 0. Needs CHUNK_TICK_BYTES_MAX bytes. */
size_t chunk_write_tick(uint64_t ticks, const struct raw_tick *tick, uint8_t *out);

/* Completes a chunk of mappings (FORMAT.md 4.5), of so many cells after `first`; or of residency
 * (4.6). The payload follows the room for the header at `out`. */
size_t chunk_seal_mappings(uint8_t *out, size_t payload, uint32_t cells, uint64_t first);
size_t chunk_seal_residency(uint8_t *out, size_t payload);

/* The most bytes of an end chunk with this many lanes. */
#define CHUNK_END_BYTES_MAX(lanes) \
    (RAW_CHUNK_HEADER_BYTES + (7 + (uint64_t)(lanes)) * VARINT_BYTES_MAX)

/* An end chunk (FORMAT.md 4.4), after `ticks` ticks. `units_of`: units of a lane. Needs
 * CHUNK_END_BYTES_MAX(end->lanes) + VARINT_SLACK bytes. */
size_t chunk_write_end(uint64_t ticks, const struct raw_end *end,
                       uint64_t (*units_of)(const void *context, uint32_t lane),
                       const void *context, uint8_t *out);

#endif
