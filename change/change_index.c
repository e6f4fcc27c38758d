#include "change/change_index.h"

#include <stdlib.h>

enum { INDEX_ROOM_LEAST = 64 };

static bool change_index_same(struct change_key one, struct change_key other)
{
    return one.size == other.size && one.change == other.change && one.node == other.node;
}

/* The entry of a key, or the one where it would be. There is always one that is not used. */
static struct change_entry *change_index_find(const struct change_index *index,
                                              struct change_key key)
{
    uint64_t hash = (key.size ^ (uint64_t)key.node << 32 ^ (uint64_t)key.change << 20) *
                    UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = (size_t)(hash >> 20);; at++) {
        struct change_entry *entry = &index->at[at & (index->room - 1)];
        if (!entry->used || change_index_same(entry->key, key)) return entry;
    }
}

/* False: no memory. */
static bool change_index_grow(struct change_index *index)
{
    struct change_index larger = {.count = index->count,
                                  .room = index->room == 0 ? INDEX_ROOM_LEAST : 2 * index->room};
    larger.at = calloc(larger.room, sizeof *larger.at);
    if (larger.at == NULL) return false;
    for (size_t i = 0; i < index->room; i++)
        if (index->at[i].used) *change_index_find(&larger, index->at[i].key) = index->at[i];
    free(index->at);
    *index = larger;
    return true;
}

uint32_t *change_index_of(struct change_index *index, struct change_key key)
{
    if (2 * (index->count + 1) > index->room && !change_index_grow(index)) return NULL;
    struct change_entry *entry = change_index_find(index, key);
    if (!entry->used) {
        *entry = (struct change_entry){.key = key, .value = CHANGE_NOWHERE, .used = true};
        index->count++;
    }
    return &entry->value;
}

void change_index_free(struct change_index *index)
{
    free(index->at);
    *index = (struct change_index){.at = NULL};
}
