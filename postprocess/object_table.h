/* object_table - the objects that are alive, by the place at which they live (FORMAT.md 2.5).
 *
 *   place --> page (65 536 entries, made at the first allocation there) --> entry
 *
 *   entry.lives       0: nobody; register + 1: this object; OBJECT_SPECIAL and more: see below
 *   entry.allocated   the lane of the allocation, and which of its allocations it is
 *
 * A lookup is page, then entry. A page that is not made is one shared page of special entries, and
 * place 0, which is no place, is special too: nobody lives there. So one comparison finds the plain
 * case.
 *
 * The bound of a free says which object it means: of the objects that the bound's lane has
 * allocated at the place, the latest within the bound's number. A free in the object's own lane
 * means whoever lives there (docs/ordering.md). Two things break that: what happens while nothing
 * is recorded, and places of class 0, which change hands outside of the structures with sequence
 * numbers. There an object may be allocated at a place whose older object seems to be alive. Then
 * both are in a list, entry.lives says where it begins, and a free at such a place looks for the
 * very object.
 *
 * Memory   12 bytes for each place in pages that were made, 24 for each object in a list. If there
 *          is none for an allocation, `failed` is set and the table is no longer valid.
 * Threads  one. */
#ifndef MALLOCTAPE_OBJECT_TABLE_H
#define MALLOCTAPE_OBJECT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/raw_format.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OBJECT_PAGE_BITS    16
#define OBJECT_PAGE_ENTRIES (1u << OBJECT_PAGE_BITS)
#define OBJECT_PAGES        ((uint32_t)(RAW_PLACE_LIMIT >> OBJECT_PAGE_BITS))

#define OBJECT_SPECIAL (UINT32_C(1) << 31)

/* A place, and who lives there. Not more than it has to be: these are what misses the caches. */
struct __attribute__((packed, aligned(4))) object_entry {
    uint64_t allocated; /* raw_allocations() */
    uint32_t lives;
};

/* One of the objects at a place that has had several at once. */
struct object_sharing {
    uint64_t allocated;  /* raw_allocations() */
    uint64_t next_there; /* the same of the next one that its lane allocated there, or UINT64_MAX */
    uint32_t register_number;
    uint32_t next; /* index + 1 of another one there, or that is not used; 0: none */
};

struct object_table {
    struct object_entry **pages;    /* OBJECT_PAGES of them */
    struct object_entry *unmade;    /* stands for those that were not made */
    struct object_sharing *sharing; /* all that share a place, and unused ones */
    uint32_t sharing_count, sharing_room;
    uint32_t unused;        /* index + 1 of the first one */
    uint64_t displacements; /* allocations where an older object seemed to be alive */
    bool failed;            /* no memory */
};

/* False: no memory. */
bool object_table_init(struct object_table *table);
void object_table_free(struct object_table *table);

/* For the functions below only: the cases that are not simple. */
void object_table_put(struct object_table *table, uint64_t allocated, uint32_t place,
                      uint32_t register_number);
bool object_table_end_special(struct object_table *table, uint32_t place, uint64_t bound,
                              uint32_t *register_number);

static inline struct object_entry *object_table_entry(const struct object_table *table,
                                                      uint32_t place)
{
    return &table->pages[place >> OBJECT_PAGE_BITS][place & (OBJECT_PAGE_ENTRIES - 1)];
}

/* An allocation, raw_allocations(), of the object in `register_number` at the place; 0: nobody
 * knows where. */
static inline void object_table_allocation(struct object_table *table, uint64_t allocated,
                                           uint32_t place, uint32_t register_number)
{
    struct object_entry *entry = object_table_entry(table, place);
    if (__builtin_expect(entry->lives != 0, 0)) {
        object_table_put(table, allocated, place, register_number);
        return;
    }
    *entry = (struct object_entry){allocated, register_number + 1};
}

/* The object at the place that the bound means, as long as it is alive. (An end also finds an older
 * one that the same lane had there: where the program frees an object twice, its place is given out
 * twice.) */
bool object_table_find(const struct object_table *table, uint32_t place, uint64_t bound,
                       uint32_t *register_number);

/* Whether an object with this allocation may be the one that the bound means. */
static inline bool object_is_meant(uint64_t allocated, uint64_t bound)
{
    return (allocated ^ bound) >> RAW_SERIAL_BITS == 0 && allocated <= bound;
}

/* The same as object_table_find(), and the object is dead from now on. */
static inline bool object_table_end(struct object_table *table, uint32_t place, uint64_t bound,
                                    uint32_t *register_number)
{
    struct object_entry *entry = object_table_entry(table, place);
    if (__builtin_expect((int32_t)entry->lives <= 0 || !object_is_meant(entry->allocated, bound),
                         0))
        return object_table_end_special(table, place, bound, register_number);
    *register_number = entry->lives - 1;
    entry->lives = 0;
    return true;
}

/* The same for an end in the object's own lane, unless the place is special. */
static inline bool object_table_end_plain(struct object_table *table, uint32_t place,
                                          uint32_t *register_number)
{
    struct object_entry *entry = object_table_entry(table, place);
    uint32_t lives = entry->lives;
    if (__builtin_expect((int32_t)lives <= 0, 0)) return false;
    entry->lives = 0;
    *register_number = lives - 1;
    return true;
}

/* The same, also if it is special. */
static inline bool object_table_end_own(struct object_table *table, uint32_t place, uint64_t bound,
                                        uint32_t *register_number)
{
    return object_table_end_plain(table, place, register_number) ||
           object_table_end_special(table, place, bound, register_number);
}

#ifdef __cplusplus
}
#endif
#endif
