#include "replay/heap.h"

#include <malloc.h>

void heap_find(struct heap *heap)
{
    *heap = (struct heap){.source = "none"};
    allocator_find_own("MallocExtension_GetNumericProperty", &heap->calls.get_property);
    allocator_find_own("mallctl", &heap->calls.control);
    allocator_find_own("mi_process_info", &heap->calls.process_info);
    void *(*libc_version)(void);
    allocator_find_own("gnu_get_libc_version", &libc_version);
    heap->calls.mallinfo = libc_version != NULL;

    if (heap->calls.get_property != NULL)
        heap->source = "generic.heap_size";
    else if (heap->calls.control != NULL && heap_bytes(heap) > 0)
        heap->source = "stats.mapped";
    else if (heap->calls.process_info != NULL)
        heap->source = "mi_process_info";
    else if (heap->calls.mallinfo)
        heap->source = "mallinfo2";
}

static uint64_t heap_of_tcmalloc(const struct heap *heap)
{
    size_t bytes = 0;
    return heap->calls.get_property("generic.heap_size", &bytes) ? bytes : 0;
}

static uint64_t heap_of_jemalloc(const struct heap *heap)
{
    uint64_t epoch = 1;
    size_t bytes = 0, size = sizeof bytes;
    if (heap->calls.control("epoch", NULL, NULL, &epoch, sizeof epoch) != 0) return 0;
    return heap->calls.control("stats.mapped", &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}

static uint64_t heap_of_mimalloc(const struct heap *heap)
{
    size_t other, commit = 0;
    heap->calls.process_info(&other, &other, &other, &other, &other, &commit, &other, &other);
    return commit;
}

static uint64_t heap_of_glibc(const struct heap *heap)
{
    struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd - heap->own_bytes;
}

uint64_t heap_bytes(const struct heap *heap)
{
    if (heap->calls.get_property != NULL) return heap_of_tcmalloc(heap);
    if (heap->calls.control != NULL) return heap_of_jemalloc(heap);
    if (heap->calls.process_info != NULL) return heap_of_mimalloc(heap);
    if (heap->calls.mallinfo) return heap_of_glibc(heap);
    return 0;
}
