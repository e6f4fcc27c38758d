/* The JSON of a report: docs/report.md. */
#include "report/report_json.h"

#include <math.h>
#include <stdlib.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "report/by_code_json.h"
#include "report/first.h"
#include "report/growth.h"
#include "report/owners_output.h"
#include "report/report_numbers.h"
#include "report/tables.h"
#include "report/under.h"

/* ---- numbers of the whole ---- */

static void put_origin(json_t *object, const struct report_trace *trace)
{
    json_put_text(object, "path", trace->path);
    json_put_text(object, "program", trace->program);
    json_put_text(object, "allocator", trace->allocator);
    json_put_text(object, "heap_unknown", trace->heap_unknown);
    json_put_text(object, "recording", trace->recording);
    if (*trace->pid != '\0') json_put_number(object, "pid", strtoull(trace->pid, NULL, 10));
    json_put_real(object, "start", trace->start_s);
    json_put_text(object, "status", trace->status);
    json_object_set_new(object, "ends_at_exec", json_boolean(trace->ends_at_exec));
    json_put_text(object, "what_if", trace->what_if);
    json_put_real(object, "thin", trace->thin > 0 ? trace->thin : NAN);
}

static void put_numbers(json_t *object, const struct tally *tally)
{
    report_numbers(tally, numbers_put, json_put_object(object, "numbers"));
    report_others(tally, numbers_put, json_put_object(object, "others"));
    json_put_kinds(object, "by_kind", tally->totals.by_kind);
    json_put_kinds(object, "failed", tally->failed);
    json_put_kinds(object, "unknown", tally->unknown);
}

/* ---- sizes, lifetimes, ages ---- */

static void put_rounding(json_t *object, const struct rounded rounded[ROUNDINGS])
{
    static const char columns[] = "size made bytes taken peak_objects peak_bytes peak_taken";
    json_t *all = json_put_object(object, "rounding");
    for (unsigned i = 0; i < ROUNDINGS; i++) {
        json_t *of = table_row_json(tables_rounding, rounded, i);
        json_object_set_new(all, allocator_facts[i]->sizes_name, of);
        json_t *classes = json_put_table(of, "classes", columns);
        for (size_t k = 0; k < rounded[i].count; k++) {
            const struct rounded_class *one = &rounded[i].classes[k];
            json_put_row(classes, columns, one->size, one->made, one->bytes, one->taken,
                         one->peak_objects, one->peak_bytes, one->peak_taken);
        }
    }
}

static void put_histogram(json_t *object, const char *key, const uint64_t *counts, uint64_t total)
{
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    json_t *table = json_put_table(object, key, "lowest objects");
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (counts[i] > 0)
            json_put_row(table, "lowest objects", histogram_bucket_low(i), counts[i]);
    for (size_t i = 0; total > 0 && i < sizeof percentiles / sizeof *percentiles; i++) {
        const uint64_t before = (uint64_t)ceil(percentiles[i].share * (double)total) - 1;
        const unsigned at = histogram_bucket_at(counts, before);
        json_object_set_new(table, percentiles[i].key,
                            json_pack("[oo]", json_whole(histogram_bucket_low(at)),
                                      json_whole(histogram_bucket_high(at))));
    }
}

/* The least number that has `magnitude` bits. */
static uint64_t least_of(unsigned magnitude)
{
    return magnitude > 0 ? UINT64_C(1) << (magnitude - 1) : 0;
}

static void put_lifetimes(json_t *object, const struct tally *tally)
{
    const struct tally_lifetimes *lifetimes = &tally->lifetimes;
    json_t *all = json_put_object(object, "lifetimes");
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
    const struct tables_ages of = {.pieces = ages->pieces};
    json_t *table = table_put(object, "ages", &(struct table){tables_age, &of, .rows = AGES_MAX});
    json_put_number(table, "calls_per_piece", UINT64_C(1) << ages->shift);
}

/* ---- threads, and the rest ---- */

static void put_remote_frees(json_t *object, const struct lanes *lanes)
{
    static const char columns[] = "made_by ended_by objects bytes";
    json_t *table = json_put_table(object, "remote_frees", columns);
    for (uint32_t i = 0; i < LANE_PAIRS_TABLE; i++) {
        const struct lane_pair *pair = &lanes->pairs[i];
        if (pair->key != 0)
            json_put_row(table, columns, lane_pair_owner(pair), lane_pair_ender(pair),
                         pair->objects, pair->bytes);
    }
    json_put_numbers(table, "other_objects other_bytes", lanes->other_pairs.objects,
                     lanes->other_pairs.bytes);
}

static void put_reallocs(json_t *object, const struct tally *tally)
{
    const struct tally_reallocs *counts = &tally->realloc;
    json_t *all = json_put_object(object, "reallocs");
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

static void put_timeline(json_t *object, const struct tally *tally)
{
    const struct timeline *timeline = &tally->timeline;
    const struct tables_times of = {timeline->rows, ORIGINAL_STATISTICS_MAX};
    json_t *table =
        table_put(object, "timeline", &(struct table){tables_time, &of, .rows = timeline->count});
    json_t *kinds = json_put_object(table, "by_kind");
    json_put_number(table, "ticks_per_row", timeline->ticks_per_row);
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (tally->totals.by_kind[kind] == 0) continue;
        json_object_set_new(kinds, call_names[kind], json_array());
        for (unsigned i = 0; i < timeline->count; i++)
            json_put_row(kinds, call_names[kind], timeline->rows[i].by_kind[kind]);
    }
}

json_t *report_json(const struct report_trace *trace)
{
    const struct tally *tally = &trace->tally;
    const struct tables_sizes sizes = {.tally = tally};
    json_t *object = json_object();
    put_origin(object, trace);
    put_numbers(object, tally);
    json_object_set_new(object, "first", first_json(trace));
    if (trace->owners.is_known) json_object_set_new(object, "rss", owners_json(&trace->owners));
    json_object_set_new(object, "growth", growth_json(trace));
    table_put(object, "sizes", &(struct table){tables_size, &sizes, .rows = tally->sizes.count});
    put_rounding(object, trace->rounded);
    put_lifetimes(object, tally);
    put_ages(object, &tally->ages);
    table_put(object, "threads",
              &(struct table){tables_lane, tally, .rows = INSTRUCTION_LANES_MAX});
    put_remote_frees(object, &tally->lanes);
    put_reallocs(object, tally);
    put_alignments(object, tally);
    put_timeline(object, tally);
    json_object_set_new(object, "statistics", history_json(&tally->history, &tally->timeline));
    if (trace->arenas.known) json_object_set_new(object, "arenas", arenas_json(&trace->arenas));
    if (trace->code.is_known) json_object_set_new(object, "code", by_code_json(&trace->code));
    if (trace->depths != NULL) json_object_set_new(object, "depths", depths_json(trace->depths));
    if (trace->under != NULL) json_object_set_new(object, "under", under_json(trace->under));
    return object;
}
