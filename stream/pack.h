/* pack - units as bytes, and objects by their age (FORMAT.md 5.5).
 *
 *   units of a slot --> records --> the cache of their lane --> the age of what they end
 *                            +----> bytes
 *
 * For the ages, the cache of each lane whose chunks are packed is followed as a reader will
 * (FORMAT.md 2.6), from the beginning of some segment on. Only the first places of each list are
 * known: if the place of an allocation is not, the end of its object names the place, not the age.
 *
 * Invariant   the list of a class has the first places of the list in the cache, in this order,
 *             and says how many more there are. `recent` has allocations at these places, perhaps not
 *             the latest there. Those of `recent_lane` have the latest numbers without a gap but
 *             for what was lost, and those of other lanes are RAW_AGES numbers before them.
 * Memory      88 KiB here; for each lane that is followed, of which there are at most
 *             PACK_LANES_MAX at a time, 130 KiB of address space, of which 2 KiB are touched at
 *             once and 1 KiB for each class that is used. Of an opaque stream 200 KiB, which
 *             are cleared when another lane gets them.
 * Threads     the writer's. */
#ifndef MALLOCTAPE_PACK_H
#define MALLOCTAPE_PACK_H

#include "stream/pack_own.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What each first byte of packed units says: the unit, and which of the next two bytes are added to
 * it.
 *
 *   entry   | mask, 16 bits | base, 16 bits |        unit = base + (the next two bytes & mask)
 */
#define PACK_ENTRIES   256
#define PACK_MASK_PAGE 0x00ff0000u
#define PACK_MASK_UNIT 0xffff0000u
void pack_fill_entries(uint32_t entries[PACK_ENTRIES]);

void packer_init(struct packer *packer, const struct pack_source *source);
void packer_release(struct packer *packer);

/* Follows a lane from here on; NULL if it cannot be followed, or too many are. */
struct pack_lane *pack_lane_begin(struct packer *packer);
void pack_lane_end(struct packer *packer, struct pack_lane *lane);

/* Packs records at `out`, which has room for PACK_BYTES_MAX(records->count) bytes. `lane`
 * NULL: objects are named by their places. Returns the end; NULL, in an opaque stream only: they
 * cannot be packed, and the lane is of no more use. */
uint8_t *pack_units(struct packer *packer, struct pack_lane *lane,
                    const struct pack_records *records, uint8_t *out);

#ifdef __cplusplus
}
#endif
#endif
