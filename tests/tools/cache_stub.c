/* cache_stub.so - to be preloaded: the C library's malloc, counted, with imaginary thread caches.
 *
 * It has the two functions of malloc_thread_cache.h, so that a test can see when replay calls them.
 * They do what those of gperftools' branch wip-malloc-tracing do: a release always says where the
 * cache is or that there is none, and setting a cache destroys the attached one, whichever is set.
 * At exit it writes one line of NAME=NUMBER pairs to the file that CACHE_STUB_LOG names:
 *
 *   calls      calls of malloc and its kin from the first release to the last set: the replay's own
 *              ones would be among them
 *   made       thread caches that a call without one has made in that time
 *   destroyed  thread caches destroyed by setting another one
 *   sets       calls of set_malloc_thread_cache()
 *
 * For one thread. */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *object, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *object);

struct ThreadCacheState;
bool release_malloc_thread_cache(struct ThreadCacheState **cache);
bool set_malloc_thread_cache(struct ThreadCacheState *cache);

static struct {
    bool started;
    uint64_t calls, calls_until_set, made, destroyed, sets;
    struct ThreadCacheState *cache; /* of the calling thread */
    uint64_t next;
} stub = {.next = 1};

static void stub_call(void)
{
    stub.calls += stub.started;
}

static void stub_allocation(void)
{
    stub_call();
    if (stub.cache != NULL) return;
    stub.cache = (struct ThreadCacheState *)(uintptr_t)stub.next++;
    stub.made += stub.started;
}

bool release_malloc_thread_cache(struct ThreadCacheState **cache)
{
    stub.started = true;
    *cache = stub.cache;
    stub.cache = NULL;
    return true;
}

bool set_malloc_thread_cache(struct ThreadCacheState *cache)
{
    if ((uintptr_t)cache >= stub.next) abort();
    stub.sets++;
    stub.calls_until_set = stub.calls;
    stub.destroyed += stub.cache != NULL;
    stub.cache = cache;
    return true;
}

void *malloc(size_t size)
{
    stub_allocation();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    stub_allocation();
    return __libc_calloc(count, size);
}

void *realloc(void *object, size_t size)
{
    stub_allocation();
    return __libc_realloc(object, size);
}

void *memalign(size_t alignment, size_t size)
{
    stub_allocation();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

void *valloc(size_t size)
{
    return memalign(4096, size);
}

void *pvalloc(size_t size)
{
    return memalign(4096, (size + 4095) / 4096 * 4096);
}

int posix_memalign(void **object, size_t alignment, size_t size)
{
    *object = memalign(alignment, size);
    return *object != NULL ? 0 : ENOMEM;
}

void free(void *object)
{
    stub_call();
    __libc_free(object);
}

static __attribute__((destructor)) void stub_report(void)
{
    const char *path = getenv("CACHE_STUB_LOG");
    FILE *log = path != NULL ? fopen(path, "w") : NULL;
    if (log == NULL) return;
    fprintf(log, "calls=%ju made=%ju destroyed=%ju sets=%ju\n", (uintmax_t)stub.calls_until_set,
            (uintmax_t)stub.made, (uintmax_t)stub.destroyed, (uintmax_t)stub.sets);
    fclose(log);
}
