#include "postprocess/wait_heap.h"

#include <stdlib.h>

void wait_heap_free(struct wait_heap *heap)
{
    free(heap->entries);
    wait_heap_init(heap);
}

static bool wait_heap_grow(struct wait_heap *heap)
{
    uint32_t room = heap->room == 0 ? 4 : heap->room * 2;
    struct wait_entry *entries = realloc(heap->entries, room * sizeof *entries);
    if (entries == NULL) return false;
    heap->entries = entries;
    heap->room = room;
    return true;
}

bool wait_heap_add(struct wait_heap *heap, uint64_t number, uint32_t waiter)
{
    if (heap->count == heap->room && !wait_heap_grow(heap)) return false;
    uint32_t at = heap->count++;
    while (at > 0 && heap->entries[(at - 1) / 2].number > number) {
        heap->entries[at] = heap->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->entries[at] = (struct wait_entry){number, waiter};
    heap->lowest = heap->entries[0].number;
    return true;
}

/* Lets `entry` sink from the top to its place. */
static void wait_heap_sink(struct wait_heap *heap, struct wait_entry entry)
{
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            heap->entries[child + 1].number < heap->entries[child].number)
            child++;
        if (child >= heap->count || heap->entries[child].number >= entry.number) break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = entry;
}

bool wait_heap_take(struct wait_heap *heap, uint64_t reached, uint32_t *waiter)
{
    if (heap->count == 0 || heap->lowest > reached) return false;
    *waiter = heap->entries[0].waiter;
    heap->count--;
    if (heap->count > 0) wait_heap_sink(heap, heap->entries[heap->count]);
    heap->lowest = heap->count > 0 ? heap->entries[0].number : UINT64_MAX;
    return true;
}

void wait_heap_remove(struct wait_heap *heap, uint32_t waiter)
{
    struct wait_entry *entries = heap->entries;
    uint32_t count = heap->count, others = 0;
    while (others < count && entries[others].waiter != waiter)
        others++;
    if (others == count) return;
    entries[others] = entries[count - 1];
    /* Heaps are small: build this one anew. */
    heap->count = 0;
    heap->lowest = UINT64_MAX;
    for (uint32_t i = 0; i + 1 < count; i++)
        wait_heap_add(heap, entries[i].number, entries[i].waiter);
}
