#include "allocators/facts.h"
#include "common/text.h"

/* jemalloc(3), MALLCTL_ARENAS_ALL. */
#define ALL_ARENAS       "4096"
#define PURGE_ALL_ARENAS "arena." ALL_ARENAS ".purge"

static bool jemalloc_is_it(const struct allocator_functions *functions)
{
    return functions->mallctl != NULL;
}

static void jemalloc_put_version(const struct allocator_functions *functions, struct text *to)
{
    const char *version = "";
    size_t bytes = sizeof version;
    if (functions->mallctl("version", &version, &bytes, NULL, 0) == 0) text_string(to, version);
}

/* ---- its heap ---- */

static uint64_t jemalloc_number(const struct allocator_functions *functions, const char *name)
{
    size_t number = 0, bytes = sizeof number;
    return functions->mallctl(name, &number, &bytes, NULL, 0) == 0 ? number : 0;
}

/* Statistics are those as of the latest epoch. */
static uint64_t jemalloc_heap_bytes(const struct allocator_functions *functions)
{
    uint64_t epoch = 1;
    if (functions->mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0) return 0;
    return jemalloc_number(functions, "stats.mapped");
}

/* It may have been built without statistics. */
static const char *jemalloc_heap_source(const struct allocator_functions *functions)
{
    return jemalloc_heap_bytes(functions) > 0 ? "stats.mapped" : NULL;
}

static bool jemalloc_has_statistics(const struct allocator_functions *functions)
{
    bool has = false;
    size_t bytes = sizeof has;
    return functions->mallctl("config.stats", &has, &bytes, NULL, 0) == 0 && has;
}

static const char jemalloc_statistics[] =
    "allocated_bytes active_bytes metadata_bytes resident_bytes retained_bytes dirty_bytes "
    "muzzy_bytes";
enum { JEMALLOC_STATISTICS = 7 };

static unsigned jemalloc_read_statistics(const struct allocator_functions *functions,
                                         uint64_t values[ALLOCATOR_STATISTICS_MAX])
{
    static const char *const numbers[JEMALLOC_STATISTICS] = {"stats.allocated",
                                                             "stats.active",
                                                             "stats.metadata",
                                                             "stats.resident",
                                                             "stats.retained",
                                                             "stats.arenas." ALL_ARENAS ".pdirty",
                                                             "stats.arenas." ALL_ARENAS ".pmuzzy"};
    const uint64_t page_bytes = jemalloc_number(functions, "arenas.page");
    for (unsigned i = 0; i < JEMALLOC_STATISTICS; i++)
        values[i] = jemalloc_number(functions, numbers[i]) * (i < 5 ? 1 : page_bytes);
    return JEMALLOC_STATISTICS;
}

static void jemalloc_release(const struct allocator_functions *functions)
{
    functions->mallctl(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
}

/* Gives the thread a new cache. Its first search for memory to recycle begins where the last one of
 * the old cache ended. */
static void jemalloc_settle(const struct allocator_functions *functions)
{
    bool wanted = false;
    functions->mallctl("thread.tcache.enabled", NULL, NULL, &wanted, sizeof wanted);
    wanted = true;
    functions->mallctl("thread.tcache.enabled", NULL, NULL, &wanted, sizeof wanted);
}

/* ---- its size classes ---- */

/* Multiples of 16; above 128, four classes for each doubling. */
static uint64_t jemalloc_size(uint64_t size)
{
    if (size <= 8) return 8;
    return size <= 128 ? allocator_round_up(size, 16) : allocator_round_to_quarter(size);
}

/* ---- its settings ---- */

static const char *const jemalloc_tuned[] = {"MALLOC_CONF=narenas:1",
                                             "MALLOC_CONF=dirty_decay_ms:0\\,muzzy_decay_ms:0",
                                             "MALLOC_CONF=dirty_decay_ms:1000\\,muzzy_decay_ms:0",
                                             "MALLOC_CONF=background_thread:true",
                                             "MALLOC_CONF=tcache:false",
                                             NULL};

/* Not prof... (files), stats_..., confirm_conf, utrace (print), abort..., xmalloc, junk. */
static const char jemalloc_keys[] =
    " background_thread bin_shards cache_oblivious calloc_madvise_threshold dirty_decay_ms"
    " decay_time disable_large_size_classes dss experimental_infallible_new"
    " experimental_tcache_gc hpa hpa_dirty_mult hpa_hugification_threshold"
    " hpa_hugification_threshold_ratio hpa_hugify_delay_ms hpa_min_purge_interval_ms"
    " hpa_sec_batch_fill_extra hpa_sec_bytes_after_flush hpa_sec_max_alloc hpa_sec_max_bytes"
    " hpa_sec_nshards hpa_slab_max_alloc huge_arena_pac_thp lg_chunk lg_dirty_mult"
    " lg_extent_max_active_fit lg_san_uaf_align lg_tcache_flush_large_div"
    " lg_tcache_flush_small_div lg_tcache_max lg_tcache_nslots_mul max_background_threads"
    " metadata_thp muzzy_decay_ms mutex_max_spin narenas narenas_ratio oversize_threshold"
    " percpu_arena process_madvise_max_batch purge remote_free_max remote_free_max_batch retain"
    " san_guard_large san_guard_small slab_sizes tcache tcache_gc_delay_bytes"
    " tcache_gc_incr_bytes tcache_max tcache_ncached_max tcache_nslots_large"
    " tcache_nslots_small_max tcache_nslots_small_min thp trust_madvise zero zero_realloc ";

const struct allocator_facts allocator_jemalloc = {
    .name = "jemalloc",
    .faults = ALLOCATOR_EMPTY_IS_ONE, /* jemalloc#2991; of 5.3.0 */
    .is_it = jemalloc_is_it,
    .put_version = jemalloc_put_version,
    .rounding = 15,
    .heap_source = jemalloc_heap_source,
    .heap_bytes = jemalloc_heap_bytes,
    .statistics = jemalloc_statistics,
    .statistics_count = JEMALLOC_STATISTICS,
    .has_statistics = jemalloc_has_statistics,
    .read_statistics = jemalloc_read_statistics,
    .release_means = "mallctl(\"" PURGE_ALL_ARENAS "\")",
    .release = jemalloc_release,
    .settle = jemalloc_settle,
    .sizes_name = "jemalloc",
    .size = jemalloc_size,
    .tuned = jemalloc_tuned,
    .several = {{"MALLOC_CONF", ':', ',', jemalloc_keys, NULL},
                {"JE_MALLOC_CONF", ':', ',', jemalloc_keys, NULL}},
    .locks = {{"MALLOC_CONF", "narenas:", false}, {"MALLOC_CONF", "tcache:false", true}},
};
