/* malloc_thread_cache - give a thread another thread's malloc cache.
 *
 * tcmalloc keeps free objects in one cache per thread. These two functions separate the cache from
 * the thread: one thread can carry many caches in turn and so behave, as far as the allocator can
 * tell, like many threads. A switch from cache `a` to cache `b` is
 *
 *     release_malloc_thread_cache(&a);
 *     set_malloc_thread_cache(b);
 *
 * and costs a few stores to thread-local memory. Names, arguments and results are those of the
 * functions in gperftools' branch wip-malloc-tracing, so that either library serves either replay.
 *
 *                  malloc                     release
 *       no cache ---------> attached (thread) --------> detached (caller)
 *           ^                 |   ^                       |
 *           |  thread exits,  |   |          set          |
 *           +-----------------+   +-----------------------+
 *              set(other): the cache is destroyed, its objects return to the central lists
 *
 * A cache belongs to one thread or to one caller at a time. A detached cache that is never attached
 * again keeps its objects and its share of the cache budget for ever; to destroy one, attach it and
 * then attach something else.
 *
 * Both functions are exported by libtcmalloc_minimal.so and libtcmalloc_minimal_tracing.so. A
 * program that shall also run over other allocators declares them weak and tests for NULL. */
#ifndef MALLOC_THREAD_CACHE_H
#define MALLOC_THREAD_CACHE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A detached cache; only the library knows what is in it. */
struct ThreadCacheState;

/* release_malloc_thread_cache() - take the calling thread's cache away from it.
 *
 * Afterwards the thread has none: its next malloc makes a new one, its frees go to the central
 * lists.
 *
 * *cache   becomes the cache, now the caller's; NULL when the thread had none.
 * Result   true.
 * Thread   any that is not inside malloc.
 * Cost     two stores. */
bool release_malloc_thread_cache(struct ThreadCacheState **cache);

/* set_malloc_thread_cache() - make `cache` the calling thread's cache, and destroy the one it has.
 *
 * When the thread exits, the cache attached to it then is destroyed, wherever it was made.
 *
 * cache    what release_malloc_thread_cache() gave to any thread and nobody attached since, or
 *          NULL: no cache. The cache that is attached already stays attached (in that branch it is
 *          destroyed all the same: do not rely on it).
 * Result   true.
 * Thread   any that is not inside malloc.
 * Cost     two stores when the thread has no cache; otherwise also the destruction of that
 *          cache, which takes locks. The first attachment of a thread's life also tells pthreads
 *          to call at exit. */
bool set_malloc_thread_cache(struct ThreadCacheState *cache);

#ifdef __cplusplus
}
#endif

#endif
