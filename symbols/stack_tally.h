/* stack_tally - what the code behind each call stack asked for, and what became of it.
 *
 *   batch with stacks --> stack_tally_add() --> cells: of each stack and each class of sizes
 *                         stack_tally_end() --> sums for groups of stacks (functions, files ...)
 *
 * If all calls have stacks, sums are exact. If some were sampled, nothing has to be guessed of the
 * whole: each class of sizes is counted exactly, and the samples in it only say how to divide it.
 *
 *   estimate for a group, of a class = all * samples of the group / samples of the class
 *   its variance                     = all^2 * (1 - share that was sampled) * that of a ratio:
 *                                      sum over samples of (x - share * all samples)^2 / sum^2
 *
 * with one sample more of each side, so that it is not 0 when all agree. Calls of one size have the
 * same chance to be sampled (docs/recording.md, "Call stacks"), and reallocs, frees and remote frees
 * other ones: they have classes of their own. Classes with few samples of what is estimated (objects
 * made, alive at the end ...) are estimated together with the next greater ones; there each sample
 * stands for as many calls as were made for one that was sampled. What is left without any sample goes
 * to stack 0.
 *
 * Frees that have stacks, too, are counted with theirs, and so is who frees whose objects.
 *
 * Objects stand in the row of live objects (INSTRUCTIONS.md 4.5), as in report/tally.h. The peak is
 * the first instruction behind which the most bytes were alive.
 *
 * Memory: 24 bytes for each live object, 176 for each pair of stack and class, 40 for each pair of
 * who makes and who frees. One thread. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_TALLY_H
#define MALLOCTAPE_SYMBOLS_STACK_TALLY_H

#include "common/live.h"
#include "stream/instruction_reader.h"
#include "stream/stacks.h"

/* Objects that are gone so many calls after the one that made them lived for a short time. */
enum { STACK_SHORT_CALLS = 100 };

enum stack_measure {
    STACK_MADE,
    STACK_AT_PEAK,
    STACK_AT_END,
    STACK_SHORT_LIVED,  /* made, and gone after STACK_SHORT_CALLS calls at most */
    STACK_REMOTE,       /* made, and ended by another thread */
    STACK_GROWN,        /* reallocs that made an object larger; bytes: by so much */
    STACK_FREED,        /* by a free there */
    STACK_FREED_REMOTE, /* the same of another thread's object */
    STACK_MEASURES
};

struct stack_amount {
    uint64_t objects, bytes;
};

struct stack_cell {
    uint32_t stack; /* a node, 0: none; after stack_tally_end() an index of `stacks` */
    uint32_t size_class;
    struct stack_amount amounts[STACK_MEASURES]; /* at the peak and the end: after the end */
    struct live live;
};

/* Objects that one stack made and another one freed. Both are nodes, and after the end indices. */
struct stack_pair {
    uint32_t made, freed;
    uint64_t short_lived, remote; /* objects; the others are not counted here */
};

struct stack_tally {
    struct stack_cell *cells; /* after the end in the order of their classes */
    size_t count;
    uint32_t *stacks; /* after the end: the nodes, ascending; the first one is 0: no stack */
    uint64_t *oldest; /* after the end, by stack: the first call whose object is alive; 0: none */
    size_t stacks_count;
    bool is_sampled;    /* to be set before sums are asked for */
    bool with_frees;    /* after stack_tally_open(): frees have stacks, and are wanted */
    bool sampled_frees; /* as is_sampled */
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
    uint64_t live, capacity; /* `live` is for everybody */
    uint64_t calls, live_bytes, peak_bytes, epoch;
    uint32_t lane;
};

/* Before the first block is read: its batches will have stacks, and `stacks` what they mean. False:
 * the stream has none. */
bool stack_tally_follow(struct stacks *stacks, struct instruction_reader *reader);

/* False: no memory. */
bool stack_tally_open(struct stack_tally *tally);
void stack_tally_close(struct stack_tally *tally);
/* Batches with indices, one after another; of the last one, the first `count` instructions may be
 * all. */
bool stack_tally_add(struct stack_tally *tally, const struct instruction_batch *batch,
                     size_t count);
/* Before the end: the node of the object at this index of the row, which is less than `live`. */
uint32_t stack_tally_node(const struct stack_tally *tally, uint64_t index);
bool stack_tally_end(struct stack_tally *tally);

/* An estimate, or what is exact (variance 0). */
struct stack_sum {
    double value, variance;
};

struct stack_sums {
    struct stack_sum objects[STACK_MEASURES], bytes[STACK_MEASURES];
};

/* Which groups each stack belongs to: of stack s those of groups[first[s]] to
 * groups[first[s + 1] - 1], each once. */
struct stack_groups {
    const uint32_t *first, *groups;
    size_t count; /* of groups */
};

/* Adds up each group; `sums` has `groups->count` of them, all zero. False: no memory. */
bool stack_tally_sum(const struct stack_tally *tally, const struct stack_groups *groups,
                     struct stack_sums *sums);

/* Half the width of the interval that has the true value with 95 %. */
double stack_sum_margin(const struct stack_sum *sum);

#endif
