/* events_tcmalloc - events off the fast path of an allocator that tells its classes and caches. */
#include "tracing/core/events_own.h"
#include "tracing/data/shadow.h"
#include "tracing/data/stack_sample.h"
#include "tracing/data/watch.h"
#include "tracing/writer/writer.h"

#include <string.h>

#define SEQUENCE_UNITS_MAX (1 + RAW_NUMBER_UNITS_MAX)
#define INSIDE_UNITS_MAX   (1 + 2 * RAW_NUMBER_UNITS_MAX)

/* ---- the thread's cache ---- */

static void announce_class(struct malloctape_lane *lane, uint32_t size_class)
{
    if (size_class == 0 || units_is_announced(&lane->units, size_class)) return;
    units_class(&lane->units, size_class, malloctape_front_end.class_bytes(size_class));
}

/* NULL: the object has no place. */
static inline struct shadow_page *open_page_of(const void *object)
{
    struct shadow_page *page = shadow_covers(object) ? shadow_page_of(object) : NULL;
    return page != NULL && shadow_is_open(page) ? page : NULL;
}

/* Takes the places of up to RAW_CACHED_MAX objects from the list for the lane. Returns how many; 0
 * if one has no place. Neighbours in the list are often neighbours on a page. */
static unsigned events_tcmalloc_take_cached(const struct malloctape_lane *lane, const void **object,
                                            unsigned count, uint32_t *places)
{
    struct shadow_page *page = NULL;
    uintptr_t number = 0;
    unsigned taken = 0;
    for (; taken < RAW_CACHED_MAX && taken < count; taken++) {
        uintptr_t its_number = (uintptr_t)*object >> SHADOW_PAGE_BITS;
        if (its_number != number) page = open_page_of(*object);
        if (page == NULL) return 0;
        number = its_number;
        places[taken] = shadow_place(page, *object);
        shadow_take(page, places[taken], lane->units.owner);
        shadow_check(page, lane->units.owner);
        memcpy(object, *object, sizeof *object);
    }
    return taken;
}

void malloctape_cached(const void *cache, unsigned size_class, const void *first, unsigned count)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint32_t places[RAW_CACHED_MAX];
    if (lane->units.cache == NULL || lane->units.cache != cache) return;
    while (count > 0) {
        if (!slot_has_room(lane, 2 * RAW_UNITS_PER_RECORD_MAX)) return events_leave_cache(lane);
        unsigned taken = events_tcmalloc_take_cached(lane, &first, count, places);
        if (taken == 0) return events_leave_cache(lane);
        announce_class(lane, size_class);
        units_cached(&lane->units, size_class, taken, places);
        count -= taken;
    }
}

void malloctape_uncached(const void *cache, unsigned size_class, unsigned count)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane->units.cache == NULL || lane->units.cache != cache || count == 0) return;
    if (!slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) return events_leave_cache(lane);
    units_uncached(&lane->units, size_class, count);
}

/* No cache is followed while hooks of the program may call the allocator inside a call
 * (recording_is_slow()): allocations then name their places. */
void malloctape_thread_cache_is(void *cache)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!malloctape_lane_has_slot(lane) || lane->units.cache == cache ||
        lane->slot.count < lane->slot.count_to_follow)
        return;
    events_leave_cache(lane);
    if (cache == NULL || recording_is_slow()) return;
    if (!slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) return;
    units_thread(&lane->units, RAW_CACHE_BEGIN, 0);
    lane->units.cache = cache;
    malloctape_front_end.announce_cache(cache);
    if (lane->units.cache != NULL) slot_enable_fast_path(lane);
}

void malloctape_thread_cache_changed(void)
{
    events_leave_cache(malloctape_lane);
}

void malloctape_thread_cache_deleted(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!malloctape_lane_has_slot(lane)) return;
    events_leave_cache(lane);
    lane->slot.unrecorded = 0; /* sequence numbers from now on are for this */
    if (slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX))
        units_thread(&lane->units, RAW_THREAD_CACHE_DELETED, 0);
}

/* ---- objects ---- */

void malloctape_allocated_unrecorded(const void *object)
{
    struct shadow_page *page = shadow_has_begun() ? open_page_of(object) : NULL;
    if (page != NULL) shadow_take(page, shadow_place(page, object), 0);
}

/* The object at this address, as the lane of the calling thread names it. */
static struct units_object object_at(const struct malloctape_lane *lane, const void *address)
{
    const struct shadow_page *page = open_page_of(address);
    if (page == NULL) return (struct units_object){.unknown = true};
    const uint32_t place = shadow_place(page, address);
    return events_object(lane, place, page->size_class, atomic_load_relaxed(shadow_owner(place)));
}

/* The object's place is the lane's from now on, which has room. */
static struct units_allocation_of events_tcmalloc_begin_object(struct malloctape_lane *lane,
                                                               const void *address, bool taken)
{
    struct shadow_page *page = open_page_of(address);
    struct units_allocation_of allocation = {.address = address};
    if (recording_is_slow()) events_leave_cache(lane);
    allocation.taken = taken && lane->units.cache != NULL;
    if (page == NULL) return allocation;
    allocation.object.place = shadow_place(page, address);
    allocation.object.size_class = page->size_class;
    shadow_take(page, allocation.object.place, lane->units.owner);
    shadow_check(page, lane->units.owner);
    if (!allocation.taken) announce_class(lane, page->size_class);
    return allocation;
}

/* There was no memory for a place, so the stream has no name for the object. Recording is about to
 * end. */
static bool has_no_name(const struct units_allocation_of *allocation)
{
    return !allocation->taken && allocation->object.place == RAW_PLACE_NONE;
}

/* Fast paths take the frees of what has a class: it would be watched ever after. */
static void watch_span(const struct malloctape_lane *lane, const void *object, uint64_t size,
                       const struct units_object *named)
{
    if (named->size_class == 0) events_watch(lane, object, size);
}

/* ---- calls ---- */

void malloctape_allocated(unsigned kind, uint64_t size, uint64_t alignment, const void *object,
                          bool taken)
{
    struct malloctape_lane *lane = events_lane_for_object(size, false);
    if (lane == NULL) {
        if (object != NULL) malloctape_allocated_unrecorded(object);
    } else if (object == NULL) {
        units_failed(&lane->units, kind, size, alignment, NULL);
    } else {
        struct units_allocation_of allocation = events_tcmalloc_begin_object(lane, object, taken);
        if (has_no_name(&allocation)) return events_lose(lane);
        units_allocation(&lane->units, kind, size, alignment, &allocation);
        watch_span(lane, object, size, &allocation.object);
    }
}

/* The place's owner is right already: the lane has had it since the object came into the cache. */
void malloctape_allocated_in_cache(unsigned kind, uint64_t size, const void *object)
{
    const struct units_allocation_of allocation = {.address = object, .taken = true};
    struct malloctape_lane *lane = malloctape_lane;
    stack_sample_count_fast(lane);
    if (!lane->units.all_have_stacks || !events_put_stack(lane))
        lane = events_lane_for_object(size, false);
    if (lane == NULL)
        malloctape_allocated_unrecorded(object);
    else if (!units_usual_allocation(&lane->units, kind, size))
        units_allocation(&lane->units, kind, size, 0, &allocation);
}

static void announce_class_of(struct malloctape_lane *lane, const struct units_object *object)
{
    if (object->unknown || object->bound) announce_class(lane, object->size_class);
}

/* The object's place is the lane's from now on. */
static void take_over(struct malloctape_lane *lane, const struct units_object *object,
                      const void *address)
{
    announce_class_of(lane, object);
    if (object->place) shadow_take(shadow_page_of(address), object->place, lane->units.owner);
}

void malloctape_freeing(unsigned kind, const void *address, uint64_t size, uint64_t alignment)
{
    struct malloctape_lane *lane = events_lane_for_free();
    if (lane == NULL) return;
    struct units_object object = object_at(lane, address);
    take_over(lane, &object, address);
    if (object.size_class == 0) events_end_watched(address);
    units_free(&lane->units, kind, &object, size, alignment);
}

bool malloctape_remote_freeing(unsigned kind, const void *address, bool sized, uint64_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    /* The allocator is about to store there. Another processor's cache may have the object. */
    __builtin_prefetch(address, 1);
    if (!recording_has_room(lane)) return false;
    struct shadow_page *page = open_page_of(address);
    if (page == NULL || page->size_class == 0) return false; /* it may be watched */
    uint32_t place = shadow_place(page, address);
    uint32_t owner = atomic_load_relaxed(shadow_owner(place));
    if (!units_fast_free_remote(&lane->units, kind, place, page->size_class, owner, sized, size))
        return false;
    shadow_take(page, place, lane->units.owner);
    return true;
}

void malloctape_reallocated(unsigned kind, const void *old_address, uint64_t size,
                            const void *object, bool taken)
{
    struct malloctape_lane *lane = events_lane_for_object(size, true);
    if (lane == NULL) {
        if (object != NULL) malloctape_allocated_unrecorded(object);
        return;
    }
    struct units_object old = object_at(lane, old_address);
    if (object == NULL) {
        announce_class_of(lane, &old);
        units_failed(&lane->units, kind, size, 0, &old);
        return;
    }
    struct units_allocation_of allocation = events_tcmalloc_begin_object(lane, object, taken);
    take_over(lane, &old, old_address);
    if (old.size_class == 0) events_end_watched(old_address);
    if (has_no_name(&allocation)) return events_lose(lane);
    units_realloc(&lane->units, kind, &old, size, &allocation);
    watch_span(lane, object, size, &allocation.object);
}

/* ---- inside a call ---- */

void malloctape_sequence(unsigned structure)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!slot_has_room(lane, SEQUENCE_UNITS_MAX)) return;
    units_sequence(&lane->units, structure, ++recording.sequences[structure]);
    malloctape_lane_check(lane);
}

void malloctape_inside(unsigned what, unsigned long amount)
{
    struct malloctape_lane *lane = malloctape_lane;
    /* The library's own threads have none. */
    if (lane != NULL && slot_has_room(lane, INSIDE_UNITS_MAX))
        units_inside(&lane->units, what, amount);
}

void malloctape_waited(unsigned structure, unsigned long cycles)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (lane == NULL || !slot_has_room(lane, INSIDE_UNITS_MAX)) return;
    /* May take a system call, so not if nothing is recorded. */
    const uint64_t waited_ns = writer_cycles_ns(&recording.writer, cycles);
    units_inside(&lane->units, structure, waited_ns);
    watch_wait(&recording.writer.watch, waited_ns);
}
