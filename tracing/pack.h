/* pack - units as bytes, and objects by their age (FORMAT.md 5.5).
 *
 *   units of a slot --> records --> what they do to the cache of their lane --> the age of what they end
 *                            +----> bytes
 *
 * For the ages, the writer follows the cache of each lane whose chunks are packed, as a reader will (FORMAT.md 2.6), from the
 * beginning of some run on. It need not know all that the cache holds: where it does not know the place of a
 * birth, the object that is born there is named by its place in the end.
 *
 * Invariant   the list of a class holds the first places of the list that the cache has, in this order; all of them or fewer.
 *             The note of a place (shadow.h) is a birth that its lane made there, perhaps not the latest.
 * Memory      from the system: about 3 KiB for each lane that is followed, and 4 bytes for each place in its cache.
 * Threads     the writer's. */
#ifndef MALLOCTAPE_PACK_H
#define MALLOCTAPE_PACK_H

#include "raw_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Arrays of 2^bits places. */
#define PACK_LIST_BITS_MIN 4
#define PACK_LIST_BITS_MAX 16
/* Sizes below this have their classes in a table. */
#define PACK_SIZES         1025u

struct pack_lane;
struct pack_arena;

struct packer {
    /* Tables for units. */
    uint8_t row[256];    /* by the upper byte of a unit: its row in `one` */
    uint8_t one[6][256]; /* by the lower byte: the code of one byte, or NO_CODE */
    uint8_t page[256];   /* by the upper byte: the first of two bytes, or RAW_PACKED_UNIT */
    /* For the ages. */
    uint32_t (*class_of_size)(uint64_t size); /* NULL: objects are named by their places */
    uint8_t classes[PACK_SIZES];              /* 0: not asked for yet */
    struct pack_arena *arenas;
    uint8_t *next; /* in the first of them */
    size_t left;
    void *free[PACK_LIST_BITS_MAX + 1]; /* arrays that are not used, linked by their first word */
    struct pack_lane *unused;
};

/* `class_of_size`: the size class of objects of a size, 0 if they have pages of their own. */
void packer_init(struct packer *packer, uint32_t (*class_of_size)(uint64_t size));
void packer_release(struct packer *packer);

/* A lane that is followed from here on; NULL if there is no memory. `births`: so many it has had. */
struct pack_lane *pack_lane_begin(struct packer *packer, uint32_t number, uint64_t births);
void pack_lane_end(struct packer *packer, struct pack_lane *lane);

/* Whole records of one run. */
struct pack_run {
    const uint8_t *profile;
    bool addresses;
    const uint16_t *units;
    size_t count;
};

/* Packs a run at `out`, which has room for three bytes for each unit and four more. `lane` NULL: objects are named by
 * their places. Returns the end. */
uint8_t *pack_units(struct packer *packer, struct pack_lane *lane, const struct pack_run *run,
                    uint8_t *out);

#endif
