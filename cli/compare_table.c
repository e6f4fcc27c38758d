/* The table of compare for a terminal: a row for each entry, its settings below it, failures below all. */
#include "cli/compare.h"

#include <math.h>
#include <string.h>

enum { NAME_WIDTH_MIN = 9, SPREAD_WIDTH = 8 };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_int_t number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

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

static void print_facts(const struct compare *compare, FILE *to)
{
    const json_t *facts = compare->facts;
    const char *program = text_at(facts, "program");
    fprintf(to, "%s%s%s: %lld events, %lld threads, %lld switches between them",
            compare->options.trace, *program != '\0' ? ", " : "", program,
            (long long)number_at(facts, "events"), (long long)number_at(facts, "threads"),
            (long long)number_at(facts, "thread_switches"));
    fprintf(to, "; peak live %.1f MiB\n\n",
            (double)number_at(facts, "peak_live_bytes") / (1024.0 * 1024.0));
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

/* Three lines: group, title, unit. A group stands over its first column. */
static void print_head(const struct compare *compare, int width, FILE *to)
{
    const char *previous = "";
    fprintf(to, "%-*s", width, "");
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (!is_shown(number)) continue;
        const char *group = compare_group(compare, number);
        fprintf(to, " %*s", number->width, strcmp(group, previous) != 0 ? group : "");
        if (is_speed(number)) fprintf(to, " %*s", SPREAD_WIDTH, "");
        previous = group;
    }
    fprintf(to, "\n%-*s", width, "allocator");
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
