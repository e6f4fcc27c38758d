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

#include "../common/bytes.h"
#include "raw_format.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many places are known of each list: a power of two. */
#define PACK_LIST        256u
/* Lanes that are followed at the same time. */
#define PACK_LANES_MAX   256u
/* A table has the class of each size that has a short code, in steps of eight bytes, of which all
 * sizes of classes are multiples. */
#define PACK_SIZES       (RAW_ALLOCATION_1_SHORT_LIMIT / 8 + 1)
/* How many allocations are remembered, by a hash of their places. */
#define PACK_RECENT_BITS 13
/* Units from the first one that may have a code of one byte. */
#define PACK_CODES_FIRST ((unsigned)RAW_UNIT_ALLOCATION_1_SHORT)
#define PACK_CODES       (0x10000u - PACK_CODES_FIRST)
#define PACK_NO_CODE     255

struct pack_lane;

/* What the packer needs to know and to have. */
struct pack_source {
    uint32_t (*class_of_size)(
        uint64_t size);             /* 0: pages of their own, or not known yet; NULL: objects
                                                 are named by their places */
    const uint8_t *classes;         /* of places, by block */
    void *(*reserve)(size_t bytes); /* zeroed memory; NULL: none */
    void (*release)(void *memory, size_t bytes);
    bool opaque; /* the stream is (FORMAT.md 5.6); there are no classes */
};

struct packer;
struct pack_records;
struct units_call;

/* What tells the streams of one kind of allocator from those of another (pack_own.h). */
struct pack_dialect {
    size_t lane_bytes;
    bool (*is_ready)(struct packer *packer); /* a lane can be followed; or NULL */
    void (*begin)(struct packer *packer, struct pack_lane *lane, bool is_new);
    /* pack_units() of a lane that is followed. */
    uint8_t *(*pack)(struct packer *packer, struct pack_lane *lane, const struct units_call *calls,
                     const struct pack_records *records, uint8_t *out);
    /* Only what follows its lane can be packed, which may begin anywhere: a reader forgets the lane
     * at a chunk that is not packed, and at a key segment. Else it begins with a segment. */
    bool needs_lane;
    /* How many segments of a lane are not packed; with how many units at once, or after how many
     * segments, it is worth following. */
    uint32_t plain_segments;
    size_t units_to_follow;
    uint64_t segments_to_follow;
};

/* An allocation at a place. */
struct pack_recent {
    uint32_t place;
    uint32_t allocation; /* the packer's number of it, modulo 2^32 */
};

struct packer {
    struct pack_source source;
    const struct pack_dialect *dialect;
    uint8_t codes[PACK_CODES];
    uint8_t classes[PACK_SIZES];
    struct pack_recent recent[1u << PACK_RECENT_BITS];
    const struct pack_lane *recent_lane; /* the lane of the latest ones */
    uint64_t allocations;  /* the number of the latest: those of all lanes in turn, with gaps */
    uint64_t recent_since; /* all of `recent` came after this one */
    struct pack_lane *lanes, *unused;
    uint32_t followed; /* lanes */
};

/* What each first byte of packed units says: the unit, and which of the next two bytes are added to
 * it.
 *
 *   entry   | mask, 16 bits | base, 16 bits |        unit = base + (the next two bytes & mask)
 */
#define PACK_ENTRIES   256
#define PACK_MASK_PAGE 0x00ff0000u
#define PACK_MASK_UNIT 0xffff0000u
void pack_fill_entries(uint32_t entries[PACK_ENTRIES]);

/* May store up to three bytes after the code. Without branches it takes longer: programs repeat
 * themselves, so branches are predicted well. */
static inline uint8_t *pack_put_unit(const struct packer *packer, uint8_t *at, uint32_t unit)
{
    if (unit >= PACK_CODES_FIRST) {
        uint8_t code = packer->codes[unit - PACK_CODES_FIRST];
        if (code != PACK_NO_CODE) {
            *at = code;
            return at + 1;
        }
    }
    uint32_t upper = unit >> 8;
    if (upper - RAW_PACKED_PAGE < RAW_PACKED_UNIT - RAW_PACKED_PAGE && upper != RAW_PACKED_LOW) {
        bytes_put16(at, (uint16_t)(unit << 8 | upper));
        return at + 2;
    }
    if (upper == 0) {
        bytes_put16(at, (uint16_t)(unit << 8 | RAW_PACKED_LOW));
        return at + 2;
    }
    bytes_put32(at, unit << 8 | RAW_PACKED_UNIT);
    return at + 3;
}

void packer_init(struct packer *packer, const struct pack_source *source);
void packer_release(struct packer *packer);

/* Follows a lane from here on; NULL if it cannot be followed, or too many are. */
struct pack_lane *pack_lane_begin(struct packer *packer);
void pack_lane_end(struct packer *packer, struct pack_lane *lane);

/* Whole records of one segment. */
struct pack_records {
    const uint8_t *profile;
    uint32_t features; /* of the stream */
    const uint16_t *units;
    size_t count;
};

/* The most bytes that this many units take when they are packed. */
#define PACK_BYTES_MAX(units) (3 * (size_t)(units) + 80)

/* Packs records at `out`, which has room for PACK_BYTES_MAX(records->count) bytes. `lane`
 * NULL: objects are named by their places. Returns the end; NULL, in an opaque stream only: they
 * cannot be packed, and the lane is of no more use. */
uint8_t *pack_units(struct packer *packer, struct pack_lane *lane,
                    const struct pack_records *records, uint8_t *out);

#ifdef __cplusplus
}
#endif
#endif
