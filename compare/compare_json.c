/* Everything that compare knows, as JSON; docs/compare.md says what the keys are. */
#include "compare/compare_json.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_file.h"
#include "compare/compare_table.h"
#include "compare/compare_warnings.h"
#include "compare/library.h"
#include "compare/verdict.h"
#include "compare/what_if.h"
#include "malloctape_config.h"

/* ---- what was replayed, and where ---- */

static json_t *compare_json_trace(const struct compare *compare)
{
    static const char *const keys[] = {"program",
                                       "recorded_architecture",
                                       "recorded_page_bytes",
                                       "status",
                                       "recording",
                                       "what_if",
                                       "events",
                                       "by_kind",
                                       "threads",
                                       "busy_threads",
                                       "thread_switches",
                                       "lost_events",
                                       "live_at_end",
                                       "peak_live_bytes",
                                       "original_seconds",
                                       "original_peak_rss_bytes",
                                       "original_peak_heap_bytes"};
    json_t *trace = json_object();
    json_put_text(trace, "file", compare->options.trace);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(compare->null_report, keys[i]);
        if (value != NULL) json_object_set(trace, keys[i], value);
    }
    return trace;
}

/* Words may contain any bytes. */
static json_t *json_replay_options(const struct compare *compare)
{
    json_t *words = json_array();
    for (char **word = compare->options.replay_words; *word != NULL; word++) {
        json_t *text = json_string(*word);
        json_array_append_new(words, text != NULL ? text : json_null());
    }
    return words;
}

/* ---- the original, and what is expected ---- */

static json_t *json_original(const struct compare_original *original)
{
    json_t *object = json_object();
    json_put_real(object, "peak_rss_bytes", original->peak_bytes);
    json_put_real(object, "mean_rss_bytes", original->mean_bytes);
    json_put_real(object, "end_rss_bytes", original->end_bytes);
    json_put_real(object, "cpu_seconds", original->cpu_seconds);
    json_put_real(object, "allocator_seconds", original->allocator_seconds);
    json_put_real(object, "follows", original->follows);
    json_put_real(object, "touched", original->touched > 0 ? original->touched : NAN);
    json_put_text(object, "why_not", original->why_not);
    return object;
}

static json_t *json_expected(const struct compare_expected *expected)
{
    json_t *object = json_object();
    json_put_real(object, "peak_rss_bytes", expected->peak_bytes);
    json_put_real(object, "mean_rss_bytes", expected->mean_bytes);
    json_put_real(object, "end_rss_bytes", expected->end_bytes);
    json_put_real(object, "cpu_change_seconds", expected->cpu_change);
    json_put_real(object, "cpu_change_least_seconds", expected->cpu_change_least);
    json_put_real(object, "cpu_change_most_seconds", expected->cpu_change_most);
    return object;
}

/* ---- rows ---- */

static json_t *json_settings(const struct compare_entry *entry)
{
    json_t *settings = json_object();
    for (size_t i = 0; i < entry->settings_count; i++)
        json_put_text(settings, entry->settings[i].name, entry->settings[i].value);
    return settings;
}

/* Puts the library's path without symbolic links, and its build id: not every library has a
 * version. */
static void put_library(json_t *object, const char *library)
{
    char file[PATH_MAX], id[2 * 64 + 1];
    const bool there = *library != '\0' && realpath(library, file) != NULL;
    json_put_text(object, "library", library);
    json_put_text(object, "library_file", there ? file : NULL);
    json_put_text(object, "library_build_id",
                  there && *library_build_id(file, id, sizeof id) != '\0' ? id : NULL);
}

static json_t *json_numbers(const json_t *reports)
{
    json_t *numbers = json_object();
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        struct compare_spread spread = compare_spread_of(number, reports);
        json_t *object = json_object();
        json_put_real(object, "median", spread.median);
        json_put_real(object, "min", spread.least);
        json_put_real(object, "max", spread.most);
        json_object_set_new(numbers, number->key, object);
    }
    return numbers;
}

static json_t *json_rank(const struct compare_row *row, enum compare_measure measure)
{
    return row->rank[measure] != 0 ? json_integer(row->rank[measure]) : json_null();
}

static json_t *compare_json_row(const struct compare *compare, const struct compare_row *row,
                                bool with_reports)
{
    json_t *object = json_object();
    const json_t *report = json_array_get(row->reports, 0);
    json_put_text(object, "entry", row->label);
    json_put_text(object, "name", row->entry->allocator);
    json_object_set_new(object, "settings", json_settings(row->entry));
    json_object_set_new(object, "what_if", compare_what_if_json(row));
    put_library(object, row->found.library);
    json_object_set_new(object, "recorded", json_boolean(row == compare->recorded));
    json_put_text(object, "status", *row->why == '\0' ? "complete" : "failed");
    if (*row->why != '\0') json_put_text(object, "error", row->why);
    if (compare_row_is_missing(row))
        json_object_set_new(object, "ended_by",
                            row->end.timed_out ? json_string("time_limit")
                                               : json_integer(row->end.signal));
    json_put_text(object, "allocator", json_string_value(json_object_get(report, "allocator")));
    if (*row->why == '\0') json_object_set_new(object, "numbers", json_numbers(row->reports));
    json_object_set_new(object, "expected", json_expected(&row->expected));
    json_put_real(object, "more_bytes", row->more_bytes);
    json_object_set_new(object, "rank_memory", json_rank(row, COMPARE_MEMORY));
    json_object_set_new(object, "rank_time", json_rank(row, COMPARE_TIME));
    json_put_text(object, "printed", *row->printed != '\0' ? row->printed : NULL);
    json_object_set_new(object, "warnings", compare_warnings_json(compare, row));
    if (with_reports) json_object_set(object, "reports", row->reports);
    const bool shown = row->series != NULL && !(with_reports && compare->options.no_series);
    json_object_set(object, "series", shown ? row->series : json_null());
    return object;
}

/* Puts how the trace was replayed: what is the same in all rows. */
static void compare_json_put_how(json_t *object, const struct compare *compare)
{
    static const char *const keys[] = {"engine", "touch", "clock"};
    const json_t *common = compare_any_report(compare);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_put_text(object, keys[i], json_string_value(json_object_get(common, keys[i])));
    json_object_set_new(object, "replay_options", json_replay_options(compare));
    json_object_set_new(object, "runs", json_integer(compare->options.rounds));
    json_put_real(object, "own_cpu_seconds", compare_cpu_seconds(compare->null_report));
    json_put_text(object, "allocation_kind", compare_kind(compare->null_report, true));
    json_put_text(object, "free_kind", compare_kind(compare->null_report, false));
    json_put_real(object, "latency_resolution_ns", compare_clock_step(compare));
}

json_t *compare_json(const struct compare *compare, bool with_reports)
{
    json_t *object = json_object(), *rows = json_array();
    char text[32];
    time_t seconds = time(NULL);
    struct tm utc;
    json_put_text(object, "version", PACKAGE_VERSION);
    if (gmtime_r(&seconds, &utc) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
        json_put_text(object, "ended", text);
    json_object_set(object, "machine", compare->machine);
    json_object_set_new(object, "trace", compare_json_trace(compare));
    json_object_set_new(object, "original", json_original(&compare->original));
    compare_json_put_how(object, compare);
    for (size_t i = 0; i < compare->rows_count; i++)
        json_array_append_new(rows, compare_json_row(compare, &compare->rows[i], with_reports));
    json_object_set_new(object, "allocators", rows);
    json_object_set_new(object, "verdict", compare_verdict_json(compare));
    json_object_set_new(object, "warnings", compare_warnings_json(compare, NULL));
    return object;
}
