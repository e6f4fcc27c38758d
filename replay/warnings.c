#include "replay/options.h"
#include "replay/replay_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "replay/huge_pages.h"
#include "stream/metadata.h"

/* With fewer calls, most of the numbers come from the start of the program. */
#define EVENTS_FEW 10000u

/* ---- settings that a replay cannot show ---- */

enum lack {
    LACK_THREADS, /* one thread makes the calls of several */
    LACK_CACHES,  /* the same, with one thread cache */
    LACK_PACE,    /* it does not take as long as the original */
    LACK_TIME,    /* the same, and the allocator does not see the original's time either */
    LACK_TOUCH    /* untouched memory is not resident */
};

static const char *const lack_texts[] = {
    [LACK_THREADS] = "only has an effect with several threads; this replay uses one (--engine "
                     "threads)",
    [LACK_CACHES] = "concerns thread caches; in this replay all calls use the same one (--engine "
                    "threads)",
    [LACK_PACE] = "concerns a thread that wakes up from time to time; this replay is faster than "
                  "the program (--speed 1)",
    [LACK_TIME] = "depends on time; this replay is faster than the program (--clock original)",
    [LACK_TOUCH] = "concerns memory that is written to; this replay writes to little (--touch "
                   "pages)",
};

/* An environment variable; if `part` is not NULL, only if its value contains that. */
static const struct {
    const char *name, *part;
    enum lack lack;
} settings[] = {
    {"MALLOC_ARENA_MAX", NULL, LACK_THREADS},
    {"MALLOC_ARENA_TEST", NULL, LACK_THREADS},
    {"GLIBC_TUNABLES", "malloc.arena", LACK_THREADS},
    {"MALLOC_CONF", "narenas", LACK_THREADS},
    {"MALLOC_CONF", "percpu_arena", LACK_THREADS},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", NULL, LACK_CACHES},
    {"TCMALLOC_MAX_PER_CPU_CACHE_SIZE", NULL, LACK_THREADS},
    {"GLIBC_TUNABLES", "malloc.tcache", LACK_CACHES},
    {"MALLOC_CONF", "tcache", LACK_CACHES},
    {"MALLOC_CONF", "background_thread:true", LACK_PACE},
    {"MALLOC_CONF", "decay_ms", LACK_TIME},
    {"MIMALLOC_RESET_DELAY", NULL, LACK_TIME},
    {"MIMALLOC_DECOMMIT_DELAY", NULL, LACK_TIME},
    {"MIMALLOC_PURGE_DELAY", NULL, LACK_TIME},
    {"GLIBC_TUNABLES", "malloc.hugetlb", LACK_TOUCH},
    {"MALLOC_CONF", "thp", LACK_TOUCH},
    {"MIMALLOC_ALLOW_LARGE_OS_PAGES", NULL, LACK_TOUCH},
};

static bool is_lacking(const struct report *report, enum lack lack)
{
    const struct policy *policy = &report->options->policy;
    bool one_thread = report->engine->drain == NULL && report->totals.threads > 1;
    switch (lack) {
    case LACK_THREADS: return one_thread;
    case LACK_CACHES: return one_thread && !report->cache_switching;
    case LACK_PACE: return policy->speed == 0;
    case LACK_TIME: return policy->speed == 0 && policy->shown_time == SHOWN_TIME_REAL;
    case LACK_TOUCH: return policy->touch == TOUCH_NONE || policy->touch == TOUCH_LINE;
    default: return false;
    }
}

/* ---- all of them ---- */

struct list {
    struct warning *warnings;
    unsigned count;
};

static void warnings_add(struct list *list, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void warnings_add(struct list *list, const char *key, const char *format, ...)
{
    va_list arguments;
    if (list->count == WARNINGS_MAX) return;
    struct warning *warning = &list->warnings[list->count++];
    warning->key = key;
    va_start(arguments, format);
    vsnprintf(warning->text, sizeof warning->text, format, arguments);
    va_end(arguments);
}

static void find_settings(const struct report *report, struct list *list)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *value = getenv(settings[i].name), *part = settings[i].part;
        if (value == NULL || (part != NULL && strstr(value, part) == NULL)) continue;
        if (!is_lacking(report, settings[i].lack)) continue;
        warnings_add(list, "setting_not_shown", "%s%s%s%s %s", settings[i].name,
                     part != NULL ? " (" : "", part != NULL ? part : "", part != NULL ? ")" : "",
                     lack_texts[settings[i].lack]);
    }
}

/* Objects from before the recorder was attached are not replayed. */
static void find_attached(const struct report *report, struct list *list)
{
    const struct instruction_header *header = report->header;
    uint64_t rss = 0;
    if (!metadata_is_attached(header->metadata, header->metadata_bytes)) return;
    for (size_t i = 0; i < report->series.count && rss == 0; i++)
        rss = report->series.rows[i].original_net_rss_bytes;
    warnings_add(
        list, "attached",
        "the recorder was attached to a running process: objects from before that, part of its "
        "%.1f MiB RSS then, are not replayed",
        (double)rss / MIB);
}

/* Frees that a replay makes in another way, because the allocator would go wrong. */
static void find_empty_frees(const struct report *report, struct list *list)
{
    static const char version[] = "5.3.0";
    const uint64_t frees = allocator_empty_frees();
    if (frees > 0 && strncmp(report->allocator->version, version, strlen(version)) == 0)
        warnings_add(
            list, "empty_frees",
            "jemalloc %s has a fault: after delete with size 0 and an alignment, objects may overlap. "
            "The replay avoids it in %" PRIu64 " calls; the program itself may crash",
            version, frees);
}

unsigned warnings_find(const struct report *report, struct warning warnings[WARNINGS_MAX])
{
    const struct instruction_totals *totals = &report->totals;
    const struct memory_look *end = &report->memory.end;
    const bool calls = report->engine->calls_allocator;
    const uint64_t rss = report_net_rss_bytes(report), unknown = report_unknown_frees(report);
    struct list list = {.warnings = warnings};
    /* What the program did not touch is not resident, and no wonder. */
    const bool at_peak = report_is_below_live(rss + report->untouched, report->peak_live_bytes);
    if (calls &&
        (at_peak || report_is_below_live(end->rss_bytes + report->untouched, end->live_bytes)))
        warnings_add(&list, "rss_below_live", "%s is less than live objects asked for: %s",
                     at_peak ? "peak RSS" : "RSS at the end",
                     is_lacking(report, LACK_TOUCH)
                         ? "pages that nobody wrote to are not resident (--touch)"
                         : "memory was swapped out, or the live objects were never all resident");
    if (totals->calls < EVENTS_FEW)
        warnings_add(&list, "few_events",
                     "fewer than %u calls say more about a program's startup than "
                     "about an allocator",
                     EVENTS_FEW);
    if (unknown > 0)
        warnings_add(&list, "unknown_frees",
                     "%" PRIu64 " frees and reallocs of objects whose allocation was not recorded",
                     unknown);
    find_attached(report, &list);
    if (totals->lost_events > 0)
        warnings_add(&list, "lost_events", "the recording lost %" PRIu64 " calls",
                     totals->lost_events);
    if (calls && report->options->release_every != NULL && report->release_means == NULL)
        warnings_add(&list, "no_release", "%s has no function that gives memory back",
                     report->allocator->name);
    if (calls && !huge_pages_reach_allocator())
        warnings_add(
            &list, "thp_not_always",
            "%s maps inside libc or by bare system calls: its memory has huge pages as the "
            "system has them",
            report->allocator->name);
    if (calls) find_empty_frees(report, &list);
    if (calls) find_settings(report, &list);
    return list.count;
}
