#include "stream/units_profile.h"

#include "common/call_table.h"
#include "stream/units_own.h"

#include <string.h>

/* The profile is chosen when a lane has had 1, 2, 4, ... slots, and then at every CHOSEN_EVERYth,
 * from the kinds of calls at the beginning of the slot before. */
#define CHOSEN_EVERY  64
#define SAMPLED_UNITS 1024
/* If more than 1/12 of the sampled units are frees without a short code, all frees get the long
 * one: a mispredicted branch costs more than two bytes. */
#define LONG_ONE_IN   12

/* The profile of a lane about which nothing is known. */
static const uint8_t first_profile[RAW_PROFILE_BYTES] = {
    CALL_FREE, CALL_DELETE, CALL_DELETE_SIZED, CALL_MALLOC,
    CALL_NEW,  CALL_CALLOC, CALL_REALLOC_MOVED};

static bool is_chosen_anew(uint64_t segments)
{
    return segments % CHOSEN_EVERY == 0 ||
           (segments < CHOSEN_EVERY && (segments & (segments - 1)) == 0);
}

/* How often each kind was called, and how many frees of the lane's own objects have no short code.
 * Ranges that no call needs go to the kinds of the first profile. */
static void count_kinds(const struct units_lane *lane, const uint16_t *units, size_t count,
                        uint32_t counts[CALL_KINDS], uint32_t *not_short)
{
    struct units_call calls[UNITS_CALLS];
    const uint16_t *end = units + count;
    struct units_record coded;
    for (unsigned range = 0; range < RAW_RANGES; range++)
        counts[first_profile[range]] = RAW_RANGES - range;
    units_fill_calls(calls, lane->profile, lane->features, false);
    while (units != NULL && units < end) {
        unsigned passed = units_of_call(calls, units, end);
        if (passed) {
            const struct units_call *call = &calls[*units >> UNITS_CALL_SHIFT];
            uint32_t upper = (uint32_t)*units - call->base;
            counts[call->kind] += RAW_RANGES + 1;
            *not_short +=
                call->form == UNITS_CALL_LONG && (upper << 16 | units[1]) >= RAW_FREE_1_SHORT_LIMIT;
            units += passed;
            continue;
        }
        units = units_next(lane->profile, lane->features, units, end, &coded);
        if (units == NULL) break;
        if (coded.number < CALL_KINDS) counts[coded.number] += RAW_RANGES + 1;
        *not_short += coded.object_form == UNITS_OBJECT_OWN && coded.ends >= RAW_FREE_1_SHORT_LIMIT;
    }
}

static bool fits_range(unsigned kind, unsigned range)
{
    if (range <= RAW_FREE_3) return shape_is_free(call_shapes[kind]);
    if (range <= RAW_ALLOCATION_3) return shape_is_allocation(call_shapes[kind]);
    return call_shapes[kind] == SHAPE_REALLOC;
}

/* The first range of allocations and of frees has the most operands: it goes to the most
 * frequent kind. */
static void choose(struct units_lane *lane, const uint16_t *units, size_t count)
{
    uint32_t counts[CALL_KINDS] = {0}, not_short = 0;
    size_t sampled = count < SAMPLED_UNITS ? count : SAMPLED_UNITS;
    count_kinds(lane, units, sampled, counts, &not_short);
    lane->long_frees = not_short > sampled / LONG_ONE_IN;
    for (unsigned range = 0; range < RAW_RANGES; range++) {
        unsigned best = 0;
        for (unsigned kind = 1; kind < CALL_KINDS; kind++)
            if (fits_range(kind, range) && counts[kind] > counts[best]) best = kind;
        lane->profile[range] = (uint8_t)best;
        counts[best] = 0;
    }
}

/* The fast path knows only small sizes, and writes no addresses and no call stacks. */
static void set_codes(struct units_lane *lane)
{
    bool says_more = lane->features & RAW_FEATURE_ADDRESSES || lane->all_have_stacks;
    memset(lane->codes, 0, sizeof lane->codes);
    for (unsigned range = RAW_FREE_1; range < RAW_RANGES; range++) {
        if (!lane->profile[range]) continue;
        struct units_code *code = &lane->codes[units_code_at(lane->profile[range])];
        const struct units_range_code *codes = units_range_codes[range];
        uint32_t limit = codes[RAW_SHORT].limit;
        code->base = codes[RAW_SHORT].first;
        if (range >= RAW_ALLOCATION_1 && range <= RAW_ALLOCATION_3) {
            if (limit > lane->dialect->fast_size_limit) limit = lane->dialect->fast_size_limit;
            code->size_limit = says_more ? 0 : limit;
            continue;
        }
        const bool is_off = range == RAW_REALLOC ? says_more : lane->frees_have_stacks;
        code->limit = is_off || !lane->dialect->has_short_frees ? 0 : limit;
        code->long_base = codes[RAW_LONG].first;
        if (!is_off) code->long_end = (uint16_t)(codes[RAW_LONG].limit >> 16);
    }
    if (lane->long_frees) lane->codes[units_code_at(lane->profile[RAW_FREE_1])].limit = 0;
}

void units_begin_segment(struct units_lane *lane, const uint16_t *units, size_t count,
                         uint64_t segments, bool key)
{
    bool first = !lane->profile[RAW_FREE_1];
    lane->dialect = units_dialect_of(lane->features);
    if (first)
        memcpy(lane->profile, first_profile, sizeof first_profile);
    else if (is_chosen_anew(segments))
        choose(lane, units, count);
    if (first || is_chosen_anew(segments)) set_codes(lane);
    lane->profile[RAW_PROFILE_ROUNDING] = lane->rounding;
    units_forget_segment(lane, key);
}
