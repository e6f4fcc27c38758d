/* stack_sample - which calls have a call stack (FORMAT.md 2.8).
 *
 *   all       no allocation has a short code in its lane (units.h), so each comes off the fast path;
 *             frees stay there, and are sampled
 *   all,frees nor has any free
 *   sampled   by calls and by bytes, so that of calls of one kind and size each has the same chance:
 *             - the limit of the fast path lies at a unit chosen by chance. The call that comes
 *               there is the first of up to 8 off the fast path, and one of these, chosen by
 *               chance, gets its stack: otherwise a call after a long record would be chosen more
 *               often than others
 *             - of allocations that are too large for the fast path anyhow, one in so many bytes
 *             - all of STACK_SAMPLE_LARGE bytes and more
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

/* Whether the allocation or realloc that is about to be recorded is to have its stack. */
bool stack_sample_takes(struct malloctape_lane *lane, uint64_t size, bool is_realloc);

/* The same for a free. */
static inline bool stack_sample_takes_free(const struct malloctape_lane *lane)
{
    return recording.frees_have_stacks || lane->stacks.is_due;
}

#endif
