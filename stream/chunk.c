#include "stream/chunk.h"

#include <string.h>

size_t chunk_write(struct packer *packer, struct chunk_units *chunk, uint8_t *out)
{
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = payload;
    const struct pack_records *records = &chunk->records;
    if (chunk->flags & RAW_CHUNK_FLAG_BEGIN) {
        memcpy(at, records->profile, RAW_PROFILE_BYTES);
        at += RAW_PROFILE_BYTES;
    }
    uint8_t *packed = NULL;
    if (chunk->flags & RAW_CHUNK_FLAG_PACKED) {
        packed = pack_units(packer, chunk->followed, records, at);
        if (packed == NULL) chunk->flags &= ~RAW_CHUNK_FLAG_PACKED;
    }
    if (packed != NULL) {
        at = packed;
    } else if (records->count != 0) { /* else `units` may be NULL, which memcpy does not take */
        memcpy(at, records->units, records->count * sizeof *records->units);
        at += records->count * sizeof *records->units;
    }
    return chunk_seal_units(out, chunk->flags, chunk->lane, (size_t)(at - payload), records->count,
                            chunk->first_unit, chunk->first_allocation);
}
