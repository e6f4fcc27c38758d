/* raw_places - the places of a lane of an opaque stream, as far as packed chunks leave them out
 * (FORMAT.md 5.6), for the writer and for readers.
 *
 *   latest    the places of the latest objects, so an age says a place
 *   sizes     the size of the latest object at a place, as far as it is remembered
 *   lists     for each step of sizes the places that were freed, the latest first
 *
 * The writer looks up how a place can be named; the reader, which place was named. Both then enter
 * what became of it, so both have the same state at every record.
 *
 * Empty is all zero. No memory, no system calls. */
#ifndef MALLOCTAPE_RAW_PLACES_H
#define MALLOCTAPE_RAW_PLACES_H

#include "stream/raw_format.h"

#include <stdint.h>
#include <string.h>

#define RAW_PLACES_SIZES_BITS 14
#define RAW_PLACES_STEPS      (RAW_ALLOCATION_1_SHORT_LIMIT / 16 + 1) /* a rounding is less than 16 */
#define RAW_PLACES_LIST       64u
/* Places of a list that can be named. */
#define RAW_PLACES_NAMED      (RAW_UNIT_LISTED_END - RAW_UNIT_LISTED)

/* The first place is the one below `top`, in a ring. */
struct raw_places_list {
    uint32_t top, count;
    uint32_t places[RAW_PLACES_LIST];
};

/* The latest object at a place. */
struct raw_places_size {
    uint32_t place;
    uint16_t step;
    uint16_t latest; /* where in `latest` its place was noted; | RAW_PLACES_ENDED: it has ended */
};
#define RAW_PLACES_ENDED 0x8000u

struct raw_places {
    uint32_t rounding; /* of sizes to steps: from the profile */
    uint32_t objects;  /* so far */
    uint32_t last;     /* place of the latest */
    uint32_t latest[RAW_AGES];
    struct raw_places_size sizes[1u << RAW_PLACES_SIZES_BITS];
    struct raw_places_list lists[RAW_PLACES_STEPS];
};

static inline struct raw_places_size *raw_places_size_of(struct raw_places *places, uint32_t place)
{
    return &places->sizes[place * UINT32_C(0x9e3779b1) >> (32 - RAW_PLACES_SIZES_BITS)];
}

/* The step of a size; RAW_PLACES_STEPS: the size has no list. */
static inline uint32_t raw_places_step(const struct raw_places *places, uint64_t size)
{
    if (size >= RAW_ALLOCATION_1_SHORT_LIMIT) return RAW_PLACES_STEPS;
    return ((uint32_t)size + places->rounding) / 16;
}

/* The list of a size; NULL: it has none. */
static inline struct raw_places_list *raw_places_list_of(struct raw_places *places, uint64_t size)
{
    uint32_t step = raw_places_step(places, size);
    return step < RAW_PLACES_STEPS ? &places->lists[step] : NULL;
}

/* A list's place of this index, from 0, which is less than the count. */
static inline uint32_t *raw_places_at(struct raw_places_list *list, uint32_t index)
{
    return &list->places[(list->top - 1 - index) % RAW_PLACES_LIST];
}

/* Where the place is in the list of the size; RAW_PLACES_NAMED: it cannot be named in this way. */
static inline uint32_t raw_places_find(struct raw_places *places, uint64_t size, uint32_t place)
{
    struct raw_places_list *list = raw_places_list_of(places, size);
    const struct raw_places_size *latest = raw_places_size_of(places, place);
    if (list == NULL || list->count == 0) return RAW_PLACES_NAMED;
    if (*raw_places_at(list, 0) == place) return 0;
    /* If another place has taken its entry, it may be in the list nevertheless: that is rare. */
    if (latest->place != place || !(latest->latest & RAW_PLACES_ENDED)) return RAW_PLACES_NAMED;
    uint32_t count = list->count < RAW_PLACES_NAMED ? list->count : RAW_PLACES_NAMED;
    for (uint32_t index = 1; index < count; index++)
        if (*raw_places_at(list, index) == place) return index;
    return RAW_PLACES_NAMED;
}

/* Takes a place out of the list of the size. 0: there is none of this index. */
static inline uint32_t raw_places_take(struct raw_places *places, uint64_t size, uint32_t index)
{
    struct raw_places_list *list = raw_places_list_of(places, size);
    if (list == NULL || index >= list->count) return RAW_PLACE_NONE;
    uint32_t place = *raw_places_at(list, index);
    for (; index > 0; index--)
        *raw_places_at(list, index) = *raw_places_at(list, index - 1);
    list->top--;
    list->count--;
    return place;
}

/* The age of the latest object at the place; 0: it is too old, or not remembered. */
static inline uint32_t raw_places_age(struct raw_places *places, uint32_t place)
{
    const struct raw_places_size *size = raw_places_size_of(places, place);
    uint32_t latest = size->latest % RAW_AGES;
    if (size->place != place || places->latest[latest] != place) return 0;
    return (places->objects - latest) % RAW_AGES + 1;
}

/* The place of the object of an age from 1 to RAW_AGES; 0: there is none. */
static inline uint32_t raw_places_of_age(const struct raw_places *places, uint32_t age)
{
    return places->latest[(places->objects + 1 - age) % RAW_AGES];
}

/* An object begins. */
static inline void raw_places_began(struct raw_places *places, uint32_t place, uint64_t size)
{
    uint16_t latest = (uint16_t)(++places->objects % RAW_AGES);
    uint16_t step = (uint16_t)raw_places_step(places, size);
    places->last = places->latest[latest] = place;
    *raw_places_size_of(places, place) = (struct raw_places_size){place, step, latest};
}

/* The lane ends an object that it has. */
static inline void raw_places_ended(struct raw_places *places, uint32_t place)
{
    struct raw_places_size *size = raw_places_size_of(places, place);
    if (size->place != place || size->step >= RAW_PLACES_STEPS) return;
    struct raw_places_list *list = &places->lists[size->step];
    list->places[list->top++ % RAW_PLACES_LIST] = place;
    list->count += list->count < RAW_PLACES_LIST;
    size->latest |= RAW_PLACES_ENDED;
}

#endif
