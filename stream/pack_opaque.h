/* pack_opaque - packed units of an opaque stream (FORMAT.md 5.6): allocations leave out their
 * places where a reader finds them by itself. For pack_units() only; see pack.h and raw_places.h.
 */
#ifndef MALLOCTAPE_PACK_OPAQUE_H
#define MALLOCTAPE_PACK_OPAQUE_H

#include "pack.h"
#include "raw_places.h"
#include "units.h"

/* Packs calls that their first unit identifies (units.h). Stops before any other record, where
 * there may be no room before `out_end`, and before the last units. */
const uint16_t *pack_opaque_calls(const struct packer *packer, struct raw_places *places,
                                  const struct units_call *calls, const uint16_t *at,
                                  const uint16_t *end, uint8_t **to, const uint8_t *out_end);

/* Packs the record from `own` to `end`. Returns the end of what is packed. NULL: there is no room
 * for it; the places mean nothing then. */
uint8_t *pack_opaque_record(const struct packer *packer, struct raw_places *places,
                            const struct units_record *coded, const uint16_t *own,
                            const uint16_t *end, uint8_t *out, const uint8_t *out_end);

#endif
