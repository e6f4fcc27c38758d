/* thread_cache_api - malloc_thread_cache.h over gperftools' ThreadCache, compiled into both
 * libraries.
 *
 * Invariant   destructor_armed == (pthread_getspecific(heap_key_) != NULL)
 *
 * While it is set, DestroyThreadCache runs at thread exit and destroys the cache that is attached
 * then. The value of the key may be another thread's cache by then, so nobody looks at it. */
#include "config.h"

#include "malloc_thread_cache.h"
#include "maybe_threads.h"
#include "thread_cache.h"

#ifndef HAVE_TLS
#error "thread caches can only be switched where they are found through thread-local storage"
#endif

namespace tcmalloc {

// A friend of ThreadCache: the only line that the patch adds to upstream's file.
struct ThreadCacheApi {
    static ThreadCache *Attached() { return ThreadCache::threadlocal_data_.heap; }

    static void Attach(ThreadCache *heap)
    {
        ThreadCache::threadlocal_data_.heap = heap;
        ThreadCache::threadlocal_data_.fast_path_heap = heap;
        MALLOCTAPE(thread_cache_changed());
    }

    // Comes after Attach: pthread_setspecific may call malloc.
    static void ArmDestructor(ThreadCache *heap)
    {
        if (ThreadCache::threadlocal_data_.destructor_armed) return;
        ThreadCache::threadlocal_data_.destructor_armed = true;
        perftools_pthread_setspecific(ThreadCache::heap_key_, heap);
    }

    static void Delete(ThreadCache *heap) { ThreadCache::DeleteCache(heap); }
};

} // namespace tcmalloc

using tcmalloc::ThreadCache;
using tcmalloc::ThreadCacheApi;

extern "C" PERFTOOLS_DLL_DECL bool release_malloc_thread_cache(ThreadCacheState **cache)
{
    *cache = reinterpret_cast<ThreadCacheState *>(ThreadCacheApi::Attached());
    ThreadCacheApi::Attach(nullptr);
    return true;
}

extern "C" PERFTOOLS_DLL_DECL bool set_malloc_thread_cache(ThreadCacheState *cache)
{
    ThreadCache *next = reinterpret_cast<ThreadCache *>(cache);
    ThreadCache *previous = ThreadCacheApi::Attached();
    if (previous == next) return true;
    ThreadCacheApi::Attach(next);
    if (next != nullptr) ThreadCacheApi::ArmDestructor(next);
    if (previous != nullptr) ThreadCacheApi::Delete(previous);
    return true;
}
