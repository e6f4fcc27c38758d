#include "sweep/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "compare/expected.h"

/* The number of a replay for each measure. */
static const char *const keys[COMPARE_MEASURES] = {
    [COMPARE_MEMORY] = "peak_net_rss_bytes", [COMPARE_TIME] = "cpu_seconds"};

static const char *result_text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double result_number_of(const json_t *object, const char *key)
{
    return compare_report_number(object, key);
}

/* ---- entries as they stand in the file ---- */

static bool values_read(struct result_entry *entry)
{
    const json_t *reports = json_object_get(entry->json, "reports");
    entry->runs = json_array_size(reports);
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++) {
        const struct compare_number *number = compare_number_find(keys[measure]);
        double *values = calloc(entry->runs + 1, sizeof *values);
        if (values == NULL) return false;
        entry->of_run[measure] = values;
        compare_values_of(number, reports, values, entry->runs);
    }
    return true;
}

static bool entry_read(struct result_entry *entry, const json_t *json)
{
    *entry = (struct result_entry){.json = json,
                                   .label = result_text_of(json, "entry"),
                                   .allocator = result_text_of(json, "allocator"),
                                   .recorded = json_is_true(json_object_get(json, "recorded")),
                                   .more = json_number_value(json_object_get(json, "more_bytes")),
                                   .peak_bytes = NAN,
                                   .peak_change = NAN};
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
        entry->change[measure] = (struct result_change){NAN, NAN, NAN, false};
    if (entry->label == NULL) entry->label = "?";
    const char *status = result_text_of(json, "status");
    if (status != NULL && strcmp(status, "complete") == 0) return values_read(entry);
    entry->why = result_text_of(json, "error");
    if (entry->why == NULL) entry->why = "it did not end";
    const json_t *ended_by = json_object_get(json, "ended_by");
    entry->is_missing = ended_by != NULL && !json_is_null(ended_by);
    return true;
}

static bool is_nothing(const json_t *json)
{
    const char *name = result_text_of(json, "name");
    return name != NULL && strcmp(name, "none") == 0;
}

static bool entries_read(struct result *result)
{
    const json_t *list = json_object_get(result->json, "allocators");
    size_t at;
    json_t *json;
    result->entries = calloc(json_array_size(list) + 1, sizeof *result->entries);
    if (result->entries == NULL) return false;
    json_array_foreach(list, at, json)
    {
        struct result_entry *entry = &result->entries[result->entries_count];
        if (is_nothing(json)) continue;
        result->entries_count++;
        if (!entry_read(entry, json)) return false;
        if (entry->recorded && entry->why == NULL) result->recorded = entry;
    }
    return true;
}

/* ---- against the recorded allocator ---- */

static double result_median_of(const struct result_entry *entry, enum compare_measure measure)
{
    return compare_median(keys[measure], json_object_get(entry->json, "reports"));
}

/* What changes are shares of: for memory, what the process had, if known; else what the replays of
 * the recorded allocator had. */
static double whole_of(const struct result *result, enum compare_measure measure)
{
    return measure == COMPARE_MEMORY && result->of[measure] != RESULT_REPLAYS
               ? result->process_bytes
               : result_median_of(result->recorded, measure);
}

double result_more(const struct result *result, const struct result_entry *entry,
                   enum compare_measure measure)
{
    return measure == COMPARE_MEMORY && result->recorded != NULL
               ? entry->more / whole_of(result, measure)
               : 0;
}

/* The change of an entry's replays, as a share. */
static struct result_change change_of_replays(const struct result *result,
                                              const struct result_entry *entry,
                                              enum compare_measure measure)
{
    const struct rank_candidate own = {.values = entry->of_run[measure],
                                       .count = entry->runs,
                                       .more = result_more(result, entry, measure)};
    const struct rank_candidate before = {.values = result->recorded->of_run[measure],
                                          .count = result->recorded->runs};
    const struct rank_difference of =
        rank_difference_of(&own, &before, &result->threshold[measure]);
    const bool sure = entry->runs >= RANK_VALUES_MIN && before.count >= RANK_VALUES_MIN;
    return (struct result_change){of.median, sure ? of.least : NAN, sure ? of.most : NAN,
                                  of.counts};
}

/* The change that compare expects of the program. */
static struct result_change change_of_program(const struct result *result,
                                              const struct result_entry *entry, bool counts)
{
    const json_t *expected = json_object_get(entry->json, "expected");
    const double all = result->process_seconds;
    struct result_change change = {result_number_of(expected, "cpu_change_seconds") / all,
                                   result_number_of(expected, "cpu_change_least_seconds") / all,
                                   result_number_of(expected, "cpu_change_most_seconds") / all,
                                   counts};
    if (!isnan(change.least)) change.counts = !compare_is_tie(change.least, change.most);
    return change;
}

/* Makes the change the difference of the two medians, as peaks are shown: the median of all
 * differences is slightly different. */
static void change_to_medians(const struct result *result, struct result_entry *entry)
{
    struct result_change *change = &entry->change[COMPARE_MEMORY];
    entry->peak_change = result_median_of(entry, COMPARE_MEMORY) -
                         result_median_of(result->recorded, COMPARE_MEMORY);
    change->share = entry->peak_change / whole_of(result, COMPARE_MEMORY);
    if (change->least > change->share) change->least = change->share;
    if (change->most < change->share) change->most = change->share;
}

static void change_make(const struct result *result, struct result_entry *entry,
                        enum compare_measure measure)
{
    struct result_change *change = &entry->change[measure];
    *change = change_of_replays(result, entry, measure);
    if (measure == COMPARE_MEMORY) change_to_medians(result, entry);
    if (measure == COMPARE_TIME && result->of[measure] == RESULT_PROCESS)
        *change = change_of_program(result, entry, change->counts);
    if (entry == result->recorded) *change = (struct result_change){0, 0, 0, false};
}

/* Turns the values of replays into what the process would have, as a share of what the recorded
 * allocator has. */
static void values_scale(const struct result *result, struct result_entry *entry,
                         enum compare_measure measure)
{
    const double whole = whole_of(result, measure),
                 before = result_median_of(result->recorded, measure);
    for (size_t i = 0; i < entry->runs; i++)
        entry->of_run[measure][i] = 1 + (entry->of_run[measure][i] - before) / whole;
}

static void threshold_make(struct result *result, enum compare_measure measure)
{
    struct rank_threshold *threshold = &result->threshold[measure];
    *threshold = rank_thresholds[measure];
    threshold->absolute /= whole_of(result, measure);
    if (measure == COMPARE_TIME && result->of[measure] == RESULT_PROCESS)
        threshold->surely = compare_cpu_least(result->process_seconds) / whole_of(result, measure);
}

static void peaks_make(struct result *result)
{
    for (size_t i = 0; i < result->entries_count; i++) {
        struct result_entry *entry = &result->entries[i];
        if (entry->why != NULL) continue;
        entry->peak_bytes =
            result->of[COMPARE_MEMORY] == RESULT_PROCESS
                ? result_number_of(json_object_get(entry->json, "expected"), "peak_rss_bytes")
                : result_median_of(entry, COMPARE_MEMORY);
    }
}

static void changes_make(struct result *result, enum compare_measure measure)
{
    threshold_make(result, measure);
    for (size_t i = 0; i < result->entries_count; i++)
        if (result->entries[i].why == NULL) values_scale(result, &result->entries[i], measure);
    for (size_t i = 0; i < result->entries_count; i++)
        if (result->entries[i].why == NULL) change_make(result, &result->entries[i], measure);
}

/* Drops the values: without a yardstick, changes are unknown. */
static void values_drop(struct result *result, enum compare_measure measure)
{
    for (size_t i = 0; i < result->entries_count; i++) {
        free(result->entries[i].of_run[measure]);
        result->entries[i].of_run[measure] = NULL;
    }
}

static void entries_compare(struct result *result)
{
    const struct result_entry *recorded = result->recorded;
    const json_t *original = json_object_get(result->json, "original");
    const json_t *expected = json_object_get(recorded != NULL ? recorded->json : NULL, "expected");
    result->process_bytes = result_number_of(original, "peak_rss_bytes");
    result->process_seconds = result_number_of(original, "cpu_seconds");
    const bool is_expected = !isnan(result_number_of(expected, "peak_rss_bytes"));
    const bool is_most =
        recorded != NULL && result->process_bytes >= result_median_of(recorded, COMPARE_MEMORY);
    result->of[COMPARE_MEMORY] = is_expected ? RESULT_PROCESS
                                 : is_most   ? RESULT_DIFFERENCE
                                             : RESULT_REPLAYS;
    result->of[COMPARE_TIME] =
        result->process_seconds > 0 && !isnan(result_number_of(expected, "cpu_change_seconds"))
            ? RESULT_PROCESS
            : RESULT_REPLAYS;
    peaks_make(result);
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++) {
        const bool known = recorded != NULL && result_median_of(recorded, measure) > 0;
        known ? changes_make(result, measure) : values_drop(result, measure);
    }
}

/* ---- the file ---- */

bool result_read(struct result *result, const char *path, char *why, size_t why_bytes)
{
    json_error_t error;
    *result = (struct result){.json = json_load_file(path, 0, &error)};
    if (result->json == NULL) return error_explain(why, why_bytes, "%s", error.text);
    result->trace = result_text_of(json_object_get(result->json, "trace"), "file");
    if (result->trace == NULL || !json_is_array(json_object_get(result->json, "allocators")))
        return error_explain(why, why_bytes, "it is not a result of compare --json");
    if (!entries_read(result)) return error_explain(why, why_bytes, "no memory");
    entries_compare(result);
    return true;
}

void result_free(struct result *result)
{
    for (size_t i = 0; i < result->entries_count; i++)
        for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
            free(result->entries[i].of_run[measure]);
    free(result->entries);
    json_decref(result->json);
    *result = (struct result){.json = NULL};
}
