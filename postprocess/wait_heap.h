/* wait_heap - who waits for a number to be reached, the lowest number first.
 *
 * One heap per thing that counts: a lane's allocations, a structure's sequence numbers. Whoever
 * counts compares with `lowest` and looks into the heap only when it was reached, so that waiting
 * costs the others one comparison.
 *
 *   lowest == UINT64_MAX   exactly when nobody waits
 *
 * All zero is not a valid heap: wait_heap_init(). One thread. Memory: 16 bytes for each that
 * ever waited at once. */
#ifndef MALLOCTAPE_WAIT_HEAP_H
#define MALLOCTAPE_WAIT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wait_entry {
    uint64_t number;
    uint32_t waiter;
};

struct wait_heap {
    uint64_t lowest;
    struct wait_entry *entries;
    uint32_t count, room;
};

static inline void wait_heap_init(struct wait_heap *heap)
{
    *heap = (struct wait_heap){UINT64_MAX, 0, 0, 0};
}

void wait_heap_free(struct wait_heap *heap);

/* False: no memory. */
bool wait_heap_add(struct wait_heap *heap, uint64_t number, uint32_t waiter);

/* Takes out one with the lowest number, if that is at most `reached`. */
bool wait_heap_take(struct wait_heap *heap, uint64_t reached, uint32_t *waiter);

/* Takes out `waiter`, who is in the heap. Looks at everybody: for what is rare. */
void wait_heap_remove(struct wait_heap *heap, uint32_t waiter);

#ifdef __cplusplus
}
#endif
#endif
