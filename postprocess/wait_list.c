#include "postprocess/wait_list.h"

#include <stdlib.h>
#include <string.h>

void wait_list_free(struct wait_list *list)
{
    free(list->entries);
    wait_list_init(list);
}

static bool wait_list_grow(struct wait_list *list)
{
    uint32_t room = list->room == 0 ? 4 : list->room * 2;
    struct wait_entry *entries = realloc(list->entries, room * sizeof *entries);
    if (entries == NULL) return false;
    list->entries = entries;
    list->room = room;
    return true;
}

static void wait_list_note_lowest(struct wait_list *list)
{
    list->lowest = list->count > 0 ? list->entries[list->count - 1].number : UINT64_MAX;
}

bool wait_list_add(struct wait_list *list, uint64_t number, uint32_t waiter)
{
    if (list->count == list->room && !wait_list_grow(list)) return false;
    uint32_t at = list->count++;
    for (; at > 0 && list->entries[at - 1].number <= number; at--)
        list->entries[at] = list->entries[at - 1];
    list->entries[at] = (struct wait_entry){number, waiter};
    wait_list_note_lowest(list);
    return true;
}

bool wait_list_take(struct wait_list *list, uint64_t reached, uint32_t *waiter)
{
    if (list->count == 0 || list->lowest > reached) return false;
    *waiter = list->entries[--list->count].waiter;
    wait_list_note_lowest(list);
    return true;
}

void wait_list_remove(struct wait_list *list, uint32_t waiter)
{
    uint32_t at = 0;
    while (at < list->count && list->entries[at].waiter != waiter)
        at++;
    if (at == list->count) return;
    list->count--;
    memmove(list->entries + at, list->entries + at + 1, (list->count - at) * sizeof *list->entries);
    wait_list_note_lowest(list);
}
