#include "pack.h"

#include "../common/bytes.h"
#include "../common/call_kind.h"
#include "atomic.h"
#include "os.h"
#include "raw_units.h"
#include "shadow.h"

#include <string.h>

#define NO_CODE        255
/* Of pages without units of one byte: in the table, the last. */
#define NO_ROW         (PACK_ROWS - 1)
/* Units of the longest record that has a form. */
#define FORM_UNITS_MAX 3
#define ARENA_BYTES    ((size_t)1 << 20)

/* --- units as bytes --- */

/* Units of one byte: `count` of them from `first` on in steps of `step`, with codes from `code`. */
static const struct {
    uint16_t first;
    uint8_t code, count, step;
} short_units[] = {
    {RAW_UNIT_DEATH_1_AGED + 1, RAW_PACKED_DEATH_1, RAW_PACKED_BIRTH_1 - RAW_PACKED_DEATH_1, 1},
    {RAW_UNIT_BIRTH_1, RAW_PACKED_BIRTH_1, RAW_PACKED_DEATH_2 - RAW_PACKED_BIRTH_1, 8},
    {RAW_UNIT_DEATH_2_AGED + 1, RAW_PACKED_DEATH_2, RAW_PACKED_BIRTH_2 - RAW_PACKED_DEATH_2, 1},
    {RAW_UNIT_BIRTH_2, RAW_PACKED_BIRTH_2, RAW_PACKED_PAGE - RAW_PACKED_BIRTH_2, 8},
};

static const struct {
    uint8_t first, last;
} pages[] = {
#define PAGE_ENTRY(first, last) {first, last},
    RAW_PACKED_PAGE_LIST(PAGE_ENTRY)
#undef PAGE_ENTRY
};

static void make_tables(struct packer *packer)
{
    unsigned code = RAW_PACKED_PAGE, row = 0;
    memset(packer->one, NO_CODE, sizeof packer->one);
    for (unsigned page = 0; page < 256; page++)
        packer->pages[page] = (struct pack_page){NO_ROW * 256, RAW_PACKED_UNIT, 2};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (unsigned page = pages[i].first; page <= pages[i].last; page++)
            packer->pages[page] = (struct pack_page){NO_ROW * 256, (uint8_t)code++, 1};
    /* A table of these units lies within a page, or goes on in the next one: birth 1. */
    for (size_t i = 0; i < sizeof short_units / sizeof *short_units; i++) {
        for (unsigned n = 0; n < short_units[i].count; n++) {
            unsigned unit = short_units[i].first + n * short_units[i].step;
            struct pack_page *page = &packer->pages[unit >> 8];
            if (page->row == NO_ROW * 256) page->row = (uint16_t)(row++ * 256);
            packer->one[page->row + (unit & 255)] = (uint8_t)(short_units[i].code + n);
        }
    }
}

/* May store up to three bytes behind the code. Without the branch it takes longer: programs repeat themselves, and
 * processors notice. */
static inline uint8_t *put_unit(const struct packer *packer, uint8_t *at, uint32_t unit)
{
    const struct pack_page *page = &packer->pages[unit >> 8];
    uint32_t one = packer->one[page->row + (unit & 255)];
    if (one != NO_CODE) {
        *at = (uint8_t)one;
        return at + 1;
    }
    bytes_put32(at, unit << 8 | page->code);
    return at + 1 + page->more;
}

static uint8_t *put_units(const struct packer *packer, uint8_t *at, const uint16_t *units,
                          const uint16_t *end)
{
    for (; units < end; units++)
        at = put_unit(packer, at, *units);
    return at;
}

/* --- memory --- */

/* What follows is cut into arrays. */
struct pack_arena {
    struct pack_arena *next;
    uint64_t unused[7];
};

void packer_init(struct packer *packer, uint32_t (*class_of_size)(uint64_t size))
{
    memset(packer, 0, sizeof *packer);
    packer->class_of_size = class_of_size;
    make_tables(packer);
}

void packer_release(struct packer *packer)
{
    while (packer->arenas) {
        struct pack_arena *arena = packer->arenas;
        packer->arenas = arena->next;
        os_memory_release(arena, ARENA_BYTES);
    }
    packer->left = 0;
    packer->unused = NULL;
    memset(packer->free, 0, sizeof packer->free);
}

static void *cut(struct packer *packer, size_t bytes)
{
    if (packer->left < bytes) {
        struct pack_arena *arena = os_memory_reserve(ARENA_BYTES);
        if (!arena) return NULL;
        arena->next = packer->arenas;
        packer->arenas = arena;
        packer->next = (uint8_t *)(arena + 1);
        packer->left = ARENA_BYTES - sizeof *arena;
    }
    void *at = packer->next;
    packer->next += bytes;
    packer->left -= bytes;
    return at;
}

static uint32_t *take_array(struct packer *packer, unsigned bits)
{
    void *array = packer->free[bits];
    if (!array) return cut(packer, sizeof(uint32_t) << bits);
    memcpy(&packer->free[bits], array, sizeof array);
    return array;
}

static void give_array(struct packer *packer, uint32_t *array, unsigned bits)
{
    if (!array) return;
    memcpy(array, &packer->free[bits], sizeof packer->free[bits]);
    packer->free[bits] = array;
}

/* --- caches --- */

/* A ring of places; the first is at top - 1. */
struct list {
    uint32_t *places;
    uint32_t top, bottom;
    uint32_t capacity; /* a power of two; 0: there are no places yet */
};

struct pack_lane {
    struct pack_lane *next_unused;
    uint64_t births; /* so many so far */
    bool whole;      /* the lists hold all that the cache does */
    struct list lists[RAW_SIZE_CLASSES_MAX];
};

static inline uint32_t *entry(const struct list *list, uint32_t index)
{
    return &list->places[index & (list->capacity - 1)];
}

static bool grow(struct packer *packer, struct list *list)
{
    uint32_t count = list->top - list->bottom, capacity = list->capacity;
    unsigned bits = capacity ? (unsigned)__builtin_ctz(capacity) + 1 : PACK_LIST_BITS_MIN;
    uint32_t *grown = bits > PACK_LIST_BITS_MAX ? NULL : take_array(packer, bits);
    if (!grown) return false;
    for (uint32_t i = 0; i < count; i++)
        grown[i] = *entry(list, list->bottom + i);
    if (capacity) give_array(packer, list->places, bits - 1);
    *list = (struct list){grown, count, 0, 1u << bits};
    return true;
}

/* Room for one more. False: no memory, or it holds enough. */
static inline bool make_room(struct packer *packer, struct list *list)
{
    return list->top - list->bottom < list->capacity || grow(packer, list);
}

/* The first place of a class leaves the cache. 0: it is not known. */
static inline uint32_t take_first(struct list *list)
{
    if (list->top == list->bottom) return RAW_PLACE_NONE;
    return *entry(list, --list->top);
}

static inline void put_first(struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    uint32_t size_class = shadow_class_of(place);
    struct list *list = &lane->lists[size_class];
    if (size_class == 0) return;
    if (make_room(packer, list)) {
        *entry(list, list->top++) = place;
    } else {
        list->bottom = list->top;
        lane->whole = false;
    }
}

/* Behind places that are not known, those that follow are not either. */
static void put_last(struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    struct list *list = &lane->lists[shadow_class_of(place)];
    lane->whole = lane->whole && make_room(packer, list);
    if (lane->whole) *entry(list, --list->bottom) = place;
}

/* The cache is empty, or not known. */
static void forget_cache(struct pack_lane *lane, bool is_empty)
{
    lane->whole = is_empty;
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++)
        lane->lists[i].bottom = lane->lists[i].top;
}

static inline uint32_t class_of_size(const struct packer *packer, uint64_t size)
{
    return size < RAW_BIRTH_1_LIMIT ? packer->classes[(size + 7) / 8] : packer->class_of_size(size);
}

/* False: the allocator does not know its classes yet. It makes that of the largest size last. */
static bool know_classes(struct packer *packer)
{
    const unsigned last = PACK_SIZES - 1;
    if (packer->classes[last]) return true;
    if (!packer->class_of_size || !packer->class_of_size(last * UINT64_C(8))) return false;
    atomic_fence_acquire();
    for (unsigned i = 0; i <= last; i++)
        packer->classes[i] = (uint8_t)packer->class_of_size(i * UINT64_C(8));
    return true;
}

struct pack_lane *pack_lane_begin(struct packer *packer, uint64_t births)
{
    struct pack_lane *lane = packer->unused;
    if (!know_classes(packer)) return NULL;
    if (lane)
        packer->unused = lane->next_unused;
    else
        lane = cut(packer, sizeof *lane);
    if (!lane) return NULL;
    memset(lane, 0, sizeof *lane);
    lane->births = births;
    packer->recent_lane = NULL;
    return lane;
}

void pack_lane_end(struct packer *packer, struct pack_lane *lane)
{
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++) {
        struct list *list = &lane->lists[i];
        if (list->capacity)
            give_array(packer, list->places, (unsigned)__builtin_ctz(list->capacity));
    }
    lane->next_unused = packer->unused;
    packer->unused = lane;
}

/* --- ages --- */

/* Before a run of the lane: the births are its own, and far fewer than the numbers that they have room for. */
static void begin_ages(struct packer *packer, const struct pack_lane *lane)
{
    if (packer->recent_lane == lane && lane->births - packer->recent_since < UINT32_MAX / 2) return;
    memset(packer->recent, 0, sizeof packer->recent);
    packer->recent_lane = lane;
    packer->recent_since = lane->births;
}

static inline struct pack_recent *recent_of(struct packer *packer, uint32_t place)
{
    return &packer->recent[place * UINT32_C(0x9e3779b1) >> (32 - PACK_RECENT_BITS)];
}

static const struct {
    uint16_t unit, ages;
} aged_units[RAW_RANGES] = {[RAW_DEATH_1] = {RAW_UNIT_DEATH_1_AGED, RAW_DEATH_1_AGES},
                            [RAW_DEATH_2] = {RAW_UNIT_DEATH_2_AGED, RAW_DEATH_2_AGES},
                            [RAW_DEATH_3] = {RAW_UNIT_DEATH_3_AGED, RAW_DEATH_3_AGES},
                            [RAW_REALLOC] = {RAW_UNIT_REALLOC_AGED, RAW_REALLOC_AGES}};

/* Of the object at a place, if that is the one that is remembered: how many births ago it began, from 1. Otherwise large. */
static inline uint32_t age_of(const struct pack_recent *recent, uint32_t place, uint32_t births)
{
    return recent->place == place ? births + 1 - recent->birth : UINT32_MAX;
}

/* The unit that names an object by its age; 0 if it has none. */
static inline uint32_t aged_unit(struct packer *packer, const struct pack_lane *lane,
                                 unsigned range, uint32_t place)
{
    uint32_t age = age_of(recent_of(packer, place), place, (uint32_t)lane->births);
    return age < aged_units[range].ages ? aged_units[range].unit + age : 0;
}

static inline void note_birth(struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    lane->births++;
    if (place) *recent_of(packer, place) = (struct pack_recent){place, (uint32_t)lane->births};
}

/* --- records --- */

/* An object is born, at a place that is said, or at the first one of its class. */
static inline void birth(struct packer *packer, struct pack_lane *lane, uint64_t size,
                         uint32_t place)
{
    if (place == RAW_PLACE_NONE) {
        place = take_first(&lane->lists[class_of_size(packer, size)]);
    } else {
        struct list *list = &lane->lists[shadow_class_of(place)];
        if (list->top != list->bottom && *entry(list, list->top - 1) == place) list->top--;
    }
    note_birth(packer, lane, place);
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
        if (said->number == RAW_LOST) lane->births += said->operand;
        return;
    case RAW_CACHED:
        for (unsigned i = 0; i < said->count; i++)
            put_last(packer, lane, said->cached[i]);
        return;
    case RAW_UNCACHED:
        for (uint64_t i = 0; i < said->operand && take_first(&lane->lists[said->structure]); i++) {}
        return;
    case RAW_FAILED: return;
    default: break;
    }
    if (said->number == CALL_REALLOC_IN_PLACE) {
        note_birth(packer, lane, said->ends);
        return;
    }
    if (said->begins) birth(packer, lane, said->size, said->place);
    if (said->ends) put_first(packer, lane, said->ends);
}

static uint8_t *pack_record(struct packer *packer, struct pack_lane *lane,
                            const struct raw_said *said, const uint16_t *units, const uint16_t *end,
                            uint8_t *at)
{
    bool is_own = said->naming == RAW_NAMES_OWN && said->range < RAW_RANGES;
    uint32_t aged = is_own ? aged_unit(packer, lane, said->range, said->ends) : 0;
    if (aged) {
        at = put_unit(packer, at, aged);
        units += said->object_units;
    }
    at = put_units(packer, at, units, end);
    follow(packer, lane, said);
    return at;
}

/* The same for the records that have a form, which are nearly all. Stops before one that has none, and
 * before the last units. */
static __attribute__((noinline)) const uint16_t *pack_shorts(struct packer *packer,
                                                             struct pack_lane *lane,
                                                             const struct raw_form forms[RAW_FORMS],
                                                             const uint16_t *at,
                                                             const uint16_t *end, uint8_t **to)
{
    const uint16_t *last = end - FORM_UNITS_MAX;
    uint32_t births = (uint32_t)lane->births, births_before = births;
    uint8_t *out = *to;
    while (at < last) {
        uint32_t unit = *at;
        const struct raw_form *form = &forms[unit >> RAW_FORM_SHIFT];
        uint32_t operand = unit - form->base;
        if (form->form == RAW_FORM_BIRTH) {
            uint32_t place = take_first(&lane->lists[packer->classes[(operand + 7) / 8]]);
            births++;
            if (place) *recent_of(packer, place) = (struct pack_recent){place, births};
            out = put_unit(packer, out, unit);
            at++;
        } else if (form->form == RAW_FORM_OTHER) {
            break;
        } else {
            bool is_far = form->form == RAW_FORM_FAR;
            if (form->is_sized && at[1 + is_far] >= RAW_NUMBER_MORE) break;
            if (is_far) operand = operand << 16 | at[1];
            uint32_t age = age_of(recent_of(packer, operand), operand, births);
            put_first(packer, lane, operand);
            at += is_far;
            if (age < aged_units[form->range].ages) {
                unit = aged_units[form->range].unit + age;
            } else if (is_far) {
                out = put_unit(packer, out, unit);
                unit = *at;
            }
            out = put_unit(packer, out, unit);
            at++;
            if (form->is_sized) out = put_unit(packer, out, *at++);
        }
    }
    lane->births += births - births_before;
    *to = out;
    return at;
}

uint8_t *pack_units(struct packer *packer, struct pack_lane *lane, const struct pack_run *run,
                    uint8_t *out)
{
    const uint16_t *at = run->units, *end = at + run->count;
    struct raw_form forms[RAW_FORMS];
    struct raw_said said;
    if (!lane) return put_units(packer, out, at, end);
    begin_ages(packer, lane);
    raw_forms_fill(forms, run->profile, run->addresses, false);
    while (at < end) {
        if (end - at > FORM_UNITS_MAX) at = pack_shorts(packer, lane, forms, at, end, &out);
        struct raw_units units = {.at = (const uint8_t *)at,
                                  .end = (const uint8_t *)end,
                                  .profile = run->profile,
                                  .addresses = run->addresses};
        if (!raw_units_take(&units, &said)) return put_units(packer, out, at, end);
        const uint16_t *next = at + (units.at - (const uint8_t *)at) / 2;
        out = pack_record(packer, lane, &said, at, next, out);
        at = next;
    }
    return out;
}
