/* thread_cache_api - malloc_thread_cache.h over gperftools' ThreadCachePtr, compiled into both
 * libraries.
 *
 * While the key has a value, its destructor runs at thread exit and destroys the cache that is
 * attached then. The value may be another thread's cache by then, so nobody looks at it. */
#include "config.h"

#include "malloc_thread_cache.h"
#include "thread_cache_ptr.h"

namespace tcmalloc {

static_assert(kHaveGoodTLS, "a thread's cache must be found through thread-local storage");

// A friend of ThreadCachePtr.
struct ThreadCacheApi {
    static ThreadCache *Attached() { return ThreadCachePtr::tls_data_.fast_path_cache; }

    static void Attach(ThreadCache *cache)
    {
        ThreadCachePtr::tls_data_.fast_path_cache = cache;
        MALLOCTAPE(thread_cache_changed());
    }

    // Comes after Attach: pthread_setspecific may call malloc.
    static void ArmDestructor(ThreadCache *cache)
    {
        if (GetTlsValue(ThreadCachePtr::tls_key_) == nullptr)
            SetTlsValue(ThreadCachePtr::tls_key_, cache);
    }
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
    if (previous != nullptr) ThreadCache::DeleteCache(previous);
    return true;
}
