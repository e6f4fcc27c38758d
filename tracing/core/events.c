/* events - events of any allocator off the fast path. See capture.h. */
#include "tracing/core/events_own.h"
#include "tracing/data/shadow.h"
#include "tracing/data/stack_sample.h"

struct malloctape_lane *events_lane(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (recording_has_room(lane)) return lane;
    if (malloctape_makes_room()) return malloctape_lane;
    lane = malloctape_lane;
    bool goes_on = recording_state() == MALLOCTAPE_PAUSED &&
                   lane->registry.recording == recording.number && !lane->slot.busy;
    if (goes_on && malloctape_lane_has_room(lane)) return lane;
    malloctape_unrecorded();
    return NULL;
}

struct malloctape_lane *events_lane_for_object(uint64_t size, bool is_realloc)
{
    struct malloctape_lane *lane = events_lane();
    if (lane == NULL || !recording.stacks_every_bytes ||
        !stack_sample_takes(lane, size, is_realloc))
        return lane;
    stacks_put(lane);
    return events_lane();
}

struct malloctape_lane *events_lane_for_free(void)
{
    struct malloctape_lane *lane = events_lane();
    if (lane == NULL || !stack_sample_takes_free(lane)) return lane;
    stacks_put(lane);
    return events_lane();
}

void malloctape_unrecorded(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!malloctape_lane_has_slot(lane)) return;
    lane->slot.unrecorded = 1;
    events_leave_cache(lane);
}

void events_lose(struct malloctape_lane *lane)
{
    /* A recording that is over opens no places any more. */
    if (!shadow_has_begun()) return malloctape_unrecorded();
    events_leave_cache(lane);
    atomic_store_relaxed(&lane->slot.lost_events_total, lane->slot.lost_events_total + 1);
    units_lost(&lane->units, 1, 0);
    malloctape_out_of_memory();
}

void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    struct malloctape_lane *lane = events_lane();
    if (lane != NULL) units_heap_call(&lane->units, kind, count, first, second);
}
