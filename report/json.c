/* The JSON of a report: docs/report.md. Tables are objects of columns, each an array. */
#include <stdlib.h>

#include "common/json_file.h"
#include "report/report.h"
#include "report/rounding.h"

/* ---- columns ---- */

/* A new array as `key` of the object. */
static json_t *column(json_t *table, const char *key)
{
    json_t *array = json_array();
    json_object_set_new(table, key, array);
    return array;
}

static void append(json_t *array, uint64_t number)
{
    json_array_append_new(array, json_integer((json_int_t)number));
}

static json_t *table(json_t *object, const char *key)
{
    json_t *new = json_object();
    json_object_set_new(object, key, new);
    return new;
}

/* ---- parts ---- */

static void put_origin(json_t *object, const struct report_trace *trace)
{
    const struct instruction_totals *totals = &trace->tally.totals;
    json_put_text(object, "path", trace->path);
    json_put_text(object, "program", trace->program);
    json_put_text(object, "allocator", trace->allocator);
    json_put_text(object, "recording", trace->recording);
    if (*trace->pid != '\0') json_put_number(object, "pid", strtoull(trace->pid, NULL, 10));
    json_object_set_new(object, "start", json_real(trace->start_s));
    json_put_text(object, "status", trace->status);
    json_put_number(object, "duration_ns", trace->tally.ns);
    json_put_number(object, "ticks", totals->ticks);
    json_put_number(object, "lost_events", totals->lost_events);
    json_put_number(object, "freed_twice", totals->freed_twice);
}

static void put_calls(json_t *object, const struct tally *tally)
{
    json_put_number(object, "calls", tally->calls);
    json_put_kinds(object, "by_kind", tally->totals.by_kind);
    json_put_kinds(object, "failed", tally->failed);
    json_put_kinds(object, "unknown", tally->unknown);
    json_put_number(object, "made", tally->made);
    json_put_number(object, "ended", tally->ended);
    json_put_number(object, "bytes", tally->bytes);
    json_put_number(object, "zero_sizes", tally->zero_sizes);
    json_put_number(object, "wrong_sizes", tally->wrong_sizes);
}

static void put_peaks(json_t *object, const struct tally *tally)
{
    json_t *peak = table(object, "peak"), *end = table(object, "end");
    json_put_number(peak, "bytes", tally->peak.bytes);
    json_put_number(peak, "objects", tally->peak.objects);
    json_put_number(peak, "call", tally->peak.call);
    json_put_number(peak, "ms", tally->peak.ms);
    json_put_number(end, "bytes", tally->live_bytes);
    json_put_number(end, "objects", tally->live);
    json_put_number(object, "original_peak_rss_bytes", tally->peak_rss_bytes);
    json_put_number(object, "original_peak_heap_bytes", tally->peak_heap_bytes);
    json_put_number(object, "original_user_ns", tally->user_ns);
    json_put_number(object, "original_system_ns", tally->system_ns);
}

static void put_sizes(json_t *object, const struct sizes *sizes)
{
    json_t *columns = table(object, "sizes");
    json_t *size = column(columns, "size"), *highest = column(columns, "highest");
    json_t *count = column(columns, "made"), *bytes = column(columns, "bytes");
    json_t *calls = column(columns, "lifetime_calls");
    json_t *peak_objects = column(columns, "peak_objects");
    json_t *peak_bytes = column(columns, "peak_bytes");
    json_t *end_objects = column(columns, "end_objects"), *end_bytes = column(columns, "end_bytes");
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        const bool is_class = sizes_is_class(i);
        if (one->count == 0) continue;
        append(size, one->size);
        append(highest, is_class ? log_linear_highest(i - SIZES_SMALL) : one->size);
        append(count, one->count);
        append(bytes, one->bytes);
        append(calls, one->lifetime_calls);
        append(peak_objects, one->live.peak_objects);
        append(peak_bytes, one->live.peak_bytes);
        append(end_objects, one->live.objects);
        append(end_bytes, one->live.bytes);
    }
}

static void put_rounding(json_t *object, const struct sizes *sizes)
{
    json_t *all = table(object, "rounding");
    for (const struct rounding *rounding = roundings; rounding->name != NULL; rounding++) {
        const struct report_rounded sum = report_rounded(sizes, rounding->size);
        json_t *one = table(all, rounding->name);
        json_put_number(one, "bytes", sum.made);
        json_put_number(one, "peak_bytes", sum.peak);
    }
}

static void put_histogram(json_t *object, const char *key, const uint64_t *counts, uint64_t total)
{
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    json_t *columns = table(object, key);
    json_t *lowest = column(columns, "lowest"), *objects = column(columns, "objects");
    for (unsigned i = 0; i < LOG_LINEAR_CLASSES; i++) {
        if (counts[i] == 0) continue;
        append(lowest, log_linear_lowest(i));
        append(objects, counts[i]);
    }
    for (size_t i = 0; total > 0 && i < sizeof percentiles / sizeof *percentiles; i++) {
        const unsigned at = log_linear_percentile(counts, total, percentiles[i].share);
        json_t *range = column(columns, percentiles[i].key);
        append(range, log_linear_lowest(at));
        append(range, log_linear_highest(at));
    }
}

static void put_lifetimes(json_t *object, const struct tally *tally)
{
    const struct tally_lifetimes *lifetimes = &tally->lifetimes;
    json_t *all = table(object, "lifetimes");
    put_histogram(all, "calls", lifetimes->calls, tally->ended);
    put_histogram(all, "bytes", lifetimes->bytes, tally->ended);
    put_histogram(all, "ms", lifetimes->ms, tally->ended);
    json_t *columns = table(all, "by_size");
    json_t *size = column(columns, "size"), *calls = column(columns, "calls");
    json_t *objects = column(columns, "objects");
    for (unsigned i = 0; i < TALLY_MAGNITUDES; i++)
        for (unsigned k = 0; k < TALLY_MAGNITUDES; k++) {
            if (lifetimes->by_size[i][k] == 0) continue;
            append(size, i > 0 ? UINT64_C(1) << (i - 1) : 0);
            append(calls, k > 0 ? UINT64_C(1) << (k - 1) : 0);
            append(objects, lifetimes->by_size[i][k]);
        }
}

static void put_ages(json_t *object, const struct ages *ages)
{
    json_t *columns = table(object, "ages");
    json_put_number(columns, "calls_per_piece", UINT64_C(1) << ages->shift);
    json_t *piece = column(columns, "piece");
    json_t *peak_objects = column(columns, "peak_objects");
    json_t *peak_bytes = column(columns, "peak_bytes");
    json_t *end_objects = column(columns, "end_objects"), *end_bytes = column(columns, "end_bytes");
    for (unsigned i = 0; i < AGES_MAX; i++) {
        const struct live *one = &ages->pieces[i];
        if (one->objects == 0 && one->peak_objects == 0) continue;
        append(piece, i);
        append(peak_objects, one->peak_objects);
        append(peak_bytes, one->peak_bytes);
        append(end_objects, one->objects);
        append(end_bytes, one->bytes);
    }
}

static void put_threads(json_t *object, const struct lanes *lanes)
{
    json_t *all = column(object, "threads");
    for (unsigned i = 0; i < INSTRUCTION_LANES_MAX; i++) {
        const struct lane_counts *lane = &lanes->lanes[i];
        json_t *one;
        if (lane->calls == 0 && lane->threads == 0) continue;
        json_array_append_new(all, one = json_object());
        json_put_number(one, "lane", i);
        json_put_number(one, "threads", lane->threads);
        json_put_number(one, "thread", lane->thread);
        json_put_number(one, "calls", lane->calls);
        json_put_number(one, "made", lane->made);
        json_put_number(one, "bytes", lane->bytes);
        json_put_number(one, "ended", lane->ended);
        json_put_number(one, "foreign", lane->foreign);
        json_put_number(one, "turns", lane->turns);
        json_put_number(one, "longest_turn", lane->longest);
        json_put_number(one, "first_ms", lane->first_ms);
        json_put_number(one, "last_ms", lane->last_ms);
        json_put_number(one, "peak_objects", lane->live.peak_objects);
        json_put_number(one, "peak_bytes", lane->live.peak_bytes);
        json_put_number(one, "end_objects", lane->live.objects);
        json_put_number(one, "end_bytes", lane->live.bytes);
    }
}

static int by_key(const void *one, const void *other)
{
    const uint64_t a = ((const struct lane_pair *)one)->key;
    const uint64_t b = ((const struct lane_pair *)other)->key;
    return (a > b) - (a < b);
}

static void put_foreign(json_t *object, const struct lanes *lanes)
{
    json_t *columns = table(object, "foreign");
    json_t *maker = column(columns, "made_by"), *ender = column(columns, "ended_by");
    json_t *objects = column(columns, "objects"), *bytes = column(columns, "bytes");
    struct lane_pair *pairs = calloc(lanes->pairs_count + 1, sizeof *pairs);
    uint32_t count = 0;
    for (uint32_t i = 0; pairs != NULL && count < lanes->pairs_count; i++)
        if (lanes->pairs[i].key != 0) pairs[count++] = lanes->pairs[i];
    if (count > 0) qsort(pairs, count, sizeof *pairs, by_key);
    for (uint32_t i = 0; i < count; i++) {
        append(maker, lane_pair_maker(&pairs[i]));
        append(ender, lane_pair_ender(&pairs[i]));
        append(objects, pairs[i].objects);
        append(bytes, pairs[i].bytes);
    }
    free(pairs);
    json_put_number(columns, "other_objects", lanes->other_pairs.objects);
    json_put_number(columns, "other_bytes", lanes->other_pairs.bytes);
}

static void put_reallocs(json_t *object, const struct tally *tally)
{
    const struct tally_reallocs *counts = &tally->realloc;
    json_t *all = table(object, "reallocs");
    json_put_number(all, "calls", tally->reallocs);
    json_put_number(all, "moved", counts->moved);
    json_put_number(all, "in_place", counts->in_place);
    json_put_number(all, "grown", counts->grown);
    json_put_number(all, "shrunk", counts->shrunk);
    json_put_number(all, "same", counts->same);
    json_put_number(all, "copied_bytes", counts->copied_bytes);
    json_t *growth = table(all, "growth");
    json_t *limits = column(growth, "up_to"), *calls = column(growth, "calls");
    for (unsigned i = 0; i < TALLY_GROWTHS; i++) {
        json_array_append_new(limits, i < TALLY_GROWTHS - 1 ? json_real(tally_growth_limits[i])
                                                            : json_null());
        append(calls, counts->growth[i]);
    }
    json_t *chains = table(all, "chains");
    json_t *least = column(chains, "least"), *objects = column(chains, "objects");
    for (unsigned i = 1; i < TALLY_CHAINS; i++) {
        if (counts->chains[i] == 0) continue;
        append(least, UINT64_C(1) << (i - 1));
        append(objects, counts->chains[i]);
    }
}

static void put_alignments(json_t *object, const struct tally *tally)
{
    json_t *columns = table(object, "alignments");
    json_t *alignment = column(columns, "alignment"), *made = column(columns, "made");
    json_t *bytes = column(columns, "bytes");
    for (unsigned i = 0; i < 64; i++) {
        if (tally->aligned[i] == 0) continue;
        append(alignment, UINT64_C(1) << i);
        append(made, tally->aligned[i]);
        append(bytes, tally->aligned_bytes[i]);
    }
}

static void put_timeline(json_t *object, const struct timeline *timeline)
{
    json_t *columns = table(object, "timeline");
    json_t *end = column(columns, "end_ns"), *calls = column(columns, "calls");
    json_t *made = column(columns, "made"), *ended = column(columns, "ended");
    json_t *reallocs = column(columns, "reallocs"), *bytes = column(columns, "bytes");
    json_t *objects = column(columns, "live_objects"), *live = column(columns, "live_bytes");
    json_t *most = column(columns, "most_live_bytes");
    json_t *rss = column(columns, "rss_bytes"), *heap = column(columns, "heap_bytes");
    json_put_number(columns, "ticks_per_row", timeline->ticks_per_row);
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        append(end, row->end_ns);
        append(calls, row->calls);
        append(made, row->made);
        append(ended, row->ended);
        append(reallocs, row->reallocs);
        append(bytes, row->bytes);
        append(objects, row->live_objects);
        append(live, row->live_bytes);
        append(most, row->most_live_bytes);
        append(rss, row->rss_bytes);
        append(heap, row->heap_bytes);
    }
}

json_t *report_json(const struct report_trace *trace)
{
    const struct tally *tally = &trace->tally;
    json_t *object = json_object();
    put_origin(object, trace);
    put_calls(object, tally);
    put_peaks(object, tally);
    put_sizes(object, &tally->sizes);
    put_rounding(object, &tally->sizes);
    put_lifetimes(object, tally);
    put_ages(object, &tally->ages);
    put_threads(object, &tally->lanes);
    put_foreign(object, &tally->lanes);
    put_reallocs(object, tally);
    put_alignments(object, tally);
    put_timeline(object, &tally->timeline);
    if (trace->depths != NULL) json_object_set_new(object, "depths", depths_json(trace->depths));
    if (trace->under != NULL) json_object_set_new(object, "under", under_json(trace->under));
    return object;
}
