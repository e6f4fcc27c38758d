#include "allocators/facts.h"
#include "common/text.h"

static bool tcmalloc_is_it(const struct allocator_functions *functions)
{
    return functions->tc_version != NULL;
}

static void tcmalloc_put_version(const struct allocator_functions *functions, struct text *to)
{
    int major, minor;
    const char *patch;
    text_string(to, functions->tc_version(&major, &minor, &patch));
}

/* ---- its heap ---- */

static const char *tcmalloc_heap_source(const struct allocator_functions *functions)
{
    return functions->MallocExtension_GetNumericProperty != NULL ? "generic.heap_size" : NULL;
}

static uint64_t tcmalloc_heap_bytes(const struct allocator_functions *functions)
{
    size_t bytes = 0;
    if (tcmalloc_heap_source(functions) == NULL) return 0;
    return functions->MallocExtension_GetNumericProperty("generic.heap_size", &bytes) ? bytes : 0;
}

static void tcmalloc_release(const struct allocator_functions *functions)
{
    functions->MallocExtension_ReleaseFreeMemory();
}

/* The thread's cache goes back. */
static void tcmalloc_settle(const struct allocator_functions *functions)
{
    functions->MallocExtension_MarkThreadIdle();
}

/* ---- its size classes ---- */

enum { TCMALLOC_PAGE = 8192, SMALL_MAX = 256 * 1024, CLASSES_MAX = 128 };

/* How many objects move between caches at a time; a span should have at least a quarter of that. */
static uint64_t tcmalloc_moved(uint64_t size)
{
    uint64_t moved = 64 * 1024 / size;
    return moved < 2 ? 2 : moved > 32 ? 32 : moved;
}

/* The sizes of classes near `size` are multiples of this. */
static uint64_t tcmalloc_alignment(uint64_t size)
{
    if (size < 16) return 8;
    if (size < 128) return 16;
    uint64_t alignment = (UINT64_C(1) << (63 - __builtin_clzll(size))) / 8;
    return alignment < TCMALLOC_PAGE ? alignment : TCMALLOC_PAGE;
}

/* The length of a class's spans: at most an eighth is wasted at the end. */
static uint64_t tcmalloc_span(uint64_t size)
{
    uint64_t bytes = 0;
    do {
        bytes += TCMALLOC_PAGE;
        while (bytes % size > bytes / 8)
            bytes += TCMALLOC_PAGE;
    } while (bytes / size < tcmalloc_moved(size) / 4);
    return bytes;
}

/* A class replaces the previous, smaller one if its spans would be as long and have as many
 * objects. Returns the number of classes. */
static unsigned tcmalloc_make_classes(uint32_t *classes)
{
    unsigned count = 0;
    uint64_t span_before = 0;
    for (uint64_t size = 8; size <= SMALL_MAX; size += tcmalloc_alignment(size)) {
        const uint64_t span = tcmalloc_span(size);
        const bool replaces =
            count > 0 && span == span_before && span / size == span / classes[count - 1];
        if (!replaces) count++;
        classes[count - 1] = (uint32_t)size;
        span_before = span;
    }
    return count;
}

static uint64_t tcmalloc_size(uint64_t size)
{
    static uint32_t classes[CLASSES_MAX];
    static unsigned count;
    if (size > SMALL_MAX) return allocator_round_up(size, TCMALLOC_PAGE);
    if (count == 0) count = tcmalloc_make_classes(classes);
    unsigned low = 0, high = count - 1;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (classes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return classes[low];
}

/* ---- its settings ---- */

static const char *const tcmalloc_tuned[] = {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=1048576",
                                             "TCMALLOC_RELEASE_RATE=10",
                                             "TCMALLOC_AGGRESSIVE_DECOMMIT=1", NULL};

/* Not TCMALLOC_MEMFS_... and TCMALLOC_DEVMEM_... (files), ..._REPORT_THRESHOLD (prints). */
static const char tcmalloc_numbers[] =
    " TCMALLOC_AGGRESSIVE_DECOMMIT TCMALLOC_DISABLE_MEMORY_RELEASE TCMALLOC_HEAP_LIMIT_MB"
    " TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES TCMALLOC_MIN_PER_THREAD_CACHE_SIZE"
    " TCMALLOC_OVERRIDE_PAGESIZE TCMALLOC_RELEASE_RATE TCMALLOC_SAMPLE_PARAMETER"
    " TCMALLOC_SKIP_MMAP TCMALLOC_SKIP_SBRK TCMALLOC_TRANSFER_NUM_OBJ ";

const struct allocator_facts allocator_tcmalloc = {
    .name = "tcmalloc",
    .is_it = tcmalloc_is_it,
    .put_version = tcmalloc_put_version,
    .version_has_name = true, /* "gperftools 2.16" */
    .rounding = 15,
    .heap_source = tcmalloc_heap_source,
    .heap_bytes = tcmalloc_heap_bytes,
    .release_means = "MallocExtension_ReleaseFreeMemory()",
    .release = tcmalloc_release,
    .settle = tcmalloc_settle,
    .sizes_name = "tcmalloc 2.16",
    .size = tcmalloc_size,
    .tuned = tcmalloc_tuned,
    .numbers = tcmalloc_numbers,
};
