#include "replay/report.h"

#include <inttypes.h>
#include <string.h>

#include "common/call_table.h"
#include "replay/warnings.h"

const char *const report_status_names[] = {"complete", "cut", "failed"};
const char *const report_recording_names[] = {"complete", "cut", "damaged"};

bool report_substituted(const struct report *report, unsigned kind)
{
    bool skipped = call_shapes[kind] == SHAPE_HEAP && !report->options->policy.heap_calls;
    return report->engine->calls_allocator && (skipped || report->allocator->substituted[kind]) &&
           report->totals.by_kind[kind] > 0;
}

static const char *report_how(const struct report *report, unsigned kind)
{
    if (!report_substituted(report, kind)) return "";
    return call_shapes[kind] == SHAPE_HEAP ? "  (not carried out)" : "  (substituted)";
}

const char *report_allocator(const struct report *report, char *to, size_t bytes)
{
    const struct allocator *allocator = report->allocator;
    if (!report->engine->calls_allocator)
        snprintf(to, bytes, "none");
    else if (allocator->version[0] != '\0')
        snprintf(to, bytes, "%s (%s)", allocator->name, allocator->version);
    else
        snprintf(to, bytes, "%s", allocator->name);
    return to;
}

/* ---- derived numbers ---- */

uint64_t report_measured_events(const struct report *report)
{
    uint64_t warmup = report->measurement.warmup_calls;
    return report->totals.calls > warmup ? report->totals.calls - warmup : 0;
}

double report_events_per_second(const struct report *report)
{
    uint64_t wall = report->measurement.wall_ns;
    return wall > 0 ? (double)report_measured_events(report) * 1e9 / (double)wall : 0;
}

static double report_ns_per_event(const struct report *report)
{
    uint64_t events = report_measured_events(report);
    return events > 0 ? (double)report->measurement.wall_ns / (double)events : 0;
}

double report_own_cost_ns(const struct report *report)
{
    const struct measurement *measured = &report->measurement;
    if (!report->engine->calls_allocator) return report_ns_per_event(report);
    return measured->own_calls > 0 ? (double)measured->own_ns / (double)measured->own_calls : -1;
}

uint64_t report_net_rss_bytes(const struct report *report)
{
    const struct memory *memory = &report->memory;
    uint64_t all = report->measurement.peak_rss_bytes, own = memory->own_bytes;
    uint64_t between = all > own ? all - own : 0;
    return between > memory->most_bytes ? between : memory->most_bytes;
}

uint64_t report_unknown_frees(const struct report *report)
{
    return report->totals.unknown - report->totals.freed_twice;
}

double report_fragmentation(const struct report *report)
{
    const struct series *series = &report->series;
    if (series->peak_heap_bytes == 0) return -1;
    return 1 - (double)series->live_at_peak_heap_bytes / (double)series->peak_heap_bytes;
}

double report_address_match(const struct report *report)
{
    const struct address_check *check = &report->address_check;
    if (!report->options->policy.verify_addresses || check->checked == 0) return -1;
    return (double)check->matched / (double)check->checked;
}

/* ---- the table ---- */

#define MIB (1024.0 * 1024.0)

static double mib(uint64_t bytes)
{
    return (double)bytes / MIB;
}

static void print_kinds(const struct report *report, FILE *to)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (report->totals.by_kind[kind] > 0)
            fprintf(to, "  %-20s %" PRIu64 "%s\n", call_names[kind], report->totals.by_kind[kind],
                    report_how(report, kind));
}

static void print_time(const struct report *report, FILE *to)
{
    const struct measurement *measured = &report->measurement;
    double calls = report->totals.calls > 0 ? (double)report->totals.calls : 1;
    double own_ns = report_own_cost_ns(report);
    fprintf(to, "%-22s %.6f s, %.2f ns per event\n", "wall time", (double)measured->wall_ns / 1e9,
            report_ns_per_event(report));
    if (measured->warmup_calls > 0)
        fprintf(to, "%-22s %" PRIu64 " events, not in it\n", "  warm-up", measured->warmup_calls);
    if (own_ns >= 0 && report->engine->calls_allocator)
        fprintf(to, "%-22s %.2f ns per event\n", "  the replay's own", own_ns);
    if (report->releases > 0)
        fprintf(to, "%-22s %" PRIu64 " times by %s, %.6f s of it\n", "  memory given back",
                report->releases, report->release_means, (double)measured->release_ns / 1e9);
    fprintf(to, "%-22s %.0f\n", "events per second", report_events_per_second(report));
    fprintf(to, "%-22s %.6f s elapsed, %.2f ns per event\n", "with reading",
            (double)measured->elapsed_ns / 1e9, (double)measured->elapsed_ns / calls);
    fprintf(to, "%-22s %.3f s user, %.3f s system, %.3f s for reading ahead\n", "processor time",
            measured->user_seconds, measured->system_seconds, measured->reading_seconds);
    fprintf(to, "%-22s %" PRIu64 " minor, %" PRIu64 " major\n", "page faults",
            measured->minor_faults, measured->major_faults);
}

/* Below the step of the clock, a sample says no more than that. */
static void print_percentile(double ns, double step_ns, FILE *to)
{
    char text[32];
    if (ns < 0)
        snprintf(text, sizeof text, "-"); /* too few samples */
    else if (ns < step_ns)
        snprintf(text, sizeof text, "< %.0f", step_ns);
    else
        snprintf(text, sizeof text, "%.1f", ns);
    fprintf(to, " %8s", text);
}

static void print_latency(const struct report *report, FILE *to)
{
    const struct latency *latency = &report->latency;
    double step_ns = (double)latency->resolution * latency->ns_per_tick;
    const bool all = report->options->policy.sample_every == 1;
    struct latency_numbers numbers;
    if (!report->engine->calls_allocator || latency->kinds == NULL ||
        report->options->policy.sample_every == 0)
        return;
    fprintf(to, "%-22s %10s %8s %8s %8s %8s %8s %8s\n", "latency in ns", "sampled", "mean", "p50",
            "p90", "p99", "p99.9", "max");
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        latency_get_numbers(latency, kind, all, &numbers);
        if (numbers.sampled == 0) continue;
        const double percentiles[] = {numbers.p50, numbers.p90, numbers.p99, numbers.p999,
                                      numbers.max};
        fprintf(to, "  %-20s %10" PRIu64 " %8.1f", call_names[kind], numbers.sampled, numbers.mean);
        for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
            print_percentile(percentiles[i], step_ns, to);
        fputc('\n', to);
    }
    fprintf(to,
            "%-22s one call in %" PRIu64 " by %s, steps of %.1f ns; its %.1f ns are subtracted\n",
            "  clock", report->options->policy.sample_every, latency->tsc ? "tsc" : "clock_gettime",
            step_ns, (double)latency->overhead * latency->ns_per_tick);
}

/* A word where resident memory is less than what live objects asked for. */
static void print_too_small(const struct report *report, uint64_t rss, uint64_t live, FILE *to)
{
    enum touch touch = report->options->policy.touch;
    if (!report->engine->calls_allocator || !report_is_below_live(rss, live)) return;
    fprintf(to, "%-22s %s\n", "",
            touch == TOUCH_NONE || touch == TOUCH_LINE
                ? "less than that: pages that nobody wrote to are not resident (--touch)"
                : "less than that: memory was swapped out, or never all live objects were there");
}

static void print_rss(const struct report *report, FILE *to)
{
    const struct memory *memory = &report->memory;
    uint64_t live = report->peak_live_bytes, rss = report_net_rss_bytes(report);
    double mean = memory_mean_bytes(memory);
    fprintf(to, "%-22s %.1f MiB\n", "peak live", mib(live));
    fprintf(to, "%-22s %.1f MiB", "peak RSS", mib(rss));
    fprintf(to, live > 0 ? ", %.2f times peak live\n" : "\n", (double)rss / (double)live);
    print_too_small(report, rss, live, to);
    if (mean >= 0) fprintf(to, "%-22s %.1f MiB over the original's time\n", "  mean", mean / MIB);
    fprintf(to, "%-22s %.1f MiB, with %.1f MiB live\n", "  at the end", mib(memory->end.rss_bytes),
            mib(memory->end.live_bytes));
    print_too_small(report, memory->end.rss_bytes, memory->end.live_bytes, to);
    if (report->engine->calls_allocator && memory_not_live(&memory->peak) >= 0)
        fprintf(to, "%-22s %.0f %% at the peak; at most %.1f MiB, %.0f %% then\n", "  not live",
                memory_not_live(&memory->peak) * 100, mib(memory_not_live_bytes(&memory->waste)),
                memory_not_live(&memory->waste) * 100);
    fprintf(to, "%-22s %.1f MiB, not in it\n", "  the replay's own", mib(memory->own_bytes));
}

static void print_original(const struct report *report, FILE *to)
{
    const struct original *original = &report->original;
    if (original->peak_rss_bytes == 0) return;
    fprintf(to, "%-22s %.1f MiB peak RSS", "the original had",
            mib(original_net_bytes(original->peak_rss_bytes, original->recorder_bytes)));
    if (original->has_usage)
        fprintf(to, " without the recorder's %.1f", mib(original->recorder_bytes));
    fprintf(to, ", %.1f MiB peak heap, %.3f s", mib(report->series.original_peak_heap_bytes),
            (double)original->now_ns / 1e9);
    if (original->has_usage)
        fprintf(to, ", %.3f s of processor time",
                (double)(original->user_ns + original->system_ns) / 1e9);
    fputc('\n', to);
}

static void print_memory(const struct report *report, FILE *to)
{
    const struct series *series = &report->series;
    print_rss(report, to);
    if (series->peak_heap_bytes > 0)
        fprintf(to, "%-22s %.1f MiB by %s, %.0f %% of it not live\n", "peak heap",
                mib(series->peak_heap_bytes), report->heap_source,
                report_fragmentation(report) * 100);
    print_original(report, to);
}

static void print_user(FILE *to, uint64_t user)
{
    if (user > 0)
        fprintf(to, "used by instruction %" PRIu64, user - 1);
    else
        fputs("not used before", to);
}

static void print_addresses(const struct report *report, FILE *to)
{
    const struct address_check *check = &report->address_check;
    double match = report_address_match(report);
    uint64_t missed = check->checked - check->matched;
    if (match < 0) return;
    fprintf(to, "%-22s %.4f %%: %" PRIu64 " of %" PRIu64 "\n", "address match", match * 100,
            check->matched, check->checked);
    for (unsigned i = 0; i < missed && i < ADDRESS_MISMATCHES_MAX; i++) {
        const struct address_mismatch *one = &check->mismatches[i];
        fprintf(to, "  not instruction %" PRIu64 ", %s of %" PRIu64 " bytes: ", one->instruction,
                call_names[one->opcode & INSTRUCTION_NUMBER_MASK], one->size);
        fprintf(to, "originally 0x%" PRIx64 ", ", one->original);
        print_user(to, one->original_last);
        fprintf(to, "; here 0x%" PRIx64 ", ", one->replayed);
        print_user(to, one->replayed_last);
        fputc('\n', to);
    }
}

/* Of what the table does not say by itself. */
static void print_warnings(const struct report *report, FILE *to)
{
    struct warning warnings[WARNINGS_MAX];
    unsigned count = warnings_find(report, warnings);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(warnings[i].key, "rss_below_live") != 0 &&
            strcmp(warnings[i].key, "lost_events") != 0)
            fprintf(to, "%-22s %s\n", "warning", warnings[i].text);
}

void report_print(const struct report *report, FILE *to)
{
    const struct instruction_totals *totals = &report->totals;
    char allocator[160];

    fprintf(to, "%-22s %s\n", "engine", report->engine->name);
    fprintf(to, "%-22s %s\n", "allocator", report_allocator(report, allocator, sizeof allocator));
    if (report->engine->calls_allocator)
        fprintf(to, "%-22s %s\n", "  from", report->allocator->path);
    if (report->status != REPORT_COMPLETE)
        fprintf(to, "%-22s %s\n", "status", report_status_names[report->status]);
    else if (report->limited)
        fprintf(to, "%-22s ended by --limit\n", "status");
    else if (report->recording != INSTRUCTION_STATUS_COMPLETE)
        fprintf(to, "%-22s %s\n", "recording", report_recording_names[report->recording]);
    fprintf(to, "%-22s %" PRIu64 "\n", "events", totals->calls);
    print_kinds(report, to);
    print_time(report, to);
    print_latency(report, to);
    fprintf(to, "%-22s %" PRIu64 "%s\n", "thread switches", totals->lane_changes,
            report->engine->drain != NULL ? ""
            : report->cache_switching     ? ", with thread caches"
                                          : ", without thread caches");
    if (report->caches != NULL && report->caches[0] != '\0')
        fprintf(to, "%-22s %s\n", "thread caches", report->caches);
    fprintf(to, "%-22s %" PRIu64 "\n", "threads", totals->threads);
    fprintf(to, "%-22s %" PRIu64 "\n", "live at end", totals->live);
    print_memory(report, to);
    print_addresses(report, to);
    if (report->realigned > 0)
        fprintf(to, "%-22s %" PRIu64 " (of alignments that the allocator refuses)\n", "realigned",
                report->realigned);
    if (totals->freed_twice > 0)
        fprintf(to, "%-22s %" PRIu64 " (left out of the replay)\n", "freed twice",
                totals->freed_twice);
    if (totals->lost_events > 0)
        fprintf(to, "%-22s %" PRIu64 "\n", "lost events", totals->lost_events);
    print_warnings(report, to);
}

/* ---- series ---- */

static FILE *csv_open(const char *prefix, const char *name, struct error *error)
{
    char path[4096];
    int bytes = snprintf(path, sizeof path, "%s.%s.csv", prefix, name);
    FILE *to = bytes < (int)sizeof path ? fopen(path, "we") : NULL;
    if (to == NULL) error_set_system(error, "cannot write %s.%s.csv", prefix, name);
    return to;
}

static bool csv_close(FILE *to, const char *prefix, const char *name, struct error *error)
{
    bool good = !ferror(to);
    if (fclose(to) == 0 && good) return true;
    return error_set_system(error, "cannot write %s.%s.csv", prefix, name);
}

/* A memory size that may be unknown, which is an empty field. */
static void csv_put_bytes(FILE *to, uint64_t bytes)
{
    if (bytes > 0)
        fprintf(to, ",%" PRIu64, bytes);
    else
        fputc(',', to);
}

static bool csv_write_series(const struct series *series, const char *prefix, struct error *error)
{
    FILE *to = csv_open(prefix, "series", error);
    if (to == NULL) return false;
    fputs("event,elapsed_seconds,wall_seconds,live_bytes,rss_bytes,heap_bytes,original_seconds,"
          "original_rss_bytes,original_heap_bytes,net_rss_bytes,original_net_rss_bytes\n",
          to);
    for (unsigned i = 0; i < series->count; i++) {
        const struct series_row *row = &series->rows[i];
        fprintf(to, "%" PRIu64 ",%.9f,%.9f,%" PRIu64, row->event, (double)row->elapsed_ns / 1e9,
                (double)row->wall_ns / 1e9, row->live_bytes);
        csv_put_bytes(to, row->rss_bytes);
        csv_put_bytes(to, row->heap_bytes);
        fprintf(to, ",%.9f", (double)row->original_ns / 1e9);
        csv_put_bytes(to, row->original_rss_bytes);
        csv_put_bytes(to, row->original_heap_bytes);
        csv_put_bytes(to, row->rss_bytes > row->own_bytes ? row->rss_bytes - row->own_bytes : 0);
        csv_put_bytes(to, row->original_net_rss_bytes);
        fputc('\n', to);
    }
    return csv_close(to, prefix, "series", error);
}

static bool csv_write_latency(const struct latency *latency, const char *prefix,
                              struct error *error)
{
    FILE *to = csv_open(prefix, "latency", error);
    if (to == NULL) return false;
    fputs("kind,from_ns,to_ns,sampled\n", to);
    for (unsigned kind = 1; kind < CALL_KINDS && latency->kinds != NULL; kind++)
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
            uint64_t sampled = latency->kinds[kind].buckets[bucket];
            if (sampled == 0) continue;
            fprintf(to, "%s,%.3f,%.3f,%" PRIu64 "\n", call_names[kind],
                    (double)histogram_bucket_low(bucket) * latency->ns_per_tick,
                    (double)histogram_bucket_low(bucket + 1) * latency->ns_per_tick, sampled);
        }
    return csv_close(to, prefix, "latency", error);
}

bool report_write_csv(const struct report *report, const char *prefix, struct error *error)
{
    return csv_write_series(&report->series, prefix, error) &&
           csv_write_latency(&report->latency, prefix, error);
}
