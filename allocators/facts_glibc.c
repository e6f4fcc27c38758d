#include <malloc.h>

#include "allocators/facts.h"
#include "common/text.h"

static bool glibc_is_it(const struct allocator_functions *functions)
{
    return functions->gnu_get_libc_version != NULL;
}

static void glibc_put_version(const struct allocator_functions *functions, struct text *to)
{
    text_string(to, functions->gnu_get_libc_version());
}

static const char *glibc_heap_source(const struct allocator_functions *functions)
{
    return functions->mallinfo2 != NULL ? "mallinfo2" : NULL;
}

static uint64_t glibc_heap_bytes(const struct allocator_functions *functions)
{
    struct mallinfo2 info = functions->mallinfo2();
    return info.arena + info.hblkhd;
}

static void glibc_release(const struct allocator_functions *functions)
{
    functions->malloc_trim(0);
}

/* ---- its size classes ---- */

enum { CHUNK_HEADER = 8, CHUNK_MIN = 32 };

/* The chunk of an object in the heap. (One with its own mapping has 8 bytes more and ends at a page
 * boundary.) */
static uint64_t glibc_size(uint64_t size)
{
    const uint64_t chunk = allocator_round_up(size + CHUNK_HEADER, 16);
    return chunk < CHUNK_MIN ? CHUNK_MIN : chunk;
}

/* ---- its settings ---- */

static const char *const glibc_tuned[] = {"MALLOC_ARENA_MAX=1", "MALLOC_ARENA_MAX=2",
                                          "MALLOC_TRIM_THRESHOLD_=65536",
                                          "MALLOC_MMAP_THRESHOLD_=65536", NULL};

/* Not MALLOC_TRACE (a file), MALLOC_CHECK_ (prints). */
static const char glibc_numbers[] =
    " MALLOC_ARENA_MAX MALLOC_ARENA_TEST MALLOC_MMAP_MAX_ MALLOC_MMAP_THRESHOLD_"
    " MALLOC_PERTURB_ MALLOC_TOP_PAD_ MALLOC_TRIM_THRESHOLD_ ";

/* Without glibc.malloc.check, which prints, and tunables of other parts than malloc. */
static const char glibc_keys[] =
    " glibc.malloc.arena_max glibc.malloc.arena_test glibc.malloc.hugetlb glibc.malloc.mmap_max"
    " glibc.malloc.mmap_threshold glibc.malloc.mxfast glibc.malloc.perturb"
    " glibc.malloc.tcache_count glibc.malloc.tcache_max glibc.malloc.tcache_unsorted_limit"
    " glibc.malloc.top_pad glibc.malloc.trim_threshold ";

const struct allocator_facts allocator_glibc = {
    .name = "glibc",
    .is_it = glibc_is_it,
    .put_version = glibc_put_version,
    .rounding = 7, /* 8 bytes of its own are in front of each object */
    .heap_source = glibc_heap_source,
    .heap_bytes = glibc_heap_bytes,
    .release_means = "malloc_trim(0)",
    .release = glibc_release,
    .sizes_name = "glibc",
    .size = glibc_size,
    .tuned = glibc_tuned,
    .numbers = glibc_numbers,
    .several = {{"GLIBC_TUNABLES", '=', ':', glibc_keys, "glibc."}},
    .locks = {{"MALLOC_ARENA_MAX", NULL, false},
              {"GLIBC_TUNABLES", "glibc.malloc.arena_max=", false},
              {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", true}},
};
