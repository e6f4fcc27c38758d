/* heap - the size of the heap as the allocator under test reports it, and the call that makes it
 * give unused memory back to the system.
 *
 * Each allocator does both in its own way; REPORT.md, "Heap" and "Giving memory back", has the
 * tables. If it does not report a size, the source is "none".
 *
 * Threads: heap_open() first, once; the others as the allocator's own call. */
#ifndef MALLOCTAPE_REPLAY_HEAP_H
#define MALLOCTAPE_REPLAY_HEAP_H

#include "replay/allocator.h"

struct heap {
    const struct allocator *allocator;
    const char *source; /* "none": heap_bytes() is 0 */
    bool is_known;
    uint64_t own_bytes; /* the replay's, which heap_bytes() subtracts */
};

/* Uses the allocator. */
void heap_open(struct heap *heap, const struct allocator *allocator);

/* The size of the heap by heap->source. Allocates nothing, but takes the allocator's locks. */
uint64_t heap_bytes(const struct heap *heap);

/* The addresses that the process has had from brk(), by the system; both 0: it does not say them. Takes
 * nothing from the allocator. */
void heap_break(uint64_t *from, uint64_t *to);

/* The call that gives memory back, in words; NULL: the allocator has none. */
const char *heap_release_means(const struct allocator *allocator);

/* Makes that call. The allocator must have one. */
void heap_release(const struct allocator *allocator);

#endif
