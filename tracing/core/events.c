/* events - events off the fast path. See capture.h. */
#include "stream/units.h"
#include "tracing/core/capture.h"
#include "tracing/data/ranges.h"
#include "tracing/data/stack_sample.h"
#include "tracing/recording/recording.h"
#include "tracing/recording/slot.h"
#include "tracing/stacks/call_stack.h"

#include <errno.h>
#include <string.h>

#define SEQUENCE_UNITS_MAX (1 + RAW_NUMBER_UNITS_MAX)
#define INSIDE_UNITS_MAX   (1 + 2 * RAW_NUMBER_UNITS_MAX)

/* --- the thread's cache --- */

/* The lane of the calling thread with room for an event. NULL: recording has ended meanwhile, and
 * the call is not recorded. An event is recorded even if a pause began in the middle of it: its
 * sequence numbers are in the stream already, and would be taken for those of the first event after
 * the pause. */
static struct malloctape_lane *lane_with_room(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (recording_has_room(lane)) return lane;
    if (recording_makes_room()) return malloctape_lane;
    lane = malloctape_lane;
    bool goes_on = recording_state() == MALLOCTAPE_PAUSED &&
                   lane->registry.recording == recording.number && !lane->slot.busy;
    if (goes_on && malloctape_lane_has_room(lane)) return lane;
    malloctape_unrecorded();
    return NULL;
}

/* What happens to the cache from now on is not in the stream. */
static void leave_cache(struct malloctape_lane *lane)
{
    if (!lane->units.cache) return;
    atomic_store_relaxed(&lane->units.limit, 0);
    lane->units.cache = NULL;
}

static void announce_class(struct malloctape_lane *lane, uint32_t size_class)
{
    if (size_class == 0 || units_is_announced(&lane->units, size_class)) return;
    units_class(&lane->units, size_class, malloctape_front_end.class_bytes(size_class));
}

/* NULL: the object has no place. */
static inline struct shadow_page *open_page_of(const void *object)
{
    struct shadow_page *page = shadow_covers(object) ? shadow_page_of(object) : NULL;
    if (!page || !shadow_is_open(page)) return NULL;
    return malloctape_front_end.opaque && !shadow_granule_place(page, object) ? NULL : page;
}

static inline uint32_t place_on(const struct shadow_page *page, const void *object)
{
    return malloctape_front_end.opaque ? shadow_granule_place(page, object)
                                       : shadow_place(page, object);
}

static inline uint32_t class_of(const struct shadow_page *page)
{
    return malloctape_front_end.opaque ? 0 : page->size_class;
}

/* The same for an object that exists. Opens its granule: an opaque allocator announces no pages. */
static struct shadow_page *page_for(struct malloctape_lane *lane, const void *object)
{
    struct shadow_page *page = open_page_of(object);
    uint32_t first;
    if (page || !malloctape_front_end.opaque || !shadow_open_granule(object, &first)) return page;
    const uintptr_t odd = (uintptr_t)object & (SHADOW_GRANULE_BYTES / 2);
    const uintptr_t start = (uintptr_t)object & ~(SHADOW_PAGE_BYTES - 1);
    if (first && slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX))
        units_page(&lane->units, first, start + odd);
    return open_page_of(object);
}

/* Takes the places of up to RAW_CACHED_MAX objects from the list for the lane. Returns how many; 0
 * if one has no place. Neighbours in the list are often neighbours on a page. */
static unsigned take_cached(const struct malloctape_lane *lane, const void **object, unsigned count,
                            uint32_t *places)
{
    struct shadow_page *page = NULL;
    uintptr_t number = 0;
    unsigned taken = 0;
    for (; taken < RAW_CACHED_MAX && taken < count; taken++) {
        uintptr_t its_number = (uintptr_t)*object >> SHADOW_PAGE_BITS;
        if (its_number != number) page = open_page_of(*object);
        if (!page) return 0;
        number = its_number;
        places[taken] = shadow_place(page, *object);
        shadow_take(page, places[taken], lane->units.owner);
        memcpy(object, *object, sizeof *object);
    }
    return taken;
}

void malloctape_cached(const void *cache, unsigned size_class, const void *first, unsigned count)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint32_t places[RAW_CACHED_MAX];
    if (!lane->units.cache || lane->units.cache != cache) return;
    while (count > 0) {
        if (!slot_has_room(lane, 2 * RAW_UNITS_PER_RECORD_MAX)) return leave_cache(lane);
        unsigned taken = take_cached(lane, &first, count, places);
        if (taken == 0) return leave_cache(lane);
        announce_class(lane, size_class);
        units_cached(&lane->units, size_class, taken, places);
        count -= taken;
    }
}

void malloctape_uncached(const void *cache, unsigned size_class, unsigned count)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->units.cache || lane->units.cache != cache || count == 0) return;
    if (!slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) return leave_cache(lane);
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
    leave_cache(lane);
    if (!cache || recording_is_slow()) return;
    if (!slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX)) return;
    units_thread(&lane->units, RAW_CACHE_BEGIN, 0);
    lane->units.cache = cache;
    malloctape_front_end.announce_cache(cache);
    if (lane->units.cache) slot_enable_fast_path(lane);
}

void malloctape_thread_cache_changed(void)
{
    leave_cache(malloctape_lane);
}

void malloctape_unrecorded(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!malloctape_lane_has_slot(lane)) return;
    lane->slot.unrecorded = 1;
    leave_cache(lane);
}

void malloctape_thread_cache_deleted(void)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!malloctape_lane_has_slot(lane)) return;
    leave_cache(lane);
    lane->slot.unrecorded = 0; /* sequence numbers from now on are for this */
    if (slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX))
        units_thread(&lane->units, RAW_THREAD_CACHE_DELETED, 0);
}

/* --- objects and events --- */

void malloctape_allocated_unrecorded(const void *object)
{
    struct shadow_page *page = shadow_has_begun() ? open_page_of(object) : NULL;
    if (!page) return;
    if (malloctape_front_end.opaque)
        atomic_store_relaxed(shadow_owner(place_on(page, object)), 0);
    else
        shadow_take(page, place_on(page, object), 0);
}

/* The object at this address, as the lane of the calling thread names it. */
static struct units_object object_at(const struct malloctape_lane *lane, const void *address)
{
    const struct shadow_page *page = open_page_of(address);
    if (!page) return (struct units_object){.unknown = true};
    struct units_object object = {.place = place_on(page, address), .size_class = class_of(page)};
    uint32_t owner = atomic_load_relaxed(shadow_owner(object.place));
    if (malloctape_front_end.opaque) owner &= ~SHADOW_SURE;
    if (owner == 0) {
        object.unknown = true;
    } else if (owner != lane->units.owner) {
        object.lane = &lane_at(recording.registry, owner - 1)->units;
        object.bound = raw_allocations(owner - 1, units_allocations_so_far(object.lane));
    }
    return object;
}

/* The object's place is the lane's from now on, which has room. */
static struct units_allocation_of begin_object(struct malloctape_lane *lane, const void *address,
                                               bool taken)
{
    struct shadow_page *page = open_page_of(address);
    struct units_allocation_of allocation = {.address = address};
    if (recording_is_slow()) leave_cache(lane);
    allocation.taken = taken && lane->units.cache;
    if (!page) return allocation;
    allocation.object.place = place_on(page, address);
    allocation.object.size_class = class_of(page);
    shadow_take(page, allocation.object.place, lane->units.owner);
    if (!allocation.taken) announce_class(lane, class_of(page));
    return allocation;
}

/* There was no memory for a place, so the stream has no name for the object. Recording is about to
 * end. */
static bool has_no_name(const struct units_allocation_of *allocation)
{
    return !allocation->taken && allocation->object.place == RAW_PLACE_NONE;
}

static void lose_event(struct malloctape_lane *lane)
{
    /* A recording that is over opens no places any more. */
    if (!shadow_has_begun()) return malloctape_unrecorded();
    leave_cache(lane);
    atomic_store_relaxed(&lane->slot.lost_events_total, lane->slot.lost_events_total + 1);
    units_lost(&lane->units, 1, 0);
    malloctape_out_of_memory();
}

/* The lane may have left it for a pause. A front end that knows caches does this itself. */
static void return_to_fast_path(struct malloctape_lane *lane)
{
    if (malloctape_front_end.opaque && !atomic_load_operand(&lane->units.limit))
        slot_enable_fast_path(lane);
}

/* --- objects of an opaque allocator --- */

/* An object that begins, and the bounds that are recorded before it. */
struct beginning {
    struct range range;
    struct malloctape_lane *lane;
    bool is_realloc;
    uint64_t named[8]; /* the latest bounds, a ring */
    unsigned named_count;
};

/* The bound: the lane that had the granule last, and how far it had got; 0: that is the lane of the
 * range, or nobody. If that lane has announced a realloc of an object there, the realloc counts as
 * done where the object reaches into the range; where it does not, the owner before the realloc
 * counts. */
static uint64_t calls_of_owner(const struct range *range, uint32_t place, uintptr_t address)
{
    for (;;) {
        uint16_t owner = atomic_load_acquire(shadow_owner(place)) & (SHADOW_SURE - 1);
        if (owner == 0 || owner == range->owner) return 0;
        const struct units_lane *other = &lane_at(recording.registry, owner - 1u)->units;
        uint64_t calls;
        if (atomic_load_acquire(&other->ending_place) == place) {
            calls = atomic_load_acquire(&other->ending);
            bool has_ended = address >= range->address ||
                             range->address < atomic_load_relaxed(&other->ending_limit);
            uint16_t before = atomic_load_relaxed(&other->ending_owner);
            atomic_fence_acquire();
            /* It may have announced the same place again. */
            if (atomic_load_acquire(&other->ending_place) != place ||
                atomic_load_relaxed(&other->ending) != calls)
                continue;
            if (has_ended) return raw_allocations(owner - 1u, calls);
            if (before == 0 || before == range->owner) return 0;
            other = &lane_at(recording.registry, before - 1u)->units;
            return raw_allocations(before - 1u, units_allocations_so_far(other));
        }
        calls = units_allocations_so_far(other);
        if ((atomic_load_acquire(shadow_owner(place)) & (SHADOW_SURE - 1)) == owner)
            return raw_allocations(owner - 1u, calls);
    }
}

/* Records the bound of an object that begins, unless that follows from one recorded before. */
static void say_after(struct range *range, uint32_t place, uintptr_t address)
{
    struct beginning *beginning = (struct beginning *)range;
    const unsigned room = sizeof beginning->named / sizeof *beginning->named;
    uint64_t bound = calls_of_owner(range, place, address);
    if (bound == 0) return;
    for (unsigned i = 0; i < beginning->named_count && i < room; i++)
        if (raw_allocations_lane(beginning->named[i]) == raw_allocations_lane(bound) &&
            beginning->named[i] >= bound)
            return;
    beginning->named[beginning->named_count++ % room] = bound;
    if (slot_has_room(beginning->lane, RAW_UNITS_PER_RECORD_MAX))
        units_after(&beginning->lane->units, bound, beginning->is_realloc);
}

/* The lane has got an object, whose place is open. `stays`: it was there before, with another size.
 * False: its record cannot be written any more. */
static bool begin_somewhere(struct beginning *beginning, struct malloctape_lane *lane,
                            const void *object, uint64_t bytes, bool is_realloc, bool stays)
{
    struct range *range = &beginning->range;
    range->owner = lane->units.owner;
    range->address = (uintptr_t)object;
    range->bytes = bytes;
    range->found = say_after;
    beginning->lane = lane;
    beginning->is_realloc = is_realloc;
    beginning->named_count = 0;
    ranges_touch(range->owner, range->address, bytes);
    if (stays)
        ranges_find_inside(range);
    else
        ranges_find(range);
    return lane_with_room() == lane;
}

/* As the fast path does, records a small object on an open page if the lane surely had all of its
 * bytes last. False: that is not known, and nothing is recorded. */
static bool allocated_at_own_place(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                                   uint64_t alignment, const void *object)
{
    struct shadow_page *page = size < RANGES_SMALL ? open_page_of(object) : NULL;
    struct units_allocation_of allocation = {.address = object};
    if (!page) return false;
    allocation.object.place = place_on(page, object);
    if (!shadow_begin_small(page, shadow_owner(allocation.object.place), object, size,
                            lane->units.owner))
        return false;
    units_allocation(&lane->units, kind, size, alignment, &allocation);
    return true;
}

static void allocated_somewhere(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                                uint64_t alignment, const void *object)
{
    if (allocated_at_own_place(lane, kind, size, alignment, object)) return;
    struct shadow_page *page = page_for(lane, object);
    struct units_allocation_of allocation = {.address = object};
    struct beginning beginning;
    if (!page) return lose_event(lane);
    allocation.object.place = place_on(page, object);
    if (!begin_somewhere(&beginning, lane, object, size, false, false))
        return malloctape_allocated_unrecorded(object);
    units_allocation(&lane->units, kind, size, alignment, &allocation);
    ranges_begun(&beginning.range);
}

/* The lane is about to end the object, which may reach into other pages. */
static void touch_ending(const struct malloctape_lane *lane, const void *object,
                         const struct units_object *named, size_t *bytes)
{
    *bytes = named->unknown ? 0 : malloctape_front_end.usable_bytes(object);
    ranges_touch(lane->units.owner, (uintptr_t)object, *bytes);
}

static void freeing_somewhere(struct malloctape_lane *lane, unsigned kind, const void *address,
                              uint64_t size, uint64_t alignment)
{
    /* Most allocators look there for the size. Another processor's cache may have it. */
    __builtin_prefetch((const char *)address - 1, 1);
    struct units_object object = object_at(lane, address);
    size_t bytes;
    if (object.place && (object.unknown || object.bound)) {
        if (ranges_may_reach(lane->units.owner, (uintptr_t)address))
            touch_ending(lane, address, &object, &bytes);
        else
            ranges_touch(lane->units.owner, (uintptr_t)address, 0);
    }
    units_free(&lane->units, kind, &object, size, alignment);
    if (object.place) shadow_take_granule(object.place, lane->units.owner);
}

/* --- calls --- */

/* lane_with_room() for an allocation or a realloc, after its call stack, if it is to have one. */
static struct malloctape_lane *lane_for_object(uint64_t size, bool is_realloc)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane || !recording.stacks_every_bytes || !stack_sample_takes(lane, size, is_realloc))
        return lane;
    stacks_put(lane);
    return lane_with_room();
}

static struct malloctape_lane *lane_for_free(void)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane || !stack_sample_takes_free(lane)) return lane;
    stacks_put(lane);
    return lane_with_room();
}

/* With stacks of all, most allocations are off the fast path for theirs alone. Writes the stack of
 * one in a lane that could be on it, and still has room for the allocation then. False: nothing is
 * written; the general way is right. */
static inline bool put_stack_fast(struct malloctape_lane *lane)
{
    const uint32_t node = stacks_find(lane);
    if (!node || !malloctape_lane_is_fast(lane)) return false;
    units_fast_stack(&lane->units, node);
    return true;
}

bool malloctape_allocated_as_usual(unsigned kind, uint64_t size, const void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    struct shadow_page *page = size < RANGES_SMALL ? open_page_of(object) : NULL;
    struct units_allocation_of allocation = {.address = object};
    if (!page) return false;
    allocation.object.place = place_on(page, object);
    if (!shadow_begin_small(page, shadow_owner(allocation.object.place), object, size,
                            lane->units.owner) ||
        !put_stack_fast(lane))
        return false;
    if (!units_usual_allocation(&lane->units, kind, size, allocation.object.place, false))
        units_allocation(&lane->units, kind, size, 0, &allocation);
    return true;
}

void malloctape_allocated(unsigned kind, uint64_t size, uint64_t alignment, const void *object,
                          bool taken)
{
    struct malloctape_lane *lane = lane_for_object(size, false);
    if (!lane) {
        if (object) malloctape_allocated_unrecorded(object);
    } else if (!object) {
        units_failed(&lane->units, kind, size, alignment, NULL);
    } else if (malloctape_front_end.opaque) {
        allocated_somewhere(lane, kind, size, alignment, object);
    } else {
        struct units_allocation_of allocation = begin_object(lane, object, taken);
        if (has_no_name(&allocation)) return lose_event(lane);
        units_allocation(&lane->units, kind, size, alignment, &allocation);
    }
    if (lane) return_to_fast_path(lane);
}

/* The place's owner is right already: the lane has had it since the object came into the cache. */
void malloctape_allocated_in_cache(unsigned kind, uint64_t size, const void *object)
{
    const struct units_allocation_of allocation = {.address = object, .taken = true};
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane->units.all_have_stacks || !put_stack_fast(lane)) lane = lane_for_object(size, false);
    if (!lane)
        malloctape_allocated_unrecorded(object);
    else if (!units_usual_allocation(&lane->units, kind, size, 0, true))
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
    struct malloctape_lane *lane = lane_for_free();
    if (!lane) return;
    if (malloctape_front_end.opaque) {
        freeing_somewhere(lane, kind, address, size, alignment);
        return return_to_fast_path(lane);
    }
    struct units_object object = object_at(lane, address);
    take_over(lane, &object, address);
    units_free(&lane->units, kind, &object, size, alignment);
}

bool malloctape_remote_freeing(unsigned kind, const void *address, bool sized, uint64_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    /* The allocator is about to store there. Another processor's cache may have the object. */
    __builtin_prefetch(address, 1);
    if (!recording_has_room(lane)) return false;
    struct shadow_page *page = open_page_of(address);
    if (!page) return false;
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
    struct malloctape_lane *lane = lane_for_object(size, true);
    if (!lane) {
        if (object) malloctape_allocated_unrecorded(object);
        return;
    }
    struct units_object old = object_at(lane, old_address);
    if (!object) {
        announce_class_of(lane, &old);
        units_failed(&lane->units, kind, size, 0, &old);
        return;
    }
    struct units_allocation_of allocation = begin_object(lane, object, taken);
    take_over(lane, &old, old_address);
    if (has_no_name(&allocation)) return lose_event(lane);
    units_realloc(&lane->units, kind, &old, size, &allocation);
}

bool malloctape_reallocating(const void *old, struct malloctape_ending *ending)
{
    struct malloctape_lane *lane = lane_with_room();
    if (!lane) return false;
    page_for(lane, old);
    if (!lane_with_room()) return false;
    *ending = (struct malloctape_ending){
        .address = old, .object = object_at(lane, old), .recording = recording.number};
    uint32_t place = ending->object.place;
    size_t bytes;
    if (!place) return true;
    ending->owner = atomic_load_relaxed(shadow_owner(place));
    touch_ending(lane, old, &ending->object, &bytes);
    units_announce(&lane->units, place, (uintptr_t)old + bytes, ending->owner & (SHADOW_SURE - 1));
    shadow_take_granule(place, lane->units.owner);
    return true;
}

/* The object still exists: its place goes back to the owner before. */
static void put_failed_realloc(struct malloctape_lane *lane, const struct malloctape_ending *ending,
                               uint64_t size)
{
    uint32_t place = ending->object.place;
    if (place) atomic_store_release(shadow_owner(place), ending->owner);
    units_failed(&lane->units, CALL_REALLOC_MOVED, size, 0, &ending->object);
}

static void reallocated_somewhere(struct malloctape_lane *lane,
                                  const struct malloctape_ending *ending, uint64_t size,
                                  const void *object)
{
    bool stays = object == ending->address && ending->object.place;
    struct shadow_page *page = page_for(lane, object);
    struct units_allocation_of allocation = {.address = object};
    struct beginning beginning;
    if (!page) return lose_event(lane);
    allocation.object.place = place_on(page, object);
    if (!begin_somewhere(&beginning, lane, object, size, true, stays)) {
        malloctape_unrecorded();
        return malloctape_allocated_unrecorded(object);
    }
    units_realloc(&lane->units, stays ? CALL_REALLOC_IN_PLACE : CALL_REALLOC_MOVED, &ending->object,
                  size, &allocation);
    ranges_begun(&beginning.range);
}

void malloctape_reallocated_from(const struct malloctape_ending *ending, uint64_t size,
                                 const void *object)
{
    struct malloctape_lane *lane = object || size ? lane_for_object(size, true) : lane_for_free();
    if (!lane || ending->recording != recording.number) {
        malloctape_unrecorded();
        if (object) malloctape_allocated_unrecorded(object);
    } else if (!object && size == 0) {
        units_free(&lane->units, CALL_REALLOC_ZERO, &ending->object, 0, 0);
    } else if (!object) {
        put_failed_realloc(lane, ending, size);
    } else {
        reallocated_somewhere(lane, ending, size, object);
    }
    units_announce_end(&malloctape_lane->units);
}

void malloctape_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    struct malloctape_lane *lane = lane_with_room();
    if (lane) units_heap_call(&lane->units, kind, count, first, second);
}

void malloctape_sequence(unsigned structure)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!slot_has_room(lane, SEQUENCE_UNITS_MAX)) return;
    units_sequence(&lane->units, structure, ++recording.sequences[structure]);
}

void malloctape_inside(unsigned what, unsigned long amount)
{
    struct malloctape_lane *lane = malloctape_lane;
    /* The library's own threads have none. */
    if (lane && slot_has_room(lane, INSIDE_UNITS_MAX)) units_inside(&lane->units, what, amount);
}

void malloctape_waited(unsigned structure, unsigned long cycles)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (!lane || !slot_has_room(lane, INSIDE_UNITS_MAX)) return;
    /* May take a system call, so not if nothing is recorded. */
    const uint64_t waited_ns = writer_cycles_ns(&recording.writer, cycles);
    units_inside(&lane->units, structure, waited_ns);
    watch_wait(&recording.writer.watch, waited_ns);
}
