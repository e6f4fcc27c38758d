#include "compare/compare_warnings.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "common/arch.h"
#include "common/array.h"
#include "common/json_file.h"
#include "common/numbers.h"
#include "compare/compare_numbers.h"
#include "stream/metadata.h"

/* A program with more calls than this is more than a launcher. */
enum { LAUNCHER_CALLS_MAX = 100000 };

#define PEAK_RSS "peak_net_rss_bytes"

static void compare_warning_add(struct compare *compare, const struct compare_row *row,
                                const char *number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void compare_warning_add(struct compare *compare, const struct compare_row *row,
                                const char *number, const char *format, ...)
{
    if (!array_reserve(&compare->warnings, &compare->warnings_room, compare->warnings_count + 1,
                       sizeof *compare->warnings)) {
        compare->warnings_lack = true;
        return;
    }
    struct compare_warning *warning = &compare->warnings[compare->warnings_count++];
    *warning = (struct compare_warning){.row = row, .number = number};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(warning->text, sizeof warning->text, format, arguments);
    va_end(arguments);
}

/* ---- the trace ---- */

/* Whether the program with that path usually just starts another one and waits for it. */
static bool is_launcher(const char *program)
{
    static const char *const patterns[] = {
        "sh",      "bash",  "dash",    "zsh",     "env",    "nice", "nohup", "sudo",   "time",
        "timeout", "xargs", "taskset", "numactl", "make",   "gcc*", "g++*",  "*-gcc*", "*-g++*",
        "clang*",  "cc",    "c++",     "ninja",   "setsid", "npm",  "mvn",   "ccache"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (fnmatch(patterns[i], basename(program), 0) == 0) return true;
    return false;
}

static void collect_launcher(struct compare *compare)
{
    const json_t *report = compare->null_report;
    const char *program = json_string_value(json_object_get(report, "program"));
    long long calls = json_integer_value(json_object_get(report, "events"));
    if (program != NULL && calls <= LAUNCHER_CALLS_MAX && is_launcher(program))
        compare_warning_add(
            compare, NULL, NULL,
            "%s mostly starts other programs, which are not in this trace; record --follow "
            "records those, too",
            basename(program));
}

/* How far memory may be off (cut.md), of a trace with so many calls, each of which stands for `factor`. */
static const char *thinned_doubt(const struct compare *compare, double factor)
{
    static const double few = 20000, many_each = 30;
    const double calls = compare_report_number(compare->null_report, "events");
    const double threads = compare_report_number(compare->null_report, "busy_threads");
    if (factor > 1 && calls / factor < few) return "may be off by a sixth, as few calls are left";
    if (factor > many_each && threads > 1)
        return "may be off by a tenth, and more if it is that of threads' short lives";
    return "is about that of the whole";
}

/* Warns about a trace of which most has been left out. */
static void collect_thinned(struct compare *compare)
{
    const double factor = compare_report_number(compare->null_report, "thin");
    char thin[METADATA_THIN_TEXT];
    if (!(factor > 0)) return;
    metadata_thin_text(factor, thin);
    compare_warning_add(compare, NULL, NULL, "%s%s: memory %s (cut.md); time is of other calls",
                        thin, factor > 1 ? ", of which there are as many again" : "",
                        thinned_doubt(compare, factor));
}

/* Warns about a program that asks for objects' sizes: the answers, and what it does with them,
 * differ between allocators. Older recordings do not say how often it asked. */
static void collect_sizes_asked(struct compare *compare)
{
    const char *program = json_string_value(json_object_get(compare->null_report, "program"));
    const json_t *asked = json_object_get(compare->null_report, "original_sizes_asked");
    char room[NUMBER_GROUPED];
    if (program != NULL && json_integer_value(asked) > 0)
        compare_warning_add(
            compare, NULL, NULL,
            "%s asked %s times how large its objects are (malloc_usable_size): under another "
            "allocator it may behave differently, which replays do not show",
            basename(program), number_grouped(room, (uint64_t)json_integer_value(asked)));
}

/* Warns if the recording is from another kind of machine: the original's numbers were taken there,
 * those of replays here. */
static void collect_machine(struct compare *compare)
{
    const json_t *report = compare->null_report;
    const char *recorded = json_string_value(json_object_get(report, "recorded_architecture"));
    const json_int_t page = json_integer_value(json_object_get(report, "recorded_page_bytes"));
    const long page_here = sysconf(_SC_PAGESIZE);
    if (recorded != NULL && (strcmp(recorded, ARCH_NAME) != 0 || page != page_here))
        compare_warning_add(
            compare, NULL, NULL,
            "recorded on %s with pages of %lld bytes; this is %s with pages of %ld: the "
            "program's memory and time are those of that machine, the replays' those of this one",
            recorded, (long long)page, ARCH_NAME, page_here);
}

static double at_of(const json_t *list, size_t at)
{
    const json_t *value = json_array_get(list, at);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The share of the peak of the process's memory that came in the last fifth of the time, if the
 * peak is at the end; else 0. */
static double rise_at_end(const json_t *series)
{
    const double nearly = 0.98, last_part = 0.8;
    const json_t *seconds = json_object_get(series, "seconds");
    const json_t *rss = json_object_get(series, "original_net_rss_bytes");
    const size_t count = json_array_size(rss);
    double most = 0, before = NAN;
    for (size_t i = 0; i < count; i++) {
        if (at_of(seconds, i) <= last_part * at_of(seconds, count - 1)) before = at_of(rss, i);
        most = fmax(most, at_of(rss, i));
    }
    const double end = count > 0 ? at_of(rss, count - 1) : 0;
    return end >= nearly * most && most > 0 && before < end ? (end - before) / most : 0;
}

static void collect_rise(struct compare *compare)
{
    const double shows = 0.05, rise = rise_at_end(json_object_get(compare->null_report, "series"));
    if (rise >= shows)
        compare_warning_add(
            compare, NULL, NULL,
            "the program's memory was still rising at the end of the recording: %.0f %% of it "
            "was added in the last fifth of the time. If the program runs longer, a longer "
            "recording may give a different answer",
            100 * rise);
}

static void collect_of_trace(struct compare *compare)
{
    collect_rise(compare);
    long long lost = json_integer_value(json_object_get(compare->null_report, "lost_events"));
    if (!compare_is_whole(compare))
        compare_warning_add(compare, NULL, NULL,
                            "the recording was cut short or is damaged: it is not complete");
    const char *changed = json_string_value(json_object_get(compare->null_report, "what_if"));
    if (changed != NULL)
        compare_warning_add(compare, NULL, NULL,
                            "the trace is not what the program did, but what it would do with "
                            "changed code: %s",
                            changed);
    if (lost > 0)
        compare_warning_add(compare, NULL, NULL, "%lld calls were lost while recording", lost);
    if (compare->recorded_settings.ignored != NULL)
        compare_warning_add(compare, NULL, NULL, RECORDED_SETTINGS_IGNORED,
                            compare->recorded_settings.ignored);
    collect_machine(compare);
    collect_sizes_asked(compare);
    collect_thinned(compare);
    collect_launcher(compare);
}

/* ---- what reports say ---- */

/* Whether compare itself warns about this, so that the report's warning is left out. */
static bool is_said_otherwise(const char *key)
{
    return strcmp(key, "few_events") == 0 || strcmp(key, "rss_below_live") == 0 ||
           strcmp(key, "lost_events") == 0;
}

static const char *spoiled_by(const char *key)
{
    return strcmp(key, "setting_not_shown") == 0 ? PEAK_RSS : NULL;
}

static const json_t *warnings_of(const struct compare_row *row)
{
    if (*row->why != '\0') return NULL;
    return json_object_get(json_array_get(row->reports, 0), "warnings");
}

static bool has_warning(const struct compare_row *row, const json_t *warning)
{
    size_t i;
    json_t *one;
    json_array_foreach(warnings_of(row), i, one) if (json_equal(one, warning)) return true;
    return false;
}

/* Whether every row that calls an allocator has the warning: then it is about the trace. */
static bool is_of_all(const struct compare *compare, const json_t *warning)
{
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0' && !compare_row_is_nothing(row) && !has_warning(row, warning))
            return false;
    }
    return true;
}

static bool was_collected(const struct compare *compare, const char *text)
{
    for (size_t i = 0; i < compare->warnings_count; i++)
        if (compare->warnings[i].row == NULL && strcmp(compare->warnings[i].text, text) == 0)
            return true;
    return false;
}

static void collect_of_reports(struct compare *compare, const struct compare_row *row)
{
    size_t i;
    json_t *warning;
    json_array_foreach(warnings_of(row), i, warning)
    {
        const char *key = json_string_value(json_object_get(warning, "key"));
        const char *text = json_string_value(json_object_get(warning, "text"));
        if (key == NULL || text == NULL || is_said_otherwise(key)) continue;
        bool all = spoiled_by(key) == NULL && is_of_all(compare, warning);
        if (all && was_collected(compare, text)) continue;
        compare_warning_add(compare, all ? NULL : row, all ? NULL : spoiled_by(key), "%s", text);
    }
}

/* ---- what numbers and output say ---- */

/* Warns if resident memory is less than what live objects asked for, by more than the inaccuracy of
 * the kernel's counters: some dozen pages each. */
static void collect_too_small(struct compare *compare, const struct compare_row *row)
{
    const double account_bytes = 256 * 1024, account_share = 0.005;
    const json_t *report = json_array_get(row->reports, 0);
    const char *touch = json_string_value(json_object_get(report, "touch"));
    bool untouched = compare->original.touched > 0 ||
                     (touch != NULL && (strcmp(touch, "none") == 0 || strcmp(touch, "line") == 0));
    const json_t *null_report = compare_row_null_report(compare, row);
    double live = json_number_value(json_object_get(null_report, "peak_live_bytes"));
    double rss = compare_median(PEAK_RSS, row->reports) +
                 json_number_value(json_object_get(report, "untouched_bytes"));
    if (rss < live * (1 - account_share) - account_bytes)
        compare_warning_add(
            compare, row, PEAK_RSS, "less RSS than live bytes: %s",
            untouched ? "pages that nobody wrote to are not resident"
                      : "memory was swapped out, or not all objects were live at one time");
}

/* Warns that a change saves less than its replays if these write to what the program left alone. */
static void collect_untouched(struct compare *compare, const struct compare_row *row)
{
    if (row->changed != NULL && compare->original.untouched && !(compare->original.touched > 0))
        compare_warning_add(
            compare, row, PEAK_RSS,
            "replays write to all of an object, the program did not: the change may "
            "save much less (-- --touch line writes to the beginning only)");
}

static void collect_of_row(struct compare *compare, const struct compare_row *row)
{
    if (*row->why != '\0' || compare_row_is_nothing(row)) return;
    if (row->more_bytes >= 1 * MIB)
        compare_warning_add(
            compare, row, PEAK_RSS,
            "this setting changes how threads wait for each other, and a replay keeps the recorded "
            "overlap: the program may have up to %.1f MiB more",
            row->more_bytes / MIB);
    if (*row->printed != '\0')
        compare_warning_add(compare, row, NULL, "it printed: %s", row->printed);
    collect_too_small(compare, row);
    collect_untouched(compare, row);
    collect_of_reports(compare, row);
}

bool compare_warnings_collect(struct compare *compare)
{
    collect_of_trace(compare);
    for (size_t i = 0; i < compare->rows_count; i++)
        collect_of_row(compare, &compare->rows[i]);
    return !compare->warnings_lack;
}

/* ---- output ---- */

bool compare_is_spoiled(const struct compare *compare, const struct compare_row *row,
                        const char *number)
{
    for (size_t i = 0; i < compare->warnings_count; i++) {
        const struct compare_warning *warning = &compare->warnings[i];
        if (warning->row == row && warning->number != NULL && strcmp(warning->number, number) == 0)
            return true;
    }
    return false;
}

json_t *compare_warnings_json(const struct compare *compare, const struct compare_row *row)
{
    json_t *texts = json_array();
    for (size_t i = 0; i < compare->warnings_count; i++)
        if (compare->warnings[i].row == row)
            json_array_append_new(texts, json_text(compare->warnings[i].text));
    return texts;
}
