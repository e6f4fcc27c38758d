#include "replay/explicit_caches.h"

/* jemalloc(3): flags of the *x() functions. */
#define FLAG_ZERO           0x40
#define FLAG_TCACHE(tcache) ((int)(((tcache) + 2u) << 8))
#define FLAG_TCACHE_NONE    (1 << 8)
#define FLAG_ALIGN(log2)    ((int)(log2))

/* A tcache as a cache of the executor: NULL is none. */
#define CACHE_AUTOMATIC  ((void *)UINTPTR_MAX)
#define CACHE_OF(tcache) ((void *)(uintptr_t)((tcache) + 1u))
#define TCACHE_OF(cache) ((unsigned)((uintptr_t)(cache)-1u))

static struct {
    void *(*mallocx)(size_t size, int flags);
    void *(*rallocx)(void *object, size_t size, int flags);
    void (*dallocx)(void *object, int flags);
    void (*sdallocx)(void *object, size_t size, int flags);
    int (*control)(const char *name, void *old, size_t *old_bytes, void *set, size_t set_bytes);
    void *cache;    /* the current one */
    int flags;      /* that name it */
    unsigned arena; /* that the next tcache is made from */
    unsigned arenas;
    struct allocator plain, flagged; /* with the automatic tcache, and with the current one */
} explicit_caches;

static void find_functions(void)
{
    allocator_find_own("mallocx", &explicit_caches.mallocx);
    allocator_find_own("rallocx", &explicit_caches.rallocx);
    allocator_find_own("dallocx", &explicit_caches.dallocx);
    allocator_find_own("sdallocx", &explicit_caches.sdallocx);
    allocator_find_own("mallctl", &explicit_caches.control);
}

bool explicit_caches_exist(void)
{
    bool enabled = false;
    size_t bytes = sizeof enabled;
    find_functions();
    return explicit_caches.mallocx != NULL && explicit_caches.rallocx != NULL &&
           explicit_caches.dallocx != NULL && explicit_caches.sdallocx != NULL &&
           explicit_caches.control != NULL &&
           explicit_caches.control("opt.tcache", &enabled, &bytes, NULL, 0) == 0 && enabled;
}

/* ---- the current tcache ---- */

static void use_cache(void *cache)
{
    explicit_caches.cache = cache;
    explicit_caches.flags = cache != NULL ? FLAG_TCACHE(TCACHE_OF(cache)) : FLAG_TCACHE_NONE;
}

/* With the executor in the next arena. When jemalloc has no more of them, calls go past all
 * tcaches. */
static void make_cache(void)
{
    unsigned tcache, old_arena, arena = explicit_caches.arena;
    size_t bytes = sizeof tcache, old_bytes = sizeof old_arena;
    if (explicit_caches.control("thread.arena", &old_arena, &old_bytes, &arena, sizeof arena) != 0)
        return;
    if (explicit_caches.control("tcache.create", &tcache, &bytes, NULL, 0) == 0)
        use_cache(CACHE_OF(tcache));
    explicit_caches.control("thread.arena", NULL, NULL, &old_arena, sizeof old_arena);
    explicit_caches.arena = (explicit_caches.arena + 1) % explicit_caches.arenas;
}

static void *explicit_release(void)
{
    void *cache = explicit_caches.cache;
    use_cache(NULL);
    return cache;
}

/* An automatic tcache cannot be destroyed, but emptied. */
static void explicit_set(void *cache)
{
    void *old = explicit_caches.cache;
    if (old == CACHE_AUTOMATIC) {
        explicit_caches.control("thread.tcache.flush", NULL, NULL, NULL, 0);
        if (cache == NULL) return;
    } else if (old != NULL && old != cache) {
        unsigned tcache = TCACHE_OF(old);
        explicit_caches.control("tcache.destroy", NULL, NULL, &tcache, sizeof tcache);
    }
    use_cache(cache);
}

static const struct allocator *explicit_in_force(void)
{
    return explicit_caches.cache == CACHE_AUTOMATIC ? &explicit_caches.plain
                                                    : &explicit_caches.flagged;
}

/* ---- calls ---- */

/* The *x() functions want a size above 0, and then do as malloc does with 0. */
static inline void *allocation(size_t size, int more_flags)
{
    if (__builtin_expect(explicit_caches.cache == NULL, 0)) make_cache();
    return explicit_caches.mallocx(size + (size == 0), explicit_caches.flags | more_flags);
}

static unsigned log2_of(size_t alignment)
{
    unsigned log2 = 0;
    while (log2 < 62 && (UINT64_C(1) << log2) < alignment)
        log2++;
    return log2;
}

/* As memalign() and its like, which refuse what is no power of two. */
static inline void *allocation_aligned(size_t size, size_t alignment)
{
    if (__builtin_popcountll(alignment) != 1) return NULL;
    return allocation(size, FLAG_ALIGN(log2_of(alignment)));
}

static void *explicit_malloc(size_t size)
{
    return allocation(size, 0);
}

static void *explicit_calloc(size_t count, size_t size)
{
    return allocation(count * size, FLAG_ZERO);
}

static void explicit_free(void *object)
{
    if (object != NULL) explicit_caches.dallocx(object, explicit_caches.flags);
}

static void *explicit_realloc(void *object, size_t size)
{
    if (object == NULL) return allocation(size, 0);
    if (size == 0) {
        explicit_free(object);
        return NULL;
    }
    if (explicit_caches.cache == NULL) make_cache();
    return explicit_caches.rallocx(object, size, explicit_caches.flags);
}

static void *explicit_memalign(size_t alignment, size_t size)
{
    return allocation_aligned(size, alignment);
}

static void *explicit_valloc(size_t size)
{
    return allocation_aligned(size, 4096);
}

static void *explicit_malloc_aligned(size_t size, size_t alignment)
{
    return allocation_aligned(size, alignment);
}

static void *explicit_malloc_tag(size_t size, const void *tag)
{
    (void)tag;
    return allocation(size, 0);
}

static void *explicit_malloc_aligned_tag(size_t size, size_t alignment, const void *tag)
{
    (void)tag;
    return allocation_aligned(size, alignment);
}

static void explicit_free_tag(void *object, const void *tag)
{
    (void)tag;
    explicit_free(object);
}

/* The size that the program gave; of 0 bytes nothing smaller than a smallest object was made. */
static void explicit_free_sized(void *object, size_t size)
{
    if (object != NULL) explicit_caches.sdallocx(object, size + (size == 0), explicit_caches.flags);
}

static void explicit_free_aligned(void *object, size_t alignment)
{
    (void)alignment;
    explicit_free(object);
}

static void explicit_free_aligned_tag(void *object, size_t alignment, const void *tag)
{
    (void)alignment, (void)tag;
    explicit_free(object);
}

static void explicit_free_sized_aligned(void *object, size_t size, size_t alignment)
{
    /* Made with the next power of two, if this is none (calls.h). */
    const int flags = explicit_caches.flags | FLAG_ALIGN(log2_of(alignment));
    if (object != NULL) explicit_caches.sdallocx(object, size + (size == 0), flags);
}

static void replace_calls(struct allocator *allocator)
{
    allocator->malloc = explicit_malloc;
    allocator->calloc = explicit_calloc;
    allocator->realloc = explicit_realloc;
    allocator->free = explicit_free;
    allocator->posix_memalign = explicit_memalign;
#define USE_EXPLICIT(kind, member, arguments, symbols, substitute) \
    allocator->member = explicit_##substitute;
    ALLOCATOR_CALL_LIST(USE_EXPLICIT)
    ALLOCATOR_C_CALL_LIST(USE_EXPLICIT)
#undef USE_EXPLICIT
}

const struct allocator *explicit_caches_use(const struct allocator *allocator)
{
    size_t bytes = sizeof explicit_caches.arenas;
    struct allocator *plain = &explicit_caches.plain;
    find_functions();
    if (explicit_caches.control("opt.narenas", &explicit_caches.arenas, &bytes, NULL, 0) != 0 ||
        explicit_caches.arenas == 0)
        explicit_caches.arenas = 1;
    explicit_caches.arena = 1 % explicit_caches.arenas; /* the first one has lane 0 */
    use_cache(NULL);
    explicit_caches.control("thread.tcache.flush", NULL, NULL, NULL, 0);

    *plain = *allocator;
    plain->release_cache = explicit_release;
    plain->set_cache = explicit_set;
    plain->in_force = explicit_in_force;
    plain->first_cache = CACHE_AUTOMATIC;
    plain->cache_means = EXPLICIT_CACHES_MEANS;
    explicit_caches.flagged = *plain;
    replace_calls(&explicit_caches.flagged);
    return plain;
}
