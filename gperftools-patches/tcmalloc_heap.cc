// tcmalloc_heap - what the capture core and the stream are told of tcmalloc: its heap, spans, classes,
// caches and locks (tracing/data/front_end.h, malloctape_hooks.h).
#include "config.h"

#include "page_heap.h"
#include "span.h"
#include "static_vars.h"
#include "thread_cache.h"
#include "tracing/core/capture.h"
#include "tracing/os/probes.h"
#include "tracing_tcmalloc.h"

#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>

using tcmalloc::PageHeap;
using tcmalloc::Span;
using tcmalloc::Static;
using tcmalloc::ThreadCache;

namespace {

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
    .divert = malloctape_divert_again,
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
