/* hooks - what an allocator tells the capture core from inside a call.
 *
 * A part of capture.h that the sources of an allocator can include. */
#ifndef MALLOCTAPE_TRACING_HOOKS_H
#define MALLOCTAPE_TRACING_HOOKS_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* malloctape_sequence() - the calling thread has just entered `structure` (FORMAT.md 3).
 *
 * Thread   any; the lock that protects the structure is held.
 * Cost     no memory is allocated. It may wait for the writer, which never needs a lock of the
 *          allocator. */
void malloctape_sequence(unsigned structure);

/* malloctape_waited() - the calling thread has waited for the lock of a structure, for `cycles` of
 * the processor's clock. malloctape_inside() - something else happened inside a call (FORMAT.md 3).
 *
 * Thread   any; a lock of the allocator may be held.
 * Cost     as malloctape_sequence(). */
void malloctape_waited(unsigned structure, unsigned long cycles);
void malloctape_inside(unsigned what, unsigned long amount);

/* malloctape_thread_cache_deleted() - a thread cache is about to be flushed and destroyed. This is
 * recorded.
 *
 * Thread   the one that ends, idles or replaces its cache; no lock is held. */
void malloctape_thread_cache_deleted(void);

/* malloctape_thread_cache_changed() - the calling thread has, or is about to have, another thread
 * cache, or none.
 *
 * Thread   any; no lock is held. */
void malloctape_thread_cache_changed(void);

/* malloctape_cached() - `count` objects of a size class, linked by their first words, have been
 * appended to those in a thread cache; the first may be about to leave again.
 * malloctape_uncached() - the first `count` objects of the list are about to leave, or have left.
 * Neither does anything unless it is the cache that the calling thread's lane follows.
 *
 * Thread   the one that has the cache; no lock is held. */
void malloctape_cached(const void *cache, unsigned size_class, const void *first, unsigned count);
void malloctape_uncached(const void *cache, unsigned size_class, unsigned count);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
