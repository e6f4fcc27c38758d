#include "pack.h"

#include "../common/bytes.h"
#include "os.h"
#include "shadow.h"
#include "units.h"

#include <string.h>

#define NO_CODE     255
/* Row of pages without units of one byte. */
#define NO_ROW      5
#define ARENA_BYTES ((size_t)1 << 20)

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
    unsigned code = RAW_PACKED_PAGE;
    memset(packer->row, NO_ROW, sizeof packer->row);
    memset(packer->one, NO_CODE, sizeof packer->one);
    memset(packer->page, RAW_PACKED_UNIT, sizeof packer->page);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (unsigned page = pages[i].first; page <= pages[i].last; page++)
            packer->page[page] = (uint8_t)code++;
    /* A table of these units lies within a page, or goes on in the next one: birth 1. */
    unsigned row = 0;
    for (size_t i = 0; i < sizeof short_units / sizeof *short_units; i++) {
        for (unsigned n = 0; n < short_units[i].count; n++) {
            unsigned unit = short_units[i].first + n * short_units[i].step;
            if (packer->row[unit >> 8] == NO_ROW) packer->row[unit >> 8] = (uint8_t)row++;
            packer->one[packer->row[unit >> 8]][unit & 255] = (uint8_t)(short_units[i].code + n);
        }
    }
}

/* The whole code is stored at once: the lengths of codes follow no pattern that a processor could
 * predict. */
static inline uint8_t *put_unit(const struct packer *packer, uint8_t *at, uint32_t unit)
{
    uint32_t one = packer->one[packer->row[unit >> 8]][unit & 255];
    uint32_t page = packer->page[unit >> 8];
    bool is_one = one != NO_CODE;
    bool is_three = page == RAW_PACKED_UNIT;
    uint32_t word = is_three ? RAW_PACKED_UNIT | unit << 8 : page | (unit & 255) << 8;
    bytes_put32(at, is_one ? one : word);
    return at + 2 - is_one + is_three;
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

/* A ring of 2^bits places; the first is at top - 1. */
struct list {
    uint32_t *places; /* NULL: none yet */
    uint32_t top, bottom;
    uint32_t bits;
};

struct pack_lane {
    struct pack_lane *next_unused;
    uint32_t number;
    uint64_t births, since; /* so many so far, and when it began to be followed */
    bool whole;             /* the lists hold all that the cache does */
    struct list lists[RAW_SIZE_CLASSES_MAX];
};

static inline uint32_t mask(const struct list *list)
{
    return (1u << list->bits) - 1;
}

static bool grow(struct packer *packer, struct list *list)
{
    uint32_t count = list->top - list->bottom;
    unsigned bits = list->places ? list->bits + 1 : PACK_LIST_BITS_MIN;
    uint32_t *grown = bits > PACK_LIST_BITS_MAX ? NULL : take_array(packer, bits);
    if (!grown) return false;
    for (uint32_t i = 0; i < count; i++)
        grown[i] = list->places[(list->bottom + i) & mask(list)];
    give_array(packer, list->places, list->bits);
    *list = (struct list){grown, count, 0, bits};
    return true;
}

/* Room for one more. False: no memory, or it holds enough. */
static inline bool make_room(struct packer *packer, struct list *list)
{
    return (list->places && list->top - list->bottom <= mask(list)) || grow(packer, list);
}

/* The first place of a class leaves the cache. 0: it is not known. */
static inline uint32_t take_first(struct list *list)
{
    if (list->top == list->bottom) return RAW_PLACE_NONE;
    return list->places[--list->top & mask(list)];
}

static inline void put_first(struct packer *packer, struct pack_lane *lane, uint32_t place)
{
    uint32_t size_class = shadow_class_of(place);
    struct list *list = &lane->lists[size_class];
    if (size_class == 0) return;
    if (make_room(packer, list)) {
        list->places[list->top++ & mask(list)] = place;
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
    if (lane->whole) list->places[--list->bottom & mask(list)] = place;
}

/* The cache is empty, or not known. */
static void forget_cache(struct pack_lane *lane, bool is_empty)
{
    lane->whole = is_empty;
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++)
        lane->lists[i].bottom = lane->lists[i].top;
}

struct pack_lane *pack_lane_begin(struct packer *packer, uint32_t number, uint64_t births)
{
    struct pack_lane *lane = packer->unused;
    if (lane)
        packer->unused = lane->next_unused;
    else
        lane = cut(packer, sizeof *lane);
    if (!lane) return NULL;
    memset(lane, 0, sizeof *lane);
    lane->number = number + 1; /* so that no note is 0 */
    lane->births = lane->since = births;
    return lane;
}

void pack_lane_end(struct packer *packer, struct pack_lane *lane)
{
    for (unsigned i = 0; i < RAW_SIZE_CLASSES_MAX; i++)
        give_array(packer, lane->lists[i].places, lane->lists[i].bits);
    lane->next_unused = packer->unused;
    packer->unused = lane;
}

static inline uint32_t class_of_size(struct packer *packer, uint64_t size)
{
    if (size >= PACK_SIZES) return packer->class_of_size(size);
    if (!packer->classes[size]) packer->classes[size] = (uint8_t)packer->class_of_size(size);
    return packer->classes[size];
}

/* --- records --- */

static inline void note_birth(struct pack_lane *lane, uint32_t place)
{
    lane->births++;
    if (place) *shadow_note(place) = raw_births(lane->number, lane->births);
}

/* An object is born, at a place that is said, or at the first one of its class. */
static inline void birth(struct packer *packer, struct pack_lane *lane, uint64_t size,
                         uint32_t place)
{
    if (place == RAW_PLACE_NONE) {
        place = take_first(&lane->lists[class_of_size(packer, size)]);
    } else {
        struct list *list = &lane->lists[shadow_class_of(place)];
        if (list->top != list->bottom && list->places[(list->top - 1) & mask(list)] == place)
            list->top--;
    }
    note_birth(lane, place);
}

/* The unit that names an object by its age; 0 if it has none. A note may be from a time before, when the lane was followed
 * already: there are chunks between that are not packed. */
static inline uint32_t aged_unit(const struct pack_lane *lane, unsigned range, uint32_t place)
{
    static const struct {
        uint16_t unit, ages;
    } aged[RAW_RANGES] = {[RAW_DEATH_1] = {RAW_UNIT_DEATH_1_AGED, RAW_DEATH_1_AGES},
                          [RAW_DEATH_2] = {RAW_UNIT_DEATH_2_AGED, RAW_DEATH_2_AGES},
                          [RAW_DEATH_3] = {RAW_UNIT_DEATH_3_AGED, RAW_DEATH_3_AGES},
                          [RAW_REALLOC] = {RAW_UNIT_REALLOC_AGED, RAW_REALLOC_AGES}};
    uint64_t age = raw_births(lane->number, lane->births) + 1 - *shadow_note(place);
    if (age >= aged[range].ages || age > lane->births - lane->since) return 0;
    return aged[range].unit + (uint32_t)age;
}

/* What a record does to the cache and to its objects. */
static void follow(struct packer *packer, struct pack_lane *lane, const struct units_seen *seen)
{
    switch (seen->number) {
    case RAW_CACHE_BEGIN:
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_LOST:
        forget_cache(lane, seen->number == RAW_CACHE_BEGIN);
        lane->births += seen->lost_births;
        return;
    case RAW_CACHED:
        for (unsigned i = 0; i < seen->count; i++)
            put_last(packer, lane, seen->cached[i]);
        return;
    case RAW_UNCACHED:
        for (unsigned i = 0; i < seen->count && take_first(&lane->lists[seen->size_class]); i++) {}
        return;
    default: break;
    }
    if (seen->number == CALL_REALLOC_IN_PLACE) {
        note_birth(lane, seen->ends);
        return;
    }
    if (seen->begins) birth(packer, lane, seen->size, seen->place);
    if (seen->ends) put_first(packer, lane, seen->ends);
}

static uint8_t *pack_record(struct packer *packer, struct pack_lane *lane,
                            const struct units_seen *seen, const uint16_t *units,
                            const uint16_t *end, uint8_t *at)
{
    uint32_t aged = seen->own ? aged_unit(lane, seen->range, seen->ends) : 0;
    if (aged) {
        at = put_unit(packer, at, aged);
        units += seen->far ? 2 : 1;
    }
    at = put_units(packer, at, units, end);
    follow(packer, lane, seen);
    return at;
}

/* The same for records of a short form, which are nearly all. Returns where the next one is. */
static inline const uint16_t *pack_short(struct packer *packer, struct pack_lane *lane,
                                         const struct units_form *form, const uint16_t *units,
                                         uint8_t **out)
{
    uint32_t operand = units[0] - (uint32_t)form->base, aged;
    const uint16_t *next = units + 1;
    if (form->form == UNITS_BIRTH) {
        birth(packer, lane, operand, RAW_PLACE_NONE);
        *out = put_unit(packer, *out, units[0]);
        return next;
    }
    if (form->form == UNITS_FAR) operand = operand << 16 | *next++;
    aged = aged_unit(lane, form->range, operand);
    *out = aged ? put_unit(packer, *out, aged) : put_units(packer, *out, units, next);
    put_first(packer, lane, operand);
    return next;
}

uint8_t *pack_units(struct packer *packer, struct pack_lane *lane, const struct pack_run *run,
                    uint8_t *out)
{
    const uint16_t *end = run->units + run->count;
    if (!lane) return put_units(packer, out, run->units, end);
    struct units_walk walk = {run->units, end, run->profile, run->addresses};
    struct units_form forms[UNITS_FORMS];
    units_forms(run->profile, run->addresses, forms);
    while (walk.at < end) {
        const uint16_t *units = walk.at;
        struct units_seen seen;
        const struct units_form *form = &forms[*units >> UNITS_FORM_SHIFT];
        if (form->form == UNITS_LONG || end - units < 2) {
            units_see(&walk, &seen);
            out = pack_record(packer, lane, &seen, units, walk.at, out);
        } else {
            walk.at = pack_short(packer, lane, form, units, &out);
        }
    }
    return out;
}
