/* heap - how much memory the allocator under test says that it has.
 *
 * Each allocator says it in its own way and means its own thing; REPORT.md, "Heap", has the table.
 * Where it does not say it, the source is "none".
 *
 * Threads: heap_find() first, once; looking is for one thread at a time. */
#ifndef MALLOCTAPE_REPLAY_HEAP_H
#define MALLOCTAPE_REPLAY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/allocator.h"

struct heap {
    const char *source; /* "none": heap_bytes() is 0 */
    uint64_t own_bytes; /* that are the replay's, and not told; only of glibc */
    struct heap_calls {
        int (*get_property)(const char *name, size_t *value); /* tcmalloc */
        int (*control)(const char *name, void *old, size_t *old_bytes, void *set,
                       size_t); /* jemalloc */
        void (*process_info)(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *commit,
                             size_t *, size_t *); /* mimalloc */
        bool mallinfo;                            /* glibc */
    } calls;
};

/* Uses the allocator. */
void heap_find(struct heap *heap);

/* Bytes, by heap->source. Takes nothing from the allocator, but its locks. */
uint64_t heap_bytes(const struct heap *heap);

#endif
