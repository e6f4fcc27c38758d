#include "replay/replay_report.h"

#include <inttypes.h>
#include <string.h>

#include "common/call_table.h"
#include "common/output.h"
#include "common/printable.h"
#include "replay/options.h"
#include "stream/metadata.h"

const char *const report_status_names[] = {"complete", "cut", "failed"};
const char *const report_recording_names[] = {"complete", "cut", "damaged", "complete"};

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

static uint64_t report_measured_events(const struct report *report)
{
    uint64_t warmup = report->measurement.warmup_calls;
    return report->totals.calls > warmup ? report->totals.calls - warmup : 0;
}

static double report_own_cost_ns(const struct report *report)
{
    const struct measurement *measured = &report->measurement;
    const uint64_t events = report_measured_events(report);
    if (!report->engine->calls_allocator)
        return events > 0 ? (double)measured->wall_ns / (double)events : 0;
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

static double report_fragmentation(const struct report *report)
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

/* ---- numbers ---- */

#define USE(numbers) use(of, numbers, sizeof(numbers) / sizeof *(numbers))

static void report_time(const struct report *report, numbers_use *use, void *of)
{
    const struct measurement *measured = &report->measurement;
    const double events = (double)report_measured_events(report);
    const double calls = report->totals.calls > 0 ? (double)report->totals.calls : 1;
    const double wall_ns = (double)measured->wall_ns, elapsed_ns = (double)measured->elapsed_ns;
    const double warmup = (double)measured->warmup_calls, releases = (double)report->releases;
    const char *own = report->engine->calls_allocator ? "  the replay's own" : NULL;
    char by[64];
    snprintf(by, sizeof by, " times by %s", releases > 0 ? report->release_means : "");
    const struct number numbers[] = {
        {"measured_events", NULL, UNIT_COUNT, events, ""},
        {"wall_seconds", "wall time", UNIT_SECONDS, wall_ns / 1e9, ""},
        {NULL, "", UNIT_NS_EACH, events > 0 ? wall_ns / events : 0, ""},
        {NULL, warmup > 0 ? "  warm-up" : NULL, UNIT_COUNT, warmup, " events, not included"},
        {"own_cost_ns_per_event", own, UNIT_NS_EACH, report_own_cost_ns(report), ""},
        {"releases", releases > 0 ? "  memory given back" : NULL, UNIT_COUNT, releases, by},
        {"release_seconds", releases > 0 ? "" : NULL, UNIT_SECONDS,
         (double)measured->release_ns / 1e9, " of it"},
        {"events_per_second", "events per second", UNIT_RATE,
         wall_ns > 0 ? events * 1e9 / wall_ns : 0, ""},
        {"elapsed_seconds", "with reading", UNIT_SECONDS, elapsed_ns / 1e9, " elapsed"},
        {NULL, "", UNIT_NS_EACH, elapsed_ns / calls, ""},
        {"user_seconds", "processor time", UNIT_CPU, measured->user_seconds, " user"},
        {"system_seconds", "", UNIT_CPU, measured->system_seconds, " system"},
        {"reading_seconds", "", UNIT_CPU, measured->reading_seconds, " for reading ahead"},
        {"minor_faults", "page faults", UNIT_COUNT, (double)measured->minor_faults, " minor"},
        {"major_faults", "", UNIT_COUNT, (double)measured->major_faults, " major"},
    };
    USE(numbers);
}

static void report_calls(const struct report *report, numbers_use *use, void *of)
{
    const struct instruction_totals *totals = &report->totals;
    const char *caches = report->engine->drain != NULL ? ""
                         : report->cache_switching     ? ", with thread caches"
                                                       : ", without thread caches";
    char moved[48];
    snprintf(moved, sizeof moved, " of %" PRIu64, report->reallocs);
    const struct number numbers[] = {
        {"thread_switches", "thread switches", UNIT_COUNT, (double)totals->lane_changes, caches},
        {"threads", "threads", UNIT_COUNT, (double)totals->threads, ""},
        {"busy_threads", NULL, UNIT_COUNT, number_known(report->busy_threads), ""},
        {"ticks", NULL, UNIT_COUNT, (double)totals->ticks, ""},
        {"realigned", report->realigned > 0 ? "realigned" : NULL, UNIT_COUNT,
         (double)report->realigned, " (of alignments that the allocator refuses)"},
        {"untouched_bytes", report->untouched > 0 ? "not touched" : NULL, UNIT_BYTES,
         (double)report->untouched, " of large objects, as in the program"},
        {"reallocs", NULL, UNIT_COUNT, (double)report->reallocs, ""},
        {"reallocs_moved", report->reallocs > 0 ? "reallocs that moved" : NULL, UNIT_COUNT,
         (double)report->moved, moved},
        {"freed_twice", totals->freed_twice > 0 ? "freed twice" : NULL, UNIT_COUNT,
         (double)totals->freed_twice, " (left out of the replay)"},
        {"unknown_frees", NULL, UNIT_COUNT, (double)report_unknown_frees(report), ""},
        {"lost_events", NULL, UNIT_COUNT, (double)totals->lost_events, ""},
        {"live_at_end", "live at end", UNIT_COUNT, (double)totals->live, ""},
        {"freed_at_end", NULL, UNIT_COUNT, (double)report->freed_at_end, ""},
    };
    USE(numbers);
}

static void report_memory(const struct report *report, numbers_use *use, void *of)
{
    const struct memory *memory = &report->memory;
    const struct memory_look *worst = memory_worst(memory), *end = &memory->end;
    const double live = (double)report->peak_live_bytes, rss = (double)report_net_rss_bytes(report);
    const double heap = number_known((double)report->series.peak_heap_bytes);
    const double lane_peaks = (double)report->lane_peaks_bytes;
    const double base = (double)report->measurement.base_rss_bytes;
    char by[64];
    snprintf(by, sizeof by, " by %s", report->heap_source);
    const struct number numbers[] = {
        {"peak_live_bytes", "peak live", UNIT_BYTES, live, ""},
        {"lane_peaks_bytes", lane_peaks > 0 ? "  if all threads had" : NULL, UNIT_BYTES,
         number_known(lane_peaks), " their most at once"},
        {"peak_net_rss_bytes", "peak RSS", UNIT_BYTES, rss, ""},
        {"rss_per_live", "", UNIT_TIMES, live > 0 ? rss / live : -1, " peak live"},
        {"fragmentation_at_peak_rss", "", UNIT_SHARE, memory_not_live(&memory->peak), " not live"},
        {"most_not_live_bytes", "  most not live", UNIT_BYTES, (double)memory_not_live_bytes(worst),
         ""},
        {"fragmentation_most", "", UNIT_SHARE, memory_not_live(worst), " then"},
        {"mean_net_rss_bytes", "  mean", UNIT_BYTES, memory_mean_bytes(memory),
         " over the original's time"},
        {"end_net_rss_bytes", "  at the end", UNIT_BYTES, (double)end->rss_bytes, ""},
        {"end_live_bytes", "", UNIT_BYTES, (double)end->live_bytes, " live"},
        {"not_given_back_bytes", NULL, UNIT_BYTES, (double)memory_not_live_bytes(end), ""},
        {"own_rss_bytes", "  the replay's own", UNIT_BYTES, (double)memory->own_bytes,
         ", not included"},
        {"looks", NULL, UNIT_COUNT, (double)memory->looks, ""},
        {"peak_rss_bytes", NULL, UNIT_BYTES, (double)report->measurement.peak_rss_bytes, ""},
        {"base_rss_bytes", NULL, UNIT_BYTES, base, ""},
        {"base_net_rss_bytes", NULL, UNIT_BYTES, (double)report->measurement.base_net_bytes, ""},
        {"peak_heap_bytes", "peak heap", UNIT_BYTES, heap, by},
        {"fragmentation", "", UNIT_SHARE, report_fragmentation(report), " not live"},
    };
    USE(numbers);
}

/* How often the program asked for the size of an object; negative: not known. */
static double report_sizes_asked(const struct report *report)
{
    const struct instruction_header *header = report->header;
    struct statistics_names names = {0};
    if (report->statistics.count == 0) return -1;
    statistics_take(&names, header->metadata, header->metadata_bytes);
    const unsigned count = names.count;
    const bool known = count > 0 && count <= report->statistics.count &&
                       strcmp(names.names[count - 1], STATISTIC_SIZES_ASKED) == 0;
    statistics_free(&names);
    return known ? (double)report->statistics.values[count - 1] : -1;
}

/* Hands out the numbers of the original. What the recorder did not state counts as not known. */
static void report_original(const struct report *report, numbers_use *use, void *of)
{
    const struct original *original = &report->original;
    const bool usage = original->has_usage, apart = usage && !original->recorder_unknown;
    const double peak = number_known((double)original->peak_rss_bytes);
    const double recorder = (double)original->recorder_bytes;
    const double net = number_known((double)original->net_bytes);
    const double heap = number_known((double)report->series.original_peak_heap_bytes);
    const double user = (double)original->user_ns / 1e9, system = (double)original->system_ns / 1e9;
    const char *words = peak > 0 ? "the original had" : NULL, *also = peak > 0 ? "" : NULL;
    const struct number numbers[] = {
        {"original_peak_rss_bytes", words, UNIT_BYTES, peak, " peak RSS"},
        {"original_recorder_bytes", also, UNIT_BYTES, number_known(recorder),
         " of it the recorder's"},
        {"original_peak_net_rss_bytes", NULL, UNIT_BYTES,
         apart ? number_known(peak - recorder) : -1, ""},
        {"original_mean_net_rss_bytes", NULL, UNIT_BYTES,
         apart ? original_mean_bytes(original) : -1, ""},
        {"original_end_net_rss_bytes", NULL, UNIT_BYTES, apart ? net : -1, ""},
        {"original_peak_heap_bytes", also, UNIT_BYTES, heap, " peak heap"},
        {"original_seconds", also, UNIT_SECONDS, (double)report->series.original_ns / 1e9, ""},
        {"original_user_seconds", also, UNIT_CPU, usage ? user : -1, " user"},
        {"original_system_seconds", also, UNIT_CPU, usage ? system : -1, " system"},
        {"original_sizes_asked", NULL, UNIT_COUNT, report_sizes_asked(report), ""},
    };
    USE(numbers);
}

void report_numbers(const struct report *report, numbers_use *use, void *of)
{
    report_time(report, use, of);
    report_calls(report, use, of);
    report_memory(report, use, of);
    report_original(report, use, of);
}

/* ---- the table ---- */

static void replay_report_print_kinds(const struct report *report, FILE *to)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (report->totals.by_kind[kind] > 0)
            fprintf(to, "  %-20s %" PRIu64 "%s\n", call_names[kind], report->totals.by_kind[kind],
                    report_how(report, kind));
}

/* Shows a percentile below the clock's step only as less than that step. */
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
            "  clock", report->options->policy.sample_every, latency_clock(latency), step_ns,
            (double)latency->overhead * latency->ns_per_tick);
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
        fprintf(to, "  mismatch at instruction %" PRIu64 ", %s of %" PRIu64 " bytes: ",
                one->instruction, call_names[one->opcode & INSTRUCTION_NUMBER_MASK], one->size);
        fprintf(to, "originally 0x%" PRIx64 ", ", one->original);
        print_user(to, one->original_last);
        fprintf(to, "; here 0x%" PRIx64 ", ", one->replayed);
        print_user(to, one->replayed_last);
        fputc('\n', to);
    }
}

static void replay_report_print_warnings(const struct report *report, FILE *to)
{
    struct warning warnings[WARNINGS_MAX];
    unsigned count = warnings_find(report, warnings);
    for (unsigned i = 0; i < count; i++)
        fprintf(to, "%-22s %s\n", "warning", printable_text(warnings[i].text));
}

void report_print(const struct report *report, FILE *to)
{
    struct numbers_text text = {.to = to, .width = 22};
    char allocator[160];

    fprintf(to, "%-22s %s\n", "engine", report->engine->name);
    fprintf(to, "%-22s %s\n", "allocator",
            printable_text(report_allocator(report, allocator, sizeof allocator)));
    if (report->engine->calls_allocator)
        fprintf(to, "%-22s %s\n", "  from", printable_text(report->allocator->path));
    if (report->caches != NULL && report->caches[0] != '\0')
        fprintf(to, "%-22s %s\n", "thread caches", printable_text(report->caches));
    if (report->status != REPORT_COMPLETE)
        fprintf(to, "%-22s %s\n", "status", report_status_names[report->status]);
    else if (report->limited)
        fprintf(to, "%-22s ended by --limit\n", "status");
    else if (!instruction_status_is_complete(report->recording))
        fprintf(to, "%-22s %s\n", "recording", report_recording_names[report->recording]);
    fprintf(to, "%-22s %" PRIu64 "\n", "events", report->totals.calls);
    replay_report_print_kinds(report, to);
    report_numbers(report, numbers_print, &text);
    print_latency(report, to);
    print_addresses(report, to);
    replay_report_print_warnings(report, to);
}

/* ---- series ---- */

/* A memory size that may be unknown, which is an empty field. */
static void csv_put_bytes(FILE *to, uint64_t bytes)
{
    if (bytes > 0)
        fprintf(to, ",%" PRIu64, bytes);
    else
        fputc(',', to);
}

static void csv_put_series(const struct report *report, FILE *to)
{
    const struct series *series = &report->series;
    fputs("event,elapsed_seconds,wall_seconds,live_bytes,rss_bytes,heap_bytes,original_seconds,"
          "original_rss_bytes,original_heap_bytes,net_rss_bytes,original_net_rss_bytes,"
          "vm_size_bytes,original_vm_size_bytes\n",
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
        csv_put_bytes(to, series_net_rss_bytes(row));
        csv_put_bytes(to, row->original_net_rss_bytes);
        csv_put_bytes(to, row->vm_size_bytes);
        csv_put_bytes(to, row->original_vm_size_bytes);
        fputc('\n', to);
    }
}

static void csv_put_latency(const struct report *report, FILE *to)
{
    const struct latency *latency = &report->latency;
    fputs("kind,from_ns,to_ns,sampled\n", to);
    for (unsigned kind = 1; kind < CALL_KINDS && latency->kinds != NULL; kind++)
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
            uint64_t sampled = latency->kinds[kind].buckets[bucket];
            if (sampled == 0) continue;
            fprintf(to, "%s,%.3f,%.3f,%" PRIu64 "\n", call_names[kind],
                    (double)histogram_bucket_low(bucket) * latency->ns_per_tick,
                    (double)histogram_bucket_low(bucket + 1) * latency->ns_per_tick, sampled);
        }
}

static bool csv_write(const struct report *report, const char *prefix, const char *name,
                      void (*put)(const struct report *report, FILE *to), struct error *error)
{
    char path[4096];
    int bytes = snprintf(path, sizeof path, "%s.%s.csv", prefix, name);
    FILE *to = bytes < (int)sizeof path ? fopen(path, "we") : NULL;
    if (to != NULL) put(report, to);
    bool good = to != NULL && !ferror(to);
    if (to != NULL) good = fclose(to) == 0 && good;
    if (!good && to != NULL) output_remove(path);
    return good || error_set_system(error, "cannot write %s.%s.csv", prefix, name);
}

bool report_write_csv(const struct report *report, const char *prefix, struct error *error)
{
    return csv_write(report, prefix, "series", csv_put_series, error) &&
           csv_write(report, prefix, "latency", csv_put_latency, error);
}
