#include "postprocess/object_table.h"

#include <stdlib.h>
#include <string.h>

#define DISPLACED_FIRST 64u

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
    free(table->displaced);
    *table = (struct object_table){0};
}

/* ---- displaced objects ---- */

static uint32_t displaced_home(const struct object_table *table, uint32_t place)
{
    return (uint32_t)(place * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (table->displaced_room - 1);
}

static void displaced_put(struct object_table *table, struct object_displaced object)
{
    uint32_t at = displaced_home(table, object.place);
    while (table->displaced[at].place != 0)
        at = (at + 1) & (table->displaced_room - 1);
    table->displaced[at] = object;
    table->displaced_count++;
}

static bool displaced_grow(struct object_table *table)
{
    struct object_table grown = {.displaced_room = table->displaced_room * 2};
    if (grown.displaced_room == 0) grown.displaced_room = DISPLACED_FIRST;
    grown.displaced = calloc(grown.displaced_room, sizeof *grown.displaced);
    if (grown.displaced == NULL) return false;
    for (uint32_t i = 0; i < table->displaced_room; i++)
        if (table->displaced[i].place != 0) displaced_put(&grown, table->displaced[i]);
    free(table->displaced);
    table->displaced = grown.displaced;
    table->displaced_room = grown.displaced_room;
    return true;
}

/* Closes the hole, so that no search ends too early. */
static void displaced_remove(struct object_table *table, uint32_t hole)
{
    uint32_t mask = table->displaced_room - 1;
    struct object_displaced *all = table->displaced;
    for (uint32_t at = (hole + 1) & mask; all[at].place != 0; at = (at + 1) & mask) {
        uint32_t home = displaced_home(table, all[at].place);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        all[hole] = all[at];
        hole = at;
    }
    all[hole].place = 0;
    table->displaced_count--;
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

/* Whoever lives there lives on beside. */
static bool table_displace(struct object_table *table, uint32_t place, struct object_entry *entry)
{
    uint32_t older = entry->lives & ~OBJECT_SPECIAL;
    if (older == 0) return true;
    if (table->displaced_count >= table->displaced_room / 2 && !displaced_grow(table)) return false;
    displaced_put(table, (struct object_displaced){place, older - 1, entry->allocated});
    entry->lives = OBJECT_SPECIAL;
    table->displacements++;
    return true;
}

void object_table_put(struct object_table *table, uint64_t allocated, uint32_t place,
                      uint32_t register_number)
{
    if (place == RAW_PLACE_NONE) return;
    if (!table_make_page(table, place)) {
        table->failed = true;
        return;
    }
    struct object_entry *entry = object_table_entry(table, place);
    if (register_number >= OBJECT_SPECIAL - 1 || !table_displace(table, place, entry))
        table->failed = true;
    entry->lives = (entry->lives & OBJECT_SPECIAL) | (register_number + 1);
    entry->allocated = allocated;
}

/* ---- ends ---- */

/* Where an object was found. */
struct found {
    uint64_t allocated; /* 0: none was */
    uint32_t register_number;
    bool is_displaced;
    uint32_t at; /* there */
};

static struct found table_search(const struct object_table *table, uint32_t place, uint64_t bound)
{
    const struct object_entry *entry = object_table_entry(table, place);
    uint32_t lives = entry->lives & ~OBJECT_SPECIAL;
    struct found found = {0};
    if (lives != 0 && object_is_meant(entry->allocated, bound))
        found = (struct found){.allocated = entry->allocated, .register_number = lives - 1};
    if (lives == entry->lives || place == RAW_PLACE_NONE || table->displaced_count == 0)
        return found;
    uint32_t mask = table->displaced_room - 1;
    for (uint32_t at = displaced_home(table, place); table->displaced[at].place != 0;
         at = (at + 1) & mask) {
        const struct object_displaced *object = &table->displaced[at];
        if (object->place == place && object->allocated > found.allocated &&
            object_is_meant(object->allocated, bound))
            found = (struct found){object->allocated, object->register_number, true, at};
    }
    return found;
}

static bool has_displaced(const struct object_table *table, uint32_t place)
{
    uint32_t at = displaced_home(table, place);
    while (table->displaced[at].place != 0 && table->displaced[at].place != place)
        at = (at + 1) & (table->displaced_room - 1);
    return table->displaced[at].place != 0;
}

bool object_table_find(const struct object_table *table, uint32_t place, uint64_t bound,
                       uint32_t *register_number)
{
    struct found found = table_search(table, place, bound);
    *register_number = found.register_number;
    return found.allocated != 0;
}

bool object_table_end_special(struct object_table *table, uint32_t place, uint64_t bound,
                              uint32_t *register_number)
{
    struct found found = table_search(table, place, bound);
    struct object_entry *entry = object_table_entry(table, place);
    *register_number = found.register_number;
    if (found.allocated == 0) return false;
    if (!found.is_displaced) {
        entry->lives &= OBJECT_SPECIAL;
        return true;
    }
    displaced_remove(table, found.at);
    if (!has_displaced(table, place)) entry->lives &= ~OBJECT_SPECIAL;
    return true;
}
