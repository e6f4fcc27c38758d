#include "postprocess/object_table.h"

#include <stdlib.h>
#include <string.h>

bool object_table_init(struct object_table *table)
{
    *table = (struct object_table){
        .pages = malloc(OBJECT_PAGES * sizeof(struct object_entry *)),
        .unmade = calloc(OBJECT_PAGE_ENTRIES, sizeof(struct object_entry)),
    };
    if (table->pages == NULL || table->unmade == NULL) {
        object_table_free(table);
        return false;
    }
    for (uint32_t i = 0; i < OBJECT_PAGE_ENTRIES; i++)
        table->unmade[i].lives = OBJECT_SPECIAL;
    for (uint32_t i = 0; i < OBJECT_PAGES; i++)
        table->pages[i] = table->unmade;
    return true;
}

void object_table_free(struct object_table *table)
{
    for (uint32_t i = 0; table->pages != NULL && i < OBJECT_PAGES; i++)
        if (table->pages[i] != table->unmade) free(table->pages[i]);
    free(table->pages);
    free(table->unmade);
    free(table->sharing);
    *table = (struct object_table){0};
}

/* ---- objects that share a place ---- */

/* The index + 1 of a new entry that precedes `next` in its list; 0: no memory, or too many. */
static uint32_t sharing_add(struct object_table *table, uint64_t allocated,
                            uint32_t register_number, uint32_t next)
{
    uint32_t taken = table->unused;
    if (taken != 0) {
        table->unused = table->sharing[taken - 1].next;
    } else {
        if (table->sharing_count == table->sharing_room) {
            uint32_t room = table->sharing_room == 0 ? 64 : 2 * table->sharing_room;
            struct object_sharing *grown =
                room >= OBJECT_SPECIAL ? NULL : realloc(table->sharing, room * sizeof *grown);
            if (grown == NULL) return 0;
            table->sharing = grown;
            table->sharing_room = room;
        }
        taken = table->sharing_count + 1;
    }
    table->sharing_count++;
    table->sharing[taken - 1] =
        (struct object_sharing){allocated, UINT64_MAX, register_number, next};
    return taken;
}

/* ---- allocations ---- */

static bool table_make_page(struct object_table *table, uint32_t place)
{
    struct object_entry **page = &table->pages[place >> OBJECT_PAGE_BITS];
    if (*page != table->unmade) return true;
    struct object_entry *made = calloc(OBJECT_PAGE_ENTRIES, sizeof *made);
    if (made == NULL) return false;
    if (place < OBJECT_PAGE_ENTRIES) made[RAW_PLACE_NONE].lives = OBJECT_SPECIAL;
    *page = made;
    return true;
}

/* Notes in the lane's latest older object there, the first one in the list, when it allocates
 * another. */
static void sharing_succeed(struct object_table *table, uint32_t list, uint64_t allocated)
{
    for (uint32_t at = list; at != 0; at = table->sharing[at - 1].next) {
        struct object_sharing *older = &table->sharing[at - 1];
        if (!object_is_meant(older->allocated, allocated)) continue;
        if (older->next_there > allocated) older->next_there = allocated;
        return;
    }
}

/* An object begins where another seems to live. */
static void table_share(struct object_table *table, struct object_entry *entry, uint64_t allocated,
                        uint32_t register_number)
{
    uint32_t older = entry->lives & ~OBJECT_SPECIAL;
    if (older == entry->lives) older = sharing_add(table, entry->allocated, older - 1, 0);
    sharing_succeed(table, older, allocated);
    uint32_t latest = older != 0 ? sharing_add(table, allocated, register_number, older) : 0;
    entry->lives = OBJECT_SPECIAL | latest;
    table->displacements++;
    if (latest == 0) table->failed = true;
}

void object_table_put(struct object_table *table, uint64_t allocated, uint32_t place,
                      uint32_t register_number)
{
    if (place == RAW_PLACE_NONE) return;
    if (register_number >= OBJECT_SPECIAL - 1 || !table_make_page(table, place)) {
        table->failed = true;
        return;
    }
    struct object_entry *entry = object_table_entry(table, place);
    if (entry->lives == 0)
        *entry = (struct object_entry){allocated, register_number + 1};
    else
        table_share(table, entry, allocated, register_number);
}

/* ---- frees ---- */

/* Where an object was found. */
struct found {
    uint64_t allocated; /* 0: none was */
    uint32_t register_number;
    uint32_t at, before; /* in a list: index + 1 of it, and of the one before or 0 */
};

static struct found table_search(const struct object_table *table, uint32_t place, uint64_t bound)
{
    const struct object_entry *entry = object_table_entry(table, place);
    struct found found = {0};
    if ((entry->lives & OBJECT_SPECIAL) == 0) {
        if (entry->lives != 0 && object_is_meant(entry->allocated, bound))
            found = (struct found){entry->allocated, entry->lives - 1, 0, 0};
        return found;
    }
    for (uint32_t at = entry->lives & ~OBJECT_SPECIAL, before = 0; at != 0;) {
        const struct object_sharing *object = &table->sharing[at - 1];
        if (object->allocated > found.allocated && object_is_meant(object->allocated, bound))
            found = (struct found){object->allocated, object->register_number, at, before};
        before = at;
        at = object->next;
    }
    return found;
}

/* Removes an object that shares its place. A single one that is left stays in the list: a free at
 * the place need not mean it. */
static void table_unshare(struct object_table *table, struct object_entry *entry,
                          const struct found *found)
{
    uint32_t next = table->sharing[found->at - 1].next;
    if (found->before != 0)
        table->sharing[found->before - 1].next = next;
    else
        entry->lives = next != 0 ? OBJECT_SPECIAL | next : 0;
    table->sharing[found->at - 1].next = table->unused;
    table->unused = found->at;
    table->sharing_count--;
}

bool object_table_find(const struct object_table *table, uint32_t place, uint64_t bound,
                       uint32_t *register_number)
{
    struct found found = table_search(table, place, bound);
    *register_number = found.register_number;
    if (found.at != 0 && table->sharing[found.at - 1].next_there <= bound) return false;
    return found.allocated != 0;
}

bool object_table_end_special(struct object_table *table, uint32_t place, uint64_t bound,
                              uint32_t *register_number)
{
    struct found found = table_search(table, place, bound);
    struct object_entry *entry = object_table_entry(table, place);
    *register_number = found.register_number;
    if (found.allocated == 0) return false;
    if (found.at != 0)
        table_unshare(table, entry, &found);
    else
        entry->lives = 0;
    return true;
}
