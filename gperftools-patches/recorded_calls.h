// recorded_calls - the calls of tracing_tcmalloc.cc, by their shapes: allocations, frees, reallocs, on
// the fast path and off it. A part of that file, which it includes after tcmalloc.cc.
#ifndef MALLOCTAPE_RECORDED_CALLS_H
#define MALLOCTAPE_RECORDED_CALLS_H

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

// Of a large object, pages that the system has not given yet are left alone (tracing/data/new_memory.h).
void *plain_calloc(size_t size)
{
    if (size < NEW_MEMORY_BYTES_LEAST) return malloctape_plain_calloc(1, size);
    void *object = malloctape_plain_malloc(size);
    if (object != NULL)
        new_memory_clear(object,
                         tcmalloc::IsEmergencyPtr(object) ? size : tc_nallocx(size, 0)); // as upstream
    return object;
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

#endif
