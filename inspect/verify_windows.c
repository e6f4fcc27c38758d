#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "inspect/verify.h"

/* ---- floors: what a record had to wait for ---- */

void verify_raise_floor(struct verify_lane *lane, uint32_t floor)
{
    if (floor > lane->floor) lane->floor = floor;
}

bool verify_floor_note(struct verify *verify, struct verify_lane *lane)
{
    if (lane->floors_count > 0 && lane->floors[lane->floors_count - 1].floor == lane->floor)
        return true;
    if (!array_reserve(&lane->floors, &lane->floors_room, lane->floors_count + 1,
                       sizeof *lane->floors))
        return verify_no_memory(verify);
    lane->floors[lane->floors_count++] = (struct verify_floor){lane->allocations, lane->floor};
    return true;
}

uint32_t verify_floor_of(const struct verify_lane *lane, uint64_t allocation)
{
    size_t low = 0, high = lane->floors_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lane->floors[middle].allocation <= allocation)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? lane->floors[low - 1].floor : 0;
}

/* ---- any record, and ticks ---- */

/* The latest window that the record at the head of the lane had to wait for, or the numbers that
 * follow it: a call is not taken before its numbers can be. */
static uint32_t floor_of_call(const struct verify *verify, const struct verify_lane *lane)
{
    uint32_t floor = lane->floor, at = lane->first->taken + 1;
    for (const struct verify_block *block = lane->first; block != NULL; block = block->next, at = 0)
        for (; at < block->count; at++) {
            const struct record *record = &block->records[at];
            if (record->number != RAW_SEQUENCE_AFTER) return floor;
            uint32_t of_structure = verify->structures[record->structure].floor;
            if (of_structure > floor) floor = of_structure;
            if (block->window > floor) floor = block->window;
        }
    return floor;
}

bool verify_window(struct verify *verify, const struct verify_lane *lane)
{
    uint64_t here = verify->counts.ticks;
    uint32_t own = lane->first->window;
    if (own > here + 1)
        return verify_violated(verify, VERIFY_WINDOWS, lane,
                               "a record of window %" PRIu32 " comes in window %" PRIu64, own,
                               here);
    if (here <= (uint64_t)own + 1) return true;
    verify->counts.late++;
    if (here <= (uint64_t)floor_of_call(verify, lane) + 1) return true;
    return verify_violated(verify, VERIFY_WINDOWS, lane,
                           "a record of window %" PRIu32 " comes in window %" PRIu64
                           ", and nothing before it is later than window %" PRIu32,
                           own, here, lane->floor);
}

/* Whether the usage before a tick, or its absence, agrees with the recording. */
static bool is_usage_of(const uint64_t *usage, const struct raw_tick *tick)
{
    if (usage == NULL || !tick->has_usage) return (usage != NULL) == tick->has_usage;
    return usage[0] == tick->usage.recorder_bytes && usage[1] == tick->usage.user_ns &&
           usage[2] == tick->usage.system_ns && usage[3] == tick->usage.peak_rss_bytes;
}

/* Whether the latest statistics are those of the tick. */
static bool are_statistics_of(const uint64_t *values, const struct raw_tick *tick)
{
    return memcmp(values, tick->statistics.values, tick->statistics.count * sizeof *values) == 0;
}

bool verify_tick(struct verify *verify, const uint64_t *operands)
{
    uint64_t number = verify->counts.ticks;
    while (number >= verify->raw.ticks_count && !verify->raw.ended)
        if (!verify_numbers_read(verify)) return false;
    if (number >= verify->raw.ticks_count)
        return verify_violated(verify, VERIFY_WINDOWS, NULL,
                               "instruction %" PRIu64 ": the recording has only %" PRIu64 " ticks",
                               verify->position - 1, number);
    const struct raw_tick *tick = &verify->raw.ticks[number];
    if (tick->since_start_ns - verify->last_tick_ns != operands[0] ||
        tick->rss_bytes != operands[1] || tick->heap_bytes != operands[2] ||
        !is_usage_of(verify->usage, tick) || !are_statistics_of(verify->statistics, tick))
        return verify_violated(verify, VERIFY_WINDOWS, NULL,
                               "instruction %" PRIu64 ": tick %" PRIu64
                               " is not that of the recording",
                               verify->position - 1, number);
    verify->last_tick_ns = tick->since_start_ns;
    verify->usage = NULL;
    verify->counts.ticks++;
    return true;
}
