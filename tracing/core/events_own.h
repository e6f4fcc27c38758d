/* events_own - what the events off the fast path have in common (capture.h).
 *
 *   events.c            of any allocator
 *   events_tcmalloc.c   of one that tells its classes and caches
 *   events_opaque.c     of one of which only addresses are known
 */
#ifndef MALLOCTAPE_EVENTS_OWN_H
#define MALLOCTAPE_EVENTS_OWN_H

#include "tracing/core/capture.h"
#include "tracing/core/mappings.h"
#include "tracing/data/large.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack.h"

/* No page is smaller than 4 KiB. */
#define EVENTS_LARGE_BYTES (TOUCHED_PAGES_LEAST * 4096u)

/* The lane of the calling thread with room for an event. NULL: recording has ended meanwhile, and
 * the call is not recorded. An event is recorded even if a pause began in the middle of it: its
 * sequence numbers are in the stream already, and would be taken for those of the first event after
 * the pause. */
struct malloctape_lane *events_lane(void);

/* The same for an allocation or a realloc, or for a free, after its call stack, if it is to have
 * one. */
struct malloctape_lane *events_lane_for_object(uint64_t size, bool is_realloc);
struct malloctape_lane *events_lane_for_free(void);

/* There was no memory for the place of an object that begins. */
void events_lose(struct malloctape_lane *lane);

/* What happens to the cache from now on is not in the stream. */
static inline void events_leave_cache(struct malloctape_lane *lane)
{
    if (lane->units.cache == NULL) return;
    atomic_store_relaxed(&lane->units.limit, 0);
    lane->units.cache = NULL;
}

/* With stacks of all, most allocations are off the fast path for theirs alone. Writes the stack of
 * one in a lane that could be on it, and still has room for the allocation then. False: nothing is
 * written; the general way is right. */
static inline bool events_put_stack(struct malloctape_lane *lane)
{
    const uint32_t node = stacks_find(lane);
    if (!node || !malloctape_lane_is_fast(lane)) return false;
    units_fast_stack(&lane->units, node);
    return true;
}

/* The object at a place that `owner` has (shadow.h), as the lane names it. */
static inline struct units_object events_object(const struct malloctape_lane *lane, uint32_t place,
                                                uint32_t size_class, uint32_t owner)
{
    struct units_object object = {.place = place, .size_class = size_class};
    if (owner == 0) {
        object.unknown = true;
    } else if (owner != lane->units.owner) {
        object.lane = &lane_at(recording.registry, owner - 1)->units;
        object.bound = raw_allocations(owner - 1, units_allocations_so_far(object.lane));
    }
    return object;
}

/* The object that the lane has just recorded is watched from now on (large.h). False: it is not. */
static inline bool events_watch(const struct malloctape_lane *lane, const void *object,
                                uint64_t size)
{
    return __builtin_expect(size >= EVENTS_LARGE_BYTES, 0) && mappings_watch(lane, object, size);
}

/* What is there is about to be freed or moved, and is not watched any more. */
static inline void events_end_watched(const void *address)
{
    const struct large_object object = large_take((uintptr_t)address);
    if (object.id != 0) mappings_record_touched(&object);
}

#endif
