/* The table of compare for a terminal: a row for each entry, its settings below it, failures below all. */
#include "compare/compare.h"

#include <math.h>
#include <string.h>

enum { NAME_WIDTH_MIN = 9, SPREAD_WIDTH = 8 };

static int name_width(const struct compare *compare)
{
    size_t width = NAME_WIDTH_MIN;
    for (size_t i = 0; i < compare->rows_count; i++) {
        size_t length = strlen(compare_row_name(&compare->rows[i]));
        if (length > width) width = length;
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

static void print_facts(const struct compare *compare, FILE *to)
{
    const json_t *facts = compare->facts;
    const char *program = json_string_value(json_object_get(facts, "program"));
    fprintf(to, "%s%s%s: ", compare->options.trace, program != NULL ? ", " : "",
            program != NULL ? program : "");
    print_count(facts, "events", "event", to);
    fputs(", ", to);
    print_count(facts, "threads", "thread", to);
    fputs(", ", to);
    print_count(facts, "thread_switches", "thread switch", to);
    fprintf(to, "; peak live %.1f MiB\n\n",
            (double)json_integer_value(json_object_get(facts, "peak_live_bytes")) / (1024 * 1024));
}

const char *compare_group(const struct compare *compare, const struct compare_number *number)
{
    bool allocation = strcmp(number->group, COMPARE_GROUP_ALLOCATION) == 0;
    if (!allocation && strcmp(number->group, COMPARE_GROUP_FREE) != 0) return number->group;
    const char *kind = compare_kind(compare->facts, allocation);
    return kind != NULL ? kind : number->group;
}

static bool is_shown(const struct compare_number *number)
{
    return number->width > 0;
}

static bool is_speed(const struct compare_number *number)
{
    return strcmp(number->key, "events_per_second") == 0;
}

/* How wide the columns of the group that begins with `number` are, spaces between them included; and the next group. */
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

/* Without the sign of what rounds to 0. */
static void print_number(double value, int width, int decimals, FILE *to)
{
    if (isnan(value))
        fprintf(to, " %*s", width, "-");
    else
        fprintf(to, " %*.*f", width, decimals, value < 0 && value > -0.005 ? 0 : value);
}

static void print_settings(const struct compare_row *row, FILE *to)
{
    const struct compare_entry *entry = row->entry;
    for (size_t i = 0; i < entry->settings_count; i++)
        fprintf(to, "  %s=%s\n", entry->settings[i].name, entry->settings[i].value);
}

static void print_row(const struct compare_row *row, int width, FILE *to)
{
    fprintf(to, "%-*s", width, compare_row_name(row));
    if (*row->why != '\0') {
        fprintf(to, " %s\n", row->why);
        print_settings(row, to);
        return;
    }
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (!is_shown(number)) continue;
        struct compare_spread spread = compare_spread_of(number, row->reports);
        print_number(spread.median * number->scale, number->width, number->decimals, to);
        if (is_speed(number))
            print_number(compare_spread_relative(&spread) * 100, SPREAD_WIDTH, 1, to);
    }
    fputc('\n', to);
    print_settings(row, to);
}

static void print_notes(const struct compare *compare, FILE *to)
{
    double step =
        json_number_value(json_object_get(compare_any_report(compare), "latency_resolution_ns"));
    if (compare->options.rounds > 1)
        fprintf(
            to,
            "\nMedians of %u replays each, in turns. Spread: of the events per second, from the\n"
            "slowest to the fastest replay. ",
            compare->options.rounds);
    else
        fputs("\nOne replay each. ", to);
    fputs("Per event: the calls alone, less what replaying itself costs.", to);
    if (step > 0) fprintf(to, "\nThe clock for single calls has steps of %.1f ns.", step);
    fputc('\n', to);
}

void compare_table_print(const struct compare *compare, FILE *to)
{
    int width = name_width(compare);
    print_facts(compare, to);
    print_head(compare, width, to);
    for (size_t i = 0; i < compare->rows_count; i++)
        print_row(&compare->rows[i], width, to);
    print_notes(compare, to);
}
