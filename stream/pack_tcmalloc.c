/* pack_tcmalloc - packed units of a stream whose readers follow the caches of threads (FORMAT.md
 * 5.5): frees name their objects by age. */
#include "stream/pack_own.h"
#include "stream/units_read.h"

#include "common/atomic.h"
#include "common/call_kind.h"

#include <string.h>

/* ---- caches ---- */

/* The first places of a class in the cache: a ring, the first at top - 1. */
struct list {
    uint32_t top, bottom;
    uint32_t below; /* how many more follow them, or BELOW_UNKNOWN */
};
#define BELOW_UNKNOWN UINT32_MAX

struct tcmalloc_lane {
    struct pack_lane lane;
    struct list lists[RAW_SIZE_CLASSES_MAX];
    /* The ring of each list. Apart from the lists, so that only those in use are touched. */
    uint32_t cached[RAW_SIZE_CLASSES_MAX][PACK_LIST];
};

static inline uint32_t *entry(struct tcmalloc_lane *lane, uint32_t size_class, uint32_t index)
{
    return &lane->cached[size_class][index % PACK_LIST];
}

static void leave_below(struct list *list, uint32_t below)
{
    if (list->below != BELOW_UNKNOWN) list->below = below;
}

/* The first place of a class leaves the cache. 0: it is not known. */
static inline uint32_t take_first(struct tcmalloc_lane *lane, uint32_t size_class)
{
    struct list *list = &lane->lists[size_class];
    if (list->top != list->bottom) return *entry(lane, size_class, --list->top);
    if (list->below > 0) leave_below(list, list->below - 1);
    return RAW_PLACE_NONE;
}

static inline uint32_t class_of_place(const struct packer *packer, uint32_t place)
{
    return packer->source.classes[place / RAW_PLACE_BLOCK];
}

static inline void pack_tcmalloc_put_first(const struct packer *packer, struct tcmalloc_lane *lane,
                                           uint32_t place)
{
    uint32_t size_class = class_of_place(packer, place);
    struct list *list = &lane->lists[size_class];
    if (size_class == 0) return;
    *entry(lane, size_class, list->top++) = place;
    if (list->top - list->bottom <= PACK_LIST) return;
    list->bottom++;
    leave_below(list, list->below + 1);
}

/* If places before it are not known, this one is not, either. */
static void put_last(const struct packer *packer, struct tcmalloc_lane *lane, uint32_t place)
{
    uint32_t size_class = class_of_place(packer, place);
    struct list *list = &lane->lists[size_class];
    if (list->below == 0 && list->top - list->bottom < PACK_LIST)
        *entry(lane, size_class, --list->bottom) = place;
    else
        leave_below(list, list->below + 1);
}

/* The cache is empty, or not known. */
static void forget_cache(struct tcmalloc_lane *lane, bool is_empty)
{
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        struct list *list = &lane->lists[i];
        if (list->top == list->bottom && list->below == (is_empty ? 0 : BELOW_UNKNOWN)) continue;
        list->bottom = list->top;
        list->below = is_empty ? 0 : BELOW_UNKNOWN;
    }
}

static inline uint32_t class_of_size(const struct packer *packer, uint64_t size)
{
    return size < RAW_ALLOCATION_1_SHORT_LIMIT ? packer->classes[(size + 7) / 8]
                                               : packer->source.class_of_size(size);
}

/* False: the allocator does not know its classes yet. It sets that of the largest size last. */
static bool know_classes(struct packer *packer)
{
    const unsigned last = PACK_SIZES - 1;
    if (packer->classes[last]) return true;
    if (packer->source.class_of_size == NULL || !packer->source.class_of_size(last * UINT64_C(8)))
        return false;
    atomic_fence_acquire();
    for (unsigned i = 0; i <= last; i++)
        packer->classes[i] = (uint8_t)packer->source.class_of_size(i * UINT64_C(8));
    return true;
}

static void begin_lane(struct packer *packer, struct pack_lane *of, bool is_new)
{
    (void)is_new;
    forget_cache((struct tcmalloc_lane *)of, false);
    packer->recent_lane = NULL;
}

/* ---- ages ---- */

/* Counts allocations whose places are not known. Forgets everything before the numbers, which are
 * modulo 2^32, repeat. */
static void skip_allocations(struct packer *packer, uint64_t count)
{
    packer->allocations += count;
    if (count < UINT32_MAX / 4 && packer->allocations - packer->recent_since < UINT32_MAX / 2)
        return;
    memset(packer->recent, 0, sizeof packer->recent);
    packer->recent_since = packer->allocations;
}

/* To be called before records of the lane. Makes allocations of other lanes too old for a unit. */
static void begin_ages(struct packer *packer, const struct pack_lane *lane)
{
    skip_allocations(packer, packer->recent_lane == lane ? 0 : RAW_AGES);
    packer->recent_lane = lane;
}

static inline struct pack_recent *recent_of(struct packer *packer, uint32_t place)
{
    return &packer->recent[place * UINT32_C(0x9e3779b1) >> (32 - PACK_RECENT_BITS)];
}

/* How many allocations ago the object at a place began, from 1, if it is the one that is
 * remembered. Otherwise large. */
static inline uint32_t age_of(const struct pack_recent *recent, uint32_t place,
                              uint32_t allocations)
{
    return recent->place == place ? allocations + 1 - recent->allocation : UINT32_MAX;
}

/* The unit that names an object by its age; 0 if it has none. */
static inline uint32_t pack_tcmalloc_unit_by_age(struct packer *packer, unsigned range,
                                                 uint32_t place)
{
    const struct units_range_code *code = &units_range_codes[range][RAW_BY_AGE];
    uint32_t age = age_of(recent_of(packer, place), place, (uint32_t)packer->allocations);
    return age < code->limit ? code->first + age : 0;
}

static inline void note_allocation(struct packer *packer, uint32_t place)
{
    packer->allocations++;
    if (place)
        *recent_of(packer, place) = (struct pack_recent){place, (uint32_t)packer->allocations};
}

/* ---- records ---- */

/* An object is allocated, at the given place, or at RAW_PLACE_NONE: the first one of its class. */
static inline void allocation(struct packer *packer, struct tcmalloc_lane *lane, uint64_t size,
                              uint32_t place)
{
    if (place == RAW_PLACE_NONE) {
        place = take_first(lane, class_of_size(packer, size));
    } else {
        uint32_t size_class = class_of_place(packer, place);
        struct list *list = &lane->lists[size_class];
        if (list->top != list->bottom && *entry(lane, size_class, list->top - 1) == place)
            list->top--;
    }
    note_allocation(packer, place);
}

/* What a record does to the cache and to its objects. */
static void pack_tcmalloc_follow(struct packer *packer, struct tcmalloc_lane *lane,
                                 const struct units_record *coded)
{
    switch (coded->number) {
    case RAW_CACHE_BEGIN:
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_LOST:
        forget_cache(lane, coded->number == RAW_CACHE_BEGIN);
        if (coded->number == RAW_LOST) skip_allocations(packer, coded->operand);
        return;
    case RAW_CACHED:
        for (unsigned i = 0; i < coded->count; i++)
            put_last(packer, lane, coded->cached[i]);
        return;
    case RAW_UNCACHED:
        for (uint64_t i = 0; i < coded->operand && take_first(lane, coded->structure); i++) {}
        return;
    case RAW_FAILED: return;
    default: break;
    }
    if (coded->number == CALL_REALLOC_IN_PLACE) {
        note_allocation(packer, coded->ends);
        return;
    }
    if (coded->begins) allocation(packer, lane, coded->size, coded->place);
    if (coded->ends) pack_tcmalloc_put_first(packer, lane, coded->ends);
}

static uint8_t *pack_record(struct packer *packer, struct tcmalloc_lane *lane,
                            const struct units_record *coded, const uint16_t *units,
                            const uint16_t *end, uint8_t *at)
{
    bool is_own = coded->object_form == UNITS_OBJECT_OWN && coded->range < RAW_RANGES;
    uint32_t by_age = is_own ? pack_tcmalloc_unit_by_age(packer, coded->range, coded->ends) : 0;
    if (by_age) {
        at = pack_put_unit(packer, at, by_age);
        units += coded->object_units;
    }
    at = pack_put_units(packer, at, units, end);
    pack_tcmalloc_follow(packer, lane, coded);
    return at;
}

/* The same for calls that their first unit identifies (units.h), which are nearly all, and for
 * their stacks. Stops before any other record, and before the last units. */
static __attribute__((noinline)) const uint16_t *pack_calls(struct packer *packer,
                                                            struct tcmalloc_lane *lane,
                                                            const struct units_call *calls,
                                                            const uint16_t *at, const uint16_t *end,
                                                            uint8_t **to)
{
    if (end - at <= UNITS_CALL_UNITS_MAX) return at;
    const uint16_t *last = end - UNITS_CALL_UNITS_MAX;
    uint32_t allocations = (uint32_t)packer->allocations, allocations_before = allocations;
    uint8_t *out = *to;
    while (at < last) {
        uint32_t unit = *at;
        const struct units_call *call = &calls[unit >> UNITS_CALL_SHIFT];
        uint32_t operand = unit - call->base;
        if (call->form == UNITS_CALL_ALLOCATION) {
            uint32_t place = take_first(lane, packer->classes[(operand + 7) / 8]);
            allocations++;
            if (place) *recent_of(packer, place) = (struct pack_recent){place, allocations};
            out = pack_put_unit(packer, out, unit);
            at++;
        } else if (call->form == UNITS_CALL_OTHER) {
            if (!units_begins_stack(unit)) break;
            out = pack_put_unit(packer, pack_put_unit(packer, out, unit), at[1]);
            at += 2;
        } else {
            const struct units_range_code *code = &units_range_codes[call->range][RAW_BY_AGE];
            bool is_long = call->form == UNITS_CALL_LONG;
            if (call->is_sized && at[1 + is_long] >= RAW_NUMBER_MORE) break;
            if (is_long) operand = operand << 16 | at[1];
            uint32_t age = age_of(recent_of(packer, operand), operand, allocations);
            pack_tcmalloc_put_first(packer, lane, operand);
            at += is_long;
            if (age < code->limit) {
                unit = code->first + age;
            } else if (is_long) {
                out = pack_put_unit(packer, out, unit);
                unit = *at;
            }
            out = pack_put_unit(packer, out, unit);
            at++;
            if (call->is_sized) out = pack_put_unit(packer, out, *at++);
        }
    }
    packer->allocations += allocations - allocations_before;
    *to = out;
    return at;
}

static uint8_t *pack(struct packer *packer, struct pack_lane *of, const struct units_call *calls,
                     const struct pack_records *records, uint8_t *out)
{
    struct tcmalloc_lane *lane = (struct tcmalloc_lane *)of;
    const uint16_t *at = records->units, *end = at + records->count;
    struct units_record coded;
    begin_ages(packer, of);
    for (;;) {
        at = pack_calls(packer, lane, calls, at, end, &out);
        if (at == end) return out;
        const uint16_t *next = units_next(records->profile, records->features, at, end, &coded);
        if (next == NULL) return pack_put_units(packer, out, at, end);
        out = pack_record(packer, lane, &coded, at, next, out);
        at = next;
    }
}

const struct pack_dialect pack_tcmalloc = {.lane_bytes = sizeof(struct tcmalloc_lane),
                                           .is_ready = know_classes,
                                           .begin = begin_lane,
                                           .pack = pack,
                                           .units_to_follow = SIZE_MAX,
                                           .segments_to_follow = 1};
