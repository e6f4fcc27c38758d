/* pack_own - what the files of packing share (pack.h).
 *
 *   pack.c            units as bytes; lanes
 *   pack_tcmalloc.c   records of a stream that knows classes and caches
 *   pack_opaque.c     those of an opaque stream
 */
#ifndef MALLOCTAPE_PACK_OWN_H
#define MALLOCTAPE_PACK_OWN_H

#include "pack.h"
#include "units_read.h"

/* What is known of a lane: the beginning of a dialect's own structure. */
struct pack_lane {
    struct pack_lane *next, *next_unused;
};

extern const struct pack_dialect pack_tcmalloc, pack_opaque;

static inline uint8_t *pack_put_units(const struct packer *packer, uint8_t *at,
                                      const uint16_t *units, const uint16_t *end)
{
    for (; units < end; units++)
        at = pack_put_unit(packer, at, *units);
    return at;
}

#endif
