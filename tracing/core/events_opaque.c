/* events_opaque - events off the fast path of an allocator of which only addresses are known. */
#include "tracing/core/events_own.h"
#include "tracing/data/front_end.h"
#include "tracing/data/ranges.h"

/* ---- places ---- */

/* NULL: the object has no place. */
static inline struct shadow_page *open_granule_of(const void *object)
{
    struct shadow_page *page = shadow_covers(object) ? shadow_page_of(object) : NULL;
    return page != NULL && shadow_is_open(page) && shadow_granule_place(page, object) ? page : NULL;
}

/* The same for an object that exists: opens its granule. */
static struct shadow_page *page_for(struct malloctape_lane *lane, const void *object)
{
    struct shadow_page *page = open_granule_of(object);
    uint32_t first;
    if (page != NULL || !shadow_open_granule(object, &first)) return page;
    const uintptr_t odd = (uintptr_t)object & (SHADOW_GRANULE_BYTES / 2);
    const uintptr_t start = (uintptr_t)object & ~(SHADOW_PAGE_BYTES - 1);
    if (first && slot_has_room(lane, RAW_UNITS_PER_RECORD_MAX))
        units_page(&lane->units, first, start + odd);
    return open_granule_of(object);
}

static inline uint16_t owner_at(uint32_t place)
{
    return atomic_load_relaxed(shadow_owner(place)) & (SHADOW_SURE - 1);
}

/* The same, while others may be changing it. */
static inline uint16_t owner_now(uint32_t place)
{
    return atomic_load_acquire(shadow_owner(place)) & (SHADOW_SURE - 1);
}

/* The object at this address, as the lane of the calling thread names it. */
static struct units_object opaque_object_at(const struct malloctape_lane *lane, const void *address)
{
    const struct shadow_page *page = open_granule_of(address);
    if (page == NULL) return (struct units_object){.unknown = true};
    const uint32_t place = shadow_granule_place(page, address);
    return events_object(lane, place, 0, owner_at(place));
}

/* Who made the watched object there, whose granule does not say it; 0: none is watched. */
static uint16_t watched_owner(uintptr_t address)
{
    const struct large_object object = large_at(address);
    return object.id != 0 ? (uint16_t)(raw_allocations_lane(object.id) + 1) : 0;
}

/* The same, which is about to end. If it is watched (large.h), its granule gets its owner back, and
 * then it is looked at: who finds none watched there finds that owner. */
static struct units_object ending_object(const struct malloctape_lane *lane, const void *address)
{
    const struct shadow_page *page = open_granule_of(address);
    const uint32_t place = page != NULL ? shadow_granule_place(page, address) : RAW_PLACE_NONE;
    if (place != RAW_PLACE_NONE && owner_at(place) == SHADOW_WATCHED) {
        shadow_take_granule(place, watched_owner((uintptr_t)address));
        events_end_watched(address);
    }
    return opaque_object_at(lane, address);
}

/* The lane has recorded an object. */
static void watch_granule(const struct malloctape_lane *lane, const void *object, uint64_t size,
                          uint32_t place)
{
    if (events_watch(lane, object, size)) shadow_take_granule(place, SHADOW_WATCHED);
}

void malloctape_opaque_allocated_unrecorded(const void *object)
{
    struct shadow_page *page = shadow_has_begun() ? open_granule_of(object) : NULL;
    if (page != NULL) atomic_store_relaxed(shadow_owner(shadow_granule_place(page, object)), 0);
}

/* The lane may have left it for a pause. */
static void return_to_fast_path(struct malloctape_lane *lane)
{
    if (!atomic_load_operand(&lane->units.limit)) slot_enable_fast_path(lane);
}

/* ---- objects ---- */

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
        const uint16_t granule = owner_now(place);
        const uint16_t owner = granule == SHADOW_WATCHED ? watched_owner(address) : granule;
        if (owner == 0 && owner_now(place) != granule) continue; /* it is not watched any more */
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
        if (owner_now(place) == granule && (granule == owner || watched_owner(address) == owner))
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
    return events_lane() == lane;
}

/* As the fast path does, records a small object on an open page if the lane surely had all of its
 * bytes last. False: that is not known, and nothing is recorded. */
static bool allocated_at_own_place(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                                   uint64_t alignment, const void *object)
{
    struct shadow_page *page = size < RANGES_SMALL ? open_granule_of(object) : NULL;
    struct units_allocation_of allocation = {.address = object};
    if (page == NULL) return false;
    allocation.object.place = shadow_granule_place(page, object);
    if (!shadow_begin_small(page, shadow_owner(allocation.object.place), object, size,
                            lane->units.owner))
        return false;
    units_opaque_allocation(&lane->units, kind, size, alignment, &allocation);
    return true;
}

static void allocated_somewhere(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                                uint64_t alignment, const void *object)
{
    if (allocated_at_own_place(lane, kind, size, alignment, object)) return;
    struct shadow_page *page = page_for(lane, object);
    struct units_allocation_of allocation = {.address = object};
    struct beginning beginning;
    if (page == NULL) return events_lose(lane);
    allocation.object.place = shadow_granule_place(page, object);
    if (!begin_somewhere(&beginning, lane, object, size, false, false))
        return malloctape_opaque_allocated_unrecorded(object);
    units_opaque_allocation(&lane->units, kind, size, alignment, &allocation);
    ranges_begun(&beginning.range);
    watch_granule(lane, object, size, allocation.object.place);
}

/* The lane is about to end the object, which may reach into other pages. */
static void touch_ending(const struct malloctape_lane *lane, const void *object,
                         const struct units_object *named, size_t *bytes)
{
    *bytes = named->unknown ? 0 : malloctape_front_end.usable_bytes(object);
    ranges_touch(lane->units.owner, (uintptr_t)object, *bytes);
}

/* ---- calls ---- */

void malloctape_opaque_allocated(unsigned kind, uint64_t size, uint64_t alignment,
                                 const void *object)
{
    struct malloctape_lane *lane = events_lane_for_object(size, false);
    if (lane == NULL) {
        if (object != NULL) malloctape_opaque_allocated_unrecorded(object);
        return;
    }
    if (object != NULL)
        allocated_somewhere(lane, kind, size, alignment, object);
    else
        units_failed(&lane->units, kind, size, alignment, NULL);
    return_to_fast_path(lane);
}

bool malloctape_allocated_as_usual(unsigned kind, uint64_t size, const void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    struct shadow_page *page = size < RANGES_SMALL ? open_granule_of(object) : NULL;
    struct units_allocation_of allocation = {.address = object};
    if (page == NULL) return false;
    allocation.object.place = shadow_granule_place(page, object);
    if (!shadow_begin_small(page, shadow_owner(allocation.object.place), object, size,
                            lane->units.owner) ||
        !events_put_stack(lane))
        return false;
    if (!units_opaque_usual_allocation(&lane->units, kind, size, allocation.object.place))
        units_opaque_allocation(&lane->units, kind, size, 0, &allocation);
    return true;
}

void malloctape_opaque_freeing(unsigned kind, const void *address, uint64_t size,
                               uint64_t alignment)
{
    struct malloctape_lane *lane = events_lane_for_free();
    if (lane == NULL) return;
    /* Most allocators look there for the size. Another processor's cache may have it. */
    __builtin_prefetch((const char *)address - 1, 1);
    struct units_object object = ending_object(lane, address);
    size_t bytes;
    if (object.place && (object.unknown || object.bound)) {
        if (ranges_may_reach(lane->units.owner, (uintptr_t)address))
            touch_ending(lane, address, &object, &bytes);
        else
            ranges_touch(lane->units.owner, (uintptr_t)address, 0);
    }
    units_free(&lane->units, kind, &object, size, alignment);
    if (object.place) shadow_take_granule(object.place, lane->units.owner);
    return_to_fast_path(lane);
}

bool malloctape_reallocating(const void *old, struct malloctape_ending *ending)
{
    struct malloctape_lane *lane = events_lane();
    if (lane == NULL) return false;
    page_for(lane, old);
    if (events_lane() == NULL) return false;
    *ending = (struct malloctape_ending){
        .address = old, .object = ending_object(lane, old), .recording = recording.number};
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
    if (page == NULL) return events_lose(lane);
    allocation.object.place = shadow_granule_place(page, object);
    if (!begin_somewhere(&beginning, lane, object, size, true, stays)) {
        malloctape_unrecorded();
        return malloctape_opaque_allocated_unrecorded(object);
    }
    units_realloc(&lane->units, stays ? CALL_REALLOC_IN_PLACE : CALL_REALLOC_MOVED, &ending->object,
                  size, &allocation);
    ranges_begun(&beginning.range);
    watch_granule(lane, object, size, allocation.object.place);
}

void malloctape_reallocated_from(const struct malloctape_ending *ending, uint64_t size,
                                 const void *object)
{
    struct malloctape_lane *lane =
        object != NULL || size ? events_lane_for_object(size, true) : events_lane_for_free();
    if (lane == NULL || ending->recording != recording.number) {
        malloctape_unrecorded();
        if (object != NULL) malloctape_opaque_allocated_unrecorded(object);
    } else if (object == NULL && size == 0) {
        units_free(&lane->units, CALL_REALLOC_ZERO, &ending->object, 0, 0);
    } else if (object == NULL) {
        put_failed_realloc(lane, ending, size);
    } else {
        reallocated_somewhere(lane, ending, size, object);
    }
    units_announce_end(&malloctape_lane->units);
}
