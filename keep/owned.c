#include "keep/owned.h"

#include <string.h>

#include "stream/metadata.h"

void owned_take_mapping(struct owned *owned, const struct mapping_record *record)
{
    if (record->what == MAPPING_BREAK && record->own) owned->moves_break = true;
}

static void owned_put_part(void *of, const struct resident_part *part)
{
    struct owned *owned = of;
    owned->bytes[part->owner] += part->resident * 1024;
}

void owned_take_residency(struct owned *owned, const struct base *base,
                          const struct instruction_header *header,
                          const struct residency *residency, const uint8_t *at, const uint8_t *end)
{
    struct resident_dividing dividing = {
        .large_bytes = base->live_bytes, .put = owned_put_part, .of = owned};
    size_t length = 0;
    const char *name =
        metadata_value(header->metadata, header->metadata_bytes, "allocator", &length);
    if (name != NULL) resident_allocator(&dividing, name, length);
    dividing.moves_break |= owned->moves_break;
    memset(owned->bytes, 0, sizeof owned->bytes);
    owned->ns = residency->since_start_ns;
    owned->is_known = resident_divide(&dividing, &base->mappings, residency, at, end) == NULL &&
                      !dividing.no_memory;
}
