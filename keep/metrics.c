#include "keep/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/call_table.h"

static void metrics_gauge(FILE *to, const char *name, const char *about, double value)
{
    fprintf(to, "# TYPE malloctape_%s gauge\n# HELP malloctape_%s %s\nmalloctape_%s %.17g\n", name,
            name, about, name, value);
}

/* What the recorder has seen at its latest look, which may be a while ago. */
static void metrics_owners(FILE *to, const struct follow *follow)
{
    static const char *const names[RESIDENT_OWNERS] = {
#define METRICS_OWNER(identifier, name) name,
        RESIDENT_LIST(METRICS_OWNER)
#undef METRICS_OWNER
    };
    const struct owned *owned = &follow->owned;
    const uint64_t now = follow->copy.ns;
    if (!owned->is_known) return;
    fputs(
        "# TYPE malloctape_owner_rss_bytes gauge\n"
        "# HELP malloctape_owner_rss_bytes Resident memory by who has it, when the recorder looked "
        "last.\n",
        to);
    for (unsigned i = 0; i < RESIDENT_OWNERS; i++)
        fprintf(to, "malloctape_owner_rss_bytes{owner=\"%s\"} %" PRIu64 "\n", names[i],
                owned->bytes[i]);
    metrics_gauge(to, "owner_rss_age_seconds", "How long ago that was.",
                  now > owned->ns ? (double)(now - owned->ns) / 1e9 : 0);
}

static void metrics_calls(FILE *to, const struct copy *copy)
{
    fputs("# TYPE malloctape_calls counter\n"
          "# HELP malloctape_calls Calls of the allocator since recording began.\n",
          to);
    for (unsigned i = 0; i < CALL_KINDS; i++)
        if (copy->calls[i] > 0)
            fprintf(to, "malloctape_calls_total{kind=\"%s\"} %" PRIu64 "\n", call_names[i],
                    copy->calls[i]);
}

static void metrics_memory(FILE *to, const struct keeper *keeper)
{
    const struct copy *copy = &keeper->follow.copy;
    const struct base *base = &keeper->follow.base;
    const uint64_t heap = copy->heap_bytes, live = base->live_bytes;
    metrics_gauge(to, "rss_bytes", "Resident memory of the process.", (double)copy->rss_bytes);
    if (heap > 0) {
        metrics_gauge(to, "heap_bytes", "What the allocator has from the system.", (double)heap);
        metrics_gauge(to, "heap_free_bytes", "The part of the heap that no live object asked for.",
                      heap > live ? (double)(heap - live) : 0);
    }
    metrics_gauge(to, "live_bytes", "What live objects asked for.", (double)live);
    metrics_gauge(to, "live_objects", "Objects that are alive.", (double)base->live);
    metrics_gauge(to, "mapped_bytes", "What the process has mapped itself.",
                  (double)base->mappings.bytes);
}

static void metrics_keeper(FILE *to, const struct keeper *keeper)
{
    const struct segments *segments = &keeper->segments;
    const uint64_t ns = keeper->follow.copy.ns;
    metrics_gauge(to, "recorded_seconds", "How long recording has gone on.", (double)ns / 1e9);
    if (segments->count > 0)
        metrics_gauge(to, "kept_seconds", "How far back the kept trace goes.",
                      (double)(ns - segments->list[0].start_ns) / 1e9);
    metrics_gauge(to, "kept_disk_bytes", "Finished segments of the kept trace.",
                  (double)segments->bytes);
}

char *metrics_text(struct keeper *keeper, struct functions *functions, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (to == NULL) return NULL;
    pthread_mutex_lock(&keeper->lock);
    metrics_memory(to, keeper);
    metrics_owners(to, &keeper->follow);
    metrics_calls(to, &keeper->follow.copy);
    metrics_keeper(to, keeper);
    pthread_mutex_unlock(&keeper->lock);
    functions_put(functions, to);
    fputs("# EOF\n", to);
    if (fclose(to) == 0) return text;
    free(text);
    return NULL;
}
