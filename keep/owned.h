/* owned - who had the resident memory of the process when the recorder looked last (4.8 of
 * INSTRUCTIONS.md): at a new peak, or when somebody asked. */
#ifndef MALLOCTAPE_KEEP_OWNED_H
#define MALLOCTAPE_KEEP_OWNED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "reading/resident.h"

struct owned {
    uint64_t bytes[RESIDENT_OWNERS];
    uint64_t ns; /* of the look, since the recording began */
    bool is_known, moves_break;
};

/* `record` comes before base_take_mapping(). */
void owned_take_mapping(struct owned *owned, const struct mapping_record *record);

/* `header`: of the stream. */
void owned_take_residency(struct owned *owned, const struct base *base,
                          const struct instruction_header *header,
                          const struct residency *residency, const uint8_t *at, const uint8_t *end);

#endif
