#include "tracing/data/stack_sample.h"

#include "tracing/data/front_end.h"
#include "tracing/os/os.h"

/* Small calls are sampled by the units that record them: each unit counts as this many bytes. */
#define BYTES_A_UNIT   256u
/* One of this many calls from the limit on is sampled. */
#define CALLS_AT_LIMIT 8u
/* Calls of these sizes and more never take the fast path: allocations, those of an opaque
 * allocator, and reallocs. */
#define SMALL_LIMIT    UNITS_FAST_SIZE_LIMIT
#define SMALL_OPAQUE   RAW_ALLOCATION_1_SHORT_LIMIT
#define SMALL_REALLOC  RAW_NUMBER_MORE

/* 0 to `count` - 1, all equally likely. */
static uint64_t chance(struct stack_lane *stacks, uint64_t count)
{
    stacks->random ^= stacks->random << 13;
    stacks->random ^= stacks->random >> 7;
    stacks->random ^= stacks->random << 17;
    return (stacks->random >> 11) % count;
}

/* At least 1, on average `mean`. */
static uint64_t distance(struct stack_lane *stacks, uint64_t mean)
{
    return 1 + chance(stacks, 2 * mean - 1);
}

static uint64_t units_apart(void)
{
    const uint64_t units =
        (stack_sample_is_all() ? STACK_SAMPLE_FREES : recording.stacks_every_bytes) / BYTES_A_UNIT;
    return units > CALLS_AT_LIMIT ? units : CALLS_AT_LIMIT;
}

void stack_sample_begin(struct malloctape_lane *lane)
{
    struct stack_lane *stacks = &lane->stacks;
    *stacks = (struct stack_lane){.busy = false};
    if (!stack_sample_is_some()) return;
    os_random(&stacks->random, sizeof stacks->random);
    stacks->random |= 1;
    stacks->units_left = distance(stacks, units_apart());
    stacks->bytes_left = distance(stacks, recording.stacks_every_bytes);
}

void stack_sample_leave_slot(struct malloctape_lane *lane, size_t units)
{
    struct stack_lane *stacks = &lane->stacks;
    stacks->units_left -= units < stacks->units_left ? units : stacks->units_left;
}

static bool is_at_limit(const struct malloctape_lane *lane)
{
    return (size_t)(units_cursor(&lane->units) - lane->slot.start) >= lane->stacks.units_left;
}

uint16_t *stack_sample_limit(const struct malloctape_lane *lane)
{
    const uint64_t left = lane->stacks.units_left;
    if (lane->stacks.calls_left) return NULL;
    return left < (uint64_t)(lane->slot.room - lane->slot.start) ? lane->slot.start + left
                                                                 : lane->slot.room;
}

bool stack_sample_count(struct malloctape_lane *lane)
{
    struct stack_lane *stacks = &lane->stacks;
    stacks->is_due = false;
    if (stacks->calls_left == 0) {
        if (!is_at_limit(lane)) return false;
        stacks->calls_left = (uint32_t)chance(stacks, CALLS_AT_LIMIT) + 1;
        atomic_store_relaxed(&lane->units.limit, 0);
    }
    if (--stacks->calls_left > 0) return false;
    stacks->is_due = true;
    stacks->units_left =
        (uint64_t)(units_cursor(&lane->units) - lane->slot.start) + distance(stacks, units_apart());
    return true;
}

/* Only for calls that are off the fast path by their size. */
static bool is_sampled_by_bytes(struct stack_lane *stacks, uint64_t size, bool is_realloc)
{
    const uint64_t small = is_realloc                    ? SMALL_REALLOC
                           : malloctape_front_end.opaque ? SMALL_OPAQUE
                                                         : SMALL_LIMIT;
    if (size >= STACK_SAMPLE_LARGE) return true;
    if (size < small) return false;
    if (size < stacks->bytes_left) {
        stacks->bytes_left -= size;
        return false;
    }
    stacks->bytes_left = distance(stacks, recording.stacks_every_bytes);
    return true;
}

bool stack_sample_takes(struct malloctape_lane *lane, uint64_t size, bool is_realloc)
{
    struct stack_lane *stacks = &lane->stacks;
    if (stack_sample_is_all()) return true;
    const bool takes = is_sampled_by_bytes(stacks, size, is_realloc) || stacks->is_due;
    stacks->is_due = false;
    return takes;
}
