/* The JSON of a report: docs/report.md. */
#include <stdlib.h>

#include "common/json_file.h"
#include "report/report.h"
#include "report/rounding.h"

#define LIVE_KEYS  "peak_objects peak_bytes end_objects end_bytes"
#define LIVE(live) (live)->peak_objects, (live)->peak_bytes, (live)->objects, (live)->bytes

static json_t *put_object(json_t *object, const char *key)
{
    json_t *new = json_object();
    json_object_set_new(object, key, new);
    return new;
}

/* ---- numbers of the whole ---- */

static void put_origin(json_t *object, const struct report_trace *trace)
{
    json_put_text(object, "path", trace->path);
    json_put_text(object, "program", trace->program);
    json_put_text(object, "allocator", trace->allocator);
    json_put_text(object, "recording", trace->recording);
    if (*trace->pid != '\0') json_put_number(object, "pid", strtoull(trace->pid, NULL, 10));
    json_object_set_new(object, "start", json_real(trace->start_s));
    json_put_text(object, "status", trace->status);
}

static void put_numbers(json_t *object, const struct tally *tally)
{
    const struct instruction_totals *totals = &tally->totals;
    const struct tally_peak *peak = &tally->peak;
    json_put_numbers(object, "calls made ended bytes zero_sizes wrong_sizes", tally->calls,
                     tally->made, tally->ended, tally->bytes, tally->zero_sizes,
                     tally->wrong_sizes);
    json_put_numbers(object, "duration_ns ticks lost_events freed_twice", tally->ns, totals->ticks,
                     totals->lost_events, totals->freed_twice);
    json_put_numbers(object,
                     "original_peak_rss_bytes original_peak_heap_bytes original_user_ns "
                     "original_system_ns",
                     tally->peak_rss_bytes, tally->peak_heap_bytes, tally->user_ns,
                     tally->system_ns);
    json_put_kinds(object, "by_kind", totals->by_kind);
    json_put_kinds(object, "failed", tally->failed);
    json_put_kinds(object, "unknown", tally->unknown);
    json_put_numbers(put_object(object, "peak"), "bytes objects call ms", peak->bytes,
                     peak->objects, peak->call, peak->ms);
    json_put_numbers(put_object(object, "end"), "bytes objects", tally->live_bytes, tally->live);
}

/* ---- sizes, lifetimes, ages ---- */

static void put_sizes(json_t *object, const struct sizes *sizes)
{
    static const char columns[] = "size highest made bytes lifetime_calls " LIVE_KEYS;
    json_t *table = json_put_table(object, "sizes", columns);
    for (uint32_t i = 0; i < sizes->count; i++) {
        const struct size_entry *one = &sizes->entries[i];
        if (one->count > 0)
            json_put_row(table, columns, one->size, sizes_highest(sizes, i), one->count, one->bytes,
                         one->lifetime_calls, LIVE(&one->live));
    }
}

static void put_rounding(json_t *object, const struct sizes *sizes)
{
    json_t *all = put_object(object, "rounding");
    for (const struct rounding *rounding = roundings; rounding->name != NULL; rounding++) {
        const struct report_rounded sum = report_rounded(sizes, rounding->size);
        json_put_numbers(put_object(all, rounding->name), "bytes peak_bytes", sum.made, sum.peak);
    }
}

static void put_histogram(json_t *object, const char *key, const uint64_t *counts, uint64_t total)
{
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    json_t *table = json_put_table(object, key, "lowest objects");
    for (unsigned i = 0; i < LOG_LINEAR_CLASSES; i++)
        if (counts[i] > 0) json_put_row(table, "lowest objects", log_linear_lowest(i), counts[i]);
    for (size_t i = 0; total > 0 && i < sizeof percentiles / sizeof *percentiles; i++) {
        const unsigned at = log_linear_percentile(counts, total, percentiles[i].share);
        json_object_set_new(table, percentiles[i].key,
                            json_pack("[II]", (json_int_t)log_linear_lowest(at),
                                      (json_int_t)log_linear_highest(at)));
    }
}

/* The least number of so many bits. */
static uint64_t least_of(unsigned magnitude)
{
    return magnitude > 0 ? UINT64_C(1) << (magnitude - 1) : 0;
}

static void put_lifetimes(json_t *object, const struct tally *tally)
{
    const struct tally_lifetimes *lifetimes = &tally->lifetimes;
    json_t *all = put_object(object, "lifetimes");
    put_histogram(all, "calls", lifetimes->calls, tally->ended);
    put_histogram(all, "bytes", lifetimes->bytes, tally->ended);
    put_histogram(all, "ms", lifetimes->ms, tally->ended);
    json_t *table = json_put_table(all, "by_size", "size calls objects");
    for (unsigned i = 0; i < TALLY_MAGNITUDES; i++)
        for (unsigned k = 0; k < TALLY_MAGNITUDES; k++)
            if (lifetimes->by_size[i][k] > 0)
                json_put_row(table, "size calls objects", least_of(i), least_of(k),
                             lifetimes->by_size[i][k]);
}

static void put_ages(json_t *object, const struct ages *ages)
{
    json_t *table = json_put_table(object, "ages", "piece " LIVE_KEYS);
    json_put_number(table, "calls_per_piece", UINT64_C(1) << ages->shift);
    for (unsigned i = 0; i < AGES_MAX; i++) {
        const struct live *one = &ages->pieces[i];
        if (one->objects > 0 || one->peak_objects > 0)
            json_put_row(table, "piece " LIVE_KEYS, i, LIVE(one));
    }
}

/* ---- threads ---- */

static void put_threads(json_t *object, const struct lanes *lanes)
{
    json_t *all = json_array();
    json_object_set_new(object, "threads", all);
    for (unsigned i = 0; i < INSTRUCTION_LANES_MAX; i++) {
        const struct lane_counts *lane = &lanes->lanes[i];
        if (lane->calls == 0 && lane->threads == 0) continue;
        json_t *one = json_object();
        json_put_numbers(one, "lane threads thread calls made bytes ended foreign", i,
                         lane->threads, lane->thread, lane->calls, lane->made, lane->bytes,
                         lane->ended, lane->foreign);
        json_put_numbers(one, "turns longest_turn first_ms last_ms " LIVE_KEYS, lane->turns,
                         lane->longest, lane->first_ms, lane->last_ms, LIVE(&lane->live));
        json_array_append_new(all, one);
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
    static const char columns[] = "made_by ended_by objects bytes";
    json_t *table = json_put_table(object, "foreign", columns);
    struct lane_pair *pairs = calloc(lanes->pairs_count + 1, sizeof *pairs);
    uint32_t count = 0;
    for (uint32_t i = 0; pairs != NULL && count < lanes->pairs_count; i++)
        if (lanes->pairs[i].key != 0) pairs[count++] = lanes->pairs[i];
    if (count > 0) qsort(pairs, count, sizeof *pairs, by_key);
    for (uint32_t i = 0; i < count; i++)
        json_put_row(table, columns, lane_pair_maker(&pairs[i]), lane_pair_ender(&pairs[i]),
                     pairs[i].objects, pairs[i].bytes);
    free(pairs);
    json_put_numbers(table, "other_objects other_bytes", lanes->other_pairs.objects,
                     lanes->other_pairs.bytes);
}

/* ---- the rest ---- */

static void put_reallocs(json_t *object, const struct tally *tally)
{
    const struct tally_reallocs *counts = &tally->realloc;
    json_t *all = put_object(object, "reallocs");
    json_put_numbers(all, "calls moved in_place grown shrunk same copied_bytes", tally->reallocs,
                     counts->moved, counts->in_place, counts->grown, counts->shrunk, counts->same,
                     counts->copied_bytes);
    json_t *growth = json_put_table(all, "growth", "up_to calls");
    for (unsigned i = 0; i < TALLY_GROWTHS; i++) {
        const bool last = i == TALLY_GROWTHS - 1;
        json_array_append_new(json_object_get(growth, "up_to"),
                              last ? json_null() : json_real(tally_growth_limits[i]));
        json_put_row(growth, "calls", counts->growth[i]);
    }
    json_t *chains = json_put_table(all, "chains", "least objects");
    for (unsigned i = 1; i < TALLY_CHAINS; i++)
        if (counts->chains[i] > 0)
            json_put_row(chains, "least objects", least_of(i), counts->chains[i]);
}

static void put_alignments(json_t *object, const struct tally *tally)
{
    json_t *table = json_put_table(object, "alignments", "alignment made bytes");
    for (unsigned i = 0; i < 64; i++)
        if (tally->aligned[i] > 0)
            json_put_row(table, "alignment made bytes", UINT64_C(1) << i, tally->aligned[i],
                         tally->aligned_bytes[i]);
}

static void put_timeline(json_t *object, const struct timeline *timeline)
{
    static const char columns[] = "end_ns calls made ended reallocs bytes live_objects live_bytes "
                                  "most_live_bytes rss_bytes heap_bytes";
    json_t *table = json_put_table(object, "timeline", columns);
    json_put_number(table, "ticks_per_row", timeline->ticks_per_row);
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        json_put_row(table, columns, row->end_ns, row->calls, row->made, row->ended, row->reallocs,
                     row->bytes, row->live_objects, row->live_bytes, row->most_live_bytes,
                     row->rss_bytes, row->heap_bytes);
    }
}

json_t *report_json(const struct report_trace *trace)
{
    const struct tally *tally = &trace->tally;
    json_t *object = json_object();
    put_origin(object, trace);
    put_numbers(object, tally);
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
