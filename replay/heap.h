/* heap - how much memory the allocator under test says that it has, and the call that has it give
 * unused memory back to the system.
 *
 * Each allocator does both in its own way; REPORT.md, "Heap" and "Giving memory back", has the
 * tables. Where it does not say its size, the source is "none".
 *
 * Threads: heap_open() first, once; the others as the call of the allocator. */
#ifndef MALLOCTAPE_REPLAY_HEAP_H
#define MALLOCTAPE_REPLAY_HEAP_H

#include "replay/allocator.h"

struct heap {
    const struct allocator_library *library;
    const char *source; /* "none": heap_bytes() is 0 */
    uint64_t own_bytes; /* of the replay: heap_bytes() leaves them out; only with glibc */
};

/* Uses the allocator. */
void heap_open(struct heap *heap, const struct allocator *allocator);

/* Bytes, by heap->source. Takes nothing from the allocator, but its locks. */
uint64_t heap_bytes(const struct heap *heap);

/* The call that gives memory back, in words; NULL: the allocator has none. */
const char *heap_release_means(const struct allocator *allocator);

/* Makes that call. Only with means. */
void heap_release(const struct allocator *allocator);

#endif
