#include "compare/compare_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json_file.h"
#include "common/progress.h"
#include "compare/compare_latency.h"
#include "compare/expected.h"

/* At most this many words of a command line are compare's own; the user's come in addition. */
enum { OWN_WORDS_MAX = 18 };

/* At least this many calls of a kind should be timed: if a trace has fewer, in several rounds. */
#define TIMED_LEAST 100000

/* See time_limit(). */
#define LIMIT_LEAST_S 60.0
#define LIMIT_TIMES   200.0

/* How often a replay is tried that a signal ends: where memory was short, it may not be again. */
enum { TRIES_MAX = 3 };

/* The points of a curve: as many as a chart is wide in pixels. */
enum { SERIES_POINTS_MAX = 1000 };

/* ---- one run ---- */

/* Called in the child. All allocators get the same environment, that of this process, except for
 * the variables that select the allocator. */
static void compare_run_enter(void *of)
{
    const struct compare_row *row = of;
    allocators_enter(row != NULL ? &row->found : NULL);
    for (size_t i = 0; row != NULL && i < row->entry->settings_count; i++)
        setenv(row->entry->settings[i].name, row->entry->settings[i].value, 1);
}

/* How to run one replay. */
struct run_how {
    const char *engine;  /* NULL: replay's default */
    const char *further; /* an option, or NULL */
    bool uncleared;      /* as the recorder's tcmalloc leaves what calloc() returns */
    const char *sample;  /* words that say which calls are timed */
    char sample_offset[48];
    const char *ordered; /* the stream */
};

/* The command line; the caller frees it. The user's words come after options that they may
 * override, and before those that they must not. */
static char **words_make(const struct compare *compare, const struct run_how *how, char *file)
{
    char **further = compare->options.replay_words;
    size_t count = 0;
    while (further[count] != NULL)
        count++;
    char **words = calloc(count + OWN_WORDS_MAX, sizeof *words), **next = words;
    if (words == NULL) return NULL;
    *next++ = (char *)COMPARE_REPLAY;
    *next++ = (char *)"--clock=original";
    *next++ = (char *)how->sample;
    *next++ = (char *)how->sample_offset;
    memcpy(next, further, count * sizeof *further);
    next += count;
    if (how->engine != NULL) {
        *next++ = (char *)"--engine";
        *next++ = (char *)how->engine;
    }
    if (how->further != NULL) *next++ = (char *)how->further;
    if (how->uncleared) *next++ = (char *)"--uncleared";
    if (compare->program_has != NULL) {
        *next++ = (char *)"--program-has";
        *next++ = compare->program_has;
    }
    *next++ = (char *)"--quiet";
    *next++ = (char *)"--json";
    *next++ = file;
    *next++ = (char *)"--series";
    *next++ = (char *)"--";
    *next++ = (char *)how->ordered;
    return words;
}

/* Derived from the duration of the first replay, which calls no allocator: one with an allocator
 * takes about ten times as long. */
static double time_limit(const struct compare *compare, const struct compare_row *row)
{
    double wanted = compare->options.limit_s;
    if (row == NULL || wanted >= 0) return row == NULL ? 0 : wanted;
    return LIMIT_LEAST_S + LIMIT_TIMES * compare->null_s;
}

/* Runs a replay to its end, and again if a signal ended it. */
static bool run_to_end(const struct process *process, char *why, size_t why_bytes)
{
    for (unsigned tries = 1;; tries++) {
        if (process_run(process, true, why, why_bytes)) {
            *why = '\0'; /* of the tries before */
            return true;
        }
        if (process->end->signal == 0 || tries == TRIES_MAX || process_interrupted()) return false;
    }
}

/* Returns the report, or NULL. `row` NULL: no allocator. */
static json_t *compare_row_replay(const struct compare *compare, struct compare_row *row,
                                  const struct run_how *how, char *why, size_t why_bytes)
{
    char file[PROCESS_PATH_BYTES];
    process_directory_path(&compare->directory, "report.json", file, sizeof file);
    unlink(file); /* the previous run's */
    char **words = words_make(compare, how, file);
    if (words == NULL) {
        snprintf(why, why_bytes, "no memory");
        return NULL;
    }
    char printed[sizeof row->printed] = "", *through[ALLOCATOR_WORDS];
    struct process_end end = {0};
    const struct process process = {
        .path = compare->replay,
        .words = words,
        .through = row != NULL ? allocators_through(&row->found, through) : NULL,
        .input = -1,
        .limit_s = time_limit(compare, row),
        .file = how->ordered,
        .enter = compare_run_enter,
        .of = row,
        .printed = printed,
        .printed_bytes = sizeof printed,
        .end = &end};
    const bool ran = run_to_end(&process, why, why_bytes);
    free(words);
    if (row != NULL && !ran) row->end = end;
    if (row != NULL && *row->printed == '\0') memcpy(row->printed, printed, sizeof printed);
    return ran ? json_report_read(file, why, why_bytes) : NULL;
}

/* Keeps the series of the round with the most looks at memory: on a busy machine, some have few. */
static void series_take(struct compare_row *row, json_t *report)
{
    const double looks = json_number_value(json_object_get(report, "looks"));
    if (row->series == NULL || looks > row->series_looks) {
        json_decref(row->series);
        row->series = json_incref(json_object_get(report, "series"));
        row->series_looks = looks;
        compare_curves_shorten(row->series, SERIES_POINTS_MAX);
    }
    json_object_del(report, "series");
}

/* ---- what a report must say ---- */

/* Checks the numbers that must be the same under every allocator. */
static bool check_counts(const json_t *null_report, const json_t *report, char *why,
                         size_t why_bytes)
{
    static const char *const keys[] = {"events", "by_kind", "live_at_end"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *wanted = json_object_get(null_report, keys[i]);
        if (wanted != NULL && json_equal(wanted, json_object_get(report, keys[i]))) continue;
        return error_explain(why, why_bytes, "%s are not those of the trace", keys[i]);
    }
    return true;
}

/* ---- rounds that time calls ---- */

/* How many calls there are of the rarer of the two kinds that the table shows; at least 1. */
static json_int_t rarer_calls(const struct compare *compare)
{
    const json_t *by_kind = json_object_get(compare->null_report, "by_kind");
    json_int_t least = 0;
    for (int allocation = 0; allocation <= 1; allocation++) {
        const char *kind = compare_kind(compare->null_report, allocation);
        json_int_t calls = kind != NULL ? json_integer_value(json_object_get(by_kind, kind)) : 0;
        if (calls > 0 && (least == 0 || calls < least)) least = calls;
    }
    return least > 0 ? least : 1;
}

/* How many additional rounds only time calls, which makes a replay slower: at least one, at most
 * half as many as the others (--no-latency: none). */
static unsigned timed_rounds(const struct compare *compare)
{
    if (compare->options.no_latency) return 0;
    const json_int_t most = compare->options.rounds / 2;
    const json_int_t wanted = TIMED_LEAST / rarer_calls(compare) + 1;
    if (most == 0) return 1;
    return (unsigned)(wanted < most ? wanted : most);
}

/* How to run round number `round`, from 0. Rounds that time calls come last, and time all calls. */
static struct run_how how_of(const struct compare *compare, const char *engine, unsigned round)
{
    struct run_how how = {.engine = engine};
    how.sample = round < compare->options.rounds ? "--sample=0" : "--sample=1";
    snprintf(how.sample_offset, sizeof how.sample_offset, "--sample-offset=%u", round);
    return how;
}

static struct run_how how_of_null(const char *ordered, const char *further)
{
    struct run_how how = {
        .engine = "null", .further = further, .sample = "--sample=0", .ordered = ordered};
    snprintf(how.sample_offset, sizeof how.sample_offset, "--sample-offset=0");
    return how;
}

/* Puts the merged times of calls into the reports of all rounds. */
static void latency_take(struct compare_row *row)
{
    size_t at;
    json_t *report;
    if (*row->why != '\0') return;
    json_t *latency = compare_latency_merge(row->timed);
    json_array_foreach(row->reports, at, report) json_object_set(report, "latency", latency);
    json_decref(latency);
}

/* ---- progress ---- */

static unsigned rounds_to_do(const struct compare *compare)
{
    return compare->options.rounds + timed_rounds(compare);
}

/* The rounds to do for the row at this index. */
static unsigned rounds_of(const struct compare *compare, size_t at)
{
    return *compare->rows[at].why != '\0' ? 0 : rounds_to_do(compare);
}

static unsigned runs_to_do(const struct compare *compare)
{
    unsigned runs = 0;
    for (size_t i = 0; i < compare->rows_count; i++)
        runs += rounds_of(compare, i);
    return runs;
}

static void compare_run_show_progress(const struct compare *compare, const struct compare_row *row,
                                      unsigned round)
{
    unsigned done = compare->runs_done, all = runs_to_do(compare);
    char message[sizeof row->label + 128];
    int length = snprintf(message, sizeof message, "round %u of %u: %s", round + 1,
                          rounds_to_do(compare), row->label);
    if (done > 0 && all > done)
        snprintf(message + length, sizeof message - (size_t)length, ", about %.0f s left",
                 (seconds_now() - compare->started) / done * (all - done));
    progress_text(message);
}

/* ---- all runs ---- */

bool compare_run_null(struct compare *compare, char *why, size_t why_bytes)
{
    const struct run_how how = how_of_null(compare->ordered, NULL);
    double started = seconds_now();
    compare->null_report = compare_row_replay(compare, NULL, &how, why, why_bytes);
    compare->null_s = seconds_now() - started;
    return compare->null_report != NULL;
}

bool compare_run_null_changed(const struct compare *compare, struct compare_changed *changed,
                              char *why, size_t why_bytes)
{
    const struct run_how how = how_of_null(changed->ordered, NULL);
    changed->null_report = compare_row_replay(compare, NULL, &how, why, why_bytes);
    return changed->null_report != NULL;
}

bool compare_run_lane_peaks(struct compare *compare, char *why, size_t why_bytes)
{
    const struct run_how how = how_of_null(compare->ordered, "--lane-peaks");
    json_t *report = compare_row_replay(compare, NULL, &how, why, why_bytes);
    if (report == NULL) return false;
    compare->lane_peaks_bytes = compare_report_number(report, "lane_peaks_bytes");
    json_decref(report);
    return true;
}

const char *compare_engine(const struct compare *compare)
{
    const char *engine = compare->options.engine;
    if (engine != NULL && strcmp(engine, "auto") != 0) return engine;
    return json_string_value(json_object_get(compare->null_report, "auto_engine"));
}

/* Whether the row's allocator is that of the recording, and the recorder's: which leaves pages alone that
 * upstream's clears for calloc(). */
static bool is_recorders(const struct compare *compare, const struct compare_row *row)
{
    const char *recorded =
        json_string_value(json_object_get(compare->null_report, "recorded_allocator"));
    return compare->recorded != NULL && row->found.known != NULL &&
           row->found.known == compare->recorded->found.known &&
           allocators_is_of_recorder(recorded);
}

/* What code would save is asked of the program as it was recorded. */
static bool is_uncleared(const struct compare *compare, const struct compare_row *row)
{
    return compare->options.what_ifs_count > 0 && is_recorders(compare, row);
}

static void compare_row_run(struct compare *compare, struct compare_row *row, unsigned round)
{
    const struct known_allocator *known = row->found.known;
    bool nothing = known != NULL && known->where == ALLOCATOR_NOTHING;
    bool only_times = round >= compare->options.rounds;
    struct run_how how = how_of(compare, nothing ? "null" : compare_engine(compare), round);
    how.ordered = row->changed != NULL ? row->changed->ordered : compare->ordered;
    how.uncleared = is_uncleared(compare, row);
    if (nothing && only_times) return;
    json_t *report = compare_row_replay(compare, row, &how, row->why, sizeof row->why);
    compare->runs_done++;
    if (report == NULL) return;
    const char *reported = json_string_value(json_object_get(report, "allocator"));
    if (allocators_was_used(&row->found, reported, row->why, sizeof row->why))
        check_counts(compare_row_null_report(compare, row), report, row->why, sizeof row->why);
    json_array_append_new(only_times ? row->timed : row->reports, report);
    series_take(row, report);
}

json_t *compare_run_beginning(struct compare *compare, struct compare_row *row)
{
    char why[sizeof row->why], message[sizeof row->label + 64];
    if (*row->why != '\0' || compare_row_is_nothing(row) || process_interrupted()) return NULL;
    struct run_how how = how_of(compare, compare_engine(compare), 0);
    how.further = "--touch=line";
    how.ordered = row->changed != NULL ? row->changed->ordered : compare->ordered;
    how.uncleared = is_uncleared(compare, row);
    snprintf(message, sizeof message, "what is left untouched: %s", row->label);
    progress_text(message);
    return compare_row_replay(compare, row, &how, why, sizeof why);
}

void compare_run_rows(struct compare *compare)
{
    const size_t rows = compare->rows_count;
    compare->started = seconds_now();
    for (unsigned round = 0; round < rounds_to_do(compare); round++) {
        for (size_t i = 0; i < rows; i++) {
            size_t at = round % 2 == 0 ? i : rows - 1 - i;
            struct compare_row *row = &compare->rows[at];
            if (round >= rounds_of(compare, at)) continue;
            compare_run_show_progress(compare, row, round);
            compare_row_run(compare, row, round);
            if (process_interrupted()) return;
        }
    }
    for (size_t i = 0; i < rows; i++)
        latency_take(&compare->rows[i]);
    progress_text("");
}

/* Whether the program may have left pages alone of what calloc() returned. */
static bool may_leave_pages(const struct compare *compare)
{
    const json_t *report = json_array_get(compare->recorded->reports, 0);
    return compare_report_number(report, "untouched_bytes") > 0 &&
           compare_report_number(json_object_get(report, "by_kind"), "calloc") > 0;
}

/* False: it is the same as the recorded row, or has failed. */
static bool uncleared_run(struct compare *compare, struct compare_row *row, unsigned round)
{
    struct run_how how = how_of(compare, compare_engine(compare), round);
    how.ordered = compare->ordered;
    how.uncleared = true;
    json_t *report = compare_row_replay(compare, row, &how, row->why, sizeof row->why);
    if (report == NULL) return false;
    json_array_append_new(row->reports, report);
    series_take(row, report);
    return compare_report_number(report, "uncleared_objects") > 0;
}

void compare_run_uncleared(struct compare *compare)
{
    const struct compare_row *recorded = compare->recorded;
    struct compare_row *row = &compare->uncleared;
    if (recorded == NULL || *recorded->why != '\0' || compare->options.what_ifs_count > 0 ||
        !is_recorders(compare, recorded) || !may_leave_pages(compare))
        return;
    compare_row_open(row, recorded->entry);
    bool good = true;
    progress_text("what calloc() cleared");
    for (unsigned round = 0; good && round < compare->options.rounds; round++)
        good = !process_interrupted() && uncleared_run(compare, row, round);
    if (!good) json_array_clear(row->reports);
    progress_text("");
}
