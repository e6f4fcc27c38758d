/* preload - the front end of the capture core (tracing/core/capture.h) for whatever allocator a program
 * has: libmalloctape.so.
 *
 * Replaces the functions of an allocator (entry_points.h) and calls those of the next library
 * (next.h). An allocation is recorded after its call, a free before; a realloc is announced before
 * and recorded after it.
 *
 *   malloc() --> front->malloc:  recorded_malloc()   fast path  the thread's lane has room, and the
 *                                                               place is the lane's or nobody's
 *                                                    slow path  everything else
 *                                next.malloc                    nothing is recorded, nor will be
 *
 * malloc_usable_size() is counted. Nothing else stands between the program and its allocator:
 * mallinfo() and the like lead there directly. */
#include "common/call_table.h"
#include "tracing/core/capture.h"
#include "tracing/preload/next.h"
#include "tracing/preload/preload_allocator.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT          __attribute__((visibility("default")))
#define INLINE          static inline __attribute__((always_inline))
#define NOINLINE        __attribute__((noinline))
#define COLD            __attribute__((noinline, cold))
#define LIKELY(value)   __builtin_expect(!!(value), 1)
#define UNLIKELY(value) __builtin_expect(!!(value), 0)

#define DECLARE_ALLOCATION(function, kind, parameters, ...) void *function parameters;
ENTRY_ALLOCATIONS(DECLARE_ALLOCATION)
#define DECLARE_FREE(function, kind, parameters, ...) void function parameters;
ENTRY_FREES(DECLARE_FREE)
void *realloc(void *object, size_t size);
int posix_memalign(void **result, size_t alignment, size_t size);
int mallopt(int parameter, int value);
int malloc_trim(size_t padding);
size_t malloc_usable_size(void *object);

/* ---- allocations ---- */

/* The shape of calls of a kind: known when this is compiled. */
INLINE unsigned shape_of(unsigned kind)
{
    switch (kind) {
#define CASE_SHAPE(number, identifier, name, shape) \
    case number: return SHAPE_##shape;
        CALL_KIND_LIST(CASE_SHAPE)
#undef CASE_SHAPE
    default: return SHAPE_UNDEFINED;
    }
}

/* Where the entry points lead. */
static const struct next_allocator recorded, *front = &recorded;

/* Defines an entry point. */
#define DEFINE_ENTRY(result, function, parameters, arguments)   \
    EXPORT result function parameters                           \
    {                                                           \
        return atomic_load_acquire(&front)->function arguments; \
    }

static void pass_by(void);

/* The latest call off the fast path may be one of those that the C library makes when a thread
 * begins or ends. jemalloc must not be asked in such a call, up to its end: the thread may be its
 * own. */
static MALLOCTAPE_THREAD_LOCAL bool may_be_for_thread;

INLINE void note_for_thread(unsigned kind)
{
    may_be_for_thread = kind == CALL_CALLOC || kind == CALL_REALLOC_MOVED || kind == CALL_FREE;
}

/* The first call may begin a recording, which asks the allocator. */
static bool may_record(void)
{
    return !(malloctape_is_undecided() && may_be_for_thread && allocator_is_jemalloc()) &&
           malloctape_ready();
}

/* Off the fast path. False: this call is not recorded. */
static NOINLINE bool begin_slow(unsigned kind)
{
    if (malloctape_is_off()) {
        if (malloctape_is_idle()) pass_by();
        return false;
    }
    note_for_thread(kind);
    if (may_record()) return true;
    malloctape_unrecorded();
    return false;
}

/* A failed operator new that is about to throw; `kind` 0: there is none. */
static MALLOCTAPE_THREAD_LOCAL struct {
    unsigned kind;
    uint64_t size, alignment;
} failing;

/* An unrecorded call has made the object: readers must not take it for one recorded earlier. */
static void *unrecorded(void *object)
{
    if (object != NULL && !malloctape_is_off()) malloctape_opaque_allocated_unrecorded(object);
    return object;
}

/* Off the fast path, if only because the object's stack is to be recorded. */
static NOINLINE void *allocated_slowly(unsigned kind, uint64_t size, uint64_t alignment,
                                       void *object)
{
    const struct malloctape_lane *lane = malloctape_lane;
    if (malloctape_lane_is_fast(lane) && lane->units.all_have_stacks && object != NULL &&
        !alignment) {
        note_for_thread(kind);
        if (malloctape_allocated_as_usual(kind, size, object)) return object;
    }
    int kept_errno = errno;
    if (begin_slow(kind)) {
        malloctape_opaque_allocated(kind, size, alignment, object);
        unsigned failed = failing.kind;
        failing.kind = 0;
        if (UNLIKELY(failed))
            malloctape_opaque_allocated(failed, failing.size, failing.alignment, NULL);
    } else {
        unrecorded(object);
    }
    errno = kept_errno;
    return object;
}

/* A call is recorded when it is over. This one is over after the allocation of the exception, which
 * therefore must not be on the fast path. */
static COLD void fail_and_throw(unsigned kind, uint64_t size, uint64_t alignment)
{
    failing.kind = kind;
    failing.size = size;
    failing.alignment = alignment;
    atomic_store_relaxed(&malloctape_lane->units.limit, 0);
    next_throw_bad_alloc();
}

/* Records the allocation of `object`, which may be NULL. The fast path writes no alignment, not
 * even one of 0. */
INLINE void *allocated(unsigned kind, uint64_t size, uint64_t alignment, void *object)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint64_t head;
    if (shape_has_alignment(shape_of(kind))) goto slow;
    head = atomic_load_relaxed(&lane->units.head);
    if (UNLIKELY(head >= atomic_load_operand(&lane->units.limit))) goto slow;
    if (UNLIKELY(size >= units_code_of(&lane->units, kind)->size_limit)) goto slow;
    if (UNLIKELY(!shadow_covers_next(&lane->units.region, object))) goto slow;
    struct shadow_page *page = shadow_page_in(lane->units.window, object);
    uint32_t place = shadow_granule_place(page, object);
    if (UNLIKELY(!place)) goto slow;
    if (UNLIKELY(
            !shadow_begin_small(page, lane->units.owners + place, object, size, lane->units.owner)))
        goto slow;
    units_fast_opaque_allocation(&lane->units, units_head_cursor(head), kind, size, place);
    return object;
slow:
    return allocated_slowly(kind, size, alignment, object);
}

/* Defines the entry point, and where it leads. */
#define DEFINE_ALLOCATION_OF(function, parameters, arguments, bytes, align, kind, call) \
    static void *recorded_##function parameters                                         \
    {                                                                                   \
        return allocated(kind, bytes, align, call);                                     \
    }                                                                                   \
    DEFINE_ENTRY(void *, function, parameters, arguments)

/* ---- frees ---- */

static COLD void freeing_slowly(unsigned kind, const void *object, size_t size, size_t alignment)
{
    int kept_errno = errno;
    if (begin_slow(kind)) {
        if (object != NULL)
            malloctape_opaque_freeing(kind, object, size, alignment);
        else
            malloctape_freed_nothing();
    }
    errno = kept_errno;
}

/* Records a free of `object`. False: it is not on the fast path, and nothing is recorded. */
INLINE bool freed_fast(unsigned kind, const void *object, size_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    if (shape_has_alignment(shape_of(kind))) return false;
    uint64_t head = atomic_load_relaxed(&lane->units.head);
    if (UNLIKELY(head >= atomic_load_operand(&lane->units.limit))) return false;
    if (UNLIKELY(!shadow_covers_next(&lane->units.region, object))) return false;
    uint32_t place = shadow_granule_place(shadow_page_in(lane->units.window, object), object);
    if (UNLIKELY(!place)) return false;
    uint16_t owner = atomic_load_relaxed(lane->units.owners + place);
    if (UNLIKELY((owner & (SHADOW_SURE - 1)) != lane->units.owner)) return false;
    return units_fast_opaque_free(&lane->units, units_head_cursor(head), kind, place,
                                  shape_has_size(shape_of(kind)), size);
}

/* The same for a free. Nothing is recorded if not `is_ours`. */
#define DEFINE_FREE_OF(function, parameters, arguments, bytes, align, kind, is_ours, call) \
    static NOINLINE void slow_##function parameters                                        \
    {                                                                                      \
        if (is_ours) freeing_slowly(kind, object, bytes, align);                           \
        call;                                                                              \
    }                                                                                      \
    static void recorded_##function parameters                                             \
    {                                                                                      \
        if (LIKELY((is_ours) && freed_fast(kind, object, bytes)))                          \
            call;                                                                          \
        else                                                                               \
            slow_##function arguments;                                                     \
    }                                                                                      \
    DEFINE_ENTRY(void, function, parameters, arguments)

/* ---- realloc ---- */

static void *preload_reallocate(void *object, size_t size)
{
    struct malloctape_ending ending;
    int kept_errno = errno;
    bool announced = begin_slow(CALL_REALLOC_MOVED) && malloctape_reallocating(object, &ending);
    errno = kept_errno;
    void *moved = next.realloc(object, size);
    if (!announced) return unrecorded(moved);
    kept_errno = errno;
    malloctape_reallocated_from(&ending, size, moved);
    errno = kept_errno;
    return moved;
}

/* ---- the entry points of C ---- */

#define DEFINE_ALLOCATION(function, kind, parameters, arguments, bytes, align)       \
    DEFINE_ALLOCATION_OF(function, parameters, arguments, bytes, align, CALL_##kind, \
                         next.function arguments)
ENTRY_C_ALLOCATIONS(DEFINE_ALLOCATION)

#define DEFINE_FREE(function, kind, parameters, arguments, bytes, align)             \
    DEFINE_FREE_OF(function, parameters, arguments, bytes, align, CALL_##kind, true, \
                   next.function arguments)
ENTRY_C_FREES(DEFINE_FREE)

static void *recorded_realloc(void *object, size_t size)
{
    if (object != NULL) return preload_reallocate(object, size);
    return allocated_slowly(CALL_REALLOC_NULL, size, 0, next.realloc(NULL, size));
}

DEFINE_ENTRY(void *, realloc, (void *object, size_t size), (object, size))

static int recorded_posix_memalign(void **result, size_t alignment, size_t size)
{
    void *made = NULL;
    int status = next.posix_memalign(&made, alignment, size);
    if (status == 0) *result = made;
    allocated_slowly(CALL_POSIX_MEMALIGN, size, alignment, status == 0 ? made : NULL);
    return status;
}

DEFINE_ENTRY(int, posix_memalign, (void **result, size_t alignment, size_t size),
             (result, alignment, size))

EXPORT int mallopt(int parameter, int value)
{
    if (begin_slow(CALL_MALLOPT))
        malloctape_heap_call(CALL_MALLOPT, 2, (uint64_t)(int64_t)parameter,
                             (uint64_t)(int64_t)value);
    return next.mallopt(parameter, value);
}

EXPORT int malloc_trim(size_t padding)
{
    if (begin_slow(CALL_MALLOC_TRIM)) malloctape_heap_call(CALL_MALLOC_TRIM, 1, padding, 0);
    return next.malloc_trim(padding);
}

static size_t recorded_malloc_usable_size(void *object)
{
    malloctape_size_asked();
    return next.malloc_usable_size(object);
}

DEFINE_ENTRY(size_t, malloc_usable_size, (void *object), (object))

/* The names of next_libc(). */
#define DEFINE_LIBC(function, result, parameters, arguments)                                  \
    result own_##function parameters __attribute__((alias(#function), visibility("hidden"))); \
    result __libc_##function parameters;                                                      \
    EXPORT result __libc_##function parameters                                                \
    {                                                                                         \
        const struct next_libc_functions *libc = next_libc();                                 \
        return libc->function ? libc->function arguments : own_##function arguments;          \
    }
NEXT_LIBC(DEFINE_LIBC)

int __posix_memalign(void **result, size_t alignment, size_t size)
    __attribute__((alias("posix_memalign"), visibility("default")));

/* ---- the entry points of C++ ----
 *
 * malloc(), and if that fails, the new handler and malloc() again (next.h). */

/* `alignment` 0: any. A runtime rounds the size, as its aligned_alloc() may ask for. */
INLINE void *make(size_t size, size_t alignment)
{
    if (size == 0) size = 1;
    if (!alignment) return next.malloc(size);
    if (next.has_memalign) return next.memalign(alignment, size);
    size_t rounded = (size + alignment - 1) & ~(alignment - 1);
    if ((alignment & (alignment - 1)) != 0 || rounded < size) return NULL;
    return next.aligned_alloc(alignment, rounded);
}

INLINE bool is_nothrow(unsigned kind)
{
    return kind == CALL_NEW_NOTHROW || kind == CALL_NEW_ARRAY_NOTHROW ||
           kind == CALL_NEW_ALIGNED_NOTHROW || kind == CALL_NEW_ARRAY_ALIGNED_NOTHROW;
}

/* After a failure: the object, if the handler can do something about it. What the handler calls is
 * recorded. */
static NOINLINE void *make_again(unsigned kind, size_t size, size_t alignment)
{
    void *object = NULL;
    for (next_new_handler *handler; object == NULL && (handler = next_handler()) != NULL;) {
        handler();
        object = make(size, alignment);
    }
    if (object == NULL && begin_slow(kind)) fail_and_throw(kind, size, alignment);
    if (object == NULL) next_throw_bad_alloc();
    return allocated_slowly(kind, size, alignment, object);
}

/* A handler may throw, which only the next operator, written in C++, can catch. The runtime's
 * operator calls the throwing one, which is recorded; an allocator's does not. */
#define DEFINE_NEW(function, kind, parameters, arguments, bytes, align)                        \
    static NOINLINE void *slow_##function parameters                                           \
    {                                                                                          \
        void *(*behind)parameters, *object;                                                    \
        next_library();                                                                        \
        if (next.operators == NEXT_BEHIND) return next.function arguments;                     \
        if (!(object = make(bytes, align)) && !is_nothrow(CALL_##kind))                        \
            return make_again(CALL_##kind, bytes, align);                                      \
        if (!object && next_handler() && next_operator(&behind, #function)) {                  \
            object = behind arguments;                                                         \
            if (!next.has_allocators_operators) return object;                                 \
        }                                                                                      \
        return allocated_slowly(CALL_##kind, bytes, align, object);                            \
    }                                                                                          \
    static void *idle_##function parameters                                                    \
    {                                                                                          \
        void *object = make(bytes, align);                                                     \
        return LIKELY(object) ? object : slow_##function arguments;                            \
    }                                                                                          \
    static void *recorded_##function parameters                                                \
    {                                                                                          \
        void *object;                                                                          \
        if (UNLIKELY(next.operators != NEXT_HERE) || UNLIKELY(!(object = make(bytes, align)))) \
            return slow_##function arguments;                                                  \
        return allocated(CALL_##kind, bytes, align, object);                                   \
    }                                                                                          \
    DEFINE_ENTRY(void *, function, parameters, arguments)
ENTRY_CXX_ALLOCATIONS(DEFINE_NEW)

#define DEFINE_DELETE(function, kind, parameters, arguments, bytes, align)     \
    static void plain_##function parameters                                    \
    {                                                                          \
        if (UNLIKELY(next.operators == NEXT_BEHIND))                           \
            next.function arguments;                                           \
        else                                                                   \
            next.free(object);                                                 \
    }                                                                          \
    DEFINE_FREE_OF(function, parameters, arguments, bytes, align, CALL_##kind, \
                   next.operators != NEXT_BEHIND, plain_##function arguments)
ENTRY_CXX_FREES(DEFINE_DELETE)

/* ---- where the entry points lead ---- */

#define RECORDED(function, ...) .function = recorded_##function,
static const struct next_allocator recorded = {
    ENTRY_ALLOCATIONS(RECORDED) ENTRY_FREES(RECORDED).realloc = recorded_realloc,
    .posix_memalign = recorded_posix_memalign, .malloc_usable_size = recorded_malloc_usable_size};

static struct next_allocator idle;

static void make_idle(void)
{
    idle = next;
#define IDLE(function, ...)  idle.function = idle_##function;
#define PLAIN(function, ...) idle.function = plain_##function;
    if (next.operators == NEXT_HERE) {
        ENTRY_CXX_ALLOCATIONS(IDLE)
        ENTRY_CXX_FREES(PLAIN)
    }
}

/* Leads the entry points past the capture core. No recording can begin meanwhile. */
static void pass_by(void)
{
    if (next_library() == NULL || atomic_load_relaxed(&front) != &recorded ||
        !malloctape_begin_idle())
        return;
    /* Another thread may have done it meanwhile; others then use the table. */
    if (atomic_load_relaxed(&front) == &recorded) {
        make_idle();
        atomic_store_release(&front, &idle);
    }
    malloctape_end_idle();
}

static void divert(void)
{
    atomic_store_relaxed(&front, &recorded);
}

/* ---- what the capture core asks ---- */

static bool nothing_to_cover(void)
{
    return true;
}

static bool look(void)
{
    if (may_be_for_thread && allocator_is_jemalloc()) return false;
    allocator_look();
    return true;
}

static size_t usable_bytes(const void *object)
{
    return next.knows_sizes ? next.malloc_usable_size((void *)(uintptr_t)object) : 0;
}

const struct malloctape_front_end malloctape_front_end = {
    .opaque = true,
    .usable_bytes = usable_bytes,
    .allocator = allocator_name,
    .settings = allocator_settings,
    .heap_bytes = allocator_heap_bytes,
    .cover_heap = nothing_to_cover,
    .divert = divert,
    .rounding = allocator_rounding,
    .look = look,
    .path = allocator_path,
    .made_call = allocator_made_call,
    .heap_unknown = allocator_heap_unknown,
    .statistics = allocator_statistics,
    .read_statistics = allocator_read_statistics,
};
