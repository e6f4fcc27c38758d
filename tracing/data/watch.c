#include "tracing/data/watch.h"

#include "common/atomic.h"
#include "stream/units_read.h"

static enum watch_path watch_path_of(const struct units_record *coded)
{
    return coded->structure == RAW_STRUCTURE_PAGE_HEAP ? WATCH_PAGE_HEAP : WATCH_CENTRAL;
}

/* True once in `every` times, on average. */
static bool is_chosen(struct watch *watch, size_t every)
{
    watch->chance = watch->chance * 6364136223846793005 + 1442695040888963407;
    return (watch->chance >> 32) * every >> 32 == 0;
}

void watch_units(struct watch *watch, const uint8_t *profile, uint32_t features,
                 const uint16_t *units, size_t count)
{
    struct watch_counts *counts = &watch->counts;
    const uint16_t *at = units, *end = units + count;
    const uint64_t every = (count + WATCH_UNITS - 1) / WATCH_UNITS;
    enum watch_path coming = WATCH_CACHE, latest = WATCH_CACHE;
    bool any = false; /* call */
    struct units_record coded;
    if (!is_chosen(watch, every)) return;
    while ((at = units_next(profile, features, at, end, &coded)) != NULL) {
        if (units_is_event(&coded)) {
            atomic_add_own_relaxed(&counts->calls[coded.kind], every);
            atomic_add_own_relaxed(&counts->paths[latest = coming], every);
            if (coded.begins)
                atomic_add_own_relaxed(&counts->sizes[histogram_bucket(coded.size)], every);
            coming = WATCH_CACHE;
            any = true;
        } else if (coded.number == RAW_SEQUENCE_BEFORE) {
            if (watch_path_of(&coded) > coming) coming = watch_path_of(&coded);
        } else if (coded.number == RAW_SEQUENCE_AFTER && any && watch_path_of(&coded) > latest) {
            atomic_add_own_relaxed(&counts->paths[latest], -every);
            atomic_add_own_relaxed(&counts->paths[latest = watch_path_of(&coded)], every);
        }
    }
}

static void copy_words(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = atomic_load_relaxed(&from[i]);
}

void watch_read(const struct watch *watch, struct watch_counts *to)
{
    const struct watch_counts *from = &watch->counts;
    *to = (struct watch_counts){.bytes = sizeof *to};
    copy_words(to->calls, from->calls, CALL_KINDS);
    copy_words(to->paths, from->paths, WATCH_PATHS);
    copy_words(&to->waits, &from->waits, 1);
    copy_words(&to->waited_ns, &from->waited_ns, 1);
    copy_words(to->sizes, from->sizes, HISTOGRAM_BUCKETS);
}

void watch_wait(struct watch *watch, uint64_t waited_ns)
{
    atomic_add_relaxed(&watch->counts.waits, 1);
    atomic_add_relaxed(&watch->counts.waited_ns, waited_ns);
}
