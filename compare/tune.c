#include "compare/tune.h"

#include <string.h>

/* Settings that are known to change much for some programs, each tried by itself, in the form of
 * --allocators. The allocators' manuals say what they do. */
static const char *const settings[] = {
    "glibc:MALLOC_ARENA_MAX=1",
    "glibc:MALLOC_ARENA_MAX=2",
    "glibc:MALLOC_TRIM_THRESHOLD_=65536",
    "glibc:MALLOC_MMAP_THRESHOLD_=65536",
    "tcmalloc:TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=1048576",
    "tcmalloc:TCMALLOC_RELEASE_RATE=10",
    "tcmalloc:TCMALLOC_AGGRESSIVE_DECOMMIT=1",
    "jemalloc:MALLOC_CONF=narenas:1",
    "jemalloc:MALLOC_CONF=dirty_decay_ms:0\\,muzzy_decay_ms:0",
    "jemalloc:MALLOC_CONF=dirty_decay_ms:1000\\,muzzy_decay_ms:0",
    "jemalloc:MALLOC_CONF=background_thread:true",
    "jemalloc:MALLOC_CONF=tcache:false",
    /* The first name is for mimalloc up to 2.0, the second for 2.1 and later. */
    "mimalloc:MIMALLOC_RESET_DELAY=0;MIMALLOC_PURGE_DELAY=0",
    "mimalloc:MIMALLOC_EAGER_COMMIT=0;MIMALLOC_ARENA_EAGER_COMMIT=0",
};

static bool has_allocator(const struct compare_list *list, size_t count, const char *setting)
{
    const size_t length = strcspn(setting, ":");
    for (size_t i = 0; i < count; i++)
        if (list->entries[i].settings_count == 0 && strlen(list->entries[i].allocator) == length &&
            memcmp(list->entries[i].allocator, setting, length) == 0)
            return true;
    return false;
}

bool compare_tune(struct compare_list *list, char *why, size_t why_bytes)
{
    const size_t count = list->count;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (has_allocator(list, count, settings[i]) &&
            !compare_list_add(list, settings[i], why, why_bytes))
            return false;
    return true;
}
