/* The table of compare for a terminal: a row for each entry, its settings below it, failures below
 * all. */
#include "compare/compare.h"

#include <math.h>
#include <string.h>

/* So that a line has 120 columns at most: a longer name has a line of its own. */
enum { NAME_WIDTH_MIN = 9, NAME_WIDTH_MAX = 17, SPREAD_WIDTH = 7, LINE_WIDTH = 120 };

static int name_width(const struct compare *compare)
{
    size_t width = NAME_WIDTH_MIN;
    for (size_t i = 0; i < compare->rows_count; i++) {
        size_t length = strlen(compare_row_name(&compare->rows[i]));
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
    return json_integer_value(json_object_get(compare->facts, "peak_live_bytes"));
}

static void print_facts(const struct compare *compare, FILE *to)
{
    const json_t *facts = compare->facts;
    const char *program = json_string_value(json_object_get(facts, "program"));
    if (program != NULL && strrchr(program, '/') != NULL) program = strrchr(program, '/') + 1;
    fprintf(to, "%s%s%s: ", compare->options.trace, program != NULL ? ", " : "",
            program != NULL ? program : "");
    print_count(facts, "events", "event", to);
    fputs(", ", to);
    print_count(facts, "threads", "thread", to);
    fputs(", ", to);
    print_count(facts, "thread_switches", "thread switch", to);
    fprintf(to, "; peak live %.1f MiB\n", (double)peak_live_bytes(compare) / (1024 * 1024));
}

/* How it was replayed: what the numbers depend on most. */
static void print_how(const struct compare *compare, FILE *to)
{
    const json_t *report = compare_any_report(compare);
    const char *touch = json_string_value(json_object_get(report, "touch"));
    const char *engine = json_string_value(json_object_get(report, "engine"));
    bool threads = engine != NULL && strcmp(engine, "threads") == 0;
    if (report != NULL)
        fprintf(to, "engine %s (%s), touch %s\n", engine,
                threads ? "a thread for each of the program's"
                        : "one thread makes the calls of all",
                touch);
    fputc('\n', to);
}

const char *compare_group(const struct compare *compare, const struct compare_number *number)
{
    bool allocation = strcmp(number->group, COMPARE_GROUP_ALLOCATION) == 0;
    if (!allocation && strcmp(number->group, COMPARE_GROUP_FREE) != 0) return number->group;
    const char *kind = compare_kind(compare->facts, allocation);
    return kind != NULL ? kind : number->group;
}

/* Whether it is a time of single calls, which the clock's steps blur. */
static bool is_latency(const struct compare_number *number)
{
    return strcmp(number->group, COMPARE_GROUP_ALLOCATION) == 0 ||
           strcmp(number->group, COMPARE_GROUP_FREE) == 0;
}

const char *compare_text(const struct compare *compare, const struct compare_number *number,
                         double value, char *text, size_t bytes)
{
    double shown = value * number->scale;
    double step = compare_clock_step(compare);
    if (isnan(value))
        snprintf(text, bytes, "-");
    else if (is_latency(number) && value < step)
        snprintf(text, bytes, "< %.0f", step);
    else /* without the sign of what rounds to 0 */
        snprintf(text, bytes, "%.*f", number->decimals, shown < 0 && shown > -0.005 ? 0 : shown);
    return text;
}

double compare_clock_step(const struct compare *compare)
{
    return json_number_value(json_object_get(compare_any_report(compare), "latency_resolution_ns"));
}

static bool is_shown(const struct compare_number *number)
{
    return number->width > 0;
}

static bool is_speed(const struct compare_number *number)
{
    return strcmp(number->key, "events_per_second") == 0;
}

/* How wide the columns of the group that begins with `number` are, spaces between them included;
 * and the next group. */
static int group_width(const struct compare_number *number, const struct compare_number **next)
{
    const char *group = number->group;
    int width = -1;
    for (; number->key != NULL && strcmp(number->group, group) == 0; number++) {
        if (is_shown(number)) width += number->width + 1;
        if (is_speed(number)) width += SPREAD_WIDTH + 1;
    }
    *next = number;
    return width;
}

/* In the middle over the columns of each group. */
static void print_groups(const struct compare *compare, int width, FILE *to)
{
    const struct compare_number *number = compare_numbers, *next;
    int spaces = width;
    for (; number->key != NULL; number = next) {
        const char *text = compare_group(compare, number);
        int room = group_width(number, &next);
        int length = (int)strlen(text) < room ? (int)strlen(text) : room;
        int left = (room - length + 1) / 2;
        if (room <= 0) continue;
        if (length > 0) fprintf(to, "%*s%.*s", spaces + 1 + left, "", length, text);
        spaces = length > 0 ? room - length - left : spaces + 1 + room;
    }
    fputc('\n', to);
}

static void print_head(const struct compare *compare, int width, FILE *to)
{
    print_groups(compare, width, to);
    fprintf(to, "%-*s", width, "allocator");
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (is_shown(number)) fprintf(to, " %*s", number->width, number->title);
        if (is_speed(number)) fprintf(to, " %*s", SPREAD_WIDTH, "spread");
    }
    fprintf(to, "\n%-*s", width, "");
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (is_shown(number)) fprintf(to, " %*s", number->width, number->unit);
        if (is_speed(number)) fprintf(to, " %*s", SPREAD_WIDTH, "%");
    }
    fputc('\n', to);
}

/* ---- rows ---- */

static void print_cell(const struct compare *compare, const struct compare_number *number,
                       double value, FILE *to)
{
    char text[64];
    fprintf(to, " %*s", number->width, compare_text(compare, number, value, text, sizeof text));
}

/* Of a row without numbers: words until the line is full, further lines below it. */
static void print_why(const char *why, int width, FILE *to)
{
    int column = width;
    while (*why != '\0') {
        int length = (int)strcspn(why, " ");
        if (column > width && column + 1 + length > LINE_WIDTH) {
            fprintf(to, "\n%*s", width, "");
            column = width;
        }
        fprintf(to, " %.*s", length, why);
        column += 1 + length;
        why += length + (why[length] == ' ');
    }
    fputc('\n', to);
}

static void print_name(const struct compare_row *row, int width, FILE *to)
{
    const char *name = compare_row_name(row);
    bool fits = strlen(name) <= (size_t)width;
    fprintf(to, fits ? "%-*s" : "%-*s\n", width, name);
    if (!fits) fprintf(to, "%*s", width, "");
}

static void print_settings(const struct compare_row *row, FILE *to)
{
    const struct compare_entry *entry = row->entry;
    for (size_t i = 0; i < entry->settings_count; i++)
        fprintf(to, "  %s=%s\n", entry->settings[i].name, entry->settings[i].value);
}

static void print_row(const struct compare *compare, const struct compare_row *row, int width,
                      FILE *to)
{
    print_name(row, width, to);
    if (*row->why != '\0') {
        print_why(row->why, width, to);
        print_settings(row, to);
        return;
    }
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (!is_shown(number)) continue;
        struct compare_spread spread = compare_spread_of(number, row->reports);
        print_cell(compare, number, spread.median, to);
        if (is_speed(number))
            fprintf(to, " %*.1f", SPREAD_WIDTH, compare_spread_relative(&spread) * 100);
    }
    fputc('\n', to);
    print_settings(row, to);
}

/* The median of a number of a row; NAN: not known. */
static double row_median(const struct compare_row *row, const char *key)
{
    const struct compare_number *number = compare_numbers;
    while (number->key != NULL && strcmp(number->key, key) != 0)
        number++;
    if (*row->why != '\0' || number->key == NULL) return NAN;
    return compare_spread_of(number, row->reports).median;
}

/* Of rows whose resident memory is less than what live objects asked for, as it is shown: the
 * kernel's account is off by some dozen pages. */
static void print_too_small(const struct compare *compare, FILE *to)
{
    const char *touch = json_string_value(json_object_get(compare_any_report(compare), "touch"));
    bool untouched = touch != NULL && (strcmp(touch, "none") == 0 || strcmp(touch, "line") == 0);
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        bool nothing = row->found.known != NULL && row->found.known->where == COMPARE_NOTHING;
        if (nothing || !(row_median(row, "rss_per_live") < 0.995)) continue;
        fprintf(to, "\n%s: less RSS than live bytes: %s", row->label,
                untouched ? "pages that nobody wrote to are not resident."
                          : "memory was swapped out, or not all was alive at one time.");
    }
}

static void print_notes(const struct compare *compare, FILE *to)
{
    double own = 0;
    for (size_t i = 0; i < compare->rows_count; i++) {
        double of_row = row_median(&compare->rows[i], "own_rss_bytes");
        if (of_row > own) own = of_row;
    }
    double step = compare_clock_step(compare);
    if (compare->options.rounds > 1)
        fprintf(
            to,
            "\nMedians of %u replays each, in turns. Spread: of the events per second, from the\n"
            "slowest to the fastest replay. ",
            compare->options.rounds);
    else
        fputs("\nOne replay each. ", to);
    fputs("Per event: the calls and the touching, less what replaying itself costs.", to);
    fprintf(to, "\nRSS: without the memory of the replay itself, at most %.1f MiB.",
            own / (1024 * 1024));
    fputs("\nHow far differences between rows are those of the program: docs/prediction.md.", to);
    print_too_small(compare, to);
    if (step > 0) fprintf(to, "\nThe clock for single calls has steps of %.1f ns.", step);
    fputc('\n', to);
}

void compare_table_print(const struct compare *compare, FILE *to)
{
    int width = name_width(compare);
    print_facts(compare, to);
    print_how(compare, to);
    print_head(compare, width, to);
    for (size_t i = 0; i < compare->rows_count; i++)
        print_row(compare, &compare->rows[i], width, to);
    print_notes(compare, to);
}
