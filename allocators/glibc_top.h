/* glibc_top - of a process whose malloc is glibc's: the top of its heap becomes what it is after the
 * first sbrk(), as consolidation, trimming and the next sbrk() depend on its size. What is allocated
 * for that is never freed. */
#ifndef MALLOCTAPE_ALLOCATORS_GLIBC_TOP_H
#define MALLOCTAPE_ALLOCATORS_GLIBC_TOP_H

#include <stdint.h>

/* Returns how many bytes of the heap stay taken by what came before; 0: the heap cannot be
 * prepared. One thread, of one. */
uint64_t glibc_top_prepare(void);

#endif
