#include "allocators/glibc_top.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_UNIT = 16,
    CHUNK_HEAD = 8, /* bytes of a chunk that do not belong to the object */
    CHUNK_IS_MAPPED = 2,
    CACHED_MAX = 1032,     /* larger objects are in no thread cache, nor in bins for small ones */
    LARGE_BYTES = 1 << 15, /* below any usual threshold for objects that are mapped */
};

/* Allocates an object for good. Returns where the next one will be, if both come from the top; 0:
 * no memory, or the object had a mapping of its own and has been freed. */
static uintptr_t glibc_top_take(size_t bytes)
{
    void *object = malloc(bytes);
    const size_t *head = (const size_t *)((uintptr_t)object - CHUNK_HEAD);
    if (object == NULL) return 0;
    if ((*head & CHUNK_IS_MAPPED) == 0)
        return (uintptr_t)object + malloc_usable_size(object) + CHUNK_HEAD;
    free(object);
    return 0;
}

/* The offset of the first object in a heap: after the first chunk, the thread's cache, whose size
 * differs between versions. 0: the heap does not begin with a chunk. */
static size_t first_object(void)
{
    const uintptr_t heap = (uintptr_t)sbrk(0) - mallinfo2().arena;
    const uintptr_t page = heap & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    unsigned char resident;
    if (heap % CHUNK_UNIT != 0 || mincore((void *)page, 1, &resident) != 0) return 0;
    const size_t size = *(const size_t *)(heap + CHUNK_HEAD) & ~(size_t)(CHUNK_UNIT - 1);
    return size > 0 && size < mallinfo2().arena ? size + 2 * CHUNK_HEAD : 0;
}

static size_t bytes_in_bins(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.fordblks - info.keepcost;
}

/* Allocates all free chunks except the top. Returns where the next object in the top will be. */
static uintptr_t glibc_take_free(void)
{
    uintptr_t top = glibc_top_take(CACHED_MAX + 1), end; /* consolidates fast chunks */
    size_t size = bytes_in_bins();
    for (size_t before = size, after; before > 0 && size > 0; before = after) {
        end = glibc_top_take(size);
        if (end > top) top = end;
        after = bytes_in_bins();
        if (after == before) size /= 2;
    }
    for (size_t at = CHUNK_UNIT + CHUNK_HEAD; at <= CACHED_MAX; at += CHUNK_UNIT) {
        while ((end = glibc_top_take(at)) != 0 && end <= top)
            continue;
        if (end != 0) top = end;
    }
    return top;
}

/* When a chunk does not fit into the top, the heap grows by what is missing plus a fixed reserve
 * (M_TOP_PAD), rounded up to whole pages. The rest after the chunk becomes the new top. So where
 * the chunk ends within its page decides how large the top is. */
uint64_t glibc_top_prepare(void)
{
    if (mallinfo2().arena == 0) return 0; /* Valgrind has replaced malloc */
    const size_t first = first_object();
    if (first == 0) return 0; /* the heap is no data segment */
    uintptr_t top = glibc_take_free();
    for (unsigned i = 0; i < 4 && mallinfo2().keepcost > 2 * LARGE_BYTES; i++)
        top = glibc_top_take(LARGE_BYTES);
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (first - top) % page_bytes;
    while (size <= mallinfo2().keepcost)
        size += page_bytes;
    glibc_top_take(size - CHUNK_HEAD);
    struct mallinfo2 info = mallinfo2();
    return info.arena - info.keepcost - (first - 2 * CHUNK_HEAD);
}
