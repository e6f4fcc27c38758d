/* spool_format - the header of a spool's slot (FORMAT.md 8), for the recorder and for readers. */
#ifndef MALLOCTAPE_SPOOL_FORMAT_H
#define MALLOCTAPE_SPOOL_FORMAT_H

#include "common/bytes.h"
#include "stream/raw_format.h"

#include <stdbool.h>
#include <string.h>

/* The contents of a slot's header. */
struct spool_segment {
    uint32_t lane;
    uint64_t serial; /* of the slot in the lane */
    uint64_t first_allocation;
    uint64_t first_unit;
    uint8_t profile[RAW_PROFILE_BYTES];
    bool key;
    uint64_t extra_units; /* before it; not in the file */
};

static inline struct spool_segment spool_segment_in(const uint8_t *header)
{
    struct spool_segment segment = {
        .lane = bytes_get32(header + SPOOL_SLOT_LANE),
        .serial = bytes_get64(header + SPOOL_SLOT_SERIAL),
        .first_allocation = bytes_get64(header + SPOOL_SLOT_FIRST_ALLOCATION),
        .first_unit = bytes_get64(header + SPOOL_SLOT_FIRST_UNIT),
        .key = (bytes_get32(header + SPOOL_SLOT_FLAGS) & SPOOL_SLOT_FLAG_KEY) != 0,
    };
    memcpy(segment.profile, header + SPOOL_SLOT_PROFILE, RAW_PROFILE_BYTES);
    return segment;
}

/* Stores all but the state, which says that the rest is there. */
static inline void spool_segment_put(uint8_t *header, const struct spool_segment *segment)
{
    bytes_put32(header + SPOOL_SLOT_LANE, segment->lane);
    bytes_put64(header + SPOOL_SLOT_SERIAL, segment->serial);
    bytes_put64(header + SPOOL_SLOT_FIRST_ALLOCATION, segment->first_allocation);
    bytes_put64(header + SPOOL_SLOT_FIRST_UNIT, segment->first_unit);
    memcpy(header + SPOOL_SLOT_PROFILE, segment->profile, RAW_PROFILE_BYTES);
    bytes_put32(header + SPOOL_SLOT_FLAGS, segment->key ? SPOOL_SLOT_FLAG_KEY : 0);
}

#endif
