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
// So the allocator does what upstream's does, and objects have the same addresses. Upstream lets
// several entry points share a body; here each has its own, as each is a kind of call.
//
// The entry points do not throw. They are not declared noexcept all the same, because the compiler
// makes no tail calls out of a function that is.

// The names under which upstream's own entry points stay reachable. Those of ours come from strings
// (ENTRY), which these macros do not touch.
#define tc_malloc                      malloctape_plain_malloc
#define tc_free                        malloctape_plain_free
#define tc_free_sized                  malloctape_plain_free_sized
#define tc_calloc                      malloctape_plain_calloc
#define tc_cfree                       malloctape_plain_cfree
#define tc_realloc                     malloctape_plain_realloc
#define tc_memalign                    malloctape_plain_memalign
#define tc_posix_memalign              malloctape_plain_posix_memalign
#define tc_valloc                      malloctape_plain_valloc
#define tc_pvalloc                     malloctape_plain_pvalloc
#define tc_mallopt                     malloctape_plain_mallopt
#define tc_malloc_skip_new_handler     malloctape_plain_malloc_skip_new_handler
#define tc_malloc_size                 malloctape_plain_malloc_size
#define tc_new                         malloctape_plain_new
#define tc_new_nothrow                 malloctape_plain_new_nothrow
#define tc_newarray                    malloctape_plain_newarray
#define tc_newarray_nothrow            malloctape_plain_newarray_nothrow
#define tc_new_aligned                 malloctape_plain_new_aligned
#define tc_new_aligned_nothrow         malloctape_plain_new_aligned_nothrow
#define tc_newarray_aligned            malloctape_plain_newarray_aligned
#define tc_newarray_aligned_nothrow    malloctape_plain_newarray_aligned_nothrow
#define tc_delete                      malloctape_plain_delete
#define tc_delete_nothrow              malloctape_plain_delete_nothrow
#define tc_delete_sized                malloctape_plain_delete_sized
#define tc_delete_aligned              malloctape_plain_delete_aligned
#define tc_delete_aligned_nothrow      malloctape_plain_delete_aligned_nothrow
#define tc_delete_sized_aligned        malloctape_plain_delete_sized_aligned
#define tc_deletearray                 malloctape_plain_deletearray
#define tc_deletearray_nothrow         malloctape_plain_deletearray_nothrow
#define tc_deletearray_sized           malloctape_plain_deletearray_sized
#define tc_deletearray_aligned         malloctape_plain_deletearray_aligned
#define tc_deletearray_aligned_nothrow malloctape_plain_deletearray_aligned_nothrow
#define tc_deletearray_sized_aligned   malloctape_plain_deletearray_sized_aligned

// Upstream shall make no aliases: neither of the plain functions nor of malloc and the like.
#define TCMALLOC_NO_ALIASES
#define TCMALLOC_LIBC_OVERRIDE_INL_H_
static inline void ReplaceSystemAlloc() {}

#include "tcmalloc.cc"

#include "tracing/core/capture.h"
#include "tracing/os/next_function.h"
#include "tracing/os/probes.h"
#include "tracing/process/runtime.h"

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
void divert_again()
{
    if (library_has_begun) divert();
}

} // namespace

// Upstream calls it when its first hook leaves. The result: no hook has been added that must be
// told of the first call.
extern "C" int MallocHook_InitAtFirstAllocation_HeapLeakChecker()
{
    divert();
    return 0;
}

namespace {

// --- places ---

static_assert(kPageShift == SHADOW_PAGE_BITS,
              "the shadow table has an entry for each page of this size");

// The size class of an object's page, 0 for a page of one object. False: the allocator does not own
// the object.
bool find_class(const void *object, uint32_t *cl)
{
    const PageID page = reinterpret_cast<uintptr_t>(object) >> kPageShift;
    if (Static::pageheap()->TryGetSizeClass(page, cl)) return true;
    const Span *span = Static::pageheap()->GetDescriptor(page);
    if (span == NULL) return false;
    *cl = span->sizeclass;
    return true;
}

inline bool is_open(const void *object)
{
    return shadow_covers(object) && shadow_is_open(shadow_page_of(object));
}

// Makes sure that a new object has a place.
void open_page(const void *object)
{
    uint32_t cl;
    if (shadow_covers(object) && !shadow_is_open(shadow_page_of(object)) && find_class(object, &cl))
        shadow_open(object, cl == 0 ? 0 : Static::sizemap()->class_to_size(cl), cl);
}

// Whether the object is the allocator's: it is if its page is open in the shadow table.
bool is_owned(const void *object)
{
    uint32_t cl;
    return is_open(object) || find_class(object, &cl);
}

void forget(const void *object)
{
    if (object != NULL && is_owned(object)) malloctape_allocated_unrecorded(object);
}

// Does a call that is not recorded. If a recording has begun meanwhile, the core must learn of it:
// otherwise readers would take what the call did for an effect of recorded ones.
template <typename Plain> ALWAYS_INLINE void *unrecorded(Plain plain)
{
    void *object = plain();
    if (PREDICT_FALSE(!malloctape_is_off())) {
        malloctape_unrecorded();
        forget(object);
    }
    return object;
}

template <void *(*plain)(size_t)> ATTRIBUTE_NOINLINE void *allocate_unrecorded(size_t size)
{
    return unrecorded([size] { return plain(size); });
}

// Whether the object's page has the class of this size: then a thread has taken the object from its
// cache, as it does all small ones.
bool is_of_class(const void *object, size_t size)
{
    uint32_t cl;
    return Static::sizemap()->GetSizeClass(size, &cl) && shadow_covers(object) &&
           shadow_page_of(object)->size_class == cl;
}

void allocated(unsigned kind, uint64_t size, uint64_t alignment, const void *object)
{
    if (object != NULL) open_page(object);
    malloctape_allocated(kind, size, alignment, object,
                         object != NULL && is_of_class(object, size));
}

// --- allocations ---

// While one exists, the thread's sequence numbers belong to an event that is recorded later.
class Allocating {
  public:
    Allocating() : lane_(malloctape_lane), before_(lane_->units.allocating)
    {
        lane_->units.allocating = 1;
    }
    ~Allocating() { lane_->units.allocating = before_; }

  private:
    struct malloctape_lane *const lane_;
    const uint32_t before_;
};

// Records one allocation around plain(), off the fast path.
template <typename Plain>
ALWAYS_INLINE void *record_allocation(unsigned kind, uint64_t size, uint64_t alignment, Plain plain)
{
    if (!malloctape_ready()) {
        malloctape_unrecorded();
        void *object = unrecorded(plain); // also if the calls of a new handler are recorded again
        if (malloctape_is_off()) undivert();
        return object;
    }
    void *object;
    try {
        Allocating allocating;
        object = plain();
    } catch (...) {
        malloctape_allocated(kind, size, alignment, NULL, false);
        throw;
    }
    allocated(kind, size, alignment, object);
    divert();
    // As long as some calls do not come here, the cache changes without our knowledge.
    if (new_is_hooked() && delete_is_hooked())
        malloctape_thread_cache_is(ThreadCachePtr::GetIfPresent());
    return object;
}

template <unsigned kind, void *(*plain)(size_t)> ATTRIBUTE_NOINLINE void *allocate_slow(size_t size)
{
    if (malloctape_is_off() && !diverted) return allocate_unrecorded<plain>(size);
    if (malloctape_is_undecided() && runtime_is_for_us(__builtin_return_address(0))) {
        malloctape_runtime_took(size);
        return plain(size);
    }
    return record_allocation(kind, size, 0, [size] { return plain(size); });
}

// Of an object from the cache: clears all of it, as upstream's calloc does.
ALWAYS_INLINE void *zero(void *object, uint32_t cl)
{
    return memset(object, 0, Static::sizemap()->ByteSizeForClass(cl));
}

// On the fast path, an allocation that has no short code: of a large size or a rare kind.
template <unsigned kind, void *(*plain)(size_t), bool zeroed>
ATTRIBUTE_NOINLINE void *allocate_without_code(size_t size)
{
    ThreadCache *cache = static_cast<ThreadCache *>(malloctape_lane->units.cache);
    uint32_t cl;
    void *object;
    if (!Static::sizemap()->GetSizeClass(size, &cl) || !cache->TryAllocate(cl, &object))
        return allocate_slow<kind, plain>(size);
    malloctape_allocated_in_cache(kind, size, object);
    return zeroed ? zero(object, cl) : object;
}

// With `zeroed`, the object is cleared.
template <unsigned kind, void *(*plain)(size_t), bool zeroed = false>
ALWAYS_INLINE void *allocate_recorded(size_t size)
{
    struct malloctape_lane *lane = malloctape_lane;
    uint64_t head = atomic_load_relaxed(&lane->units.head);
    if (PREDICT_FALSE(head >= atomic_load_operand(&lane->units.limit)))
        return allocate_slow<kind, plain>(size);
    if (PREDICT_FALSE(size >= units_code_of(&lane->units, kind)->size_limit))
        return allocate_without_code<kind, plain, zeroed>(size);
    if (size >= UNITS_FAST_SIZE_LIMIT) __builtin_unreachable(); // codes have no higher limit
    ThreadCache *cache = static_cast<ThreadCache *>(lane->units.cache);
    uint32_t cl;
    Static::sizemap()->GetSizeClass(size, &cl);
    void *object;
    if (PREDICT_FALSE(!cache->TryAllocate(cl, &object))) return allocate_slow<kind, plain>(size);
    units_fast_allocation(&lane->units, units_head_cursor(head), kind, size);
    return zeroed ? zero(object, cl) : object;
}

template <unsigned kind, void *(*plain)(size_t)> ALWAYS_INLINE void *allocate(size_t size)
{
    if (PREDICT_FALSE(new_is_hooked())) return allocate_recorded<kind, plain>(size);
    ThreadCache *cache = ThreadCachePtr::GetIfPresent();
    if (PREDICT_FALSE(cache == NULL)) return allocate_unrecorded<plain>(size);
    uint32_t cl;
    if (PREDICT_FALSE(!Static::sizemap()->GetSizeClass(size, &cl)))
        return allocate_unrecorded<plain>(size);
    void *object;
    if (PREDICT_FALSE(!cache->TryAllocate(cl, &object))) return allocate_unrecorded<plain>(size);
    return object;
}

void *plain_calloc(size_t size)
{
    return malloctape_plain_calloc(1, size);
}
void *plain_new_nothrow(size_t size)
{
    return malloctape_plain_new_nothrow(size, std::nothrow);
}
void *plain_newarray_nothrow(size_t size)
{
    return malloctape_plain_newarray_nothrow(size, std::nothrow);
}

template <typename Plain>
ALWAYS_INLINE void *allocate_aligned(unsigned kind, size_t size, size_t alignment, Plain plain)
{
    if (malloctape_is_off() && !diverted) return unrecorded(plain);
    return record_allocation(kind, size, alignment, plain);
}

// The product overflows: upstream refuses that at once and calls no new handler.
ATTRIBUTE_NOINLINE void *calloc_too_large(size_t count, size_t size)
{
    return allocate_aligned(CALL_CALLOC, std::numeric_limits<size_t>::max(), 0,
                            [=] { return malloctape_plain_calloc(count, size); });
}

// --- frees ---

void record_free(unsigned kind, void *object, size_t size, size_t alignment)
{
    if (malloctape_ready()) {
        if (object == NULL)
            malloctape_freed_nothing();
        else if (is_owned(object))
            malloctape_freeing(kind, object, size, alignment);
    } else {
        malloctape_unrecorded();
        if (malloctape_is_off()) undivert();
    }
}

// Whether upstream would call no hook but ours.
bool delete_hook_is_ours()
{
    return base::internal::delete_hooks_.priv_end.load(std::memory_order_relaxed) == 1 &&
           base::internal::delete_hooks_.priv_data[0] == &no_delete_hook;
}

// A free off the fast path. Programs often free NULL, a compiler in 3 of 100 calls. So NULL does
// not go through upstream's hooks if there are none but ours.
void release_slowly(unsigned kind, void *object, size_t size)
{
    if (!delete_hook_is_ours()) {
        record_free(kind, object, size, 0);
        malloctape_plain_free(object);
    } else {
        record_free(kind, object, size, 0);
        if (object != NULL) do_free(object);
    }
}

// `size`: as the program gives it, if the kind is `sized`.
template <unsigned kind, bool sized> ATTRIBUTE_NOINLINE void release_slow(void *object, size_t size)
{
    if (PREDICT_TRUE(delete_hook_is_ours() && malloctape_remote_freeing(kind, object, sized, size)))
        return do_free(object);
    release_slowly(kind, object, size);
}

// What is needed to record a free on the fast path, and to do it. `place` means nothing if `cl` is
// 0: of an object with pages of its own, or of no object.
struct Release {
    struct malloctape_lane *lane;
    uint16_t *cursor;
    ThreadCache *cache;
    struct shadow_page *page;
    uint32_t cl;
    uint32_t place;
};

// False: the thread is not on the fast path.
ALWAYS_INLINE bool find_release(void *object, Release *release)
{
    release->lane = malloctape_lane;
    uint64_t head = atomic_load_relaxed(&release->lane->units.head);
    if (PREDICT_FALSE(head >= atomic_load_operand(&release->lane->units.limit))) return false;
    release->cursor = units_head_cursor(head);
    release->cache = static_cast<ThreadCache *>(release->lane->units.cache);
    release->page = shadow_page_in(release->lane->units.window, object);
    release->cl = release->page->size_class;
    release->place = shadow_place(release->page, object);
    return true;
}

ALWAYS_INLINE bool is_own(const Release &release)
{
    return malloctape_lane_has(release.lane, release.page, release.place);
}

// A free of what is not the lane's own: mostly of an object that another thread had last.
template <unsigned kind, bool sized>
ATTRIBUTE_NOINLINE void release_remote(void *object, struct malloctape_lane *lane,
                                       struct shadow_page *page, uint32_t place, size_t size)
{
    const uint32_t cl = page->size_class;
    const uint16_t *owner = shadow_owner_in(lane->units.window, place);
    atomic_prefetch(owner);
    atomic_prefetch(object);
    if (PREDICT_FALSE(cl == 0 || !units_fast_free_remote(&lane->units, kind, place, cl,
                                                         atomic_load_relaxed(owner), sized, size)))
        return release_slowly(kind, object, size);
    shadow_take(page, place, lane->units.owner);
    static_cast<ThreadCache *>(lane->units.cache)->Deallocate(object, cl);
}

// Finds the class by the address, where upstream finds it by the size if it is given one. The two
// differ only if the program passes a wrong size.
template <unsigned kind, bool sized> ALWAYS_INLINE void release_recorded(void *object, size_t size)
{
    Release release;
    if (PREDICT_FALSE(!find_release(object, &release)))
        return release_slow<kind, sized>(object, size);
    if (PREDICT_FALSE(!is_own(release)))
        return release_remote<kind, sized>(object, release.lane, release.page, release.place, size);
    if (PREDICT_FALSE(!units_fast_free(&release.lane->units, release.cursor, kind, release.place,
                                       sized, size)))
        return release_slow<kind, sized>(object, size);
    release.cache->Deallocate(object, release.cl);
}

template <unsigned kind> ALWAYS_INLINE void release(void *object)
{
    if (PREDICT_FALSE(delete_is_hooked())) return release_recorded<kind, false>(object, 0);
    do_free(object);
}

template <unsigned kind> ALWAYS_INLINE void release_sized(void *object, size_t size)
{
    if (PREDICT_FALSE(delete_is_hooked())) return release_recorded<kind, true>(object, size);
    if (object != NULL) do_free_with_callback(object, &InvalidFree, true, size);
}

void release_aligned(unsigned kind, void *object, size_t size, size_t alignment)
{
    if (!malloctape_is_off()) record_free(kind, object, size, alignment);
    malloctape_plain_free(object);
}

// --- realloc ---

// Whether upstream's realloc leaves an object where it is.
inline bool stays_in_place(size_t old_size, size_t new_size)
{
    return new_size <= old_size && new_size >= old_size / 2;
}

// The size that upstream asks for first when it moves an object: a quarter more, if the object
// grows by less than that.
inline size_t size_for_realloc(size_t old_size, size_t new_size)
{
    const size_t quarter = std::min(old_size / 4, std::numeric_limits<size_t>::max() - old_size);
    return new_size > old_size && new_size < old_size + quarter ? old_size + quarter : new_size;
}

void *allocate_for_realloc(size_t old_size, size_t new_size)
{
    Allocating allocating;
    const size_t first = size_for_realloc(old_size, new_size);
    void *object = do_malloc_or_cpp_alloc(first);
    return object == NULL && first != new_size ? do_malloc_or_cpp_alloc(new_size) : object;
}

// Ends the program with upstream's message.
size_t refuse_realloc(const void *object)
{
    malloctape_plain_realloc(const_cast<void *>(object), 1);
    return 0;
}

// The record must stand between the allocation and the free (FORMAT.md 6). So this does what
// upstream's function does, and does not call it.
void *record_realloc(void *old_object, size_t new_size)
{
    const size_t old_size = GetSizeWithCallback(old_object, &refuse_realloc);
    if (stays_in_place(old_size, new_size)) {
        open_page(old_object);
        malloctape_reallocated(CALL_REALLOC_IN_PLACE, old_object, new_size, old_object, false);
        MallocHook::InvokeDeleteHook(old_object);
        MallocHook::InvokeNewHook(old_object, new_size);
        return old_object;
    }
    void *object = allocate_for_realloc(old_size, new_size);
    if (object == NULL) {
        malloctape_reallocated(CALL_REALLOC_MOVED, old_object, new_size, NULL, false);
        return NULL;
    }
    open_page(object);
    malloctape_reallocated(CALL_REALLOC_MOVED, old_object, new_size, object,
                           is_of_class(object, new_size));
    MallocHook::InvokeNewHook(object, new_size);
    memcpy(object, old_object, std::min(old_size, new_size));
    MallocHook::InvokeDeleteHook(old_object);
    do_free(old_object);
    return object;
}

// The same on the fast path, if the thread's cache has the classes of the old object and the new
// one. Otherwise returns NULL and does nothing.
inline void *reallocate_recorded(void *old_object, size_t new_size)
{
    Release old;
    if (!find_release(old_object, &old) || !is_own(old)) return NULL;
    const size_t old_size = Static::sizemap()->ByteSizeForClass(old.cl);
    const bool stays = stays_in_place(old_size, new_size);
    const unsigned kind = stays ? CALL_REALLOC_IN_PLACE : CALL_REALLOC_MOVED;
    if (!units_fast_can_realloc(&old.lane->units, kind, old.place, new_size)) return NULL;
    if (stays) {
        units_fast_realloc(&old.lane->units, old.cursor, CALL_REALLOC_IN_PLACE, old.place,
                           new_size);
        return old_object;
    }
    uint32_t cl, said;
    void *object;
    if (!Static::sizemap()->GetSizeClass(size_for_realloc(old_size, new_size), &cl) ||
        !Static::sizemap()->GetSizeClass(new_size, &said) || cl != said ||
        !old.cache->TryAllocate(cl, &object))
        return NULL;
    units_fast_realloc(&old.lane->units, old.cursor, CALL_REALLOC_MOVED, old.place, new_size);
    memcpy(object, old_object, std::min(old_size, new_size));
    old.cache->Deallocate(old_object, old.cl);
    return object;
}

} // namespace

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

  private:
    // INSTRUCTIONS.md 5.1.
    static uint64_t property_number(const char *name)
    {
        static const char *const names[] = {
            "", "tcmalloc.max_total_thread_cache_bytes", "tcmalloc.aggressive_memory_decommit",
            "tcmalloc.heap_limit_mb", "tcmalloc.min_per_thread_cache_bytes"};
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

// Without the page heap's lock: it is a statistic, and may be torn.
uint64_t heap_bytes()
{
    return Static::IsInited() ? Static::pageheap()->StatsLocked().system_bytes : 0;
}

// False: no memory.
bool open_span(uintptr_t first_page, uintptr_t pages, uint32_t cl)
{
    return shadow_open_pages(first_page, pages, Static::sizemap()->class_to_size(cl), cl);
}

// Notes what was there before the recording began: all addresses of the page heap, and the objects
// on the spans that it has given away.
bool cover_heap()
{
    if (!Static::IsInited()) return true;
    SpinLockHolder hold(Static::pageheap_lock());
    base::MallocRange range;
    for (PageID page = 0; Static::pageheap()->GetNextRange(page, &range);
         page = (range.address + range.length) >> kPageShift) {
        if (!shadow_cover(range.address, range.length)) return false;
        const Span *span = Static::pageheap()->GetDescriptor(range.address >> kPageShift);
        if (span->location == Span::IN_USE && span->sizeclass != 0 &&
            !open_span(span->start, span->length, span->sizeclass))
            return false;
    }
    return true;
}

// Without the page heap's lock, too, as heap_bytes(). A thread that has the lock may be waiting for
// the writer; so whoever is to end the recording must not wait for the lock.
uint64_t used_bytes()
{
    if (!Static::IsInited()) return 0;
    const PageHeap::Stats stats = Static::pageheap()->StatsLocked();
    const uint64_t free = stats.free_bytes + stats.unmapped_bytes;
    return stats.system_bytes > free ? stats.system_bytes - free : 0;
}

const char *const settings[] = {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
                                "TCMALLOC_TRANSFER_NUM_OBJ",
                                "TCMALLOC_RELEASE_RATE",
                                "TCMALLOC_AGGRESSIVE_DECOMMIT",
                                "TCMALLOC_HEAP_LIMIT_MB",
                                "TCMALLOC_SKIP_SBRK",
                                "TCMALLOC_SKIP_MMAP",
                                "TCMALLOC_DISABLE_MEMORY_RELEASE",
                                NULL};

void announce_cache(const void *cache)
{
    ThreadCache *of_thread = static_cast<ThreadCache *>(const_cast<void *>(cache));
    for (uint32_t cl = 1; cl < Static::num_size_classes(); cl++)
        malloctape_cached(cache, cl, of_thread->freelist_head(cl), of_thread->freelist_length(cl));
}

uint64_t class_bytes(unsigned size_class)
{
    return Static::sizemap()->class_to_size(size_class);
}

uint32_t class_of_size(uint64_t size)
{
    uint32_t cl;
    return Static::sizemap()->GetSizeClass(size, &cl) ? cl : 0;
}

} // namespace

extern "C" const struct malloctape_front_end malloctape_front_end = {
    .allocator = TC_VERSION_STRING,
    .settings = settings,
    .heap_bytes = heap_bytes,
    .cover_heap = cover_heap,
    .divert = divert_again,
    .announce_cache = announce_cache,
    .class_bytes = class_bytes,
    .class_of_size = class_of_size,
    .used_bytes = used_bytes,
};

extern "C" void malloctape_heap_grown(const void *start, unsigned long bytes)
{
    PROBE(heap_grown, start, bytes);
    if (!shadow_cover(reinterpret_cast<uintptr_t>(start), bytes)) malloctape_out_of_memory();
}

extern "C" void malloctape_span_populated(unsigned long first_page, unsigned long pages,
                                          unsigned size_class)
{
    PROBE(span_populated, size_class, pages);
    if (!open_span(first_page, pages, size_class)) malloctape_out_of_memory();
}

extern "C" void malloctape_span_deleted(unsigned long first_page, unsigned long pages,
                                        unsigned size_class)
{
    shadow_close(first_page, pages, size_class);
}

extern "C" void malloctape_system_memory(unsigned how, unsigned long bytes)
{
    PROBE(system_memory, how, bytes);
    malloctape_inside(how, bytes);
}

extern "C" void malloctape_span_split(unsigned long first_page, unsigned long pages)
{
    PROBE(span_split, first_page << kPageShift, pages << kPageShift);
    malloctape_inside(RAW_INSIDE_SPLIT, pages << kPageShift);
}

extern "C" void malloctape_span_merged(unsigned long first_page, unsigned long pages)
{
    PROBE(span_merged, first_page << kPageShift, pages << kPageShift);
    malloctape_inside(RAW_INSIDE_MERGE, pages << kPageShift);
}

// Waits for locks of other things than the shared structures are not recorded.
extern "C" void malloctape_lock_taken(const struct malloctape_wait *wait)
{
    const unsigned long cycles = arch_clock() - wait->since;
    const uintptr_t at = reinterpret_cast<uintptr_t>(wait->lock) -
                         reinterpret_cast<uintptr_t>(Static::central_cache());
    const uintptr_t list = at / sizeof *Static::central_cache();
    const bool is_page_heap = wait->lock == Static::pageheap_lock();
    if (!is_page_heap && list >= kClassSizesMax) return;
    const unsigned structure = is_page_heap ? RAW_STRUCTURE_PAGE_HEAP : static_cast<unsigned>(list);
    PROBE(lock_waited, structure, cycles);
    malloctape_waited(structure, cycles);
}

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
