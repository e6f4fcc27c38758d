/* thread_cache_api_test - malloc_thread_cache.h does what it says. Run with the library preloaded.
 *
 * Prints TAP lines without a plan: thread_cache_api_test.sh runs this over both libraries.
 *
 * "Bytes cached" is what tcmalloc says all thread caches hold together. It moves only with what
 * this program does, because no other thread is in malloc while it is read. */
#include "gperftools-patches/malloc_thread_cache.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool (*release_it)(struct ThreadCacheState **cache);
static bool (*set_it)(struct ThreadCacheState *cache);
static int (*get_property)(const char *, size_t *);
static void (*mark_thread_idle)(void);
static bool failed;

static void check(bool ok, const char *what)
{
    printf("%s - %s\n", ok ? "ok" : "not ok", what);
    failed |= !ok;
}

/* Only dlsym, so that the program starts without the library too and can say what is missing. */
static bool functions_find(void)
{
    *(void **)&release_it = dlsym(RTLD_DEFAULT, "release_malloc_thread_cache");
    *(void **)&set_it = dlsym(RTLD_DEFAULT, "set_malloc_thread_cache");
    *(void **)&get_property = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
    *(void **)&mark_thread_idle = dlsym(RTLD_DEFAULT, "MallocExtension_MarkThreadIdle");
    return release_it && set_it && get_property && mark_thread_idle;
}

static struct ThreadCacheState *release_cache(void)
{
    struct ThreadCacheState *cache = (void *)&cache;
    if (!release_it(&cache)) abort();
    return cache;
}

static void set_cache(struct ThreadCacheState *cache)
{
    if (!set_it(cache)) abort();
}

static size_t bytes_cached(void)
{
    size_t bytes = 0;
    if (!get_property("tcmalloc.current_total_thread_cache_bytes", &bytes)) abort();
    return bytes;
}

/* Makes the attached cache hold several KiB. Repeated, because tcmalloc lets lists grow slowly. */
static void cache_fill(void)
{
    void *objects[64];
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < 64; i++)
            objects[i] = malloc(256);
        for (int i = 0; i < 64; i++)
            free(objects[i]);
    }
}

/* A new cache that holds several KiB, detached; the caller's own cache stays attached to it. */
static void *cache_make(void)
{
    void *own = release_cache();
    cache_fill();
    void *made = release_cache();
    set_cache(own);
    return made;
}

static void thread_run(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) abort();
    pthread_join(thread, NULL);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void test_release_and_set(void)
{
    free(malloc(64));
    void *own = release_cache();
    check(own != NULL, "a thread that used malloc has a cache");
    check(release_cache() == NULL, "a released cache is gone from the thread");
    set_cache(own);
    set_cache(own);
    check(release_cache() == own,
          "an attached cache can be released again, attaching twice is once");
    set_cache(own);
}

static void test_caches_are_separate(void)
{
    void *first = malloc(64);
    free(first);
    void *a = release_cache();
    void *second = malloc(64);
    free(second);
    void *b = release_cache();
    check(b != NULL && b != a, "malloc without a cache makes a new one");
    check(second != first, "another cache does not hand out what the first one holds");
    set_cache(a);
    void *again = malloc(64);
    check(again == first, "back in the first cache, the object freed there comes back");
    free(again);
    a = release_cache();
    set_cache(b);
    again = malloc(64);
    check(again == second, "and so in the second");
    free(again);
    set_cache(a);
}

static void test_free_under_another_cache(void)
{
    void *object = malloc(1000);
    void *own = release_cache();
    void *allocated_here = malloc(1000);
    free(object);
    check(malloc(1000) == object,
          "an object is cached where it is freed, not where it was allocated");
    free(object);
    free(allocated_here);
    set_cache(own);
}

static void test_free_without_cache(void)
{
    void *object = malloc(256);
    void *own = release_cache();
    size_t before = bytes_cached();
    free(object);
    check(bytes_cached() == before, "without a cache, free goes to the central lists");
    check(release_cache() == NULL, "and makes no cache");
    set_cache(own);
}

static void test_replacing_destroys(void)
{
    size_t before = bytes_cached();
    void *other = cache_make();
    size_t with_other = bytes_cached();
    check(with_other > before + 4096, "a detached cache keeps its objects");
    void *own = release_cache();
    set_cache(other);
    set_cache(own);
    check(bytes_cached() == before, "replacing a cache returns its objects");

    own = release_cache();
    set_cache(cache_make());
    set_cache(NULL);
    check(bytes_cached() == before, "so does setting none");
    check(release_cache() == NULL, "and leaves none");
    set_cache(own);
}

/* --- thread exit ------------------------------------------------------------------------------ */

static void *body_leave_cache(void *result)
{
    cache_fill();
    *(void **)result = release_cache();
    return NULL;
}

static void test_exit_after_release(void)
{
    size_t before = bytes_cached();
    void *left = NULL;
    thread_run(body_leave_cache, &left);
    check(left != NULL && bytes_cached() > before + 4096, "a released cache outlives its thread");

    void *own = release_cache();
    set_cache(left);
    free(malloc(256));
    check(release_cache() == left, "and works in another thread");
    set_cache(left);
    set_cache(own);
    check(bytes_cached() == before, "where it can be destroyed");
}

static void *body_swap_and_exit(void *cache)
{
    void **caches = cache;
    cache_fill();
    caches[1] = release_cache();
    set_cache(caches[0]);
    return NULL;
}

static void test_exit_with_foreign_cache(void)
{
    size_t before = bytes_cached();
    void *caches[2] = {cache_make(), NULL};
    thread_run(body_swap_and_exit, caches);
    size_t after = bytes_cached();
    check(after > before + 4096, "at thread exit the cache that it gave away stays");
    void *own = release_cache();
    set_cache(caches[1]);
    set_cache(own);
    check(bytes_cached() == before, "and the one that it took is destroyed");
}

static void *body_only_attach(void *cache)
{
    void *had = release_cache();
    set_cache(cache);
    return had;
}

static void test_exit_of_thread_without_malloc(void)
{
    size_t before = bytes_cached();
    thread_run(body_only_attach, cache_make());
    check(bytes_cached() == before,
          "a cache given to a thread that never called malloc dies with it");
}

static void *body_idle_then_attach(void *cache)
{
    free(malloc(64));
    mark_thread_idle();
    set_cache(cache);
    return NULL;
}

static void test_exit_after_idle(void)
{
    size_t before = bytes_cached();
    thread_run(body_idle_then_attach, cache_make());
    check(bytes_cached() == before, "a cache given to an idle thread dies with it");
}

static void *body_malloc_then_key(void *key)
{
    free(malloc(64));
    pthread_setspecific(*(pthread_key_t *)key, key);
    return NULL;
}

static void *late_cache;

static void attach_late(void *unused)
{
    (void)unused;
    set_cache(late_cache);
}

/* tcmalloc's key is older than ours, so its destructor has run when attach_late() does. */
static void test_attach_in_thread_destructor(void)
{
    size_t before = bytes_cached();
    pthread_key_t key;
    if (pthread_key_create(&key, attach_late) != 0) abort();
    late_cache = cache_make();
    thread_run(body_malloc_then_key, &key);
    check(bytes_cached() == before, "a cache attached during thread exit is destroyed too");
    pthread_key_delete(key);
}

/* --- many threads ----------------------------------------------------------------------------- */

enum { carriers = 4, pool_size = 8, switches_per_carrier = 20000, objects_max = 32 };

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static void *pool[pool_size]; /* NULL: a cache not made yet */

static unsigned random_next(unsigned *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

static void *pool_exchange(unsigned slot, void *cache)
{
    pthread_mutex_lock(&pool_lock);
    void *taken = pool[slot];
    pool[slot] = cache;
    pthread_mutex_unlock(&pool_lock);
    return taken;
}

static bool object_replace(unsigned char **object, size_t *size, unsigned random)
{
    bool intact = true;
    for (size_t i = 0; *object != NULL && i < *size; i++)
        intact &= (*object)[i] == (unsigned char)*size;
    free(*object);
    *size = random % 2000;
    *object = malloc(*size);
    memset(*object, (int)*size, *size);
    return intact;
}

static void *body_carrier(void *argument)
{
    unsigned random = *(unsigned *)argument;
    unsigned char *objects[objects_max] = {NULL};
    size_t sizes[objects_max] = {0};
    bool intact = true;
    for (int i = 0; i < switches_per_carrier; i++) {
        unsigned slot = (random_next(&random) >> 16) % objects_max;
        intact &= object_replace(&objects[slot], &sizes[slot], random_next(&random) >> 8);
        set_cache(pool_exchange((random_next(&random) >> 16) % pool_size, release_cache()));
    }
    for (int i = 0; i < objects_max; i++)
        free(objects[i]);
    return intact ? NULL : argument;
}

static void test_many_carriers(void)
{
    pthread_t threads[carriers];
    unsigned seeds[carriers];
    bool intact = true;
    set_cache(NULL); /* pthread_create allocates: compare without this thread's cache */
    size_t before = bytes_cached();
    for (unsigned i = 0; i < carriers; i++) {
        seeds[i] = i + 1;
        if (pthread_create(&threads[i], NULL, body_carrier, &seeds[i]) != 0) abort();
    }
    for (int i = 0; i < carriers; i++) {
        void *result;
        pthread_join(threads[i], &result);
        intact &= result == NULL;
    }
    check(intact, "threads that pass caches around corrupt no object");

    for (unsigned i = 0; i < pool_size; i++)
        set_cache(pool_exchange(i, NULL));
    set_cache(NULL);
    check(bytes_cached() == before, "and leave nothing behind");
}

static void switch_time_print(void)
{
    enum { rounds = 1000000 };
    struct timespec start, end;
    void *other = cache_make();
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < rounds; i++) {
        void *attached = release_cache();
        set_cache(other);
        other = attached;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double elapsed_ns = (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
    printf("# one switch takes %.1f ns\n", elapsed_ns / rounds);
    void *own = release_cache();
    set_cache(other);
    set_cache(own);
}

int main(void)
{
    static char output[4096]; /* else the first printf would allocate it, in the middle of a test */
    setvbuf(stdout, output, _IOLBF, sizeof output);
    if (!functions_find()) {
        check(false, "the library exports the thread cache functions");
        return 1;
    }
    test_release_and_set();
    test_caches_are_separate();
    test_free_under_another_cache();
    test_free_without_cache();
    test_replacing_destroys();
    test_exit_after_release();
    test_exit_with_foreign_cache();
    test_exit_of_thread_without_malloc();
    test_exit_after_idle();
    test_attach_in_thread_destructor();
    test_many_carriers();
    switch_time_print();
    return failed;
}
