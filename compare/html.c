/* The page of compare (common/html_page.h): facts and all numbers as plain HTML. */
#include "compare/compare.h"

#include <string.h>

#include "common/html_page.h"

#ifndef COMPARE_DIRECTORY
#error "the build gives COMPARE_DIRECTORY, where page.html and page.js are"
#endif

HTML_EMBED(compare_page_html, COMPARE_DIRECTORY "/page.html");
HTML_EMBED(compare_page_js, COMPARE_DIRECTORY "/page.js");

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* ---- the parts ---- */

static long long fact(const struct compare *compare, const char *key)
{
    return json_integer_value(json_object_get(compare->facts, key));
}

static void put_options(FILE *to, const struct compare *compare)
{
    char text[1024] = "";
    size_t used = 0;
    for (char **word = compare->options.replay_words; *word != NULL && used < sizeof text; word++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", *word);
    html_put_fact(to, "Options of replay", text);
}

static void put_sentence(FILE *to, const char *class, const char *text)
{
    if (*text == '\0') return;
    fprintf(to, "<p class=\"%s\">", class);
    html_put_text(to, text);
    fputs("</p>\n", to);
}

/* The verdict, what the program had, and what is wrong with all that. */
static void put_answer(FILE *to, const void *of)
{
    const struct compare *compare = of;
    char text[4096];
    put_sentence(to, "answer", compare_verdict_text(compare, text, sizeof text));
    put_sentence(to, "", compare_original_text(compare, text, sizeof text));
    for (size_t i = 0; i < compare->warnings_count; i++) {
        const struct compare_warning *warning = &compare->warnings[i];
        const char *label = warning->row != NULL ? warning->row->label : "";
        snprintf(text, sizeof text, "%.400s%s%s", label, *label != '\0' ? ": " : "", warning->text);
        put_sentence(to, "warning", text);
    }
}

static void put_facts(FILE *to, const void *of)
{
    const struct compare *compare = of;
    json_t *all = compare_json(compare, false);
    const json_t *machine = json_object_get(all, "machine");
    char text[512];
    html_put_fact(to, "Program", text_at(compare->facts, "program"));
    html_put_fact(to, "Trace", compare->options.trace);
    html_put_fact_count(to, "Events", fact(compare, "events"));
    html_put_fact_count(to, "Threads", fact(compare, "threads"));
    html_put_fact_count(to, "Switches between threads", fact(compare, "thread_switches"));
    html_put_fact_count(to, "Objects alive at the end", fact(compare, "live_at_end"));
    html_put_fact(to, "Engine", text_at(all, "engine"));
    html_put_fact(to, "Touched of objects", text_at(all, "touch"));
    html_put_fact(to, "Clock that allocators see", text_at(all, "clock"));
    snprintf(text, sizeof text, "%u of each allocator, in turns", compare->options.rounds);
    html_put_fact(to, "Replays", text);
    put_options(to, compare);
    snprintf(text, sizeof text, "%s, %lld processors, %s", text_at(machine, "processor"),
             (long long)json_integer_value(json_object_get(machine, "processors")),
             text_at(machine, "system"));
    html_put_fact(to, "Machine", text);
    html_put_fact(to, "Measured", text_at(all, "ended"));
    json_decref(all);
}

/* ---- the table: a column for each allocator ---- */

/* "jemalloc (5.3.0-0-g54eaed1d)" without what only a version control needs. */
static void put_version(FILE *to, const char *allocator)
{
    const char *version = strrchr(allocator, '('), *dash = NULL;
    char text[160];
    if (version != NULL) dash = strchr(version, '-');
    snprintf(text, sizeof text, "%.*s%s",
             dash != NULL ? (int)(dash - allocator) : (int)strlen(allocator), allocator,
             dash != NULL ? ")" : "");
    html_put_text(to, text);
}

static void put_settings(FILE *to, const struct compare_row *row)
{
    for (size_t i = 0; i < row->entry->settings_count; i++) {
        fputs("<br><code>", to);
        html_put_text(to, row->entry->settings[i].name);
        fputs("=<wbr>", to);
        html_put_text(to, row->entry->settings[i].value);
        fputs("</code>", to);
    }
}

static void put_head(const struct compare *compare, FILE *to)
{
    fputs("<thead>\n<tr><td></td>", to);
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = compare_sorted(compare, COMPARE_MEMORY, i);
        if (*row->why != '\0') continue;
        fputs("<th scope=\"col\">", to);
        html_put_text(to, compare_row_name(row));
        put_settings(to, row);
        fputs("<br><small>", to);
        put_version(to, text_at(json_array_get(row->reports, 0), "allocator"));
        fputs("</small></th>", to);
    }
    fputs("</tr>\n</thead>\n", to);
}

/* The least and the greatest. */
static void put_spread(const struct compare *compare, FILE *to, const struct compare_cell *cell,
                       const struct compare_row *row)
{
    char least[64], most[64];
    struct compare_spread spread = compare_spread_of(cell->number, row->reports);
    if (!(spread.least < spread.most)) return;
    compare_text(compare, cell->number, spread.least, least, sizeof least);
    compare_text(compare, cell->number, spread.most, most, sizeof most);
    fputs("<br><small>", to);
    html_put_text(to, least);
    fputs(" to ", to);
    html_put_text(to, most);
    fputs("</small>", to);
}

static void put_cell(const struct compare *compare, FILE *to, const struct compare_cell *cell,
                     const struct compare_row *row)
{
    char text[64];
    bool spoiled = compare_cell_text(compare, row, cell, text, sizeof text);
    fputs(spoiled ? "<td class=\"warning\">" : "<td>", to);
    html_put_text(to, strcmp(text, "-") == 0 ? "\u2013" : text);
    if (cell->what == COMPARE_CELL_NUMBER) put_spread(compare, to, cell, row);
    fputs("</td>", to);
}

static void put_line(const struct compare *compare, FILE *to, const char *group, const char *title,
                     const char *unit, struct compare_cell cell)
{
    fputs("<tr><th scope=\"row\">", to);
    html_put_text(to, group);
    fprintf(to, "%s%s", *group != '\0' ? " " : "", title);
    if (*unit != '\0') fprintf(to, " <small>%s</small>", unit);
    fputs("</th>", to);
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = compare_sorted(compare, COMPARE_MEMORY, i);
        if (*row->why == '\0') put_cell(compare, to, &cell, row);
    }
    fputs("</tr>\n", to);
}

/* Ranks, and what is expected of the program as a process. */
static void put_answers(const struct compare *compare, FILE *to)
{
    char unit[24];
    const struct compare_cell memory = {COMPARE_CELL_RANK, COMPARE_MEMORY, NULL};
    const struct compare_cell time = {COMPARE_CELL_RANK, COMPARE_TIME, NULL};
    put_line(compare, to, "", "rank by memory", "", memory);
    put_line(compare, to, "", "rank by time", "", time);
    if (compare_is_expected(compare, COMPARE_MEMORY))
        put_line(compare, to, "", "expected peak RSS of the process", "MiB",
                 (struct compare_cell){COMPARE_CELL_EXPECTED, COMPARE_MEMORY, NULL});
    if (compare_is_expected(compare, COMPARE_TIME))
        put_line(compare, to, "", "expected change of the program",
                 compare_change_unit(compare, unit, sizeof unit),
                 (struct compare_cell){COMPARE_CELL_EXPECTED, COMPARE_TIME, NULL});
}

static void put_table(FILE *to, const void *of)
{
    const struct compare *compare = of;
    put_head(compare, to);
    fputs("<tbody>\n", to);
    put_answers(compare, to);
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        if (number == compare_numbers || strcmp(number[-1].group, number->group) != 0)
            fputs("</tbody>\n<tbody>\n", to);
        put_line(compare, to, compare_group(compare, number), number->title, number->unit,
                 (struct compare_cell){COMPARE_CELL_NUMBER, COMPARE_MEASURES, number});
    }
    fputs("</tbody>\n", to);
}

static void put_failures(FILE *to, const void *of)
{
    const struct compare *compare = of;
    char text[PATH_MAX + 600];
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0') continue;
        snprintf(text, sizeof text, "%s: %s", row->label, row->why);
        put_sentence(to, "failed", text);
    }
}

/* ---- the whole ---- */

static const struct html_part parts[] = {
    {"@ANSWER@", put_answer}, {"@FACTS@", put_facts}, {"@FAILURES@", put_failures},
    {"@TABLE@", put_table},   {NULL, NULL},
};

bool compare_html_write(const struct compare *compare, const char *path, char *why,
                        size_t why_bytes)
{
    const char *program = text_at(compare->facts, "program");
    char title[512];
    snprintf(title, sizeof title, "%.400s under several allocators",
             *program != '\0' ? basename(program) : compare->options.trace);
    return html_page_write(&(struct html_page){title, compare_page_html, parts, compare,
                                               compare_json(compare, false), compare_page_js},
                           path, why, why_bytes);
}
