#include "tracing/data/stack_sample.h"

#include "tracing/data/front_end.h"
#include "tracing/os/os.h"

/* How many small calls there are for a sample, if there is one for each so many bytes. */
#define BYTES_A_CALL  256u
#define CALLS_LEAST   8u
/* Calls of these sizes and more never take the fast path: allocations, those of an opaque
 * allocator, and reallocs. */
#define SMALL_LIMIT   UNITS_FAST_SIZE_LIMIT
#define SMALL_OPAQUE  RAW_ALLOCATION_1_SHORT_LIMIT
#define SMALL_REALLOC RAW_NUMBER_MORE
/* ln 2, in units of 2^-32. */
#define LN_2          UINT64_C(0xb17217f7)

static uint64_t random_bits(struct stack_lane *stacks)
{
    stacks->random ^= stacks->random << 13;
    stacks->random ^= stacks->random >> 7;
    stacks->random ^= stacks->random << 17;
    return stacks->random;
}

/* -log2 of a number that is at least 2^-64 and less than 1, given as its bits after the point;
 * in units of 2^-24. */
static uint64_t minus_log2(uint64_t bits)
{
    const unsigned zeros = (unsigned)__builtin_clzll(bits | 1);
    uint64_t mantissa = bits << zeros >> 32 | 1, log = 0; /* from 1 to 2, in units of 2^-31 */
    for (unsigned i = 0; i < 24; i++) {
        mantissa = mantissa * mantissa >> 31;
        const unsigned is_2 = mantissa >> 32 != 0;
        mantissa >>= is_2;
        log = log << 1 | is_2;
    }
    return ((uint64_t)(zeros + 1) << 24) - log;
}

/* How far it is to the next sample, which is equally likely everywhere: by exponential
 * distribution, rounded down. */
static uint64_t distance(struct stack_lane *stacks, uint64_t mean)
{
    const unsigned __int128 log = (unsigned __int128)minus_log2(random_bits(stacks)) * LN_2;
    return (uint64_t)((log >> 24) * mean >> 32);
}

uint64_t stack_sample_calls(uint64_t bytes)
{
    const uint64_t calls = (bytes == STACK_SAMPLE_ALL ? STACK_SAMPLE_FREES : bytes) / BYTES_A_CALL;
    return calls > CALLS_LEAST ? calls : CALLS_LEAST;
}

uint64_t stack_sample_small(bool is_realloc)
{
    if (is_realloc) return SMALL_REALLOC;
    return malloctape_front_end.opaque ? SMALL_OPAQUE : SMALL_LIMIT;
}

static uint64_t units_apart(struct stack_lane *stacks)
{
    return distance(stacks, stack_sample_calls(recording.stacks_every_bytes));
}

void stack_sample_begin(struct malloctape_lane *lane)
{
    struct stack_lane *stacks = &lane->stacks;
    *stacks = (struct stack_lane){.busy = false};
    if (!stack_sample_is_some()) return;
    os_random(&stacks->random, sizeof stacks->random);
    stacks->random |= 1;
    stacks->units_left = units_apart(stacks);
    stacks->bytes_left = distance(stacks, recording.stacks_every_bytes);
}

void stack_sample_leave_slot(struct malloctape_lane *lane, size_t units)
{
    struct stack_lane *stacks = &lane->stacks;
    if (units <= stacks->units_left)
        stacks->units_left -= units;
    else
        stacks->units_left = units_apart(stacks);
}

uint16_t *stack_sample_limit(const struct malloctape_lane *lane)
{
    const uint64_t left = lane->stacks.units_left;
    return left < (uint64_t)(lane->slot.room - lane->slot.start) ? lane->slot.start + left
                                                                 : lane->slot.room;
}

bool stack_sample_count(struct malloctape_lane *lane)
{
    struct stack_lane *stacks = &lane->stacks;
    const uint64_t at = (uint64_t)(units_cursor(&lane->units) - lane->slot.start);
    stacks->is_due = false;
    if (at < stacks->units_left) return false;
    /* A unit inside of a record was chosen: that is no sample. */
    if (at > stacks->units_left) stacks->units_left = at + units_apart(stacks);
    stacks->is_due = at == stacks->units_left;
    if (stacks->is_due) stacks->units_left = at + 1 + units_apart(stacks);
    return true;
}

bool stack_sample_give_back(struct malloctape_lane *lane)
{
    struct stack_lane *stacks = &lane->stacks;
    if (!stacks->is_due) return false;
    stacks->is_due = false;
    stacks->units_left = (uint64_t)(units_cursor(&lane->units) - lane->slot.start);
    return true;
}

/* Only for calls that are off the fast path by their size. */
static bool is_sampled_by_bytes(struct stack_lane *stacks, uint64_t size, bool is_realloc)
{
    if (size >= STACK_SAMPLE_LARGE) return true;
    if (size < stack_sample_small(is_realloc)) return false;
    if (size <= stacks->bytes_left) {
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
