/* stack_tally - what the code of each call stack asked for, and what became of the objects.
 *
 *   batch with stacks --> stack_tally_add() --> cells: of each stack and each class of sizes
 *                         stack_tally_end() --> sums for groups of stacks (functions, files ...)
 *
 * If all calls have stacks, sums are exact. If only some were sampled, totals are still exact: each
 * class of sizes is counted completely, and its samples only say how to divide it.
 *
 *   estimate for a group, of a class = all * samples of the group / samples of the class
 *   its variance                     = all^2 * that of a ratio:
 *                                      sum over samples of (x - share * all samples)^2 / sum^2
 *
 * with one additional sample inside and one outside of the group, so that it is not 0 when all
 * samples agree. A sample that stands for w objects counts w (w - 1) instead of w^2, because one
 * of the w is known; 1 / w is the chance of a call of that size (struct stack_chance). With few
 * samples of unequal weight the variance itself is uncertain: the interval is that of Student's
 * distribution, with Satterthwaite's degrees of freedom. Classes with few samples of what is
 * estimated (objects made, alive at the end ...) are estimated together with the next greater ones.
 * If there are no samples, all goes to stack 0.
 *
 * A group may also have objects in classes without a sample of it: over all of these together, its
 * variance is that of one sample. So a number is exact only if all calls have stacks.
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
 * Memory: 24 bytes for each live object, 176 for each pair of stack and class, 40 for each pair of
 * stacks that made and freed. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_TALLY_H
#define MALLOCTAPE_SYMBOLS_STACK_TALLY_H

#include "common/live.h"
#include "stream/instruction_reader.h"
#include "stream/stacks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object is short-lived if it ends at most this many calls after the one that made it. */
enum { STACK_SHORT_CALLS = 100 };

enum stack_measure {
    STACK_MADE,
    STACK_AT_PEAK,
    STACK_AT_END,
    STACK_SHORT_LIVED,  /* made, and ended after at most STACK_SHORT_CALLS calls */
    STACK_REMOTE,       /* made, and ended by another thread */
    STACK_GROWN,        /* an object made larger, as below; bytes: by how much */
    STACK_FREED,        /* by a free there */
    STACK_FREED_REMOTE, /* the same, of another thread's objects */
    STACK_MAPPED,       /* pieces of mappings that it made, and what of them was resident */
    STACK_MEASURES
};

struct stack_amount {
    uint64_t objects, bytes;
};

struct stack_cell {
    uint32_t stack; /* a node, 0: none; after stack_tally_end() an index of `stacks` */
    uint32_t size_class;
    struct stack_amount amounts[STACK_MEASURES]; /* AT_PEAK, AT_END: after stack_tally_end() */
    struct live live;
};

/* Objects by the quarter of all calls in which they were made. */
struct stack_ages {
    uint64_t quarters[4];
};

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
    struct stack_cell *cells; /* after stack_tally_end(), sorted by class */
    size_t count;
    uint32_t *stacks; /* after stack_tally_end(): the nodes, ascending; the first is 0: no stack */
    struct stack_ages *ages; /* likewise: of the live objects */
    uint64_t *oldest; /* by index of `stacks`: the call that made the oldest live object; 0: none */
    size_t stacks_count;
    bool with_frees;  /* count stacks of frees */
    bool copies_grow; /* count what grows without realloc; stack_tally_open() sets both */
    struct stack_chance chance;
    struct stack_pair *pairs;
    size_t pairs_count;

    /* From here on: stack_tally.c only. */
    size_t room;
    uint32_t *slots; /* 1 + index of a cell */
    size_t slots_count;
    size_t pairs_room;
    uint32_t *pair_slots; /* 1 + index of a pair */
    size_t pair_slots_count;
    struct stack_object *objects;
    uint64_t live, capacity; /* `live` may be read by anybody */
    uint64_t calls, live_bytes, peak_bytes, epoch;
    uint32_t lane;
    struct stack_latest *latest; /* by lane */
    uint64_t *latest_at;         /* by node: the call that made the latest object there */
    size_t latest_room, latest_at_room;
};

/* Call before the first block is read: then batches have stacks, and `stacks` their definitions.
 * False: the stream has none. */
bool stack_tally_follow(struct stacks *stacks, struct instruction_reader *reader);

/* Counts a stream that has this header. False: no memory. */
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

/* Whether only some allocations have stacks; only some frees. */
static inline bool stack_tally_is_sampled(const struct stack_tally *tally)
{
    return tally->chance.bytes > 0;
}

static inline bool stack_tally_frees_are_sampled(const struct stack_tally *tally)
{
    return tally->with_frees && tally->chance.frees_are_sampled;
}

/* An estimate, or an exact number (variance 0). */
struct stack_sum {
    double value, variance;
    double doubt; /* sum of variance^2 / degrees of freedom: how uncertain the variance is */
};

struct stack_sums {
    struct stack_sum objects[STACK_MEASURES], bytes[STACK_MEASURES];
};

/* Which groups each stack belongs to: stack s to groups[first[s]] ... groups[first[s + 1] - 1],
 * each once. */
struct stack_groups {
    const uint32_t *first, *groups;
    size_t count; /* of groups */
};

/* Sums up each group; `sums` has `groups->count` elements, all zero. False: no memory. */
bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums);

/* Half the width of the 95 % confidence interval. */
double stack_sum_margin(const struct stack_sum *sum);

#ifdef __cplusplus
}
#endif

#endif
