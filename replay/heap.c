#include "replay/heap.h"

/* ---- how large it is ---- */

void heap_open(struct heap *heap, const struct allocator *allocator)
{
    const struct allocator_facts *facts = allocator->facts;
    const char *source = facts != NULL ? facts->heap_source(&allocator->library) : NULL;
    *heap = (struct heap){.allocator = allocator, .source = source != NULL ? source : "none"};
    heap->is_known = source != NULL;
}

uint64_t heap_bytes(const struct heap *heap)
{
    const struct allocator *allocator = heap->allocator;
    if (!heap->is_known) return 0;
    return allocator->facts->heap_bytes(&allocator->library) - heap->own_bytes;
}

/* ---- giving memory back ---- */

/* Some export glibc's function besides malloc. */
const char *heap_release_means(const struct allocator *allocator)
{
    if (allocator->facts != NULL) return allocator->facts->release_means;
    return allocator->library.malloc_trim != NULL ? allocator_glibc.release_means : NULL;
}

void heap_release(const struct allocator *allocator)
{
    const struct allocator_facts *facts =
        allocator->facts != NULL ? allocator->facts : &allocator_glibc;
    facts->release(&allocator->library);
}
