// tracing_tcmalloc - the front end of the capture core (tracing/core/capture.h) in gperftools.
//
// Takes the place of tcmalloc.cc in libtcmalloc_minimal_tracing.so. It contains tcmalloc.cc, with
// the entry points under other names (malloctape_plain_...), and defines the entry points anew:
//
//   entry      upstream's fast path. Its test for malloc hooks is also the test for recording:
//              while we record, a hook of ours, which does nothing, is in the lists
//   fast path  the same steps as upstream's (thread cache, size class, pop or push), and the event
//              is recorded between them. Where a step is not the common one, a tail call leads to
//              the slow path
//   slow path  calls the plain function and records the event around it
//
// So the allocator does what upstream's does, and objects have the same addresses. (But for pages of large
// objects that calloc() need not write to: recorded_calls.h, plain_calloc().) Upstream lets
// several entry points share a body; here each has its own, as each is a kind of call.
//
// The entry points do not throw. They are not declared noexcept all the same, because the compiler
// makes no tail calls out of a function that is.

#include "plain_names.h"

// Upstream shall make no aliases: neither of the plain functions nor of malloc and the like.
#define TCMALLOC_NO_ALIASES
#define TCMALLOC_LIBC_OVERRIDE_INL_H_
static inline void ReplaceSystemAlloc() {}

#include "tcmalloc.cc"

#include "allocators/facts_tcmalloc.h"
#include "tracing/core/capture.h"
#include "tracing/data/new_memory.h"
#include "tracing/os/next_function.h"
#include "tracing/os/probes.h"
#include "tracing/process/runtime.h"
#include "tracing_tcmalloc.h"

#include <dlfcn.h>
#include <malloc.h>

#define EXPORT             extern "C" __attribute__((visibility("default")))
#define FAST               __attribute__((visibility("default"))) CACHELINE_ALIGNED_FN
#define ALIAS_OF(function) __attribute__((alias(#function), visibility("default")))

namespace {

// --- recording on and off ---

void no_new_hook(const void *, size_t) {}
void no_delete_hook(const void *) {}

// Whether there are hooks, also ours.
ALWAYS_INLINE bool new_is_hooked()
{
    return !base::internal::new_hooks_.empty();
}
ALWAYS_INLINE bool delete_is_hooked()
{
    return !base::internal::delete_hooks_.empty();
}

bool diverted;
bool adding_our_hooks;
bool library_has_begun;

// To be called off the fast path after the first recorded call, when upstream's own first hook has
// left the list, and when a later recording begins. The fast path calls no hooks, so it is enabled
// only if there is none but ours.
ATTRIBUTE_NOINLINE void divert()
{
    if (diverted || malloctape_is_undecided() || malloctape_is_off() ||
        __sync_lock_test_and_set(&diverted, true))
        return;
    if (new_is_hooked() || delete_is_hooked()) malloctape_disable_fast_path();
    adding_our_hooks = true;
    MallocHook::AddNewHook(&no_new_hook);
    MallocHook::AddDeleteHook(&no_delete_hook);
    adding_our_hooks = false;
}

// To be called some time after a recording has ended, when another one is not likely to begin soon.
// From then on calls pass by the capture core, and no recording can begin.
ATTRIBUTE_NOINLINE void undivert()
{
    if (!diverted || !malloctape_begin_idle()) return;
    if (__sync_bool_compare_and_swap(&diverted, true, false)) {
        MallocHook::RemoveNewHook(&no_new_hook);
        MallocHook::RemoveDeleteHook(&no_delete_hook);
    }
    malloctape_end_idle();
}

// Upstream's first hook leaves with the first call, which comes to the capture core anyway.
} // namespace

void malloctape_divert_again()
{
    if (library_has_begun) divert();
}

// Upstream calls it when its first hook leaves. The result: no hook has been added that must be
// told of the first call.
extern "C" int MallocHook_InitAtFirstAllocation_HeapLeakChecker()
{
    divert();
    return 0;
}

#include "recorded_calls.h"

// --- gperftools' own memory ---

extern "C" void *malloctape_own_new(size_t size)
{
    return unrecorded([size] { return malloctape_plain_new(size); });
}

extern "C" void malloctape_own_delete(void *object)
{
    if (!malloctape_is_off()) malloctape_unrecorded();
    malloctape_plain_delete(object);
}

namespace {

// --- calls that concern the whole heap ---

void record_heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
{
    if (!malloctape_is_off() && malloctape_ready())
        malloctape_heap_call(kind, count, first, second);
}

class TracingExtension : public TCMallocImplementation {
  public:
    virtual void MarkThreadIdle()
    {
        record_heap_call(CALL_THREAD_IDLE, 0, 0, 0);
        TCMallocImplementation::MarkThreadIdle();
    }
    virtual void MarkThreadTemporarilyIdle()
    {
        record_heap_call(CALL_THREAD_TEMPORARILY_IDLE, 0, 0, 0);
        TCMallocImplementation::MarkThreadIdle(); // upstream's, too, is the same
    }
    virtual void MarkThreadBusy()
    {
        record_heap_call(CALL_THREAD_BUSY, 0, 0, 0);
        TCMallocImplementation::MarkThreadBusy();
    }
    virtual void ReleaseToSystem(size_t bytes)
    {
        record_heap_call(CALL_RELEASE_MEMORY, 1, bytes, 0);
        TCMallocImplementation::ReleaseToSystem(bytes);
    }
    virtual void SetMemoryReleaseRate(double rate)
    {
        record_heap_call(CALL_SET_RELEASE_RATE, 1, static_cast<uint64_t>(rate * 1000), 0);
        TCMallocImplementation::SetMemoryReleaseRate(rate);
    }
    virtual bool SetNumericProperty(const char *name, size_t value)
    {
        record_heap_call(CALL_SET_PROPERTY, 2, property_number(name), value);
        return TCMallocImplementation::SetNumericProperty(name, value);
    }

    virtual void SetSystemAllocator(SysAllocator *allocator)
    {
        new_memory_may_be_filled();
        TCMallocImplementation::SetSystemAllocator(allocator);
    }

  private:
    // INSTRUCTIONS.md 5.1.
    static uint64_t property_number(const char *name)
    {
        static const char *const names[] = {"", TCMALLOC_PROPERTIES};
        for (uint64_t i = 1; i < sizeof names / sizeof *names; i++)
            if (strcmp(name, names[i]) == 0) return i;
        return 0;
    }
};

// Takes the place of upstream's own extension, without an allocation.
alignas(TracingExtension) char extension_memory[sizeof(TracingExtension)];
struct LibraryBegins {
    LibraryBegins()
    {
        if (!RunningOnValgrind())
            MallocExtension::Register(new (extension_memory) TracingExtension);
        library_has_begun = true;
        // A recording begins with the first allocation, unless that came before there was an
        // environment.
        if (malloctape_ready()) divert();
    }
} library_begins;

} // namespace

extern "C" void malloctape_hook_added(const void *list)
{
    const bool matters =
        list == &base::internal::new_hooks_ || list == &base::internal::delete_hooks_;
    if (matters && !adding_our_hooks && !malloctape_is_off()) malloctape_disable_fast_path();
}

// --- entry points ---
//
// A macro for each shape of calls. What a call needs is named in its parameters: `object`, `size`,
// `alignment`.

// Begins the function that programs call tc_NAME.
#define ENTRY(attributes, result, name, parameters)                        \
    EXPORT attributes result entry_##name parameters __asm__("tc_" #name); \
    attributes result entry_##name parameters

#define DEFINE_ALLOCATION(name, KIND, parameters, plain) \
    ENTRY(FAST, void *, name, parameters)                \
    {                                                    \
        return allocate<CALL_##KIND, plain>(size);       \
    }
// `plain`: a call, without the prefix malloctape_plain_.
#define DEFINE_RARE_ALLOCATION(name, KIND, parameters, alignment, plain)           \
    ENTRY(, void *, name, parameters)                                              \
    {                                                                              \
        return allocate_aligned(CALL_##KIND, size, static_cast<size_t>(alignment), \
                                [=] { return malloctape_plain_##plain; });         \
    }
#define DEFINE_FREE(name, KIND, parameters) \
    ENTRY(FAST, void, name, parameters)     \
    {                                       \
        release<CALL_##KIND>(object);       \
    }
#define DEFINE_SIZED_FREE(name, KIND)                    \
    ENTRY(FAST, void, name, (void *object, size_t size)) \
    {                                                    \
        release_sized<CALL_##KIND>(object, size);        \
    }
#define DEFINE_ALIGNED_FREE(name, KIND, parameters, size)                           \
    ENTRY(, void, name, parameters)                                                 \
    {                                                                               \
        release_aligned(CALL_##KIND, object, size, static_cast<size_t>(alignment)); \
    }

// --- entry points of C ---

DEFINE_ALLOCATION(malloc, MALLOC, (size_t size), malloctape_plain_malloc)
DEFINE_RARE_ALLOCATION(memalign, MEMALIGN, (size_t alignment, size_t size), alignment,
                       memalign(alignment, size))
DEFINE_RARE_ALLOCATION(valloc, VALLOC, (size_t size), 0, valloc(size))
DEFINE_RARE_ALLOCATION(pvalloc, PVALLOC, (size_t size), 0, pvalloc(size))
DEFINE_RARE_ALLOCATION(malloc_skip_new_handler, MALLOC_SKIP_NEW_HANDLER, (size_t size), 0,
                       malloc_skip_new_handler(size))
DEFINE_FREE(free, FREE, (void *object))
DEFINE_FREE(cfree, CFREE, (void *object))
DEFINE_SIZED_FREE(free_sized, FREE_SIZED)
DEFINE_ALIGNED_FREE(free_aligned_sized, FREE_ALIGNED_SIZED,
                    (void *object, size_t alignment, size_t size), size)

ENTRY(FAST, void *, calloc, (size_t count, size_t size))
{
    if (PREDICT_TRUE(!new_is_hooked()))
        return unrecorded([=] { return malloctape_plain_calloc(count, size); });
    size_t bytes;
    if (PREDICT_FALSE(__builtin_mul_overflow(count, size, &bytes)))
        return calloc_too_large(count, size);
    return allocate_recorded<CALL_CALLOC, plain_calloc, true>(bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) __THROW
{
    return allocate_aligned(CALL_ALIGNED_ALLOC, size, alignment,
                            [=] { return malloctape_plain_memalign(alignment, size); });
}

ENTRY(, void *, realloc, (void *object, size_t size)__THROW)
{
    if (object == NULL)
        return allocate_aligned(CALL_REALLOC_NULL, size, 0,
                                [=] { return malloctape_plain_realloc(NULL, size); });
    if (malloctape_is_off())
        return unrecorded([=] { return malloctape_plain_realloc(object, size); });
    if (size == 0) {
        record_free(CALL_REALLOC_ZERO, object, 0, 0);
        return malloctape_plain_realloc(object, 0);
    }
    if (void *moved = reallocate_recorded(object, size)) return moved;
    if (malloctape_ready()) return record_realloc(object, size);
    malloctape_unrecorded();
    return unrecorded([=] { return malloctape_plain_realloc(object, size); });
}

ENTRY(, int, posix_memalign, (void **result, size_t alignment, size_t size)__THROW)
{
    int status = 0;
    void *object = allocate_aligned(CALL_POSIX_MEMALIGN, size, alignment, [=, &status] {
        void *made = NULL;
        status = malloctape_plain_posix_memalign(&made, alignment, size);
        return made;
    });
    if (status == 0) *result = object;
    return status;
}

// Counted, but not recorded. Servers call it often, redis for each object that it makes or frees.
// So a thread on the fast path reads the class from the object's page entry, which is in its
// caches.
ALWAYS_INLINE size_t size_while_recording(void *object)
{
    const struct malloctape_lane *lane = malloctape_lane;
    malloctape_size_asked();
    if (malloctape_lane_is_fast(lane)) {
        const uint32_t cl = shadow_page_in(lane->units.window, object)->size_class;
        if (PREDICT_TRUE(cl != 0)) return Static::sizemap()->ByteSizeForClass(cl);
    }
    return malloctape_plain_malloc_size(object);
}

ENTRY(FAST, size_t, malloc_size, (void *object))
{
    if (PREDICT_FALSE(delete_is_hooked())) return size_while_recording(object);
    return malloctape_plain_malloc_size(object);
}

ENTRY(, int, mallopt, (int parameter, int value)__THROW)
{
    record_heap_call(CALL_MALLOPT, 2, static_cast<uint64_t>(static_cast<int64_t>(parameter)),
                     static_cast<uint64_t>(static_cast<int64_t>(value)));
    return malloctape_plain_mallopt(parameter, value);
}

// glibc's own function would trim a heap that nobody uses.
EXPORT int malloc_trim(size_t padding) __THROW
{
    record_heap_call(CALL_MALLOC_TRIM, 1, padding, 0);
    return 0;
}

// Other names of these functions; the C library's parts and old programs have two.
#define ALSO(name, of) EXPORT decltype(entry_##of) also_##name __asm__(#name) ALIAS_OF(tc_##of);
#define ALSO_C(of)     ALSO(of, of) ALSO(__libc_##of, of)
ALSO_C(malloc)
ALSO_C(free)
ALSO_C(cfree)
ALSO_C(calloc)
ALSO_C(realloc)
ALSO_C(memalign)
ALSO_C(valloc)
ALSO_C(pvalloc)
ALSO(free_sized, free_sized)
ALSO(free_aligned_sized, free_aligned_sized)
ALSO(posix_memalign, posix_memalign)
ALSO(__posix_memalign, posix_memalign)
ALSO(mallopt, mallopt)
ALSO(malloc_size, malloc_size)
ALSO(malloc_usable_size, malloc_size)
EXPORT void malloc_stats(void) __THROW ALIAS_OF(tc_malloc_stats);
#ifdef HAVE_STRUCT_MALLINFO
EXPORT struct mallinfo mallinfo(void) __THROW ALIAS_OF(tc_mallinfo);
#endif
#ifdef HAVE_STRUCT_MALLINFO2
EXPORT struct mallinfo2 mallinfo2(void) __THROW ALIAS_OF(tc_mallinfo2);
#endif

// --- entry points of C++ ---

DEFINE_ALLOCATION(new, NEW, (size_t size), malloctape_plain_new)
DEFINE_ALLOCATION(newarray, NEW_ARRAY, (size_t size), malloctape_plain_newarray)
DEFINE_ALLOCATION(new_nothrow, NEW_NOTHROW, (size_t size, const std::nothrow_t &),
                  plain_new_nothrow)
DEFINE_ALLOCATION(newarray_nothrow, NEW_ARRAY_NOTHROW, (size_t size, const std::nothrow_t &),
                  plain_newarray_nothrow)
DEFINE_RARE_ALLOCATION(new_aligned, NEW_ALIGNED, (size_t size, std::align_val_t alignment),
                       alignment, new_aligned(size, alignment))
DEFINE_RARE_ALLOCATION(newarray_aligned, NEW_ARRAY_ALIGNED,
                       (size_t size, std::align_val_t alignment), alignment,
                       newarray_aligned(size, alignment))
DEFINE_RARE_ALLOCATION(new_aligned_nothrow, NEW_ALIGNED_NOTHROW,
                       (size_t size, std::align_val_t alignment, const std::nothrow_t &), alignment,
                       new_aligned_nothrow(size, alignment, std::nothrow))
DEFINE_RARE_ALLOCATION(newarray_aligned_nothrow, NEW_ARRAY_ALIGNED_NOTHROW,
                       (size_t size, std::align_val_t alignment, const std::nothrow_t &), alignment,
                       newarray_aligned_nothrow(size, alignment, std::nothrow))
DEFINE_FREE(delete, DELETE, (void *object))
DEFINE_FREE(deletearray, DELETE_ARRAY, (void *object))
DEFINE_FREE(delete_nothrow, DELETE_NOTHROW, (void *object, const std::nothrow_t &))
DEFINE_FREE(deletearray_nothrow, DELETE_ARRAY_NOTHROW, (void *object, const std::nothrow_t &))
DEFINE_SIZED_FREE(delete_sized, DELETE_SIZED)
DEFINE_SIZED_FREE(deletearray_sized, DELETE_ARRAY_SIZED)
DEFINE_ALIGNED_FREE(delete_aligned, DELETE_ALIGNED, (void *object, std::align_val_t alignment), 0)
DEFINE_ALIGNED_FREE(deletearray_aligned, DELETE_ARRAY_ALIGNED,
                    (void *object, std::align_val_t alignment), 0)
DEFINE_ALIGNED_FREE(delete_aligned_nothrow, DELETE_ALIGNED_NOTHROW,
                    (void *object, std::align_val_t alignment, const std::nothrow_t &), 0)
DEFINE_ALIGNED_FREE(deletearray_aligned_nothrow, DELETE_ARRAY_ALIGNED_NOTHROW,
                    (void *object, std::align_val_t alignment, const std::nothrow_t &), 0)
DEFINE_ALIGNED_FREE(delete_sized_aligned, DELETE_SIZED_ALIGNED,
                    (void *object, size_t size, std::align_val_t alignment), size)
DEFINE_ALIGNED_FREE(deletearray_sized_aligned, DELETE_ARRAY_SIZED_ALIGNED,
                    (void *object, size_t size, std::align_val_t alignment), size)

// The operators.
ALSO(_Znwm, new)
ALSO(_Znam, newarray)
ALSO(_ZnwmRKSt9nothrow_t, new_nothrow)
ALSO(_ZnamRKSt9nothrow_t, newarray_nothrow)
ALSO(_ZnwmSt11align_val_t, new_aligned)
ALSO(_ZnamSt11align_val_t, newarray_aligned)
ALSO(_ZnwmSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow)
ALSO(_ZnamSt11align_val_tRKSt9nothrow_t, newarray_aligned_nothrow)
ALSO(_ZdlPv, delete)
ALSO(_ZdaPv, deletearray)
ALSO(_ZdlPvRKSt9nothrow_t, delete_nothrow)
ALSO(_ZdaPvRKSt9nothrow_t, deletearray_nothrow)
ALSO(_ZdlPvm, delete_sized)
ALSO(_ZdaPvm, deletearray_sized)
ALSO(_ZdlPvSt11align_val_t, delete_aligned)
ALSO(_ZdaPvSt11align_val_t, deletearray_aligned)
ALSO(_ZdlPvSt11align_val_tRKSt9nothrow_t, delete_aligned_nothrow)
ALSO(_ZdaPvSt11align_val_tRKSt9nothrow_t, deletearray_aligned_nothrow)
ALSO(_ZdlPvmSt11align_val_t, delete_sized_aligned)
ALSO(_ZdaPvmSt11align_val_t, deletearray_sized_aligned)

// --- libraries that do not ask us ---

// With RTLD_DEEPBIND, as PHP loads its extensions, a library would have malloc and free from the C
// library, and crash over an object of ours. dlopen() looks at its return address, to search where
// its caller does: so this must be a tail call.
EXPORT void *load_library(const char *file, int mode) __asm__("dlopen");
void *load_library(const char *file, int mode)
{
    return next_functions()->dlopen(file, mode & ~RTLD_DEEPBIND);
}
