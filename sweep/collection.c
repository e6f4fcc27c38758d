#include "sweep/collection.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/error.h"

/* ---- the files ---- */

static bool result_open(const char *directory, struct collection_result *result)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/results/%s.json", directory, result->id);
    if (length >= (int)sizeof path)
        return error_explain(result->why, sizeof result->why, "its path is too long");
    result->is_missing = access(path, F_OK) != 0 && errno == ENOENT;
    return !result->is_missing && result_read(&result->of, path, result->why, sizeof result->why);
}

/* Reads the IDs, one a line. False: no memory, or an error while reading. */
static bool list_read(struct collection *collection, FILE *list)
{
    char line[sizeof collection->results->id + 2];
    size_t room = 0;
    while (fgets(line, sizeof line, list) != NULL) {
        const size_t length = strcspn(line, "\n");
        if (length == 0) continue;
        if (length >= sizeof collection->results->id) return false;
        if (!array_reserve(&collection->results, &room, collection->results_count + 1,
                           sizeof *collection->results))
            return false;
        struct collection_result *result = &collection->results[collection->results_count++];
        memcpy(result->id, line, length);
        if (result_open(collection->directory, result)) continue;
        collection->missing += result->is_missing;
        collection->unread += !result->is_missing;
    }
    return ferror(list) == 0;
}

static bool results_read(struct collection *collection, char *why, size_t why_bytes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/results.list", collection->directory);
    FILE *list = fopen(path, "re");
    if (list == NULL)
        return error_explain(why, why_bytes, "not a sweep: results.list: %s", strerror(errno));
    const bool read = list_read(collection, list);
    fclose(list);
    if (!read) return error_explain(why, why_bytes, "results.list cannot be read");
    snprintf(path, sizeof path, "%s/halving.json", collection->directory);
    collection->halving = json_load_file(path, 0, NULL);
    return true;
}

/* ---- machines ---- */

/* The machine of a result, without what differs between two equal machines. */
static json_t *machine_of(const struct result *result)
{
    json_t *machine = json_copy(json_object_get(result->json, "machine"));
    json_object_del(machine, "host");
    json_object_del(machine, "load");
    return machine != NULL ? machine : json_object();
}

static bool machine_take(struct collection *collection, struct collection_result *result)
{
    json_t *machine = machine_of(&result->of);
    size_t at = 0;
    while (at < collection->machines_count && !json_equal(collection->machines[at], machine))
        at++;
    result->machine = at;
    if (at < collection->machines_count)
        json_decref(machine);
    else
        collection->machines[collection->machines_count++] = machine;
    return machine != NULL;
}

/* ---- traces, entries ---- */

/* The NAME of an ID, "NAME-GROUP-CHECKSUM". */
static void collection_name_of(const char *id, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s", id);
    for (int part = 0; part < 2; part++) {
        char *dash = strrchr(name, '-');
        if (dash != NULL && dash > name) *dash = '\0';
    }
}

/* Whether both results are of the same trace, replayed alike. One whose entries all failed does not
 * tell how it was replayed. */
static bool is_of_trace(const struct result *one, const struct result *other)
{
    static const char *const keys[] = {"engine", "touch", "clock", "replay_options"};
    if (strcmp(one->trace, other->trace) != 0) return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *left = json_object_get(one->json, keys[i]);
        const json_t *right = json_object_get(other->json, keys[i]);
        if (left == NULL || right == NULL || json_is_null(left) || json_is_null(right)) continue;
        if (!json_equal(left, right)) return false;
    }
    return true;
}

static void trace_take(struct collection *collection, struct collection_result *result)
{
    size_t at = 0;
    while (at < collection->traces_count &&
           !is_of_trace(&collection->traces[at].first->of, &result->of))
        at++;
    struct collection_trace *trace = &collection->traces[at];
    result->trace = at;
    if (at == collection->traces_count) {
        collection->traces_count++;
        trace->first = result;
        collection_name_of(result->id, trace->name, sizeof trace->name);
    }
    trace->machines_differ = trace->machines_differ || result->machine != trace->first->machine;
}

static size_t collection_entry_find(const struct collection *collection, const char *label)
{
    size_t at = 0;
    while (at < collection->entries_count && strcmp(collection->entries[at].label, label) != 0)
        at++;
    return at;
}

static bool entries_take(struct collection *collection, const struct result *result, size_t *room)
{
    for (size_t i = 0; i < result->entries_count; i++) {
        const char *label = result->entries[i].label;
        const size_t at = collection_entry_find(collection, label);
        if (at < collection->entries_count) continue;
        if (!array_reserve(&collection->entries, room, at + 1, sizeof *collection->entries))
            return false;
        collection->entries[at] = (struct collection_entry){.label = label, .recorded = true};
        collection->entries_count++;
    }
    return true;
}

static bool parts_take(struct collection *collection)
{
    size_t entries_room = 0;
    collection->machines = calloc(collection->results_count + 1, sizeof *collection->machines);
    collection->traces = calloc(collection->results_count + 1, sizeof *collection->traces);
    if (collection->machines == NULL || collection->traces == NULL) return false;
    for (size_t i = 0; i < collection->results_count; i++) {
        struct collection_result *result = &collection->results[i];
        if (!collection_is_read(result)) continue;
        if (!machine_take(collection, result)) return false;
        trace_take(collection, result);
        if (!entries_take(collection, &result->of, &entries_room)) return false;
    }
    return true;
}

/* ---- rows ---- */

/* Which of two rows of an entry counts: one with numbers, then the one with more runs. */
static bool is_better(const struct result_entry *one, const struct result_entry *other)
{
    if (other == NULL || (one->why == NULL) != (other->why == NULL))
        return other == NULL || one->why == NULL;
    return one->runs > other->runs;
}

static void rows_take(struct collection *collection, const struct collection_result *from)
{
    for (size_t i = 0; i < from->of.entries_count; i++) {
        const struct result_entry *entry = &from->of.entries[i];
        const size_t at = collection_entry_find(collection, entry->label);
        struct collection_row *row =
            &collection->rows[from->trace * collection->entries_count + at];
        if (!is_better(entry, row->of)) continue;
        *row = (struct collection_row){.from = from, .of = entry};
        row->is_elsewhere = from->machine != collection->traces[from->trace].first->machine;
    }
}

struct result_change collection_change(const struct collection_row *row,
                                       enum compare_measure measure)
{
    if (row->of == NULL) return (struct result_change){NAN, NAN, NAN, false};
    return row->of->change[measure];
}

/* Ranks the entries of a trace, by the thresholds (as shares) of its first result. */
static bool trace_rank(struct collection *collection, size_t trace, enum compare_measure measure)
{
    struct collection_trace *of = &collection->traces[trace];
    struct collection_row *rows = &collection->rows[trace * collection->entries_count];
    struct rank_candidate *candidates = calloc(collection->entries_count + 1, sizeof *candidates);
    if (candidates == NULL) return false;
    for (size_t i = 0; i < collection->entries_count; i++) {
        if (isnan(collection_change(&rows[i], measure).share)) continue;
        candidates[i].values = rows[i].of->of_run[measure];
        candidates[i].count = rows[i].of->runs;
        candidates[i].more = result_more(&rows[i].from->of, rows[i].of, measure);
    }
    rank_all(candidates, collection->entries_count, &of->first->of.threshold[measure]);
    for (size_t i = 0; i < collection->entries_count; i++) {
        rows[i].rank[measure] = candidates[i].rank;
        of->best[measure] += candidates[i].rank == 1;
    }
    free(candidates);
    return true;
}

/* Marks the traces that have no answer as yet: a row, or a result with some of the entries, is
 * missing. */
static void open_find(struct collection *collection)
{
    char name[sizeof collection->traces->name];
    for (size_t trace = 0; trace < collection->traces_count; trace++) {
        struct collection_trace *of = &collection->traces[trace];
        for (size_t at = 0; at < collection->entries_count; at++)
            of->is_open =
                of->is_open || collection_is_missing(collection_row(collection, trace, at));
        for (size_t i = 0; i < collection->results_count; i++) {
            if (collection_is_read(&collection->results[i])) continue;
            collection_name_of(collection->results[i].id, name, sizeof name);
            of->is_open = of->is_open || strcmp(name, of->name) == 0;
        }
    }
}

static bool rows_make(struct collection *collection)
{
    const size_t entries = collection->entries_count;
    collection->rows = calloc(collection->traces_count * entries + 1, sizeof *collection->rows);
    if (collection->rows == NULL) return false;
    for (size_t i = 0; i < collection->results_count; i++)
        if (collection_is_read(&collection->results[i]))
            rows_take(collection, &collection->results[i]);
    open_find(collection);
    for (size_t trace = 0; trace < collection->traces_count; trace++) {
        for (size_t at = 0; at < entries; at++) {
            const struct result_entry *of = collection_row(collection, trace, at)->of;
            collection->traces[trace].failed += of != NULL && of->why != NULL;
            if (of != NULL && !of->recorded) collection->entries[at].recorded = false;
        }
        collection->failed += collection->traces[trace].failed;
        for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
            if (!trace_rank(collection, trace, measure)) return false;
    }
    return true;
}

/* ---- over all traces ---- */

/* Ratios are averaged as logarithms, so that half as much in one trace and twice as much in another
 * cancel out. */
static void summary_make(const struct collection *collection, size_t entry,
                         enum compare_measure measure, double *logs)
{
    struct collection_summary *summary = &collection->entries[entry].summary[measure];
    double worst = -INFINITY;
    for (size_t trace = 0; trace < collection->traces_count; trace++) {
        const struct collection_row *row = collection_row(collection, trace, entry);
        const struct result_change change = collection_change(row, measure);
        if (!(change.share > -1)) continue;
        logs[summary->traces++] = log1p(change.share);
        summary->less += change.counts && change.share < 0;
        summary->more += change.counts && change.share > 0;
        if (change.share > worst) summary->worst = trace;
        worst = fmax(worst, change.share);
    }
    /* The interval of two traces goes as far as from a tenth to a thirtyfold. */
    const bool sure = summary->traces > 2;
    const struct mean of = mean_of(logs, summary->traces);
    summary->change =
        (struct mean){expm1(of.mean), sure ? expm1(of.least) : NAN, sure ? expm1(of.most) : NAN};
}

/* Orders entries: those with results in all traces first, then by memory; unknown ones last. */
static bool collection_goes_before(const struct collection *collection, size_t one, size_t other)
{
    const struct collection_summary *left = &collection->entries[one].summary[COMPARE_MEMORY];
    const struct collection_summary *right = &collection->entries[other].summary[COMPARE_MEMORY];
    if (left->traces != right->traces) return left->traces > right->traces;
    return left->change.mean < right->change.mean;
}

static void collection_sort(struct collection *collection)
{
    for (size_t i = 0; i < collection->entries_count; i++) {
        size_t at = i;
        for (; at > 0 && collection_goes_before(collection, i, collection->order[at - 1]); at--)
            collection->order[at] = collection->order[at - 1];
        collection->order[at] = i;
    }
}

static bool summaries_make(struct collection *collection)
{
    double *logs = calloc(collection->traces_count + 1, sizeof *logs);
    collection->order = calloc(collection->entries_count + 1, sizeof *collection->order);
    if (logs != NULL && collection->order != NULL) {
        for (size_t entry = 0; entry < collection->entries_count; entry++)
            for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
                summary_make(collection, entry, measure, logs);
        collection_sort(collection);
    }
    free(logs);
    return logs != NULL && collection->order != NULL;
}

bool collection_open(struct collection *collection, const char *directory, char *why,
                     size_t why_bytes)
{
    *collection = (struct collection){.directory = directory};
    if (!results_read(collection, why, why_bytes)) return false;
    return (parts_take(collection) && rows_make(collection) && summaries_make(collection)) ||
           error_explain(why, why_bytes, "no memory");
}

void collection_close(struct collection *collection)
{
    for (size_t i = 0; i < collection->results_count; i++)
        result_free(&collection->results[i].of);
    for (size_t i = 0; i < collection->machines_count; i++)
        json_decref(collection->machines[i]);
    json_decref(collection->halving);
    free(collection->results);
    free(collection->machines);
    free(collection->traces);
    free(collection->entries);
    free(collection->rows);
    free(collection->order);
}
