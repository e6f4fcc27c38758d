#include "sweep/halving.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"
#include "common/json_file.h"

static const char *const halving_names[] = {[HALVING_MEMORY] = "memory", [HALVING_TIME] = "time"};

/* The keys of compare's numbers (docs/compare.md). */
static const char *const numbers[] = {
    [HALVING_MEMORY] = "peak_net_rss_bytes", [HALVING_TIME] = "cpu_seconds"};

/* ---- entries of all rows ---- */

/* Finds or adds the entry with this text, and takes ownership of it. False: no memory. */
static bool halving_entry_find(struct halving *halving, char *text, const char *allocator,
                               size_t *at)
{
    for (*at = 0; text != NULL && *at < halving->count; (*at)++)
        if (strcmp(halving->entries[*at].text, text) == 0) {
            free(text);
            return true;
        }
    if (text == NULL || !array_reserve(&halving->entries, &halving->room, halving->count + 1,
                                       sizeof *halving->entries)) {
        free(text);
        return false;
    }
    halving->entries[halving->count++] =
        (struct halving_entry){.text = text, .allocator = allocator};
    return true;
}

static bool row_open(struct halving *halving, size_t at)
{
    const struct compare_list *list = &halving->sweep->plan.rows[at].list;
    halving->index[at] = calloc(list->count, sizeof **halving->index);
    halving->wanted[at] = calloc(list->count, sizeof **halving->wanted);
    if (halving->index[at] == NULL || halving->wanted[at] == NULL) return false;
    for (size_t i = 0; i < list->count; i++)
        if (!halving_entry_find(halving, plan_entry_text(&list->entries[i]),
                                list->entries[i].allocator, &halving->index[at][i]))
            return false;
    return true;
}

static bool is_of(const struct halving_entry *entry, const char *allocator)
{
    return !entry->dropped && strcmp(entry->allocator, allocator) == 0;
}

/* The number of the allocator's entries that have not been dropped. */
static size_t halving_count_of(const struct halving *halving, const char *allocator)
{
    size_t count = 0;
    for (size_t i = 0; i < halving->count; i++)
        count += is_of(&halving->entries[i], allocator);
    return count;
}

bool halving_open(struct halving *halving, struct sweep *sweep, enum halving_by by)
{
    const size_t rows = sweep->plan.rows_count;
    *halving = (struct halving){.sweep = sweep, .by = by, .json = json_array()};
    halving->index = calloc(rows, sizeof *halving->index);
    halving->wanted = calloc(rows, sizeof *halving->wanted);
    if (halving->index == NULL || halving->wanted == NULL) return false;
    for (size_t i = 0; i < rows; i++)
        if (!row_open(halving, i)) return false;
    for (size_t i = 0; i < halving->count; i++)
        for (size_t left = halving_count_of(halving, halving->entries[i].allocator), rounds = 0;
             left > 1; left = (left + 1) / 2)
            if (++rounds > halving->rounds) halving->rounds = (unsigned)rounds;
    return true;
}

void halving_close(struct halving *halving)
{
    for (size_t i = 0; i < halving->count; i++)
        free(halving->entries[i].text);
    for (size_t i = 0; i < halving->sweep->plan.rows_count; i++) {
        if (halving->index != NULL) free(halving->index[i]);
        if (halving->wanted != NULL) free(halving->wanted[i]);
    }
    free(halving->entries);
    free(halving->index);
    free(halving->wanted);
    json_decref(halving->json);
}

/* ---- rounds ---- */

/* The plan's runs in the last round, a quarter of them in the one before, and half as many in each
 * earlier one; at least one. */
static unsigned runs_of(const struct halving *halving, unsigned round, unsigned runs)
{
    const unsigned left = halving->rounds - round;
    if (left == 0) return runs;
    const unsigned fewer = left + 1 < 32 ? runs >> (left + 1) : 0;
    return fewer > 0 ? fewer : 1;
}

bool halving_begin_round(struct halving *halving, unsigned round, char *why, size_t why_bytes)
{
    const bool last = round == halving->rounds;
    const struct plan *plan = &halving->sweep->plan;
    unsigned runs = 0; /* most of any row */
    for (size_t i = 0; i < plan->rows_count; i++) {
        if (plan->rows[i].runs > runs) runs = plan->rows[i].runs;
        for (size_t at = 0; at < plan->rows[i].list.count; at++) {
            const struct halving_entry *entry = &halving->entries[halving->index[i][at]];
            halving->wanted[i][at] =
                !entry->dropped && (last || halving_count_of(halving, entry->allocator) > 1);
        }
    }
    const struct sweep_round wanted = {.wanted = (const bool *const *)halving->wanted,
                                       .runs = last ? 0 : runs_of(halving, round, runs),
                                       .no_latency = !last};
    return sweep_begin_round(halving->sweep, &wanted, why, why_bytes);
}

/* ---- scores ---- */

/* The number of an entry of a result; NAN: it failed. */
static double halving_number_of(const struct halving *halving, const json_t *entry)
{
    const json_t *number = json_object_get(json_object_get(entry, "numbers"), numbers[halving->by]);
    const double median = json_number_value(json_object_get(number, "median"));
    return median > 0 ? median : NAN;
}

/* The number of the recorded allocator, or else of the first entry that has one. */
static double reference_of(const struct halving *halving, const json_t *entries)
{
    double first = NAN;
    size_t at;
    json_t *entry;
    json_array_foreach(entries, at, entry)
    {
        const double number = halving_number_of(halving, entry);
        if (json_is_true(json_object_get(entry, "recorded")) && !isnan(number)) return number;
        if (isnan(first)) first = number;
    }
    return first;
}

/* Adds the logarithms of one result to the sums of its entries. */
static bool take_result(const struct halving *halving, const struct sweep_job *task, double *sums,
                        unsigned *counts, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *result = json_load_file(task->result, 0, &error);
    if (result == NULL) return error_explain(why, why_bytes, "%s: %s", task->result, error.text);
    const json_t *entries = json_object_get(result, "allocators");
    const double reference = reference_of(halving, entries);
    for (size_t i = 0; i < task->entries_count; i++) { /* in the order of the command line */
        const size_t at = halving->index[task->row][task->entries[i]];
        const double number = halving_number_of(halving, json_array_get(entries, i));
        sums[at] += isnan(number) ? INFINITY : log(number / reference);
        counts[at]++;
    }
    json_decref(result);
    return true;
}

static bool take_results(struct halving *halving, char *why, size_t why_bytes)
{
    const struct sweep *sweep = halving->sweep;
    double *sums = calloc(halving->count + 1, sizeof *sums);
    unsigned *counts = calloc(halving->count + 1, sizeof *counts);
    bool good = sums != NULL && counts != NULL;
    if (!good) error_explain(why, why_bytes, "no memory");
    for (size_t i = sweep->round_begin; good && i < sweep->tasks.count; i++)
        good = take_result(halving, &sweep->tasks.jobs[i], sums, counts, why, why_bytes);
    for (size_t i = 0; good && i < halving->count; i++)
        halving->entries[i].score = counts[i] > 0 ? exp(sums[i] / counts[i]) : NAN;
    free(sums);
    free(counts);
    return good;
}

/* Drops the worse half of the entries of one allocator; of equal ones, the later. */
static void drop(struct halving *halving, const char *allocator)
{
    for (size_t number = halving_count_of(halving, allocator) / 2; number > 0; number--) {
        struct halving_entry *worst = NULL;
        for (size_t i = 0; i < halving->count; i++) {
            struct halving_entry *entry = &halving->entries[i];
            if (is_of(entry, allocator) && (worst == NULL || entry->score >= worst->score))
                worst = entry;
        }
        if (worst != NULL) worst->dropped = true;
    }
}

/* Whether no entry before it has its allocator. */
static bool is_first_of(const struct halving *halving, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(halving->entries[i].allocator, halving->entries[at].allocator) == 0)
            return false;
    return true;
}

/* The JSON of a round, with the entries that took part. `before`: which had been dropped
 * earlier. */
static json_t *round_json(const struct halving *halving, unsigned round, const bool *before)
{
    json_t *object = json_object(), *entries = json_array();
    const struct sweep *sweep = halving->sweep;
    const bool any = sweep->tasks.count > sweep->round_begin;
    json_object_set_new(object, "round", json_integer(round + 1));
    json_object_set_new(object, "runs",
                        json_integer(any ? sweep->tasks.jobs[sweep->round_begin].runs : 0));
    for (size_t i = 0; i < halving->count; i++) {
        const struct halving_entry *entry = &halving->entries[i];
        if (before[i] || isnan(entry->score)) continue;
        json_t *one = json_object();
        json_put_text(one, "entry", entry->text);
        json_put_text(one, "allocator", entry->allocator);
        json_put_real(one, "score", entry->score); /* null: it failed */
        json_object_set_new(one, "dropped", json_boolean(entry->dropped));
        json_array_append_new(entries, one);
    }
    json_object_set_new(object, "entries", entries);
    return object;
}

static bool halving_write_json(const struct halving *halving, bool complete, char *why,
                               size_t why_bytes)
{
    struct error error = {0};
    json_t *object = json_object();
    json_put_text(object, "by", halving_names[halving->by]);
    json_object_set_new(object, "complete", json_boolean(complete));
    json_object_set(object, "rounds", halving->json);
    const bool good =
        json_file_write(object, sweep_path(halving->sweep, "halving.json", ""), &error);
    json_decref(object);
    if (!good) error_text(&error, why, why_bytes);
    return good;
}

bool halving_end_round(struct halving *halving, unsigned round, char *why, size_t why_bytes)
{
    const bool last = round == halving->rounds;
    bool *before = calloc(halving->count + 1, sizeof *before);
    if (before == NULL) return error_explain(why, why_bytes, "no memory");
    for (size_t i = 0; i < halving->count; i++)
        before[i] = halving->entries[i].dropped;
    bool good = take_results(halving, why, why_bytes);
    for (size_t i = 0; good && !last && i < halving->count; i++)
        if (is_first_of(halving, i)) drop(halving, halving->entries[i].allocator);
    if (good) json_array_append_new(halving->json, round_json(halving, round, before));
    free(before);
    return good && halving_write_json(halving, last, why, why_bytes);
}
