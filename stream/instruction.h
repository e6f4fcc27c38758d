/* instruction - what the writer and the reader of the instruction stream share.
 *
 * INSTRUCTIONS.md is the format; the numbers in parentheses below are its sections. Three things
 * are here: the constants, the totals that both sides count and the end block compares (5.2, 6),
 * and the order of registers (4.5).
 *
 *   postprocess --> instruction_writer --> bytes --> instruction_reader --> replay, verify, dump */
#ifndef MALLOCTAPE_INSTRUCTION_H
#define MALLOCTAPE_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/call_kind.h"
#include "stream/magic.h"
#include "stream/original.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the opcode byte (5) ---- */

#define INSTRUCTION_NUMBER_MASK 0x3fu
#define INSTRUCTION_FAILED      0x40u
#define INSTRUCTION_UNKNOWN     0x80u

/* Numbers from CALL_KINDS up are not calls (5.3): X(number, IDENTIFIER, "name", operands). */
#define INSTRUCTION_LIST(X)                                \
    X(48, LANE, "lane", 1)                                 \
    X(49, THREAD_BEGIN, "thread_begin", 1)                 \
    X(50, THREAD_END, "thread_end", 0)                     \
    X(51, THREAD_CACHE_DELETED, "thread_cache_deleted", 0) \
    X(52, TICK, "tick", 4)                                 \
    X(53, LOST, "lost", 2)                                 \
    X(54, FREED_TWICE, "freed_twice", 0)                   \
    X(55, USAGE, "usage", 4)                               \
    X(56, STATISTIC, "statistic", 2)                       \
    X(57, PATH, "path", 1)                                 \
    X(58, FREE_MISSED, "free_missed", 0)                   \
    X(59, BASE_END, "base_end", 0)                         \
    X(60, TOUCHED, "touched", 2)

#define INSTRUCTION_LAST INSTRUCTION_TOUCHED

/* Only before calls with larger sizes. It is more than INSTRUCTION_ESCAPE. */
#define INSTRUCTION_TOUCHED_BYTES 262144u

/* Ways of a call inside the allocator that recorded it, bits of a PATH (5.3): X(bit, "name", our path
 * of reading/path.h that fits). They are those of the GNU C library's dj/malloc branch. */
#define INSTRUCTION_WAY_LIST(X)  \
    X(0, "thread_cache", 'T')    \
    X(1, "processor_cache", 'T') \
    X(2, "contention", 'W')      \
    X(3, "sbrk", 'S')            \
    X(4, "mmap", 'S')            \
    X(5, "munmap", 'S')          \
    X(6, "malloc_and_free", '-') \
    X(7, "hook", '-')            \
    X(8, "unsorted_add", '-')    \
    X(9, "unsorted_remove", '-') \
    X(10, "unsorted_empty", '-') \
    X(11, "fastbin_add", '-')    \
    X(12, "fastbin_remove", '-') \
    X(13, "consolidate", '-')

enum instruction_number {
#define INSTRUCTION_ENUM(number, identifier, name, operands) INSTRUCTION_##identifier = (number),
    INSTRUCTION_LIST(INSTRUCTION_ENUM)
#undef INSTRUCTION_ENUM
};

/* Name of a call or of another instruction, as in dumps and reports; NULL for an undefined number.
 */
const char *instruction_name(unsigned number);

/* ---- limits (4) ---- */

#define INSTRUCTION_BLOCK_HEADER_BYTES 16u
#define INSTRUCTION_BLOCK_PAYLOAD_MAX  1048576u
#define INSTRUCTION_BLOCK_MAX          16384u /* instructions */
#define INSTRUCTION_OPERANDS_MAX       4u /* of one instruction, but for a large value and a size */
#define INSTRUCTION_LANES_MAX          65536u
#define INSTRUCTION_REGISTERS_MAX      UINT64_C(0x100000000)

#define INSTRUCTION_HEADER_BYTES    36u
#define INSTRUCTION_METADATA_MAX    65536u
#define INSTRUCTION_VERSION_MAJOR   4u
#define INSTRUCTION_VERSION_MINOR   0u
#define INSTRUCTION_INFO_INCOMPLETE UINT64_C(1)

#define INSTRUCTION_FEATURE_ADDRESSES   UINT64_C(1)
#define INSTRUCTION_FEATURE_STACKS      UINT64_C(2)
#define INSTRUCTION_FEATURE_FREE_STACKS UINT64_C(4)
#define INSTRUCTION_FEATURE_MAPPINGS    UINT64_C(8)
#define INSTRUCTION_FEATURE_BASE        UINT64_C(16)
#define INSTRUCTION_FEATURES_KNOWN                                \
    (INSTRUCTION_FEATURE_ADDRESSES | INSTRUCTION_FEATURE_STACKS | \
     INSTRUCTION_FEATURE_FREE_STACKS | INSTRUCTION_FEATURE_MAPPINGS | INSTRUCTION_FEATURE_BASE)

#define INSTRUCTION_MAGIC       MAGIC_OF_INSTRUCTIONS
#define INSTRUCTION_BLOCK_MAGIC "MTBI"

/* Blocks of definitions (4.6). */
#define INSTRUCTION_STACKS_MAGIC    "MTBS"
#define INSTRUCTION_DEFINITIONS_MAX 16384u

/* Blocks of mappings (4.7), and of residency (4.8). */
#define INSTRUCTION_MAPPINGS_MAGIC  "MTBM"
#define INSTRUCTION_RESIDENCY_MAGIC "MTBR"

/* Values from here up are operands of their own (4.4). */
#define INSTRUCTION_ESCAPE 0xffffu

/* ---- the header (4.1) ---- */

struct instruction_header {
    uint16_t version_major, version_minor; /* a writer always writes its own */
    uint64_t features, info;
    const char *metadata; /* lines "key=value\n"; NULL if there are none */
    size_t metadata_bytes;
};

enum instruction_status { /* of the end block (6) */
                          INSTRUCTION_STATUS_COMPLETE = 0,
                          INSTRUCTION_STATUS_CUT = 1,
                          INSTRUCTION_STATUS_DAMAGED = 2,
                          INSTRUCTION_STATUS_EXEC = 3, /* complete, up to an exec */
                          INSTRUCTION_STATUSES
};

static inline bool instruction_status_is_complete(enum instruction_status status)
{
    return status == INSTRUCTION_STATUS_COMPLETE || status == INSTRUCTION_STATUS_EXEC;
}

/* ---- totals (5.2) ---- */

/*   calls == sum of by_kind
 *   live <= registers: now, and the most there ever were at once
 *
 * Of a base (4.9), `instructions`, `live`, `registers`, `threads`, `lost_events`, `mappings` and
 * `residencies` count all, and the others nothing. */
struct instruction_totals {
    uint64_t instructions; /* of every kind */
    uint64_t calls;
    uint64_t by_kind[CALL_KINDS];
    uint64_t live;
    uint64_t registers;
    uint64_t threads;      /* thread_begin */
    uint64_t lost_events;  /* sum over lost */
    uint64_t lane_changes; /* lane */
    uint64_t ticks;
    uint64_t freed_twice;  /* freed_twice */
    uint64_t missed_frees; /* free_missed */
    uint64_t unknown;      /* calls with the flag *unknown*, also those after freed_twice */
    uint64_t mappings;     /* records in blocks of mappings */
    uint64_t residencies;  /* blocks of residency */

    uint64_t base_calls;      /* in the base */
    uint64_t base_live;       /* objects where it ends, */
    uint64_t base_live_bytes; /* and what they asked for */
};

/* Adds the instructions of a block: to instructions, calls, by_kind, threads, lane_changes, ticks,
 * freed_twice, missed_frees and unknown. */
void instruction_totals_add(struct instruction_totals *totals, const uint8_t *opcodes,
                            size_t count);

/* The same of a block of the base: to instructions, threads and base_calls. */
void instruction_totals_add_base(struct instruction_totals *totals, const uint8_t *opcodes,
                                 size_t count);

/* ---- registers and positions (4.5) ---- */

/*   order:  [ registers of live objects | latest freed ... first freed | never used, ascending ]
 *          position live - 1 ... position 0 ^ live                            ^ high
 *
 * A permutation of the registers below `capacity`. */
struct register_order {
    uint32_t *order;
    uint64_t live;
    uint64_t high;     /* registers ever used: the most `live` ever was */
    uint64_t capacity; /* entries of `order` */
};

/* Makes room for `more` allocations. False without memory, or when registers would exceed
 * INSTRUCTION_REGISTERS_MAX; all is then as before. All zero is a valid empty order. */
bool register_order_reserve(struct register_order *registers, uint64_t more);
void register_order_free(struct register_order *registers);

/* An allocation. Only after register_order_reserve(); leaves `high` to the caller. */
static inline uint32_t register_order_take(struct register_order *registers)
{
    return registers->order[registers->live++];
}

/* The register at a position, which is less than `live`. */
static inline uint32_t register_order_at(const struct register_order *registers, uint64_t position)
{
    return registers->order[registers->live - 1 - position];
}

/* A free of the object at a position. Returns its register. */
static inline uint32_t register_order_release(struct register_order *registers, uint64_t position)
{
    uint64_t youngest = --registers->live;
    uint32_t released = registers->order[youngest - position];
    registers->order[youngest - position] = registers->order[youngest];
    registers->order[youngest] = released;
    return released;
}

#ifdef __cplusplus
}
#endif
#endif
