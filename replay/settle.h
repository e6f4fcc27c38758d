/* settle - the allocator under test as the program found it that was recorded from its beginning:
 * without what the start of this process has taken and given back. Otherwise there would be other
 * free memory than in the original, and objects would lie elsewhere (REPORT.md, "Addresses").
 *
 *   C++ library   its pool for exceptions is freed: the recording has one, too
 *   tcmalloc      the thread's cache goes back
 *   jemalloc      the thread gets a new cache
 *   mimalloc      empty pages go back
 *   glibc         the top of the heap becomes what it is after the first sbrk(): consolidation,
 *                 trimming and the next sbrk() depend on its size
 *
 * Threads: for the one thread that carries out all calls, before the first of them. */
#ifndef MALLOCTAPE_REPLAY_SETTLE_H
#define MALLOCTAPE_REPLAY_SETTLE_H

#include "replay/allocator.h"

/* Returns how many bytes of the heap are the start's for good. */
uint64_t settle(const struct allocator *allocator);

#endif
