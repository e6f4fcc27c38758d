/* settle - puts the allocator under test into the state in which a program recorded from its
 * beginning found it: without traces of the start of this process, whose allocations and frees
 * would otherwise leave other free memory than in the original, so objects would lie elsewhere
 * (REPORT.md, "Addresses").
 *
 *   C++ library   its pool for exceptions is freed: the recording has one, too
 *   tcmalloc      the thread's cache goes back
 *   jemalloc      the thread gets a new cache
 *   mimalloc      empty pages go back
 *   glibc         the top of the heap becomes what it is after the first sbrk()
 *
 * Threads: for the one thread that carries out all calls, before the first of them. */
#ifndef MALLOCTAPE_REPLAY_SETTLE_H
#define MALLOCTAPE_REPLAY_SETTLE_H

#include "replay/allocator.h"

/* Returns how many bytes of the heap stay taken by what came before the replay. */
uint64_t settle(const struct allocator *allocator);

#endif
