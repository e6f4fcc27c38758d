/* object_table - from the token of a live object to its register.
 *
 * The births of a lane are numbered one after another, so a lane's objects are an array; most of it is
 * dead. It is kept in pages of 1024 serials, of which only those with live objects exist:
 *
 *   lane   ring of the latest pages              older
 *          [ ][p][ ][p][p][head]                 many alive: the page, in a table of pages
 *                            ^ births            few alive:  each object, in a table of objects
 *
 * A lookup is: lane, ring, page, entry. The ring grows while its pages live, up to a limit; what falls
 * out behind goes to the tables. So memory follows the live objects, not the births: a lone survivor
 * costs some 30 bytes, and the entries that churn works on are dense and stay in cache.
 *
 *   page->remaining == entries that are live or not yet born;  0: the page is given back, all zero
 *   entry == register + 1, or 0: dead, or not yet born
 *
 * A birth may be lost (FORMAT.md 3): its serial is then dead from the start and remembered in a list of
 * ranges, so that its death is no surprise.
 *
 * Memory   object_table_open_lane() and births may need some; failure stays in `failed`, after which nothing
 *          the table says means anything. Threads: one. */
#ifndef MALLOCTAPE_OBJECT_TABLE_H
#define MALLOCTAPE_OBJECT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/raw_format.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OBJECT_PAGE_BITS    10
#define OBJECT_PAGE_ENTRIES (1u << OBJECT_PAGE_BITS)

struct object_page {
    uint32_t entries[OBJECT_PAGE_ENTRIES];
    uint32_t remaining;
    struct object_page *next; /* in the list of unused pages */
};

/* A lane's births that were lost. */
struct object_range {
    uint64_t first, last;
};

struct object_lane {
    uint64_t births;          /* so far; the serial of the latest one */
    struct object_page *head; /* the page of serial births + 1 */
    struct object_page **ring;
    uint64_t head_index; /* of the head page: serial >> OBJECT_PAGE_BITS */
    uint64_t ring_pages; /* a power of two; 0 before the first birth */
    uint64_t span;       /* pages up to the head that are in the ring; older ones are in the tables */
    struct object_range *lost;
    uint32_t lost_count, lost_room;
};

/* Open addressing; key 0 is empty. */
struct object_map {
    struct object_map_entry {
        uint64_t key, value;
    } * entries;
    uint64_t count, room;
};

struct object_table {
    struct object_lane *lanes;
    uint32_t lanes_count;
    bool failed; /* no memory */
    struct object_map old_pages, old_objects;
    struct object_page *unused;
    void *slabs; /* pages come in slabs, which are linked */
};

void object_table_init(struct object_table *table);
void object_table_free(struct object_table *table);

/* Before the first birth of the lane; may move table->lanes. */
bool object_table_open_lane(struct object_table *table, uint32_t lane);

/* Not for others: what the inline functions below leave to do. */
void object_table_next_page(struct object_table *table, uint32_t lane);
uint32_t *object_table_find_old(struct object_table *table, uint64_t token);
void object_table_kill_old(struct object_table *table, uint64_t token);
void object_table_release_page(struct object_table *table, uint64_t token);

/* The next birth of the lane is of the object in `register_number`. */
static inline void object_table_birth(struct object_table *table, uint32_t lane,
                                      uint32_t register_number)
{
    struct object_lane *objects = &table->lanes[lane];
    uint64_t serial = objects->births + 1;
    objects->head->entries[serial & (OBJECT_PAGE_ENTRIES - 1)] = register_number + 1;
    objects->births = serial;
    if (__builtin_expect(((serial + 1) & (OBJECT_PAGE_ENTRIES - 1)) == 0, 0))
        object_table_next_page(table, lane);
}

/* The next `count` births of the lane are lost. */
void object_table_lose(struct object_table *table, uint32_t lane, uint64_t count);

/* So will be `count` births of the lane after so many; told in the order of births. */
void object_table_will_lose(struct object_table *table, uint32_t lane, uint64_t births,
                            uint64_t count);

/* Whether the birth of this serial was lost, or is known to be. */
bool object_table_was_lost(const struct object_table *table, uint64_t token);

/* The register of a live object. False: dead, or its birth was lost. The serial must not be greater than the
 * births of its lane. */
static inline bool object_table_find(struct object_table *table, uint64_t token,
                                     uint32_t *register_number)
{
    const struct object_lane *objects = &table->lanes[raw_token_lane(token)];
    uint64_t serial = raw_token_serial(token), index = serial >> OBJECT_PAGE_BITS;
    const uint32_t *entry;
    if (__builtin_expect(objects->head_index - index < objects->span, 1))
        entry = &objects->ring[index & (objects->ring_pages - 1)]
                     ->entries[serial & (OBJECT_PAGE_ENTRIES - 1)];
    else
        entry = object_table_find_old(table, token);
    if (entry == NULL || *entry == 0) return false;
    *register_number = *entry - 1;
    return true;
}

/* The same, and the object is dead from now on. */
static inline bool object_table_death(struct object_table *table, uint64_t token,
                                      uint32_t *register_number)
{
    const struct object_lane *objects = &table->lanes[raw_token_lane(token)];
    uint64_t serial = raw_token_serial(token), index = serial >> OBJECT_PAGE_BITS;
    if (__builtin_expect(objects->head_index - index < objects->span, 1)) {
        struct object_page *page = objects->ring[index & (objects->ring_pages - 1)];
        uint32_t *entry = &page->entries[serial & (OBJECT_PAGE_ENTRIES - 1)];
        uint32_t value = *entry;
        if (__builtin_expect(value == 0, 0)) return false;
        *entry = 0;
        *register_number = value - 1;
        if (__builtin_expect(--page->remaining == 0, 0)) object_table_release_page(table, token);
        return true;
    }
    if (!object_table_find(table, token, register_number)) return false;
    object_table_kill_old(table, token);
    return true;
}

#ifdef __cplusplus
}
#endif
#endif
