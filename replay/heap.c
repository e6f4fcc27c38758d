#include "replay/heap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Fields of /proc/PID/stat (proc(5)): the name, which may have blanks and parentheses in it, and the one
 * that is wanted. */
enum { STAT_NAME = 2, STAT_START_BRK = 47 };

void heap_break(uint64_t *from, uint64_t *to)
{
    char text[2048];
    const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    const ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = STAT_NAME; at != NULL && field < STAT_START_BRK; field++)
        at = strchr(at + 1, ' ');
    *from = at != NULL ? strtoull(at, NULL, 10) : 0;
    *to = *from != 0 ? (uint64_t)(uintptr_t)sbrk(0) : 0;
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
