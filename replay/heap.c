#include "replay/heap.h"

#include <malloc.h>

/* jemalloc(3), MALLCTL_ARENAS_ALL. */
#define PURGE_ALL_ARENAS "arena.4096.purge"

/* ---- how large it is ---- */

void heap_open(struct heap *heap, const struct allocator *allocator)
{
    const struct allocator_library *library = &allocator->library;
    *heap = (struct heap){.library = library, .source = "none"};
    if (library->MallocExtension_GetNumericProperty != NULL)
        heap->source = "generic.heap_size";
    else if (library->mallctl != NULL)
        heap->source = heap_bytes(heap) > 0 ? "stats.mapped" : "none";
    else if (library->mi_process_info != NULL)
        heap->source = "mi_process_info";
    else if (library->gnu_get_libc_version != NULL)
        heap->source = "mallinfo2";
}

static uint64_t heap_of_tcmalloc(const struct allocator_library *library)
{
    size_t bytes = 0;
    return library->MallocExtension_GetNumericProperty("generic.heap_size", &bytes) ? bytes : 0;
}

static uint64_t heap_of_jemalloc(const struct allocator_library *library)
{
    uint64_t epoch = 1;
    size_t bytes = 0, size = sizeof bytes;
    if (library->mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0) return 0;
    return library->mallctl("stats.mapped", &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}

static uint64_t heap_of_mimalloc(const struct allocator_library *library)
{
    size_t other, commit = 0;
    library->mi_process_info(&other, &other, &other, &other, &other, &commit, &other, &other);
    return commit;
}

uint64_t heap_bytes(const struct heap *heap)
{
    const struct allocator_library *library = heap->library;
    if (library->MallocExtension_GetNumericProperty != NULL) return heap_of_tcmalloc(library);
    if (library->mallctl != NULL) return heap_of_jemalloc(library);
    if (library->mi_process_info != NULL) return heap_of_mimalloc(library);
    if (library->gnu_get_libc_version == NULL) return 0;
    struct mallinfo2 info = mallinfo2();
    return info.arena + info.hblkhd - heap->own_bytes;
}

/* ---- giving memory back ---- */

const char *heap_release_means(const struct allocator *allocator)
{
    const struct allocator_library *library = &allocator->library;
    return library->MallocExtension_ReleaseFreeMemory != NULL
               ? "MallocExtension_ReleaseFreeMemory()"
           : library->mallctl != NULL     ? "mallctl(\"" PURGE_ALL_ARENAS "\")"
           : library->mi_collect != NULL  ? "mi_collect(true)"
           : library->malloc_trim != NULL ? "malloc_trim(0)"
                                          : NULL;
}

void heap_release(const struct allocator *allocator)
{
    const struct allocator_library *library = &allocator->library;
    if (library->MallocExtension_ReleaseFreeMemory != NULL)
        library->MallocExtension_ReleaseFreeMemory();
    else if (library->mallctl != NULL)
        library->mallctl(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
    else if (library->mi_collect != NULL)
        library->mi_collect(true);
    else
        library->malloc_trim(0);
}
