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
 *             `recent` has births that `recent_lane` made at these places, perhaps not the latest there.
 * Memory      68 KiB here; from the system about 3 KiB for each lane that is followed, and 4 bytes for each place in its cache.
 * Threads     the writer's. */
#ifndef MALLOCTAPE_PACK_H
#define MALLOCTAPE_PACK_H

#include "raw_format.h"

#include <stdbool.h>
#include <stddef.h>

/* Arrays of 2^bits places. */
#define PACK_LIST_BITS_MIN 4
#define PACK_LIST_BITS_MAX 16
/* Sizes that the short form of a birth has have their classes in a table, by eights, as sizes of classes are. */
#define PACK_SIZES         (RAW_BIRTH_1_LIMIT / 8 + 1)
/* Births that are remembered, by a hash of their places. */
#define PACK_RECENT_BITS   13

struct pack_lane;
struct pack_arena;

/* What the units with one upper byte have in common. */
struct pack_page {
    uint16_t row; /* where theirs begins */
    uint8_t code; /* first byte of those that take more than one */
    uint8_t more; /* how many bytes more they take */
};
#define PACK_ROWS 6

/* A birth at a place. */
struct pack_recent {
    uint32_t place;
    uint32_t birth; /* the lane's number of it, modulo 2^32 */
};

struct packer {
    /* Tables for units. */
    struct pack_page pages[256];  /* by the upper byte */
    uint8_t one[PACK_ROWS * 256]; /* rows; by the lower byte: the code of one byte, or NO_CODE */
    /* For the ages. */
    uint32_t (*class_of_size)(uint64_t size); /* NULL: objects are named by their places */
    uint8_t classes[PACK_SIZES];
    struct pack_recent recent[1u << PACK_RECENT_BITS];
    const struct pack_lane *recent_lane; /* whose births they are */
    uint64_t recent_since;               /* all of them came after so many */
    struct pack_arena *arenas;
    uint8_t *next; /* in the first of them */
    size_t left;
    void *free[PACK_LIST_BITS_MAX + 1]; /* arrays that are not used, linked by their first word */
    struct pack_lane *unused;
};

/* `class_of_size`: the size class of objects of a size, 0 if they have pages of their own. */
void packer_init(struct packer *packer, uint32_t (*class_of_size)(uint64_t size));
void packer_release(struct packer *packer);

/* A lane that is followed from here on; NULL if it cannot be. `births`: so many it has had. */
struct pack_lane *pack_lane_begin(struct packer *packer, uint64_t births);
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
