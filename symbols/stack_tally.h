/* stack_tally - what the code of each call stack asked for, and what became of the objects.
 *
 *   batch with stacks --> stack_tally_add() --> cells: of each stack and each class of sizes, and
 *                                                      over time (stack_times.h)
 *                                               sums for groups of stacks: stack_sums.h
 *
 * Frees that have stacks, too, are counted by these, and so are pairs of who made and who freed.
 *
 * An object has grown if a realloc made it larger or, if all calls have stacks, if its thread made
 * another one, at least half as large again, at the same stack, and freed the first in its next
 * call; or, if none was made at that stack between these two, in one of its next four calls. So do
 * containers of C++.
 *
 * Objects are kept by index (INSTRUCTIONS.md 4.5), as in report/tally.h. The peak is the first
 * instruction after which the most bytes were alive.
 *
 * Memory: 24 bytes for each live object, 12 for the greatest node, what stack_cells.h and
 * stack_times.h say, 40 for each stack and for each pair of stacks that made and freed. One
 * thread. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_TALLY_H
#define MALLOCTAPE_SYMBOLS_STACK_TALLY_H

#include "stream/instruction_reader.h"
#include "stream/stacks.h"
#include "symbols/stack_cells.h"
#include "symbols/stack_times.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object is short-lived if it ends at most this many calls after the one that made it. */
enum { STACK_SHORT_CALLS = 100 };

/* Objects by the quarter in which they were made: of all calls, or, if a base tells of some that were
 * made before, of the time since recording began (`ages_by_time`). */
struct stack_ages {
    uint64_t quarters[4];
};

enum { STACK_AGES_PART = 16 };

static inline unsigned stack_ages_quarter(uint64_t at, uint64_t end)
{
    const uint64_t quarter = at * 4 / (end + 1);
    return quarter < 4 ? (unsigned)quarter : 3;
}

static inline uint64_t stack_ages_all(const struct stack_ages *ages)
{
    return ages->quarters[0] + ages->quarters[1] + ages->quarters[2] + ages->quarters[3];
}

/* Whether each quarter made at least one in STACK_AGES_PART: objects that are kept from the beginning, or
 * only for a time, were not made so. Where nothing grows, those that live for m on average are not in 3 m
 * and more. */
static inline bool stack_ages_are_spread(const struct stack_ages *ages)
{
    bool are_spread = true;
    for (unsigned i = 0; i < 4; i++)
        are_spread = are_spread && ages->quarters[i] * STACK_AGES_PART >= stack_ages_all(ages);
    return are_spread;
}

/* Objects that one stack made and another one freed. Both are nodes, after stack_tally_end()
 * indices of `stacks`. */
struct stack_pair {
    uint32_t made, freed;
    uint64_t short_lived, remote; /* objects; the others are not counted here */
};

/* Which calls have stacks: the keys `stacks`, `stacks.frees`, `stacks.chance` (FORMAT.md 4). */
struct stack_chance {
    uint64_t bytes; /* from one sample to the next, by bytes; 0: all allocations have stacks */
    uint64_t calls; /* the same, by calls */
    uint64_t small, small_realloc; /* from this size on, also by bytes */
    uint64_t all;                  /* from this size on, all */
    bool frees_are_sampled;
};

struct stack_tally {
    struct stack_cells cells; /* after stack_tally_end(), sorted by class */
    struct stack_times times;
    uint32_t *stacks; /* after stack_tally_end(): the nodes, ascending; the first is 0: no stack */
    struct stack_ages *ages; /* likewise: of the live objects */
    bool ages_by_time;
    uint64_t *oldest; /* by index of `stacks`: the call that made the oldest live object; 0: none, or one
                         of a base */
    size_t stacks_count;
    bool with_frees;  /* count stacks of frees */
    bool copies_grow; /* count what grows without realloc; stack_tally_open() sets both */
    struct stack_chance chance;
    struct stack_pair *pairs;
    size_t pairs_count;

    /* From here on: stack_tally.c only. */
    size_t pairs_room;
    uint32_t *pair_slots; /* 1 + index of a pair */
    size_t pair_slots_count;
    struct stack_object *objects;
    uint64_t live, capacity; /* `live` may be read by anybody */
    uint64_t calls, live_bytes, peak_bytes, epoch;
    uint32_t lane;
    uint32_t time; /* at the latest tick, in STACK_TIME_NS: half a year */
    struct stack_latest *latest; /* by lane */
    uint64_t *latest_at;         /* by node: the call that made the latest object there */
    size_t latest_room;
    uint64_t latest_at_room;
};

/* Call before the first block is read: then batches have stacks, and `stacks` their definitions.
 * False: the stream has none. */
bool stack_tally_follow(struct stacks *stacks, struct instruction_reader *reader);

/* Counts a stream that has this header; what happens over time is counted from stack_times_limit()
 * on. False: no memory. */
bool stack_tally_open(struct stack_tally *tally, const struct instruction_header *header);
void stack_tally_close(struct stack_tally *tally);
/* Counts the first `count` instructions of a batch. Batches have indices and come one after
 * another; only of the last one may `count` be less than all. False: no memory. */
bool stack_tally_add(struct stack_tally *tally, const struct instruction_batch *batch,
                     size_t count);
/* Adds what was resident of mappings that a stack made, in so many pieces; before stack_tally_end().
 * It is exact, however calls are sampled. False: no memory. */
bool stack_tally_add_mapped(struct stack_tally *tally, uint32_t stack, uint64_t pieces,
                            uint64_t bytes);
/* The node of the object at this index, which is less than `live`. Before stack_tally_end(). */
uint32_t stack_tally_node(const struct stack_tally *tally, uint64_t index);
bool stack_tally_end(struct stack_tally *tally);

/* The number of bits of the sizes in a cell of allocations: less than STACK_MAGNITUDES. */
enum { STACK_MAGNITUDES = 65 };
unsigned stack_tally_magnitude(const struct stack_tally *tally, const struct stack_cell *cell);

/* Whether only some allocations have stacks; only some frees. */
static inline bool stack_tally_is_sampled(const struct stack_tally *tally)
{
    return tally->chance.bytes > 0;
}

static inline bool stack_tally_frees_are_sampled(const struct stack_tally *tally)
{
    return tally->with_frees && tally->chance.frees_are_sampled;
}

#ifdef __cplusplus
}
#endif

#endif
