/* The tables of compare for a terminal, one for memory and one for time: a row for each entry, best
 * first, with its settings and warnings below it; then the verdict. */
#include "compare/compare_table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/numbers.h"
#include "common/printable.h"
#include "common/terminal.h"
#include "compare/compare_text.h"
#include "compare/compare_warnings.h"
#include "compare/expected.h"
#include "compare/machine.h"
#include "compare/verdict.h"
#include "compare/what_if.h"

/* The width of the column of names. A longer name has a line of its own. */
enum { NAME_WIDTH_MIN = 9, NAME_WIDTH_MAX = 17 };

/* Marks a number that a warning is about. */
#define SPOILED "!"

/* Marks the name of the allocator that the program had. */
#define RECORDED " *"

static int name_width(const struct compare *compare)
{
    size_t width = NAME_WIDTH_MIN;
    for (size_t i = 0; i < compare->rows_count; i++) {
        size_t length = strlen(compare_row_name(&compare->rows[i]));
        if (&compare->rows[i] == compare->recorded) length += strlen(RECORDED);
        if (length > width && length <= NAME_WIDTH_MAX) width = length;
    }
    return (int)width;
}

/* ---- head ---- */

static void print_count(const json_t *object, const char *key, const char *of, FILE *to)
{
    long long count = json_integer_value(json_object_get(object, key));
    const char *plural = of[strlen(of) - 1] == 'h' ? "es" : "s";
    fprintf(to, "%lld %s%s", count, of, count == 1 ? "" : plural);
}

static long long peak_live_bytes(const struct compare *compare)
{
    return json_integer_value(json_object_get(compare->null_report, "peak_live_bytes"));
}

static void put_trace(const struct compare *compare, FILE *to)
{
    const json_t *report = compare->null_report;
    const char *program = json_string_value(json_object_get(report, "program"));
    fprintf(to, "%s%s%s: ", printable_text(compare->options.trace), program != NULL ? ", " : "",
            program != NULL ? printable_text(basename(program)) : "");
    print_count(report, "events", "event", to);
    fputs(", ", to);
    print_count(report, "threads", "thread", to);
    fputs(", ", to);
    print_count(report, "thread_switches", "thread switch", to);
    fprintf(to, "; peak live %.1f MiB", (double)peak_live_bytes(compare) / MIB);
}

const char *compare_original_text(const struct compare *compare, char *text, size_t bytes)
{
    const struct compare_original *original = &compare->original;
    const bool peak = !isnan(original->peak_bytes), cpu = !isnan(original->cpu_seconds);
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    if (peak) fprintf(to, "The program had %.1f MiB at its peak", original->peak_bytes / MIB);
    if (cpu) {
        fprintf(to, "%s used ", peak ? " and" : "The program");
        compare_put_seconds(to, original->cpu_seconds);
        fputs(" of processor time", to);
    }
    if (original->cpu_seconds > 0 && original->allocator_seconds > 0) {
        fprintf(to, ", about %.2g s (", original->allocator_seconds);
        compare_put_share(to, original->allocator_seconds / original->cpu_seconds);
        fputs(") of it in its allocator and in touching new pages", to);
    }
    if (original->touched > 0)
        fprintf(to,
                "; replays on its own allocator have %.1f MiB if they write to all of each object, "
                "%.1f if to its beginning: %.0f %% of what is between them counts, by what was "
                "resident in its heap",
                original->replayed.all / MIB, original->replayed.beginning / MIB,
                100 * original->touched);
    else if ((peak || cpu) && *original->why_not != '\0')
        fprintf(to, "; %s", printable_text(original->why_not));
    else if (!isnan(original->follows))
        fprintf(to, "; a replay on its own allocator follows its memory within %.1f %% of that",
                100 * original->follows);
    if (peak || cpu) fputc('.', to);
    fclose(to);
    return text;
}

/* Prints how the trace was replayed, as far as the numbers depend on it most. */
static void compare_table_put_how(const struct compare *compare, FILE *to)
{
    const json_t *report = compare_any_report(compare);
    const char *touch = json_string_value(json_object_get(report, "touch"));
    const char *engine = json_string_value(json_object_get(report, "engine"));
    const char *clock = json_string_value(json_object_get(report, "clock"));
    bool threads = engine != NULL && strcmp(engine, "threads") == 0;
    if (report == NULL) return;
    fprintf(to, "engine %s (%s), touch %s", engine,
            threads ? "one thread for each of the program's" : "one thread makes all calls", touch);
    if (clock != NULL) fprintf(to, ", clock %s", clock);
}

static void put_machine(const struct compare *compare, FILE *to)
{
    machine_print(compare->machine, true, to);
}

/* Prints what `put` writes, on one line or several. */
static void print_line(const struct compare *compare,
                       void (*put)(const struct compare *compare, FILE *to), FILE *to)
{
    char text[PATH_MAX + 512];
    FILE *line = compare_text_open(text, sizeof text);
    if (line == NULL) return;
    put(compare, line);
    fclose(line);
    if (*text != '\0') terminal_print_wrapped(text, 0, 2, to);
}

/* Whether the number is a time of single calls, which the clock resolves only coarsely. */
static bool is_of_calls(const struct compare_number *number)
{
    return number->from == COMPARE_FROM_ALLOCATION || number->from == COMPARE_FROM_FREE ||
           number->from == COMPARE_FROM_REALLOC;
}

const char *compare_group(const struct compare *compare, const struct compare_number *number)
{
    const char *kind = NULL;
    if (is_of_calls(number) && !compare_is_of_realloc(number))
        kind = compare_kind(compare->null_report, number->from == COMPARE_FROM_ALLOCATION);
    return kind != NULL ? kind : number->group;
}

double compare_clock_step(const struct compare *compare)
{
    return json_number_value(json_object_get(compare_any_report(compare), "latency_resolution_ns"));
}

/* ---- columns ---- */

/* A column of the table of memory, or of that of time. */
struct column {
    enum {
        COLUMN_RANK,
        COLUMN_EXPECTED, /* the program's expected memory, or change of time */
        COLUMN_NUMBER,
        COLUMN_SPREAD /* of a number's replays, in % */
    } what;
    const struct compare_number *number; /* of the last two */
    const char *group, *title;
    char unit[24];
    int width;
};

enum { COLUMNS_MAX = 20 };

struct columns {
    enum compare_measure measure; /* what they are about */
    bool reallocs;                /* and of that, only about these */
    struct column column[COLUMNS_MAX];
    size_t count;
};

/* Whether any row has the number. */
static bool compare_table_is_known(const struct compare *compare,
                                   const struct compare_number *number)
{
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0' && !isnan(compare_spread_of(number, row->reports).median))
            return true;
    }
    return false;
}

/* Whether the expected memory or time of the process is known for any row. */
static bool compare_table_is_expected(const struct compare *compare, enum compare_measure measure)
{
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        double value =
            measure == COMPARE_MEMORY ? row->expected.peak_bytes : row->expected.cpu_change;
        if (*row->why == '\0' && !isnan(value)) return true;
    }
    return false;
}

/* If the program took less than this, its seconds are shown in ms. */
#define MILLISECONDS_BELOW_S 10

static void columns_add(struct columns *columns, const struct column *column)
{
    columns->column[columns->count++] = *column;
}

/* Adds the columns about the process: the memory it would have, or the change of its processor
 * time. */
static void columns_add_expected(struct columns *columns, const struct compare *compare)
{
    const double seconds = compare->original.cpu_seconds;
    struct column column = {COLUMN_EXPECTED, NULL, "process", "peak", "MiB", 8};
    if (!compare_table_is_expected(compare, columns->measure)) return;
    if (columns->measure == COMPARE_TIME) {
        column = (struct column){COLUMN_EXPECTED, NULL, "program", "change", "", 24};
        if (seconds < MILLISECONDS_BELOW_S)
            snprintf(column.unit, sizeof column.unit, "ms of %.0f", seconds * 1000);
        else
            snprintf(column.unit, sizeof column.unit, "s of %.1f", seconds);
    }
    columns_add(columns, &column);
}

/* The width of the group that begins with column `first`; *next: the column after the group. */
static int group_room(const struct columns *columns, size_t first, size_t *next)
{
    int room = -1;
    for (*next = first; *next < columns->count; ++*next) {
        const struct column *column = &columns->column[*next];
        if (strcmp(column->group, columns->column[first].group) != 0) break;
        room += column->width + 1;
    }
    return room;
}

/* Widens columns so that the name of a group fits over them, even if only few are shown. */
static void columns_widen(struct columns *columns)
{
    for (size_t i = 0, next; i < columns->count; i = next) {
        const int missing = (int)strlen(columns->column[i].group) - group_room(columns, i, &next);
        if (missing > 0) columns->column[i].width += missing;
    }
}

/* Makes the columns: the rank, what is expected, and the numbers that at least one row has. */
static void columns_make(struct columns *columns, const struct compare *compare)
{
    if (!columns->reallocs) {
        columns_add(columns, &(struct column){COLUMN_RANK, NULL, "", "", "", 4});
        columns_add_expected(columns, compare);
    }
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        struct column column = {COLUMN_NUMBER, number, compare_group(compare, number),
                                number->title, "",     number->width};
        if (number->width == 0 || number->of != columns->measure ||
            compare_is_of_realloc(number) != columns->reallocs ||
            !compare_table_is_known(compare, number))
            continue;
        snprintf(column.unit, sizeof column.unit, "%s", number->unit);
        columns_add(columns, &column);
        if (strcmp(number->key, "cpu_seconds") == 0)
            columns_add(columns, &(struct column){COLUMN_SPREAD, number, "", "spread", "%", 6});
    }
    columns_widen(columns);
}

/* Drops the last columns until the rest fits into the line. Returns how many were dropped. */
static size_t columns_fit(struct columns *columns, int width, int line)
{
    const size_t count = columns->count;
    for (size_t i = 0; i < count; i++) {
        width += 1 + columns->column[i].width;
        if (width > line && columns->count > i) columns->count = i;
    }
    return count - columns->count;
}

/* Prints each group's name centered over its columns. */
static void print_groups(const struct columns *columns, FILE *to)
{
    int spaces = 0;
    for (size_t i = 0, next; i < columns->count; i = next) {
        const char *group = columns->column[i].group;
        const int room = group_room(columns, i, &next);
        int length = (int)strlen(group) < room ? (int)strlen(group) : room;
        int left = (room - length + 1) / 2;
        if (length > 0) fprintf(to, "%*s%.*s", spaces + 1 + left, "", length, group);
        spaces = length > 0 ? room - length - left : spaces + 1 + room;
    }
    fputc('\n', to);
}

static void print_head(const struct columns *columns, int width, FILE *to)
{
    fprintf(to, "\n%-*s", width,
            columns->reallocs                    ? "REALLOC"
            : columns->measure == COMPARE_MEMORY ? "MEMORY"
                                                 : "TIME");
    print_groups(columns, to);
    fprintf(to, "%-*s", width, "allocator");
    for (size_t i = 0; i < columns->count; i++)
        fprintf(to, " %*s", columns->column[i].width, columns->column[i].title);
    fprintf(to, "\n%-*s", width, "");
    for (size_t i = 0; i < columns->count; i++)
        fprintf(to, " %*s", columns->column[i].width, columns->column[i].unit);
    fputc('\n', to);
}

/* ---- rows ---- */

static void print_name(const struct compare *compare, const struct compare_row *row, int width,
                       FILE *to)
{
    char name[PATH_MAX + sizeof RECORDED];
    snprintf(name, sizeof name, "%s%s", compare_row_name(row),
             row == compare->recorded ? RECORDED : "");
    bool fits = strlen(name) <= (size_t)width;
    fprintf(to, fits ? "%-*s" : "%-*s\n", width, printable_text(name));
    if (!fits) fprintf(to, "%*s", width, "");
}

static void print_settings(const struct compare_row *row, FILE *to)
{
    const struct compare_entry *entry = row->entry;
    for (size_t i = 0; i < entry->settings_count; i++)
        fprintf(to, "  %s=%s\n", printable_text(entry->settings[i].name),
                printable_text(entry->settings[i].value));
}

/* Prints the warnings of a row; NULL: those of the comparison. */
static void compare_table_print_warnings(const struct compare *compare,
                                         const struct compare_row *row, FILE *to)
{
    for (size_t i = 0; i < compare->warnings_count; i++) {
        const struct compare_warning *warning = &compare->warnings[i];
        if (warning->row != row) continue;
        int at = fprintf(to, "%s" SPOILED " ", row != NULL ? "  " : "");
        terminal_print_wrapped(warning->text, at, at, to);
    }
}

/* "+0.2 (+0.1 to +0.5)", the change in the unit of the column; "none (...)" if the range contains
 * 0; "+0.2 ?" if there were too few replays for a range. */
static void change_text(const struct compare *compare, const struct compare_row *row, char *text,
                        size_t bytes)
{
    const struct compare_expected *expected = &row->expected;
    const double scale = compare->original.cpu_seconds < MILLISECONDS_BELOW_S ? 1000 : 1;
    const double least = expected->cpu_change_least * scale,
                 most = expected->cpu_change_most * scale;
    const double likely = expected->cpu_change * scale;
    const int decimals = fmax(fabs(least), fabs(most)) < 100 ? 1 : 0;
    char change[32] = "none";
    if (row == compare->recorded)
        snprintf(text, bytes, "as recorded");
    else if (isnan(likely))
        snprintf(text, bytes, "-");
    else if (isnan(least))
        snprintf(text, bytes, "%+.1f ?", numbers_shown(likely, 1));
    else {
        if (!compare_is_tie(least, most))
            snprintf(change, sizeof change, "%+.*f", decimals, numbers_shown(likely, decimals));
        snprintf(text, bytes, "%s (%+.*f to %+.*f)", change, decimals,
                 numbers_shown(least, decimals), decimals, numbers_shown(most, decimals));
    }
}

/* The number without its unit; "< STEP" for a time of single calls below the clock's step. */
static void number_text(const struct compare *compare, const struct compare_number *number,
                        double value, char *text, size_t bytes)
{
    double shown = value * number->scale;
    double step = compare_clock_step(compare);
    if (isnan(value))
        snprintf(text, bytes, "-");
    else if (is_of_calls(number) && strcmp(number->unit, "ns") == 0 && value < step)
        snprintf(text, bytes, "< %.0f", step);
    else
        snprintf(text, bytes, "%.*f", number->decimals, numbers_shown(shown, number->decimals));
}

/* "-": not known. */
static void compare_table_cell_text(const struct compare *compare, const struct compare_row *row,
                                    enum compare_measure measure, const struct column *column,
                                    char *text, size_t bytes)
{
    const struct compare_number *number = column->number;
    struct compare_spread spread = {NAN, NAN, NAN};
    if (number != NULL) spread = compare_spread_of(number, row->reports);
    switch (column->what) {
    case COLUMN_RANK: compare_rank_text(compare, row, measure, text, bytes); break;
    case COLUMN_SPREAD:
        snprintf(text, bytes, "%.1f", compare_spread_relative(&spread) * 100);
        break;
    case COLUMN_NUMBER:
        number_text(compare, number, spread.median, text, bytes);
        if (compare_is_spoiled(compare, row, number->key))
            strncat(text, SPOILED, bytes - strlen(text) - 1);
        break;
    case COLUMN_EXPECTED:
        if (measure == COMPARE_TIME)
            change_text(compare, row, text, bytes);
        else if (isnan(row->expected.peak_bytes))
            snprintf(text, bytes, "-");
        else
            snprintf(text, bytes, "%.1f", row->expected.peak_bytes / MIB);
    }
}

static void compare_table_print_row(const struct compare *compare, const struct columns *columns,
                                    const struct compare_row *row, int width, FILE *to)
{
    print_name(compare, row, width, to);
    for (size_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->column[i];
        char text[64];
        compare_table_cell_text(compare, row, columns->measure, column, text, sizeof text);
        fprintf(to, " %*s", column->width, text);
    }
    fputc('\n', to);
    print_settings(row, to);
    compare_what_if_print(row, columns->measure == COMPARE_MEMORY, to);
    if (columns->measure == COMPARE_MEMORY) compare_table_print_warnings(compare, row, to);
}

static void print_table(const struct compare *compare, enum compare_measure measure, bool reallocs,
                        FILE *to)
{
    struct columns columns = {.measure = measure, .reallocs = reallocs};
    int width = name_width(compare);
    columns_make(&columns, compare);
    if (columns.count <= !reallocs) return; /* nothing but ranks */
    const size_t left_out = columns_fit(&columns, width, terminal_line_width(to));
    print_head(&columns, width, to);
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = compare_sorted(compare, measure, i);
        if (*row->why == '\0') compare_table_print_row(compare, &columns, row, width, to);
    }
    if (left_out > 0)
        fprintf(to, "(%zu more column%s on a wider terminal, or in a file)\n", left_out,
                left_out == 1 ? "" : "s");
}

/* Whether the program makes a realloc in a thousand calls. */
static bool has_reallocs(const struct compare *compare)
{
    const json_t *report = compare_any_report(compare);
    const double reallocs = compare_report_number(report, "reallocs");
    return reallocs > 0 && reallocs * 1000 >= compare_report_number(report, "events");
}

/* Prints the rows without numbers. */
static void print_failures(const struct compare *compare, FILE *to)
{
    int width = name_width(compare);
    bool first = true;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0') continue;
        if (first) fputs("\nFAILED\n", to);
        first = false;
        print_name(compare, row, width, to);
        fputc(' ', to);
        terminal_print_wrapped(row->why, width + 1, width + 1, to);
        print_settings(row, to);
        compare_what_if_print(row, false, to);
    }
}

/* ---- below ---- */

/* The greatest value of any row. */
static double greatest(const struct compare *compare, const char *key)
{
    double most = 0;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0') most = fmax(most, compare_median(key, row->reports));
    }
    return most;
}

/* The figures are those of docs/prediction.md. */
#define PREDICTION                                                                                 \
    "Where real programs differ between two allocators, replays told which one has less peak RSS " \
    "in 99 % of the pairs, and of 8 pairs that compare ranked by time it ranked 8 correctly; the " \
    "expected RSS of a process was off by 1.3 % on average: prediction.md."

static void print_note(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_note(FILE *to, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    terminal_print_wrapped(text, 0, 2, to);
}

static void print_notes(const struct compare *compare, FILE *to)
{
    double step = compare_clock_step(compare);
    fputc('\n', to);
    if (compare->options.rounds > 1)
        print_note(to, "Medians of %u replays each, interleaved.%s", compare->options.rounds,
                   compare->few_calls ? ""
                                      : " =: equal: closer than 1 MiB or 1 % (CPU: 5 %, or what "
                                        "would show in the program), or within the spread of the "
                                        "replays.");
    else
        print_note(to, "One replay each: how much replays vary is not known.");
    if (compare->options.rounds < RANK_VALUES_MIN)
        print_note(to, "?: with fewer than %d replays each, ranks are by the median alone.",
                   RANK_VALUES_MIN);
    if (compare->recorded != NULL && compare->rows_hidden == 0)
        print_note(to, "*: the allocator that the program was recorded on.");
    if (compare_table_is_expected(compare, COMPARE_MEMORY))
        print_note(to, "Process: the RSS expected of the program under this allocator.");
    if (compare_table_is_expected(compare, COMPARE_TIME))
        print_note(to,
                   "Program: the expected change of its processor time, and its range; none: the "
                   "range includes 0.%s",
                   compare->options.rounds < RANK_VALUES_MIN ? " ?: too few replays for a range."
                                                             : "");
    print_note(to,
               "RSS: resident memory less the replay's own, which is at most %.1f MiB; mean: "
               "over the program's time; kept: RSS at the end less the bytes of live objects; "
               "not live: share of RSS that is in no live object.",
               greatest(compare, "own_rss_bytes") / MIB);
    print_note(to, "CPU: user and system time of a replay; spread: from the least to the most. Per "
                   "event: wall time of the calls and of touching objects, less the cost of "
                   "replaying itself.");
    if (has_reallocs(compare))
        print_note(to, "Moved: the share of reallocs that returned another address, and copied.");
    if (step > 0) print_note(to, "Single calls: the clock's resolution is %.1f ns.", step);
    if (compare->changed != NULL)
        print_note(to,
                   "If: the program with changed code. Its calls are those of the recording but "
                   "for what is said; peak: of live bytes, as recorded.");
    print_note(to, "%s", PREDICTION);
}

void compare_table_print(const struct compare *compare, FILE *to)
{
    char verdict[4096], original[1024], headline[1024];
    const char *paste_of;
    compare_headline(compare, headline, sizeof headline);
    if (*headline != '\0') terminal_print_wrapped(headline, 0, 2, to);
    if (*headline != '\0') fputc('\n', to);
    print_line(compare, put_trace, to);
    compare_original_text(compare, original, sizeof original);
    if (*original != '\0') terminal_print_wrapped(original, 0, 2, to);
    print_line(compare, compare_table_put_how, to);
    print_line(compare, put_machine, to);
    print_table(compare, COMPARE_MEMORY, false, to);
    print_table(compare, COMPARE_TIME, false, to);
    if (has_reallocs(compare)) print_table(compare, COMPARE_TIME, true, to);
    print_failures(compare, to);
    compare_verdict_text(compare, verdict, sizeof verdict);
    if (*verdict != '\0' || compare->warnings_count > 0) fputc('\n', to);
    if (*verdict != '\0') terminal_print_wrapped(verdict, 0, 2, to);
    compare_paste_text(compare, &paste_of, verdict, sizeof verdict);
    if (*verdict != '\0')
        fprintf(to, "To start a program with the best for %s:\n  %s\n", paste_of,
                printable_text(verdict));
    compare_table_print_warnings(compare, NULL, to);
    print_notes(compare, to);
}
