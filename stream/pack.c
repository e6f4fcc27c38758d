#include "pack.h"

#include "../common/atomic.h"
#include "../common/bytes.h"
#include "../common/call_kind.h"
#include "pack_opaque.h"
#include "raw_units.h"

#include <string.h>

/* --- units as bytes --- */

static void make_codes(uint8_t *codes)
{
    uint32_t entries[RAW_PACKED_ENTRIES];
    raw_packed_entries(entries);
    memset(codes, PACK_NO_CODE, PACK_CODES);
    for (unsigned code = 0; code < RAW_PACKED_PAGE; code++)
        codes[entries[code] - PACK_CODES_FIRST] = (uint8_t)code;
}

static uint8_t *put_units(const struct packer *packer, uint8_t *at, const uint16_t *units,
                          const uint16_t *end)
{
    for (; units < end; units++)
        at = pack_put_unit(packer, at, *units);
    return at;
}

/* --- caches --- */

/* The first places of a class in the cache: a ring, the first at top - 1. */
struct list {
    uint32_t top, bottom;
    uint32_t below; /* so many more are behind them, or ... */
};
#define BELOW_UNKNOWN UINT32_MAX

struct pack_lane {
    struct pack_lane *next, *next_unused;
    union {
        struct {
            struct list lists[RAW_SIZE_CLASSES_MAX];
            /* Of each list. Apart from the lists, so that only those in use are touched. */
            uint32_t cached[RAW_SIZE_CLASSES_MAX][PACK_LIST];
        };
        struct raw_places places; /* of an opaque stream */
    };
};

static inline uint32_t *entry(struct pack_lane *lane, uint32_t size_class, uint32_t index)
{
    return &lane->cached[size_class][index % PACK_LIST];
}

static void leave_below(struct list *list, uint32_t below)
{
    if (list->below != BELOW_UNKNOWN) list->below = below;
}

/* The first place of a class leaves the cache. 0: it is not known. */
static inline uint32_t take_first(struct pack_lane *lane, uint32_t size_class)
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

static inline void put_first(const struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    uint32_t size_class = class_of_place(packer, place);
    struct list *list = &lane->lists[size_class];
    if (size_class == 0) return;
    *entry(lane, size_class, list->top++) = place;
    if (list->top - list->bottom <= PACK_LIST) return;
    list->bottom++;
    leave_below(list, list->below + 1);
}

/* Behind places that are not known, those that follow are not either. */
static void put_last(const struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    uint32_t size_class = class_of_place(packer, place);
    struct list *list = &lane->lists[size_class];
    if (list->below == 0 && list->top - list->bottom < PACK_LIST)
        *entry(lane, size_class, --list->bottom) = place;
    else
        leave_below(list, list->below + 1);
}

/* The cache is empty, or not known. */
static void forget_cache(struct pack_lane *lane, bool is_empty)
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
    return size < RAW_ALLOCATION_1_LIMIT ? packer->classes[(size + 7) / 8]
                                         : packer->source.class_of_size(size);
}

/* False: the allocator does not know its classes yet. It makes that of the largest size last. */
static bool know_classes(struct packer *packer)
{
    const unsigned last = PACK_SIZES - 1;
    if (packer->classes[last]) return true;
    if (!packer->source.class_of_size || !packer->source.class_of_size(last * UINT64_C(8)))
        return false;
    atomic_fence_acquire();
    for (unsigned i = 0; i <= last; i++)
        packer->classes[i] = (uint8_t)packer->source.class_of_size(i * UINT64_C(8));
    return true;
}

/* --- lanes --- */

void packer_init(struct packer *packer, const struct pack_source *source)
{
    memset(packer, 0, sizeof *packer);
    packer->source = *source;
    make_codes(packer->codes);
}

void packer_release(struct packer *packer)
{
    while (packer->lanes) {
        struct pack_lane *lane = packer->lanes;
        packer->lanes = lane->next;
        packer->source.release(lane, sizeof *lane);
    }
    packer->unused = NULL;
    packer->followed = 0;
}

struct pack_lane *pack_lane_begin(struct packer *packer)
{
    struct pack_lane *lane = packer->unused;
    if (packer->followed == PACK_LANES_MAX) return NULL;
    if (!packer->source.opaque && !know_classes(packer)) return NULL;
    if (lane) {
        packer->unused = lane->next_unused;
    } else {
        lane = packer->source.reserve(sizeof *lane);
        if (!lane) return NULL;
        lane->next = packer->lanes;
        packer->lanes = lane;
    }
    packer->followed++;
    if (packer->source.opaque) {
        memset(&lane->places, 0, sizeof lane->places);
        return lane;
    }
    forget_cache(lane, false);
    packer->recent_lane = NULL;
    return lane;
}

void pack_lane_end(struct packer *packer, struct pack_lane *lane)
{
    lane->next_unused = packer->unused;
    packer->unused = lane;
    packer->followed--;
}

/* --- ages --- */

/* So many allocations come that nobody knows. Everything is forgotten before their numbers, which
 * are modulo 2^32, repeat. */
static void skip_allocations(struct packer *packer, uint64_t count)
{
    packer->allocations += count;
    if (count < UINT32_MAX / 4 && packer->allocations - packer->recent_since < UINT32_MAX / 2)
        return;
    memset(packer->recent, 0, sizeof packer->recent);
    packer->recent_since = packer->allocations;
}

/* Before records of the lane. Allocations of other lanes have no age that has a unit. */
static void begin_ages(struct packer *packer, const struct pack_lane *lane)
{
    skip_allocations(packer, packer->recent_lane == lane ? 0 : RAW_AGES);
    packer->recent_lane = lane;
}

static inline struct pack_recent *recent_of(struct packer *packer, uint32_t place)
{
    return &packer->recent[place * UINT32_C(0x9e3779b1) >> (32 - PACK_RECENT_BITS)];
}

const struct pack_aged_unit pack_aged_units[RAW_RANGES] = {
    [RAW_FREE_1] = {RAW_UNIT_FREE_1_AGED, RAW_FREE_1_AGES},
    [RAW_FREE_2] = {RAW_UNIT_FREE_2_AGED, RAW_FREE_2_AGES},
    [RAW_FREE_3] = {RAW_UNIT_FREE_3_AGED, RAW_FREE_3_AGES},
    [RAW_REALLOC] = {RAW_UNIT_REALLOC_AGED, RAW_REALLOC_AGES}};

/* Of the object at a place, if that is the one that is remembered: how many allocations ago it
 * began, from 1. Otherwise large. */
static inline uint32_t age_of(const struct pack_recent *recent, uint32_t place,
                              uint32_t allocations)
{
    return recent->place == place ? allocations + 1 - recent->allocation : UINT32_MAX;
}

/* The unit that names an object by its age; 0 if it has none. */
static inline uint32_t aged_unit(struct packer *packer, unsigned range, uint32_t place)
{
    uint32_t age = age_of(recent_of(packer, place), place, (uint32_t)packer->allocations);
    return age < pack_aged_units[range].ages ? pack_aged_units[range].unit + age : 0;
}

static inline void note_allocation(struct packer *packer, uint32_t place)
{
    packer->allocations++;
    if (place)
        *recent_of(packer, place) = (struct pack_recent){place, (uint32_t)packer->allocations};
}

/* --- records --- */

/* An object is allocated, at a place that is said, or at the first one of its class. */
static inline void allocation(struct packer *packer, struct pack_lane *lane, uint64_t size,
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
static void follow(struct packer *packer, struct pack_lane *lane, const struct raw_said *said)
{
    switch (said->number) {
    case RAW_CACHE_BEGIN:
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_LOST:
        forget_cache(lane, said->number == RAW_CACHE_BEGIN);
        if (said->number == RAW_LOST) skip_allocations(packer, said->operand);
        return;
    case RAW_CACHED:
        for (unsigned i = 0; i < said->count; i++)
            put_last(packer, lane, said->cached[i]);
        return;
    case RAW_UNCACHED:
        for (uint64_t i = 0; i < said->operand && take_first(lane, said->structure); i++) {}
        return;
    case RAW_FAILED: return;
    default: break;
    }
    if (said->number == CALL_REALLOC_IN_PLACE) {
        note_allocation(packer, said->ends);
        return;
    }
    if (said->begins) allocation(packer, lane, said->size, said->place);
    if (said->ends) put_first(packer, lane, said->ends);
}

static uint8_t *pack_record(struct packer *packer, struct pack_lane *lane,
                            const struct raw_said *said, const uint16_t *units, const uint16_t *end,
                            uint8_t *at)
{
    bool is_own = said->naming == RAW_NAMES_OWN && said->range < RAW_RANGES;
    uint32_t aged = is_own ? aged_unit(packer, said->range, said->ends) : 0;
    if (aged) {
        at = pack_put_unit(packer, at, aged);
        units += said->object_units;
    }
    at = put_units(packer, at, units, end);
    follow(packer, lane, said);
    return at;
}

/* The same for the records that have a form, which are nearly all. Stops before one that has
 * none, and before the last units. */
static __attribute__((noinline)) const uint16_t *pack_shorts(struct packer *packer,
                                                             struct pack_lane *lane,
                                                             const struct raw_form forms[RAW_FORMS],
                                                             const uint16_t *at,
                                                             const uint16_t *end, uint8_t **to)
{
    const uint16_t *last = end - RAW_FORM_UNITS_MAX;
    uint32_t allocations = (uint32_t)packer->allocations, allocations_before = allocations;
    uint8_t *out = *to;
    while (at < last) {
        uint32_t unit = *at;
        const struct raw_form *form = &forms[unit >> RAW_FORM_SHIFT];
        uint32_t operand = unit - form->base;
        if (form->form == RAW_FORM_ALLOCATION) {
            uint32_t place = take_first(lane, packer->classes[(operand + 7) / 8]);
            allocations++;
            if (place) *recent_of(packer, place) = (struct pack_recent){place, allocations};
            out = pack_put_unit(packer, out, unit);
            at++;
        } else if (form->form == RAW_FORM_OTHER) {
            break;
        } else {
            bool is_far = form->form == RAW_FORM_FAR;
            if (form->is_sized && at[1 + is_far] >= RAW_NUMBER_MORE) break;
            if (is_far) operand = operand << 16 | at[1];
            uint32_t age = age_of(recent_of(packer, operand), operand, allocations);
            put_first(packer, lane, operand);
            at += is_far;
            if (age < pack_aged_units[form->range].ages) {
                unit = pack_aged_units[form->range].unit + age;
            } else if (is_far) {
                out = pack_put_unit(packer, out, unit);
                unit = *at;
            }
            out = pack_put_unit(packer, out, unit);
            at++;
            if (form->is_sized) out = pack_put_unit(packer, out, *at++);
        }
    }
    packer->allocations += allocations - allocations_before;
    *to = out;
    return at;
}

uint8_t *pack_units(struct packer *packer, struct pack_lane *lane,
                    const struct pack_records *records, uint8_t *out)
{
    const uint16_t *at = records->units, *end = at + records->count;
    struct raw_form forms[RAW_FORMS];
    struct raw_said said;
    if (packer->source.opaque)
        return lane ? pack_opaque_units(packer, &lane->places, records, out) : NULL;
    if (!lane) return put_units(packer, out, at, end);
    begin_ages(packer, lane);
    raw_forms_fill(forms, records->profile, records->features, false);
    while (at < end) {
        if (end - at > RAW_FORM_UNITS_MAX) at = pack_shorts(packer, lane, forms, at, end, &out);
        struct raw_units units = {.at = (const uint8_t *)at,
                                  .end = (const uint8_t *)end,
                                  .profile = records->profile,
                                  .features = records->features};
        if (!raw_units_take(&units, &said)) return put_units(packer, out, at, end);
        const uint16_t *next = at + (units.at - (const uint8_t *)at) / 2;
        out = pack_record(packer, lane, &said, at, next, out);
        at = next;
    }
    return out;
}
