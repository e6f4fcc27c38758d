/* stack_sample - which calls have a call stack (FORMAT.md 2.8).
 *
 *   all       no allocation has a short code in its lane (units.h), so each comes off the fast path;
 *             frees stay there, and are sampled
 *   all,frees nor has any free
 *   sampled   each call by a chance of its own, which depends on nothing but its size:
 *             - each unit is chosen with the same chance, and the limit of the fast path lies at
 *               the next chosen one. The call that begins exactly there gets its stack. If none
 *               does, since the unit lies inside of a record, none gets one: otherwise calls after
 *               long records would be chosen more often than others
 *             - also of allocations that are too large for the fast path anyhow, each byte is
 *               chosen with the same chance, and a call with a chosen byte gets its stack
 *             - all of STACK_SAMPLE_LARGE bytes and more
 *             The key `stacks.chance` (FORMAT.md 4) has the numbers, for who counts samples.
 *
 * Threads   the lane's own. */
#ifndef MALLOCTAPE_STACK_SAMPLE_H
#define MALLOCTAPE_STACK_SAMPLE_H

#include "tracing/data/state.h"

#define STACK_SAMPLE_LARGE   ((uint64_t)1 << 20)
#define STACK_SAMPLE_DEFAULT ((uint64_t)512 << 10)
#define STACK_SAMPLE_LEAST   1024u
#define STACK_SAMPLE_ALL     1u /* as bytes from one sample to the next */
/* Bytes from one sampled free to the next if all others have stacks, which cost more. */
#define STACK_SAMPLE_FREES   ((uint64_t)64 << 10)

static inline bool stack_sample_is_all(void)
{
    return recording.stacks_every_bytes == STACK_SAMPLE_ALL;
}

/* How many calls that are small there are for one sampled, if `bytes` are from one to the next. */
uint64_t stack_sample_calls(uint64_t bytes);
/* From this size on, calls are sampled by bytes, too. */
uint64_t stack_sample_small(bool is_realloc);

/* Whether calls are sampled: all calls, or frees. */
static inline bool stack_sample_is_some(void)
{
    return recording.stacks_every_bytes && !recording.frees_have_stacks;
}

/* The lane begins a recording. */
void stack_sample_begin(struct malloctape_lane *lane);

/* The lane has left a slot that has this many units. */
void stack_sample_leave_slot(struct malloctape_lane *lane, size_t units);

/* The position in the slot at which the lane is to leave the fast path at the latest; NULL: now. */
uint16_t *stack_sample_limit(const struct malloctape_lane *lane);

/* A call off the fast path is about to be recorded. True: from now on the lane may be on the fast
 * path again, up to another limit. */
bool stack_sample_count(struct malloctape_lane *lane);

/* The call is no event after all: if its unit was chosen, that is the next call's. True: as above. */
bool stack_sample_give_back(struct malloctape_lane *lane);

/* A call that was on the fast path so far is about to be recorded: its unit was not chosen. */
static inline void stack_sample_count_fast(struct malloctape_lane *lane)
{
    lane->stacks.is_due = false;
}

/* Whether the allocation or realloc that is about to be recorded is to have its stack. */
bool stack_sample_takes(struct malloctape_lane *lane, uint64_t size, bool is_realloc);

/* The same for a free. */
static inline bool stack_sample_takes_free(const struct malloctape_lane *lane)
{
    return recording.frees_have_stacks || lane->stacks.is_due;
}

#endif
