/* tally - everything that a report says about a trace, counted in one pass.
 *
 *   batch of instructions --> tally_add() --+--> sizes, lifetimes, ages, lanes, timeline
 *                                           `--> objects: an array of the live ones
 *
 * The objects are in the order of INSTRUCTIONS.md 4.5: the reader gives indices, so that no other
 * table of them is needed.
 *
 * A realloc ends an object and makes another one, of the new size and the lane that calls. Calls
 * are counted from 1. The time of a call is that of the latest tick before it, in whole
 * milliseconds since recording began.
 *
 *   made + base_live == ended + alive at the end
 *   live_bytes == sum of the sizes of the objects that are alive
 *
 * Of a base (INSTRUCTIONS.md 4.9) only the objects count that are alive where it ends: as made by no
 * call (0), at their time.
 *
 * Memory   32 bytes for each object that is alive, and tables of fixed size: pages_map(). */
#ifndef MALLOCTAPE_REPORT_TALLY_H
#define MALLOCTAPE_REPORT_TALLY_H

#include "common/call_kind.h"
#include "report/ages.h"
#include "report/history.h"
#include "report/lanes.h"
#include "report/sizes.h"
#include "report/timeline.h"
#include "stream/instruction_reader.h"

enum {
    TALLY_MAGNITUDES = 65, /* a magnitude is a number's length in bits */
    TALLY_CHAIN_MAX = 4095,
    TALLY_CHAINS = 13,
    TALLY_GROWTHS = 8
};

struct tally_object {
    uint64_t size;
    uint64_t bytes_before; /* bytes made until then, its own included */
    uint64_t call : 48, lane : 16;
    uint32_t entry : 20; /* of struct sizes */
    uint32_t chain : 12; /* reallocs since the first allocation; at most TALLY_CHAIN_MAX */
    uint32_t ms;
};

struct tally_lifetimes {
    uint64_t calls[HISTOGRAM_BUCKETS]; /* objects, by how many calls they lived */
    uint64_t bytes[HISTOGRAM_BUCKETS]; /* by how many bytes of other objects were made meanwhile */
    uint64_t ms[HISTOGRAM_BUCKETS];
    uint64_t by_size[TALLY_MAGNITUDES][TALLY_MAGNITUDES]; /* magnitudes of size and of calls */
};

/* Upper limits of the classes of `growth` (new size / old size); the last class has none. */
extern const double tally_growth_limits[TALLY_GROWTHS - 1];

struct tally_reallocs {
    uint64_t moved, in_place, grown, shrunk, same;
    uint64_t copied_bytes; /* sum of the smaller sizes of those that moved */
    uint64_t growth[TALLY_GROWTHS];
    uint64_t chains[TALLY_CHAINS]; /* objects, by the magnitude of their number of reallocs */
};

struct tally_peak {
    uint64_t bytes, objects, call, ms;
};

/* RSS stays at its peak while a program ends and an allocator keeps what it had, and may still grow
 * by a few pages. So what was alive at the peak is looked for at the first tick that is near it. */
#define TALLY_RSS_NEAR(peak) ((peak) - (peak) / 100)

struct tally_rss {
    uint64_t bytes;        /* 0: no tick has any */
    uint64_t shared_bytes; /* what of it is of files or of shared memory; 0: not known */
    uint64_t heap_bytes, live_bytes, call, ms;
};

struct tally_counts {
    uint64_t calls, made, ended, reallocs, bytes, ms;
};

struct tally {
    uint64_t calls, made, ended, reallocs; /* a realloc is in all; `ended`: set by tally_end() */
    uint64_t bytes;                        /* of all objects that were made */
    uint64_t live, live_bytes;
    uint64_t base_live, base_bytes,
        base_ns;           /* where the base ended: objects, their bytes, the time */
    uint64_t remote_frees; /* objects ended by another lane than the one that made them */
    uint64_t ns, ms;       /* of the latest tick */
    uint64_t epoch;        /* live.h */
    struct tally_peak peak;
    /* Of the original, by its ticks. RSS is without the recorder's own memory, as far as a tick
     * has that. */
    uint64_t peak_rss_bytes; /* 0: no tick has any */
    struct tally_rss at_rss; /* at the first tick with at least 99 % of it: set by tally_end() */
    struct tally_rss first_rss, last_rss; /* at the first and the last tick that have it */
    uint64_t peak_heap_bytes, user_ns, system_ns;
    uint64_t recorder_bytes; /* at the first tick with any since somebody has set it to 0 */
    struct history history;  /* the caller sets its names */
    bool has_older;          /* the process had objects before recording began: set by the caller */
    /* The most that an allocator which counts what it has allocated had more than twice what was
     * alive, at a tick. */
    uint64_t unseen_bytes;

    struct sizes sizes;
    struct lanes lanes;
    struct ages ages;
    struct timeline timeline;
    struct tally_lifetimes lifetimes;
    struct tally_reallocs realloc;
    uint64_t aligned[64],
        aligned_bytes[64]; /* made with an alignment from 1 << index to below twice that */
    uint64_t failed[CALL_KINDS], unknown[CALL_KINDS];
    uint64_t zero_sizes;  /* objects of no bytes that were made */
    uint64_t wrong_sizes; /* frees that were passed another size than the object's */
    struct instruction_totals totals;

    struct tally_object *objects; /* `live` of them, by index */

    /* From here on: tally.c only. */
    uint64_t capacity;
    struct tally_counts at_tick, at_turn; /* at the latest tick, at the beginning of the turn */
    uint64_t most_live_bytes;             /* since the latest tick */
    uint64_t opcodes[2][UINT8_MAX + 1];   /* since the latest tick; their sum counts */
    unsigned lane;
    /* Ticks with more RSS than any before them, from rises_first on near the latest of them: at most
     * one for each page of 1 % of RSS. */
    struct tally_rss *rises;
    uint64_t rises_first, rises_count, rises_capacity;
};

/* False: no memory. */
bool tally_open(struct tally *tally);
void tally_close(struct tally *tally);

/* Whether the allocator has objects that no recorded call made, and that are not what it keeps for
 * threads. */
bool tally_has_unseen(const struct tally *tally);

/* Counts the first `count` instructions of a batch. Batches have indices and come one after
 * another; only of the last one may `count` be less than all. False: no memory. */
bool tally_add(struct tally *tally, const struct instruction_batch *batch, size_t count);

/* tally.c only: what has been counted is a base. */
void tally_end_base(struct tally *tally);

/* After the last batch: all numbers of the tally can be read. */
void tally_end(struct tally *tally, const struct instruction_totals *totals);

/* The time from the first call that counts to the last. */
static inline uint64_t tally_took_ns(const struct tally *tally)
{
    return tally->ns - tally->base_ns;
}

static inline uint64_t tally_sum_of(const uint64_t by_kind[CALL_KINDS])
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        sum += by_kind[kind];
    return sum;
}

/* The length of a number in bits. */
static inline unsigned tally_magnitude(uint64_t number)
{
    return number == 0 ? 0 : 64u - (unsigned)__builtin_clzll(number);
}

#endif
