/* The page of compare (common/page.h): facts and all numbers as plain HTML. */
#include "compare/compare.h"

#include <math.h>
#include <string.h>

#include "common/page.h"

#ifndef COMPARE_DIRECTORY
#error "the build gives COMPARE_DIRECTORY, where page.html and page.js are"
#endif

PAGE_EMBED(compare_page_html, COMPARE_DIRECTORY "/page.html");
PAGE_EMBED(compare_page_js, COMPARE_DIRECTORY "/page.js");

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

static void put_facts(FILE *to, const void *of)
{
    const struct compare *compare = of;
    json_t *all = compare_json(compare, false);
    const json_t *machine = json_object_get(all, "machine");
    char text[512];
    page_put_fact(to, "Program", text_at(compare->facts, "program"));
    page_put_fact(to, "Trace", compare->options.trace);
    page_put_fact_count(to, "Events", fact(compare, "events"));
    page_put_fact_count(to, "Threads", fact(compare, "threads"));
    page_put_fact_count(to, "Switches between threads", fact(compare, "thread_switches"));
    page_put_fact_count(to, "Objects alive at the end", fact(compare, "live_at_end"));
    page_put_fact(to, "Engine", text_at(all, "engine"));
    page_put_fact(to, "Touched of objects", text_at(all, "touch"));
    snprintf(text, sizeof text, "%u of each allocator, in turns", compare->options.rounds);
    page_put_fact(to, "Replays", text);
    snprintf(text, sizeof text, "%s, %lld processors, %s", text_at(machine, "processor"),
             (long long)json_integer_value(json_object_get(machine, "processors")),
             text_at(machine, "system"));
    page_put_fact(to, "Machine", text);
    page_put_fact(to, "Measured", text_at(all, "ended"));
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
    page_put_text(to, text);
}

static void put_settings(FILE *to, const struct compare_row *row)
{
    for (size_t i = 0; i < row->entry->settings_count; i++) {
        fputs("<br><code>", to);
        page_put_text(to, row->entry->settings[i].name);
        fputs("=<wbr>", to);
        page_put_text(to, row->entry->settings[i].value);
        fputs("</code>", to);
    }
}

static void put_head(const struct compare *compare, FILE *to)
{
    fputs("<thead>\n<tr><td></td>", to);
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why != '\0') continue;
        fputs("<th scope=\"col\">", to);
        page_put_text(to, compare_row_name(row));
        put_settings(to, row);
        fputs("<br><small>", to);
        put_version(to, text_at(json_array_get(row->reports, 0), "allocator"));
        fputs("</small></th>", to);
    }
    fputs("</tr>\n</thead>\n", to);
}

static void put_value(const struct compare *compare, FILE *to, const struct compare_number *number,
                      double value)
{
    char text[64];
    page_put_text(to, compare_text(compare, number, value, text, sizeof text));
}

static void put_cell(const struct compare *compare, FILE *to, const struct compare_number *number,
                     const json_t *reports)
{
    struct compare_spread spread = compare_spread_of(number, reports);
    if (isnan(spread.median)) {
        fputs("<td>&ndash;</td>", to);
        return;
    }
    fputs("<td>", to);
    put_value(compare, to, number, spread.median);
    fputs("<br><small>", to);
    put_value(compare, to, number, spread.least);
    fputs(" to ", to);
    put_value(compare, to, number, spread.most);
    fputs("</small></td>", to);
}

static void put_line(const struct compare *compare, FILE *to, const struct compare_number *number)
{
    fputs("<tr><th scope=\"row\">", to);
    page_put_text(to, compare_group(compare, number));
    fprintf(to, "%s%s", *number->group != '\0' ? " " : "", number->title);
    if (*number->unit != '\0') fprintf(to, " <small>%s</small>", number->unit);
    fputs("</th>", to);
    for (size_t i = 0; i < compare->rows_count; i++)
        if (*compare->rows[i].why == '\0') put_cell(compare, to, number, compare->rows[i].reports);
    fputs("</tr>\n", to);
}

static void put_table(FILE *to, const void *of)
{
    const struct compare *compare = of;
    put_head(compare, to);
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        bool first = number == compare_numbers || strcmp(number[-1].group, number->group) != 0;
        bool last = number[1].key == NULL || strcmp(number[1].group, number->group) != 0;
        if (first) fputs("<tbody>\n", to);
        put_line(compare, to, number);
        if (last) fputs("</tbody>\n", to);
    }
}

static void put_failures(FILE *to, const void *of)
{
    const struct compare *compare = of;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (*row->why == '\0') continue;
        fputs("<p class=\"failed\">", to);
        page_put_text(to, row->label);
        fputs(": ", to);
        page_put_text(to, row->why);
        fputs("</p>\n", to);
    }
}

/* ---- the whole ---- */

static const struct page_part parts[] = {
    {"@FACTS@", put_facts},
    {"@FAILURES@", put_failures},
    {"@TABLE@", put_table},
    {NULL, NULL},
};

bool compare_html_write(const struct compare *compare, const char *path, char *why,
                        size_t why_bytes)
{
    const char *program = text_at(compare->facts, "program");
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    char title[512];
    snprintf(title, sizeof title, "%.400s under several allocators",
             *name != '\0' ? name : compare->options.trace);
    json_t *data = compare_json(compare, false);
    const struct page page = {.title = title,
                              .main = compare_page_html,
                              .parts = parts,
                              .of = compare,
                              .data = data,
                              .script = compare_page_js};
    bool done = page_write(&page, path, why, why_bytes);
    json_decref(data);
    return done;
}
