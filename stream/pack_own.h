/* pack_own - the data of packing, and what its files share (pack.h).
 *
 *   pack.c            units as bytes; lanes
 *   pack_tcmalloc.c   records of a stream that knows classes and caches
 *   pack_opaque.c     those of an opaque stream
 */
#ifndef MALLOCTAPE_PACK_OWN_H
#define MALLOCTAPE_PACK_OWN_H

#include "common/bytes.h"
#include "stream/raw_format.h"

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

/* What is known of a lane: the beginning of a dialect's own structure. */
struct pack_lane {
    struct pack_lane *next, *next_unused;
};

/* Whole records of one segment. */
struct pack_records {
    const uint8_t *profile;
    uint32_t features; /* of the stream */
    const uint16_t *units;
    size_t count;
};

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

extern const struct pack_dialect pack_tcmalloc, pack_opaque;

/* The most bytes that this many units take when they are packed. */
#define PACK_BYTES_MAX(units) (3 * (size_t)(units) + 80)

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

static inline uint8_t *pack_put_units(const struct packer *packer, uint8_t *at,
                                      const uint16_t *units, const uint16_t *end)
{
    for (; units < end; units++)
        at = pack_put_unit(packer, at, *units);
    return at;
}

#ifdef __cplusplus
}
#endif
#endif
