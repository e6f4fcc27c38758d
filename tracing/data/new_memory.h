/* new_memory - new large objects of the recorder's tcmalloc are cleared for calloc().
 *
 * A page that the system has yet to give is zero, and is left for the program to touch, or not: so it is
 * under allocators whose calloc() knows memory that the system has cleared. Upstream's writes to all.
 *
 * Threads   any. */
#ifndef MALLOCTAPE_NEW_MEMORY_H
#define MALLOCTAPE_NEW_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* Smaller objects are not worth the question. */
#define NEW_MEMORY_BYTES_LEAST 262144u

/* Clears memory of the heap that nobody else knows. errno stays. */
void new_memory_clear(void *memory, size_t bytes);

/* From now on the system may put something else than zeros into pages of the heap: a file is mapped at an
 * address that the program chose, say. So all is written to. */
void new_memory_may_be_filled(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
