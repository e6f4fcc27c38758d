#include "compare/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/numbers.h"
#include "compare/compare_text.h"
#include "compare/compare_warnings.h"
#include "compare/expected.h"

/* The number that each measure goes by, and its name. */
static const struct {
    const char *key, *number;
} measures[COMPARE_MEASURES] = {
    [COMPARE_MEMORY] = {"memory", "peak_net_rss_bytes"},
    [COMPARE_TIME] = {"time", "cpu_seconds"},
};

/* The threshold of a measure. For time, if the program's is known, only a difference that would
 * show in the program counts. */
static struct rank_threshold threshold_of(const struct compare *compare,
                                          enum compare_measure measure)
{
    struct rank_threshold threshold = rank_thresholds[measure];
    if (measure == COMPARE_TIME && compare->original.allocator_seconds >= 0)
        threshold.surely = compare_cpu_least(compare->original.cpu_seconds);
    return threshold;
}

/* ---- ranks ---- */

static bool is_ranked(const struct compare *compare, const struct compare_row *row)
{
    return !compare->few_calls && *row->why == '\0' && !compare_row_is_nothing(row);
}

/* The values of all rows, one row after another, and the candidates that refer to them. */
struct candidates {
    double *values;
    struct rank_candidate *of_row;
};

static void candidates_free(struct candidates *candidates)
{
    free(candidates->values);
    free(candidates->of_row);
}

static bool candidates_take(struct candidates *candidates, const struct compare *compare,
                            enum compare_measure measure)
{
    const struct compare_number *number = compare_number_find(measures[measure].number);
    size_t rounds = compare->options.rounds;
    candidates->values = calloc(compare->rows_count * rounds + 1, sizeof(double));
    candidates->of_row = calloc(compare->rows_count + 1, sizeof *candidates->of_row);
    if (candidates->values == NULL || candidates->of_row == NULL) return false;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        double *values = &candidates->values[i * rounds];
        if (!is_ranked(compare, row)) continue;
        size_t count = compare_values_of(number, row->reports, values, rounds);
        if (!isnan(compare_spread_of(number, row->reports).median))
            candidates->of_row[i] =
                (struct rank_candidate){.values = values,
                                        .count = count,
                                        .more = measure == COMPARE_MEMORY ? row->more_bytes : 0};
    }
    return true;
}

/* ---- order ---- */

/* What rows of one rank are ordered by: what the program may have. */
static double sorted_by(const struct compare_row *row, enum compare_measure measure)
{
    const double more = measure == COMPARE_MEMORY ? row->more_bytes : 0;
    return compare_median(measures[measure].number, row->reports) + more;
}

static bool verdict_goes_before(const struct compare_row *one, const struct compare_row *other,
                                enum compare_measure measure)
{
    unsigned left = one->rank[measure], right = other->rank[measure];
    if (left != right) return left != 0 && (right == 0 || left < right);
    return left != 0 && sorted_by(one, measure) < sorted_by(other, measure);
}

/* Insertion sort, which is stable. */
static void verdict_sort(struct compare *compare, enum compare_measure measure)
{
    const struct compare_row **order = compare->verdicts[measure].order;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        size_t at = i;
        for (; at > 0 && verdict_goes_before(row, order[at - 1], measure); at--)
            order[at] = order[at - 1];
        order[at] = row;
    }
}

const struct compare_row *compare_sorted(const struct compare *compare,
                                         enum compare_measure measure, size_t at)
{
    enum compare_measure wanted = compare->options.sort;
    return compare->verdicts[wanted != COMPARE_MEASURES ? wanted : measure].order[at];
}

/* ---- lead ---- */

/* The greatest lead of any row with rank 1 over row `of`. `next` is NULL if there is no lead. */
static struct compare_verdict lead_over(const struct compare *compare, size_t of,
                                        enum compare_measure measure,
                                        const struct rank_candidate *candidates)
{
    const struct rank_threshold threshold = threshold_of(compare, measure);
    struct compare_verdict over = {.next = NULL};
    for (size_t i = 0; i < compare->rows_count; i++) {
        if (candidates[i].rank != 1) continue;
        struct rank_difference lead =
            rank_difference_of(&candidates[of], &candidates[i], &threshold);
        if (!lead.counts || (over.next != NULL && lead.median <= over.lead.median)) continue;
        over.next = &compare->rows[of];
        over.before = &compare->rows[i];
        over.lead = lead;
    }
    return over;
}

/* Finds the smallest lead over the rows of the second rank. */
static void lead_find(struct compare *compare, enum compare_measure measure,
                      const struct rank_candidate *candidates)
{
    struct compare_verdict *verdict = &compare->verdicts[measure];
    for (size_t i = 0; i < compare->rows_count; i++) {
        if (candidates[i].rank != verdict->best + 1) continue;
        struct compare_verdict over = lead_over(compare, i, measure, candidates);
        if (over.next == NULL ||
            (verdict->next != NULL && over.lead.median >= verdict->lead.median))
            continue;
        verdict->next = over.next;
        verdict->before = over.before;
        verdict->lead = over.lead;
    }
    if (verdict->next == NULL) return;
    verdict->before_median = compare_median(measures[measure].number, verdict->before->reports);
}

static bool rank_by(struct compare *compare, enum compare_measure measure)
{
    const struct rank_threshold threshold = threshold_of(compare, measure);
    struct candidates candidates = {0};
    struct compare_verdict *verdict = &compare->verdicts[measure];
    verdict->order = calloc(compare->rows_count + 1, sizeof(void *));
    bool good = verdict->order != NULL && candidates_take(&candidates, compare, measure);
    if (good) rank_all(candidates.of_row, compare->rows_count, &threshold);
    for (size_t i = 0; good && i < compare->rows_count; i++) {
        compare->rows[i].rank[measure] = candidates.of_row[i].rank;
        compare->rows[i].rank_shared[measure] = candidates.of_row[i].shared;
        verdict->ranked += candidates.of_row[i].rank != 0;
        verdict->best += candidates.of_row[i].rank == 1;
    }
    if (good) lead_find(compare, measure, candidates.of_row);
    candidates_free(&candidates);
    return good;
}

bool compare_rank_rows(struct compare *compare)
{
    const json_t *events = json_object_get(compare->null_report, "events");
    compare->few_calls = json_integer_value(events) < COMPARE_CALLS_MIN;
    if (!rank_by(compare, COMPARE_MEMORY) || !rank_by(compare, COMPARE_TIME)) return false;
    verdict_sort(compare, COMPARE_MEMORY);
    verdict_sort(compare, COMPARE_TIME);
    return compare_warnings_collect(compare);
}

void compare_rank_end(struct compare *compare)
{
    for (size_t i = 0; i < COMPARE_MEASURES; i++)
        free(compare->verdicts[i].order);
    free(compare->warnings);
}

/* ---- output ---- */

const char *compare_rank_text(const struct compare *compare, const struct compare_row *row,
                              enum compare_measure measure, char *text, size_t bytes)
{
    if (row->rank[measure] == 0)
        snprintf(text, bytes, "-");
    else
        snprintf(text, bytes, "%u%s%s", row->rank[measure], row->rank_shared[measure] ? "=" : "",
                 compare->options.rounds < RANK_VALUES_MIN ? "?" : "");
    return text;
}

/* Adds the names of the rows with that rank, "a", "a and b", "a, b and c", in the order of the
 * list, which is the same each time. Returns how many. */
static size_t verdict_add_rows(FILE *to, const struct compare *compare,
                               enum compare_measure measure, unsigned rank)
{
    size_t count = 0, left;
    for (size_t i = 0; i < compare->rows_count; i++)
        count += compare->rows[i].rank[measure] == rank;
    left = count;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (row->rank[measure] != rank) continue;
        left--;
        fprintf(to, "%s%s", row->label, left == 0 ? "" : left == 1 ? " and " : ", ");
    }
    if (count > 1) fprintf(to, " (equal)");
    return count;
}

/* The memory that differences are given as shares of: that expected of the process under this row,
 * else what the program had. NAN: only that of replays is known. */
static double process_bytes(const struct compare *compare, const struct compare_row *row)
{
    const double expected = row->expected.peak_bytes;
    return !isnan(expected) ? expected : compare->original.peak_bytes;
}

/* Adds the confidence interval of a difference. */
static void add_surely(FILE *to, const struct compare *compare, double least, double most,
                       const char *unit, int decimals)
{
    const unsigned rounds = compare->options.rounds;
    if (rounds < RANK_VALUES_MIN)
        fprintf(to, "; %u %s too few for a confidence interval", rounds,
                rounds == 1 ? "run is" : "runs are");
    else
        fprintf(to, " (95 %% sure: %.*f to %.*f %s)", decimals, numbers_shown(least, decimals),
                decimals, numbers_shown(most, decimals), unit);
}

static void add_than(FILE *to, const struct compare_verdict *verdict)
{
    if (verdict->best > 1) fprintf(to, " than %s", verdict->before->label);
}

static void add_memory_lead(FILE *to, const struct compare *compare)
{
    const struct compare_verdict *verdict = &compare->verdicts[COMPARE_MEMORY];
    const struct rank_difference *lead = &verdict->lead;
    const double process = process_bytes(compare, verdict->before);
    const bool known = !isnan(process);
    fprintf(to, "%.1f MiB (%.*f %% %s) more", lead->median / MIB,
            known && lead->median < process / 10 ? 1 : 0,
            100 * lead->median / (known ? process : verdict->before_median),
            known ? "of the process" : "in replays");
    add_than(to, verdict);
    add_surely(to, compare, lead->least / MIB, lead->most / MIB, "MiB", 1);
}

static void add_time_lead(FILE *to, const struct compare *compare)
{
    const struct compare_verdict *verdict = &compare->verdicts[COMPARE_TIME];
    const struct rank_difference *lead = &verdict->lead;
    const double per_cent = 100 / verdict->before_median;
    double least = lead->least, most = lead->most;
    if (compare_cpu_shares(compare, &least, &most)) {
        fprintf(to, "%.1f to %.1f %% more of the program's ", numbers_shown(100 * least, 1),
                numbers_shown(100 * most, 1));
        compare_put_seconds(to, compare->original.cpu_seconds);
        add_than(to, verdict);
        fprintf(to, " (in replays, %.0f %%)", lead->median * per_cent);
        return;
    }
    fprintf(to, "%.0f %% more", lead->median * per_cent);
    add_than(to, verdict);
    fputs(" in replays", to);
    add_surely(to, compare, lead->least * per_cent, lead->most * per_cent, "%", 0);
}

static void add_lead(FILE *to, const struct compare *compare, enum compare_measure measure)
{
    fprintf(to, "; the next, ");
    const unsigned next = (unsigned)compare->verdicts[measure].best + 1;
    bool several = verdict_add_rows(to, compare, measure, next) > 1;
    fprintf(to, several ? ", take at least " : ", takes ");
    if (measure == COMPARE_MEMORY)
        add_memory_lead(to, compare);
    else
        add_time_lead(to, compare);
}

/* Nothing is the best as long as a row is missing. */
static const char *of_others(const struct compare *compare)
{
    return compare_is_missing_any(compare) ? " of the others" : "";
}

/* Adds that all are equal. Replays may still differ, by less than would show in the program. */
static void add_equal(FILE *to, const struct compare *compare, enum compare_measure measure)
{
    const struct compare_verdict *verdict = &compare->verdicts[measure];
    const struct compare_original *original = &compare->original;
    const struct compare_row *first = verdict->order[0],
                             *last = verdict->order[verdict->ranked - 1];
    const double least = compare_median(measures[measure].number, first->reports);
    const double most = compare_median(measures[measure].number, last->reports);
    if (measure == COMPARE_TIME && original->allocator_seconds >= 0 && original->cpu_seconds > 0 &&
        most - least > least * rank_thresholds[measure].relative) {
        fputs("For time, no difference is clear: replays take ", to);
        compare_put_seconds(to, least);
        fprintf(to, " (%s) to ", first->label);
        compare_put_seconds(to, most);
        fprintf(to, " (%s), but allocator and new pages are about ", last->label);
        compare_put_share(to, original->allocator_seconds / original->cpu_seconds);
        fputs(" of the program's ", to);
        compare_put_seconds(to, original->cpu_seconds);
        return;
    }
    fprintf(to, "For %s, all%s are equal", measures[measure].key,
            compare_is_missing_any(compare) ? " others" : "");
}

static void add_measure(FILE *to, const struct compare *compare, enum compare_measure measure)
{
    const struct compare_verdict *verdict = &compare->verdicts[measure];
    if (verdict->best == verdict->ranked) {
        add_equal(to, compare, measure);
        return;
    }
    fprintf(to, "Best%s for %s: ", of_others(compare), measures[measure].key);
    verdict_add_rows(to, compare, measure, 1);
    if (verdict->next != NULL) add_lead(to, compare, measure);
}

/* ---- the headline ---- */

/* "glibc with MALLOC_ARENA_MAX=1" */
static void add_name(FILE *to, const struct compare_row *row)
{
    const size_t name = strlen(compare_row_name(row));
    if (row->entry->settings_count == 0 || name >= strlen(row->label))
        fputs(row->label, to);
    else
        fprintf(to, "%.*s with %s", (int)name, row->label, row->label + name + 1);
}

/* Names the rows that are missing, with the reason of the first. */
static void add_missing(FILE *to, const struct compare *compare)
{
    const struct compare_row *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (!compare_row_is_missing(row)) continue;
        if (count++ == 0)
            first = row;
        else
            fputs(", ", to);
        add_name(to, row);
    }
    if (first != NULL)
        fprintf(to, " %s missing (%.300s), so the best is not known. ", count > 1 ? "are" : "is",
                first->why);
}

/* The first row of a table, if it has rank 1. */
static const struct compare_row *verdict_best_of(const struct compare *compare,
                                                 enum compare_measure measure)
{
    const struct compare_verdict *verdict = &compare->verdicts[measure];
    return verdict->ranked > 0 ? verdict->order[0] : NULL;
}

/* The row of the recorded allocator, or NULL if it has no numbers. */
static const struct compare_row *now_of(const struct compare *compare)
{
    const struct compare_row *now = compare->recorded;
    return now != NULL && *now->why == '\0' ? now : NULL;
}

static bool verdict_is_expected(const struct compare_row *row)
{
    return !isnan(row->expected.peak_bytes);
}

/* What the program had. Recorded on malloctape's tcmalloc, it was not what it has otherwise. */
static void add_now(FILE *to, const struct compare *compare, double bytes, const char *where)
{
    const bool is_own = allocators_is_of_recorder(
        json_string_value(json_object_get(compare->null_report, "recorded_allocator")));
    fputs(is_own ? "on malloctape's " : "now ", to);
    add_name(to, compare->recorded);
    if (is_own) fputs(", not the program's own (record --allocator=program)", to);
    fprintf(to, ", %.1f MiB at peak%s. ", bytes / MIB, where);
}

static void add_best_memory(FILE *to, const struct compare *compare)
{
    const struct compare_row *now = now_of(compare),
                             *best = verdict_best_of(compare, COMPARE_MEMORY);
    const bool known = verdict_is_expected(best) && (now == NULL || verdict_is_expected(now));
    const char *where = known ? "" : " in replays";
    const double bytes =
        known ? best->expected.peak_bytes : compare_median("peak_net_rss_bytes", best->reports);
    double now_bytes = NAN;
    if (now != NULL)
        now_bytes =
            known ? now->expected.peak_bytes : compare_median("peak_net_rss_bytes", now->reports);
    if (now != NULL) add_now(to, compare, now_bytes, where);
    if (now != NULL && now->rank[COMPARE_MEMORY] == 1) {
        fprintf(to, "None%s clearly takes less.", of_others(compare));
        return;
    }
    fprintf(to, now != NULL ? "Best%s: " : "best%s: ", of_others(compare));
    add_name(to, best);
    fprintf(to, ", %.1f MiB", bytes / MIB);
    if (now == NULL)
        fputs(where, to);
    else if (known || isnan(compare->original.peak_bytes))
        fprintf(to, ", %+.0f %%", 100 * (bytes - now_bytes) / now_bytes);
    else
        fprintf(to, ", %+.1f %% of the process",
                100 * (bytes - now_bytes) / compare->original.peak_bytes);
    fputc('.', to);
}

static void add_best_time(FILE *to, const struct compare *compare)
{
    const struct compare_row *now = now_of(compare), *best = verdict_best_of(compare, COMPARE_TIME);
    const double all = compare->original.cpu_seconds;
    if (now == NULL || best == NULL || !(all > 0) || isnan(best->expected.cpu_change_least)) return;
    if (now->rank[COMPARE_TIME] == 1 || best->expected.cpu_change_most >= 0) {
        fprintf(to, " For time, none%s is clearly better.", of_others(compare));
        return;
    }
    fprintf(to, " Best%s for time: ", of_others(compare));
    add_name(to, best);
    fprintf(to, ", %+.1f %% (%+.1f to %+.1f).",
            numbers_shown(100 * best->expected.cpu_change / all, 1),
            numbers_shown(100 * best->expected.cpu_change_least / all, 1),
            numbers_shown(100 * best->expected.cpu_change_most / all, 1));
}

const char *compare_headline(const struct compare *compare, char *text, size_t bytes)
{
    const unsigned rounds = compare->options.rounds;
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    const bool any = compare->verdicts[COMPARE_MEMORY].ranked > 0;
    if (any || compare_is_missing_any(compare)) fputs("In this recording: ", to);
    add_missing(to, compare);
    if (any) {
        add_best_memory(to, compare);
        add_best_time(to, compare);
        if (rounds < RANK_VALUES_MIN)
            fprintf(to, " (%u %s: not certain.)", rounds,
                    rounds == 1 ? "replay each" : "replays each");
    }
    fclose(to);
    return text;
}

const char *compare_verdict_text(const struct compare *compare, char *text, size_t bytes)
{
    const char *between = "";
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    if (compare->few_calls)
        fprintf(to,
                "No ranking: fewer than %d calls say more about a program's startup than about "
                "an allocator.",
                COMPARE_CALLS_MIN);
    for (enum compare_measure measure = 0; measure < COMPARE_MEASURES; measure++) {
        if (compare->few_calls || compare->verdicts[measure].ranked < 2) continue;
        fputs(between, to);
        add_measure(to, compare, measure);
        fputc('.', to);
        between = " ";
    }
    fclose(to);
    return text;
}

/* ---- a line for a shell ---- */

static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, to);
    fputc('\'', to);
}

const char *compare_row_paste(const struct compare_row *best, char *text, size_t bytes)
{
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    if (best->entry->settings_count > 0 || *best->found.library != '\0') {
        for (size_t i = 0; i < best->entry->settings_count; i++) {
            fprintf(to, "%s=", best->entry->settings[i].name);
            put_quoted(to, best->entry->settings[i].value);
            fputc(' ', to);
        }
        if (*best->found.library != '\0') {
            fputs("LD_PRELOAD=", to);
            put_quoted(to, best->found.library);
            fputc(' ', to);
        }
        fputs("PROGRAM", to);
    }
    fclose(to);
    return text;
}

/* Whether the best row for memory, or for time, is clearly better than what the program has. */
static bool is_gain(const struct compare *compare, enum compare_measure measure)
{
    const struct compare_row *now = now_of(compare), *best = verdict_best_of(compare, measure);
    if (best == NULL || best == now || compare_is_missing_any(compare)) return false;
    if (best->changed != NULL) return false; /* no command line changes code */
    if (measure == COMPARE_TIME && !(best->expected.cpu_change_most < 0)) return false;
    return now == NULL || now->rank[measure] != 1;
}

const char *compare_paste_text(const struct compare *compare, const char **of, char *text,
                               size_t bytes)
{
    *text = '\0';
    *of = NULL;
    for (enum compare_measure measure = 0; measure < COMPARE_MEASURES && *of == NULL; measure++) {
        if (!is_gain(compare, measure)) continue;
        *of = measures[measure].key;
        compare_row_paste(verdict_best_of(compare, measure), text, bytes);
    }
    if (*text == '\0') *of = NULL;
    return text;
}

/* ---- JSON ---- */

static json_t *json_verdict(const struct compare *compare, enum compare_measure measure)
{
    const struct compare_verdict *verdict = &compare->verdicts[measure];
    json_t *object = json_object(), *order = json_array(), *best = json_array();
    const bool is_missing_any = compare_is_missing_any(compare);
    for (size_t i = 0; i < compare->rows_count; i++) {
        json_array_append_new(order, json_string(verdict->order[i]->label));
        if (compare->rows[i].rank[measure] == 1 && !is_missing_any)
            json_array_append_new(best, json_string(compare->rows[i].label));
    }
    json_object_set_new(object, "number", json_string(measures[measure].number));
    json_object_set_new(object, "order", order);
    json_object_set_new(object, "best", best);
    if (verdict->next == NULL) return object;
    json_object_set_new(object, "next", json_string(verdict->next->label));
    json_object_set_new(object, "before", json_string(verdict->before->label));
    json_object_set_new(object, "lead", json_real(verdict->lead.median));
    json_object_set_new(object, "lead_least", json_real(verdict->lead.least));
    json_object_set_new(object, "lead_most", json_real(verdict->lead.most));
    return object;
}

json_t *compare_verdict_json(const struct compare *compare)
{
    char text[4096];
    const char *paste_of;
    json_t *object = json_object();
    json_object_set_new(object, "headline",
                        json_string(compare_headline(compare, text, sizeof text)));
    json_put_text(object, "paste", compare_paste_text(compare, &paste_of, text, sizeof text));
    json_put_text(object, "paste_of", paste_of);
    json_object_set_new(object, "text",
                        json_string(compare_verdict_text(compare, text, sizeof text)));
    json_object_set_new(object, "few_calls", json_boolean(compare->few_calls));
    for (enum compare_measure measure = 0; measure < COMPARE_MEASURES; measure++)
        json_object_set_new(object, measures[measure].key, json_verdict(compare, measure));
    return object;
}
