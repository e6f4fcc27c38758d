/* Collected results as JSON; docs/sweep.md says what the keys are. */
#include "sweep/collection.h"

#include <math.h>

#include "common/json_file.h"
#include "malloctape_config.h"

/* Parts of the keys below. */
static const char *const measures[COMPARE_MEASURES] = {
    [COMPARE_MEMORY] = "memory", [COMPARE_TIME] = "time"};

static const char *const of_names[] = {
    [RESULT_PROCESS] = "process", [RESULT_DIFFERENCE] = "difference", [RESULT_REPLAYS] = "replays"};

static json_t *json_change(const struct result_change *change)
{
    json_t *object = json_object();
    json_put_real(object, "change", change->share);
    json_put_real(object, "least", change->least);
    json_put_real(object, "most", change->most);
    json_object_set_new(object, "above_noise", json_boolean(change->counts));
    return object;
}

/* ---- traces ---- */

static json_t *json_best(const struct collection *collection, size_t trace,
                         enum compare_measure measure)
{
    json_t *best = json_array();
    if (collection->traces[trace].is_open) return best;
    for (size_t at = 0; at < collection->entries_count; at++)
        if (collection_row(collection, trace, at)->rank[measure] == 1)
            json_array_append_new(best, json_text(collection->entries[at].label));
    return best;
}

static json_t *collect_json_trace(const struct collection *collection, size_t at)
{
    static const char *const keys[] = {"engine", "touch", "clock", "replay_options"};
    const struct collection_trace *trace = &collection->traces[at];
    const struct result *first = &trace->first->of;
    json_t *object = json_object(), *results = json_array();
    json_put_text(object, "trace", trace->name);
    json_object_set(object, "of", json_object_get(first->json, "trace"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(object, keys[i], json_object_get(first->json, keys[i]));
    json_put_text(object, "recorded", first->recorded != NULL ? first->recorded->label : NULL);
    json_put_real(object, "process_peak_rss_bytes", first->process_bytes);
    json_put_real(object, "process_cpu_seconds", first->process_seconds);
    for (size_t i = 0; i < collection->results_count; i++)
        if (collection_is_read(&collection->results[i]) && collection->results[i].trace == at)
            json_array_append_new(results, json_text(collection->results[i].id));
    json_object_set_new(object, "results", results);
    json_object_set_new(object, "machines_differ", json_boolean(trace->machines_differ));
    json_object_set_new(object, "best_memory", json_best(collection, at, COMPARE_MEMORY));
    json_object_set_new(object, "best_time", json_best(collection, at, COMPARE_TIME));
    return object;
}

/* ---- entries, over all traces ---- */

static json_t *json_summary(const struct collection *collection,
                            const struct collection_summary *summary, size_t entry,
                            enum compare_measure measure)
{
    json_t *object = json_object();
    const struct collection_row *worst = collection_row(collection, summary->worst, entry);
    json_put_number(object, "traces", summary->traces);
    json_put_real(object, "mean", summary->change.mean);
    json_put_real(object, "least", summary->change.least);
    json_put_real(object, "most", summary->change.most);
    json_put_number(object, "traces_less", summary->less);
    json_put_number(object, "traces_noise", summary->traces - summary->less - summary->more);
    json_put_number(object, "traces_more", summary->more);
    json_put_real(object, "worst",
                  summary->traces > 0 ? collection_change(worst, measure).share : NAN);
    json_put_text(object, "worst_trace",
                  summary->traces > 0 ? collection->traces[summary->worst].name : NULL);
    return object;
}

static json_t *json_entry(const struct collection *collection, size_t at)
{
    const struct collection_entry *entry = &collection->entries[at];
    json_t *object = json_object();
    json_put_text(object, "entry", entry->label);
    json_object_set_new(object, "recorded", json_boolean(entry->recorded));
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
        json_object_set_new(object, measures[measure],
                            json_summary(collection, &entry->summary[measure], at, measure));
    return object;
}

/* ---- rows ---- */

static double replays_of(const struct result_entry *entry, const char *key)
{
    return compare_median(key, json_object_get(entry->json, "reports"));
}

static json_t *collect_json_row(const struct collection *collection, size_t trace, size_t at)
{
    static const char *const copied[] = {"name", "settings", "library", "library_file",
                                         "library_build_id"};
    const struct collection_row *row = collection_row(collection, trace, at);
    const struct result_entry *entry = row->of;
    json_t *object = json_object();
    json_put_text(object, "trace", collection->traces[trace].name);
    json_put_text(object, "entry", collection->entries[at].label);
    if (entry == NULL) {
        json_put_text(object, "status", "missing");
        return object;
    }
    json_put_text(object, "status", entry->why == NULL ? "complete" : "failed");
    if (entry->why != NULL) json_put_text(object, "error", entry->why);
    json_put_text(object, "result", row->from->id);
    json_put_number(object, "machine", row->from->machine);
    json_object_set_new(object, "elsewhere", json_boolean(row->is_elsewhere));
    json_object_set_new(object, "recorded", json_boolean(entry->recorded));
    json_put_text(object, "allocator", entry->allocator);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        json_object_set(object, copied[i], json_object_get(entry->json, copied[i]));
    json_put_number(object, "runs", entry->runs);
    json_put_real(object, "peak_rss_bytes", entry->peak_bytes);
    json_put_real(object, "peak_change_bytes", entry->peak_change);
    json_put_real(object, "replay_peak_net_rss_bytes", replays_of(entry, "peak_net_rss_bytes"));
    json_put_real(object, "replay_cpu_seconds", replays_of(entry, "cpu_seconds"));
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++) {
        const char *of = of_names[row->from->of.of[measure]];
        json_t *change = json_change(&entry->change[measure]);
        json_put_text(change, "of", of);
        json_object_set_new(change, "rank",
                            row->rank[measure] > 0 ? json_integer(row->rank[measure])
                                                   : json_null());
        json_object_set_new(object, measures[measure], change);
    }
    return object;
}

/* ---- everything ---- */

static json_t *json_results(const struct collection *collection, bool missing)
{
    json_t *list = json_array();
    for (size_t i = 0; i < collection->results_count; i++) {
        const struct collection_result *result = &collection->results[i];
        json_t *object;
        if (missing && result->is_missing) json_array_append_new(list, json_text(result->id));
        if (missing || *result->why == '\0') continue;
        json_array_append_new(list, object = json_object());
        json_put_text(object, "result", result->id);
        json_put_text(object, "error", result->why);
    }
    return list;
}

json_t *collection_json(const struct collection *collection)
{
    json_t *object = json_object(), *traces = json_array(), *entries = json_array(),
           *rows = json_array(), *machines = json_array();
    for (size_t i = 0; i < collection->traces_count; i++)
        json_array_append_new(traces, collect_json_trace(collection, i));
    for (size_t i = 0; i < collection->entries_count; i++)
        json_array_append_new(entries, json_entry(collection, collection->order[i]));
    for (size_t trace = 0; trace < collection->traces_count; trace++)
        for (size_t i = 0; i < collection->entries_count; i++)
            json_array_append_new(rows, collect_json_row(collection, trace, collection->order[i]));
    for (size_t i = 0; i < collection->machines_count; i++)
        json_array_append(machines, collection->machines[i]);
    json_put_text(object, "version", PACKAGE_VERSION);
    json_put_number(object, "results", collection->results_count);
    json_object_set_new(object, "missing", json_results(collection, true));
    json_object_set_new(object, "unreadable", json_results(collection, false));
    json_object_set_new(object, "machines", machines);
    json_object_set_new(object, "traces", traces);
    json_object_set_new(object, "entries", entries);
    json_object_set_new(object, "rows", rows);
    json_object_set(object, "halving",
                    collection->halving != NULL ? collection->halving : json_null());
    return object;
}
