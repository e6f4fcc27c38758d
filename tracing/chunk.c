#include "chunk.h"

#include <string.h>

size_t chunk_write(struct packer *packer, const struct chunk_units *chunk, uint8_t *out)
{
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = payload;
    const struct pack_run *run = &chunk->run;
    if (chunk->flags & RAW_CHUNK_FLAG_BEGIN) {
        memcpy(at, run->profile, RAW_PROFILE_BYTES);
        at += RAW_PROFILE_BYTES;
    }
    if (chunk->flags & RAW_CHUNK_FLAG_PACKED) {
        at = pack_units(packer, chunk->followed, run, at);
    } else if (run->count != 0) { /* else `units` may be NULL, which memcpy does not take */
        memcpy(at, run->units, run->count * sizeof *run->units);
        at += run->count * sizeof *run->units;
    }
    return chunk_seal_units(out, chunk->flags, chunk->lane, (size_t)(at - payload), run->count,
                            chunk->first_unit, chunk->first_allocation);
}
