#include "launch/recorded_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"

/* Of what is ignored, so much is shown. */
enum { IGNORED_BYTES_MAX = 240 };

/* ---- what may be set ---- */

/* Variables that hold one number or switch. Not MALLOC_TRACE (a file), MALLOC_CHECK_ (prints),
 * TCMALLOC_MEMFS_... and TCMALLOC_DEVMEM_... (files), ..._REPORT_THRESHOLD, MIMALLOC_SHOW_... and
 * MIMALLOC_VERBOSE (print), MIMALLOC_RESERVE_... (memory of the whole machine). */
static const char recorded_settings_numbers[] =
    " MALLOC_ARENA_MAX MALLOC_ARENA_TEST MALLOC_MMAP_MAX_ MALLOC_MMAP_THRESHOLD_"
    " MALLOC_PERTURB_ MALLOC_TOP_PAD_ MALLOC_TRIM_THRESHOLD_"
    " TCMALLOC_AGGRESSIVE_DECOMMIT TCMALLOC_DISABLE_MEMORY_RELEASE TCMALLOC_HEAP_LIMIT_MB"
    " TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES TCMALLOC_MIN_PER_THREAD_CACHE_SIZE"
    " TCMALLOC_OVERRIDE_PAGESIZE TCMALLOC_RELEASE_RATE TCMALLOC_SAMPLE_PARAMETER"
    " TCMALLOC_SKIP_MMAP TCMALLOC_SKIP_SBRK TCMALLOC_TRANSFER_NUM_OBJ"
    " MIMALLOC_ABANDONED_PAGE_PURGE MIMALLOC_ABANDONED_PAGE_RESET"
    " MIMALLOC_ABANDONED_RECLAIM_ON_FREE MIMALLOC_ALLOW_DECOMMIT MIMALLOC_ALLOW_LARGE_OS_PAGES"
    " MIMALLOC_ARENA_EAGER_COMMIT MIMALLOC_ARENA_PURGE_MULT MIMALLOC_ARENA_RESERVE"
    " MIMALLOC_DECOMMIT_DELAY MIMALLOC_DECOMMIT_EXTEND_DELAY MIMALLOC_DESTROY_ON_EXIT"
    " MIMALLOC_DISALLOW_ARENA_ALLOC MIMALLOC_DISALLOW_OS_ALLOC MIMALLOC_EAGER_COMMIT"
    " MIMALLOC_EAGER_COMMIT_DELAY MIMALLOC_EAGER_REGION_COMMIT MIMALLOC_GENERIC_COLLECT"
    " MIMALLOC_LARGE_OS_PAGES MIMALLOC_LIMIT_OS_ALLOC MIMALLOC_MAX_SEGMENT_RECLAIM"
    " MIMALLOC_MINIMAL_PURGE_SIZE MIMALLOC_OS_TAG MIMALLOC_PAGE_COMMIT_ON_DEMAND"
    " MIMALLOC_PAGE_FULL_RETAIN MIMALLOC_PAGE_MAX_CANDIDATES MIMALLOC_PAGE_RECLAIM_ON_FREE"
    " MIMALLOC_PAGE_RESET MIMALLOC_PURGE_DECOMMITS MIMALLOC_PURGE_DELAY"
    " MIMALLOC_PURGE_EXTEND_DELAY MIMALLOC_RESET_DECOMMITS MIMALLOC_RESET_DELAY"
    " MIMALLOC_SEGMENT_CACHE MIMALLOC_SEGMENT_DECOMMIT_DELAY MIMALLOC_SEGMENT_RESET"
    " MIMALLOC_TARGET_SEGMENTS_PER_THREAD MIMALLOC_USE_NUMA_NODES MIMALLOC_VISIT_ABANDONED ";

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

/* Without glibc.malloc.check, which prints, and tunables of other parts than malloc. */
static const char glibc_keys[] =
    " glibc.malloc.arena_max glibc.malloc.arena_test glibc.malloc.hugetlb glibc.malloc.mmap_max"
    " glibc.malloc.mmap_threshold glibc.malloc.mxfast glibc.malloc.perturb"
    " glibc.malloc.tcache_count glibc.malloc.tcache_max glibc.malloc.tcache_unsorted_limit"
    " glibc.malloc.top_pad glibc.malloc.trim_threshold ";

/* Variables with several settings: KEY, `assigns`, VALUE, and `separates` before the next. */
static const struct several {
    const char *name;
    char assigns, separates;
    const char *keys;
} severals[] = {
    {"GLIBC_TUNABLES", '=', ':', glibc_keys},
    {"MALLOC_CONF", ':', ',', jemalloc_keys},
    {"JE_MALLOC_CONF", ':', ',', jemalloc_keys},
};

/* Whether the word is in a list of words, each between spaces. */
static bool is_listed(const char *list, const char *word, size_t bytes)
{
    if (bytes == 0 || memchr(word, ' ', bytes) != NULL) return false;
    for (const char *at = list; (at = strchr(at, ' ')) != NULL && at[1] != '\0'; at++)
        if (strncmp(at + 1, word, bytes) == 0 && at[1 + bytes] == ' ') return true;
    return false;
}

/* Whether a value is a number or a word, or, as for jemalloc's bin_shards, ranges of them. */
static bool recorded_settings_is_plain(const char *value, size_t bytes)
{
    static const char characters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.:|+-";
    size_t at = 0;
    while (at < bytes && value[at] != '\0' && strchr(characters, value[at]) != NULL)
        at++;
    return bytes > 0 && at == bytes;
}

static bool is_allowed_part(const struct several *several, const char *part, size_t bytes)
{
    const char *assigns = memchr(part, several->assigns, bytes);
    if (assigns == NULL) return false;
    const size_t key = (size_t)(assigns - part);
    return is_listed(several->keys, part, key) &&
           recorded_settings_is_plain(assigns + 1, bytes - key - 1);
}

static void append(char *to, const char *part, size_t bytes, char separates)
{
    const size_t used = strlen(to);
    if (used > 0) to[used] = separates;
    memcpy(to + used + (used > 0), part, bytes);
    to[used + (used > 0) + bytes] = '\0';
}

/* Splits the value into settings that are allowed and those that are not; either may become empty.
 * Both buffers have room for all of it. */
static void divide(const char *name, const char *value, char *allowed, char *refused)
{
    const struct several *several = severals, *end = severals + sizeof severals / sizeof *severals;
    *allowed = *refused = '\0';
    while (several < end && strcmp(several->name, name) != 0)
        several++;
    if (several == end) {
        const bool fits = is_listed(recorded_settings_numbers, name, strlen(name)) &&
                          recorded_settings_is_plain(value, strlen(value));
        strcpy(fits ? allowed : refused, value);
        return;
    }
    for (const char *part = value; *part != '\0';) {
        const size_t bytes = strcspn(part, (char[]){several->separates, '\0'});
        if (bytes > 0)
            append(is_allowed_part(several, part, bytes) ? allowed : refused, part, bytes,
                   several->separates);
        part += bytes + (part[bytes] != '\0');
    }
}

/* ---- all of them ---- */

static bool recorded_settings_set(struct recorded_settings *settings, const char *name,
                                  const char *value)
{
    struct recorded_setting *grown =
        realloc(settings->set, (settings->count + 1) * sizeof *settings->set);
    if (grown == NULL) return false;
    settings->set = grown;
    grown[settings->count] = (struct recorded_setting){strdup(name), strdup(value)};
    const struct recorded_setting *new = &grown[settings->count++];
    return new->name != NULL &&new->value != NULL;
}

static bool ignore(struct recorded_settings *settings, const char *name, const char *value)
{
    const char *before = settings->ignored != NULL ? settings->ignored : "";
    char *text = NULL;
    if (strlen(before) >= IGNORED_BYTES_MAX) return true;
    if (asprintf(&text, "%s=%s", name, value) < 0) return false;
    char *printable = printable_copy(text, strlen(text));
    free(text);
    text = NULL;
    if (printable == NULL) return false;
    size_t shown = strlen(printable);
    const bool cut = shown > IGNORED_BYTES_MAX - strlen(before);
    if (cut) shown = IGNORED_BYTES_MAX - strlen(before);
    while (cut && ((unsigned char)printable[shown] & 0xc0) == 0x80)
        shown--; /* not within a character */
    bool good = asprintf(&text, "%s%s%.*s%s", before, *before != '\0' ? ", " : "", (int)shown,
                         printable, cut ? "..." : "") >= 0;
    free(printable);
    if (!good) return false;
    free(settings->ignored);
    settings->ignored = text;
    return true;
}

bool recorded_settings_add(struct recorded_settings *settings, const char *name, const char *value)
{
    const size_t bytes = strlen(value) + 1;
    char *allowed = malloc(2 * bytes), *refused = allowed + bytes;
    if (allowed == NULL) return false;
    divide(name, value, allowed, refused);
    bool good = *allowed == '\0' || recorded_settings_set(settings, name, allowed);
    if (*refused != '\0' || *allowed == '\0') good = ignore(settings, name, refused) && good;
    free(allowed);
    return good;
}

bool recorded_settings_take(struct recorded_settings *settings, const char *metadata)
{
    static const char before[] = "env.";
    char *text = strdup(metadata), *rest = text;
    bool good = text != NULL;
    for (char *line; good && (line = strsep(&rest, "\n")) != NULL;) {
        char *equals = strchr(line, '=');
        if (equals == NULL || strncmp(line, before, sizeof before - 1) != 0) continue;
        *equals = '\0';
        good = recorded_settings_add(settings, line + sizeof before - 1, equals + 1);
    }
    free(text);
    return good;
}

void recorded_settings_free(struct recorded_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->set[i].name);
        free(settings->set[i].value);
    }
    free(settings->set);
    free(settings->ignored);
    *settings = (struct recorded_settings){0};
}
