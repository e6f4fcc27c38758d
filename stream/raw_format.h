/* raw_format - the numbers of the raw event stream and of the spool, as FORMAT.md gives them.
 *
 * Shared by what writes a stream (the capture core, inside other people's programs) and what reads
 * one: constants and pure arithmetic only, no header but stdint.h, C and C++. Each group of
 * constants cites its section of FORMAT.md, which says what they mean.
 *
 * Fixed-size structures are given as offsets of their fields. They are never laid over memory as a
 * C struct: nothing in a stream is aligned.
 */
#ifndef MALLOCTAPE_RAW_FORMAT_H
#define MALLOCTAPE_RAW_FORMAT_H

#include "stream/original.h"

#include <stdbool.h>
#include <stdint.h>

#define RAW_VERSION_MAJOR 4
#define RAW_VERSION_MINOR 0

/* ---- objects and places, FORMAT.md 2.5 ---- */

#define RAW_PLACE_LIMIT      (UINT64_C(1) << 32)
#define RAW_PLACE_NONE       0u
/* Places of one block have the same size class. */
#define RAW_PLACE_BLOCK_BITS 6
#define RAW_PLACE_BLOCK      (1u << RAW_PLACE_BLOCK_BITS)

#define RAW_SERIAL_BITS 42
#define RAW_SERIAL_MAX  ((UINT64_C(1) << RAW_SERIAL_BITS) - 1)
#define RAW_LANE_BITS   16
#define RAW_LANES_MAX   (1u << RAW_LANE_BITS)

/* A lane and a count of its allocations, in one number. */
static inline uint64_t raw_allocations(uint32_t lane, uint64_t count)
{
    return ((uint64_t)lane << RAW_SERIAL_BITS) | count;
}

static inline uint32_t raw_allocations_lane(uint64_t allocations)
{
    return (uint32_t)(allocations >> RAW_SERIAL_BITS);
}

static inline uint64_t raw_allocations_count(uint64_t allocations)
{
    return allocations & RAW_SERIAL_MAX;
}

/* ---- records that are not calls, FORMAT.md 3 ---- */

enum raw_record {
    RAW_THREAD_BEGIN = 48,
    RAW_THREAD_END = 49,
    RAW_THREAD_CACHE_DELETED = 50,
    RAW_SEQUENCE_BEFORE = 51,
    RAW_SEQUENCE_AFTER = 52,
    RAW_LOST = 53,
    RAW_FAILED = 54,
    RAW_AFTER = 55,
    RAW_CLASS = 56,
    RAW_CACHE_BEGIN = 57,
    RAW_CACHED = 58,
    RAW_UNCACHED = 59,
    RAW_INSIDE = 60,
    RAW_PAGE = 61,
    RAW_STACK = 62,
    RAW_DEFINE = 63
};

/* Numbers of a structure are less than this, FORMAT.md 3. */
#define RAW_SEQUENCE_LIMIT (UINT64_C(1) << 58)

/* Structures are named by one byte, FORMAT.md 3: size classes 0 to 127, and the page heap. */
#define RAW_STRUCTURES          256
#define RAW_SIZE_CLASSES_MAX    128
#define RAW_STRUCTURE_PAGE_HEAP 255

/* What happens inside a call, FORMAT.md 3: a wait for the lock of a structure, or one of these. */
enum raw_inside {
    RAW_INSIDE_SBRK = 256,
    RAW_INSIDE_MMAP = 257,
    RAW_INSIDE_RELEASE = 258,
    RAW_INSIDE_REUSE = 259,
    RAW_INSIDE_SPLIT = 260,
    RAW_INSIDE_MERGE = 261
};
#define RAW_INSIDE_KINDS (RAW_INSIDE_MERGE + 1 - RAW_STRUCTURES)

/* ---- the header of a stream, FORMAT.md 4.1 ---- */

/* "MTAPERAW" as the little-endian number of its bytes. */
#define RAW_MAGIC                 UINT64_C(0x574152455041544d)
#define RAW_HEADER_BYTES          64
#define RAW_HEADER_MAGIC          0
#define RAW_HEADER_VERSION_MAJOR  8
#define RAW_HEADER_VERSION_MINOR  10
#define RAW_HEADER_METADATA_BYTES 12
#define RAW_HEADER_FEATURES       16
#define RAW_HEADER_INFO           24
#define RAW_HEADER_RECORDING_ID   32
#define RAW_HEADER_START_NS       48
#define RAW_HEADER_PID            56
#define RAW_HEADER_CHECKSUM       60
#define RAW_METADATA_BYTES_MAX    65536
#define RAW_RECORDING_ID_BYTES    16

#define RAW_FEATURE_ADDRESSES   1u
#define RAW_FEATURE_OPAQUE      2u
#define RAW_FEATURE_STACKS      4u
#define RAW_FEATURE_FREE_STACKS 8u
#define RAW_FEATURES_KNOWN                                                           \
    (UINT64_C(0) | RAW_FEATURE_ADDRESSES | RAW_FEATURE_OPAQUE | RAW_FEATURE_STACKS | \
     RAW_FEATURE_FREE_STACKS)

/* Info bits. */
#define RAW_INFO_MAPPINGS 1u

/* ---- chunks, FORMAT.md 4.2 to 4.6 ---- */

/* "MTRC" as the little-endian number of its bytes. */
#define RAW_CHUNK_MAGIC             0x4352544du
#define RAW_CHUNK_HEADER_BYTES      36
#define RAW_CHUNK_HEADER_MAGIC      0
#define RAW_CHUNK_HEADER_TYPE       4
#define RAW_CHUNK_HEADER_FLAGS      5
#define RAW_CHUNK_HEADER_LANE       6
#define RAW_CHUNK_HEADER_PAYLOAD    8
#define RAW_CHUNK_HEADER_UNITS      12
#define RAW_CHUNK_HEADER_FIRST      16
#define RAW_CHUNK_HEADER_ALLOCATION 24
#define RAW_CHUNK_HEADER_CHECKSUM   32
#define RAW_CHUNK_PAYLOAD_BYTES_MAX 1048576u
#define RAW_CHUNK_UNITS_MAX         524288u

enum raw_chunk_type {
    RAW_CHUNK_UNITS = 1,
    RAW_CHUNK_TICK = 2,
    RAW_CHUNK_END = 3,
    RAW_CHUNK_MAPPINGS = 4,
    RAW_CHUNK_RESIDENCY = 5,
    RAW_CHUNK_LAST = RAW_CHUNK_RESIDENCY
};

#define RAW_CHUNK_FLAG_BEGIN  1u
#define RAW_CHUNK_FLAG_KEY    2u
#define RAW_CHUNK_FLAG_PACKED 4u
#define RAW_CHUNK_FLAGS_KNOWN (RAW_CHUNK_FLAG_BEGIN | RAW_CHUNK_FLAG_KEY | RAW_CHUNK_FLAG_PACKED)

/* At least one in this many segments of a lane is key, FORMAT.md 5.3. */
#define RAW_KEY_SEGMENT_EVERY 16

/* ---- a tick, FORMAT.md 4.3 ---- */

struct raw_tick {
    uint64_t since_start_ns, rss_bytes, heap_bytes;
    bool has_usage; /* the fields below are there; a writer always writes them */
    struct original_usage usage;
    struct original_statistics statistics;
};

/* ---- the end, FORMAT.md 4.4 ---- */

enum raw_end_status {
    RAW_END_STOPPED = 0,
    RAW_END_LIMIT = 1,
    RAW_END_ERROR = 2,
    RAW_END_EXEC = 3,
    RAW_END_STATUSES
};

struct raw_end {
    uint32_t status; /* enum raw_end_status */
    uint64_t since_start_ns, events, lost_events, waits, waited_ns;
    uint32_t lanes; /* in the stream, the units of each follow */
};

/* ---- the profile of a segment, FORMAT.md 5.1 ---- */

enum raw_range {
    RAW_FREE_1,
    RAW_FREE_2,
    RAW_FREE_3,
    RAW_ALLOCATION_1,
    RAW_ALLOCATION_2,
    RAW_ALLOCATION_3,
    RAW_REALLOC,
    RAW_RANGES
};

#define RAW_PROFILE_BYTES    8
/* Of an opaque stream, in the last byte: FORMAT.md 5.6. */
#define RAW_PROFILE_ROUNDING 7
#define RAW_ROUNDING_LIMIT   16u

/* ---- units, FORMAT.md 5.2, 5.5 and 5.6: what a first unit means ---- */

/* Those of the profile's ranges. The operand of an allocation is its size, that of the others the
 * place of an object, and there is a code for operands below the limit:
 *
 *   SHORT    first + operand
 *   LONG     first + operand / 65 536; the rest in the next unit
 *   BY_AGE   first + age: in packed chunks only
 *
 * No object has place or age 0. */
/* clang-format off */
#define RAW_CODE_LIST(CODE)                       \
    /*   range         form    first   limit   */ \
    CODE(FREE_1,       SHORT,  0x0000, 0xa000)    \
    CODE(ALLOCATION_1, SHORT,  0xa000, 0x1000)    \
    CODE(FREE_2,       SHORT,  0xb000, 0x1000)    \
    CODE(ALLOCATION_2, SHORT,  0xc000, 0x1000)    \
    CODE(ALLOCATION_3, SHORT,  0xd000, 0x0800)    \
    CODE(FREE_1,       LONG,   0xd800, 0x8000000) \
    CODE(FREE_2,       LONG,   0xe000, 0x4000000) \
    CODE(FREE_3,       LONG,   0xe400, 0x4000000) \
    CODE(REALLOC,      LONG,   0xe800, 0x4000000) \
    CODE(FREE_2,       BY_AGE, 0xf3ff, 0x201)     \
    CODE(FREE_3,       BY_AGE, 0xf5ff, 0x101)     \
    CODE(REALLOC,      BY_AGE, 0xf6ff, 0x101)     \
    CODE(FREE_1,       BY_AGE, 0xf7ff, 0x801)
/* clang-format on */

enum raw_code_form { RAW_SHORT, RAW_LONG, RAW_BY_AGE, RAW_CODE_FORMS };

/* RAW_UNIT_FREE_1_SHORT, RAW_FREE_1_SHORT_LIMIT, ... */
#define RAW_CODE_NUMBERS(range, form, first, limit) \
    RAW_UNIT_##range##_##form = first, RAW_##range##_##form##_LIMIT = limit,
enum raw_code { RAW_CODE_LIST(RAW_CODE_NUMBERS) };

/* All other first units. */
#define RAW_UNIT_REMOTE          0xec00u
#define RAW_UNIT_GENERAL         0xf000u
#define RAW_UNIT_SEQUENCE_BEFORE 0xf100u
#define RAW_UNIT_SEQUENCE_AFTER  0xf200u
#define RAW_UNIT_STACK           0xf300u
#define RAW_UNIT_UNDEFINED       0xf400u /* from here on; but see 5.5 */
/* In an opaque stream, in place of sequence numbers. */
#define RAW_UNIT_AFTER           0xf100u /* by entry */
#define RAW_UNIT_AFTER_LANE      0xf108u
#define RAW_UNIT_AFTER_END       0xf109u
#define RAW_UNIT_AFTER_REALLOC   0x0010u /* more, if a realloc follows */
/* There, in place of short frees: size and place in two units, below these limits; FIRST is the
 * upper unit of size 0 and place 0. */
#define RAW_COMPACT_SIZE_LIMIT   1279u
#define RAW_COMPACT_PLACE_BITS   21
#define RAW_COMPACT_FIRST        1u
#define RAW_COMPACT_END          0xa000u
/* In packed chunks of an opaque stream, before an allocation. */
#define RAW_UNIT_NEARBY          0x9000u /* of a difference of 0 */
#define RAW_UNIT_NEARBY_FIRST    0x8000u
#define RAW_UNIT_NEARBY_END      0xa000u
#define RAW_UNIT_LISTED          0xf200u /* of the first place of the list */
#define RAW_UNIT_LISTED_END      0xf210u
#define RAW_UNIT_DISTANT         0xf210u

#define RAW_GENERAL_NUMBER  0x3fu
#define RAW_GENERAL_REMOTE  0x40u
#define RAW_GENERAL_UNKNOWN 0x80u

#define RAW_REMOTE_ENTRIES     8u
#define RAW_REMOTE_ENTRY_SHIFT 7         /* in the unit */
#define RAW_REMOTE_LIMIT       0x800000u /* of places */
#define RAW_REMOTE_HIGH        0x7fu
#define RAW_REMOTE_CLASSES     128u

#define RAW_STACK_LIMIT 0x1000000u /* of nodes that two units can say */

/* Numbers that follow in units. */
#define RAW_NUMBER_BITS      15
#define RAW_NUMBER_MORE      0x8000u
#define RAW_NUMBER_UNITS_MAX 5

/* The most places of one `cached` record. */
#define RAW_CACHED_MAX 16

/* Granules that a `page` record is about, and their bytes. */
#define RAW_PAGE_PLACES   512u
#define RAW_GRANULE_BYTES 16u

/* The most places in a list of a cache, FORMAT.md 2.6. */
#define RAW_LIST_LIMIT 65536u

/* The most units that one record takes: a general code, lane, bound, place, class, size, place,
 * class, address. */
#define RAW_UNITS_PER_RECORD_MAX (1 + 8 * RAW_NUMBER_UNITS_MAX)

/* The most numbers of a HEAP call. */
#define RAW_HEAP_NUMBERS_MAX 2

/* ---- packed units, FORMAT.md 5.5 ---- */

#define RAW_AGES 0x800u /* allocations, at most, between an object's and the record */

#define RAW_PACKED_FREE_1       0u /* one byte: from this unit on ... */
#define RAW_PACKED_ALLOCATION_1 48u
#define RAW_PACKED_FREE_2       92u
#define RAW_PACKED_ALLOCATION_2 104u
#define RAW_PACKED_PAGE         128u  /* two bytes, the upper one first */
#define RAW_PACKED_LOW          0xf3u /* two bytes: the upper one is 0 */
#define RAW_PACKED_UNIT         255u  /* three bytes */

/* ---- the spool, FORMAT.md 8 ---- */

/* "MTAPESPL" as the little-endian number of its bytes. */
#define SPOOL_MAGIC                UINT64_C(0x4c5053455041544d)
#define SPOOL_VERSION_MAJOR        4
#define SPOOL_VERSION_MINOR        0
#define SPOOL_HEADER_BYTES         56
#define SPOOL_HEADER_MAGIC         0
#define SPOOL_HEADER_VERSION_MAJOR 8
#define SPOOL_HEADER_VERSION_MINOR 10
#define SPOOL_HEADER_SLOT_BYTES    12
#define SPOOL_HEADER_RECORDING_ID  16
#define SPOOL_HEADER_PID           32
#define SPOOL_HEADER_FEATURES      40
#define SPOOL_HEADER_CHECKSUM      48
#define SPOOL_HEADER_CELLS         52
#define SPOOL_CELLS_OFFSET         4096 /* slots follow the cells */
#define SPOOL_CELLS_MAX            65536u
#define SPOOL_CELLS_ALIGNMENT      32u
#define SPOOL_SLOT_ALIGNMENT       4096u
#define SPOOL_SLOT_BYTES_MAX       1048576u

#define SPOOL_SLOT_HEADER_BYTES     64
#define SPOOL_SLOT_STATE            0
#define SPOOL_SLOT_LANE             4
#define SPOOL_SLOT_SERIAL           8
#define SPOOL_SLOT_FIRST_ALLOCATION 16
#define SPOOL_SLOT_FIRST_UNIT       24
#define SPOOL_SLOT_PROFILE          32
#define SPOOL_SLOT_FLAGS            40

#define SPOOL_SLOT_FLAG_KEY        1u
#define SPOOL_SLOT_FLAG_INCOMPLETE 2u /* the lane's thread has gone on, unrecorded */

/* A cell, in numbers of 8 bytes. */
#define SPOOL_CELL_BYTES        128
#define SPOOL_CELL_WORDS        (SPOOL_CELL_BYTES / 8)
#define SPOOL_CELL_NUMBER       0
#define SPOOL_CELL_WHAT         1
#define SPOOL_CELL_ADDRESS      2
#define SPOOL_CELL_LENGTH       3
#define SPOOL_CELL_PROTECTION   4
#define SPOOL_CELL_OFFSET       5
#define SPOOL_CELL_DEVICE       6
#define SPOOL_CELL_INODE        7
#define SPOOL_CELL_CALLS        8
#define SPOOL_CELL_NODE         9
#define SPOOL_CELL_NAME         10 /* in the first cell of a mapping; in others: */
#define SPOOL_CELL_MORE_NAME    1
#define SPOOL_CELLS_PER_MAPPING 9u
#define SPOOL_CELL_CONTINUES    (UINT64_C(1) << 63) /* in the number of one that is not the first */
#define SPOOL_CELL_NAME_BYTES_MAX                \
    (8u * (SPOOL_CELL_WORDS - SPOOL_CELL_NAME) + \
     8u * (SPOOL_CELLS_PER_MAPPING - 1) * (SPOOL_CELL_WORDS - SPOOL_CELL_MORE_NAME))

enum spool_slot_state { SPOOL_SLOT_FREE = 0, SPOOL_SLOT_IN_USE = 1 };

#endif
