/* pack_opaque - packed units of an opaque stream (FORMAT.md 5.6): allocations leave out their
 * places where a reader finds them by itself. See pack.h and raw_places.h. */
#ifndef MALLOCTAPE_PACK_OPAQUE_H
#define MALLOCTAPE_PACK_OPAQUE_H

#include "pack.h"
#include "raw_places.h"

/* As pack_units(). NULL: there is no room for it; the places mean nothing then. */
uint8_t *pack_opaque_units(const struct packer *packer, struct raw_places *places,
                           const struct pack_records *records, uint8_t *out);

#endif
