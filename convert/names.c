#include "convert/names.h"

#include <stdlib.h>

enum { ROOM_MIN = 1024 };

/* Addresses are multiples of 16 and close together; the upper half of the product is spread
 * evenly. */
static size_t names_slot_of(const struct names *names, uint64_t name)
{
    return (size_t)((name * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (names->room - 1);
}

/* The entry, or the empty slot where it would be. */
static struct name *probe(const struct names *names, uint64_t name)
{
    size_t at = names_slot_of(names, name);
    while (names->slots[at].name != 0 && names->slots[at].name != name)
        at = (at + 1) & (names->room - 1);
    return &names->slots[at];
}

static bool names_grow(struct names *names)
{
    struct names larger = {.room = names->room == 0 ? ROOM_MIN : 2 * names->room};
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].name != 0) *probe(&larger, names->slots[i].name) = names->slots[i];
    free(names->slots);
    names->slots = larger.slots;
    names->room = larger.room;
    return true;
}

struct name *names_find(const struct names *names, uint64_t name)
{
    if (names->count == 0 || name == 0) return NULL;
    struct name *entry = probe(names, name);
    return entry->name != 0 ? entry : NULL;
}

struct name *names_put(struct names *names, uint64_t name)
{
    if (names->room > 0) {
        struct name *entry = probe(names, name);
        if (entry->name != 0) return entry;
    }
    if ((names->count + 1) * 4 > names->room * 3 && !names_grow(names)) return NULL;
    struct name *entry = probe(names, name);
    *entry = (struct name){.name = name};
    names->count++;
    return entry;
}

/* Moves following entries up, so that no search ends at the gap. */
void names_remove(struct names *names, struct name *entry)
{
    size_t mask = names->room - 1, gap = (size_t)(entry - names->slots);
    for (size_t at = (gap + 1) & mask; names->slots[at].name != 0; at = (at + 1) & mask) {
        size_t home = names_slot_of(names, names->slots[at].name);
        if (((at - home) & mask) < ((at - gap) & mask)) continue;
        names->slots[gap] = names->slots[at];
        gap = at;
    }
    names->slots[gap] = (struct name){.name = 0};
    names->count--;
}

void names_free(struct names *names)
{
    free(names->slots);
    *names = (struct names){.slots = NULL};
}
