/* The page of compare: a template (page.html) with the numbers, and Chart.js as this system has it,
 * put in.
 *
 *   template  ...@TITLE@...@FACTS@...@FAILURES@...@TABLE@...@DATA@...@CHARTJS@...
 *
 * What a reader needs is there without scripts: facts and all numbers are plain HTML; scripts add
 * the charts. */
#include "compare/compare.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef COMPARE_PAGE
#error "the build gives COMPARE_PAGE, the path of page.html"
#endif

/* The template, as it lies in the source. */
__asm__(".section .rodata\n"
        "compare_page:\n"
        ".incbin \"" COMPARE_PAGE "\"\n"
        "compare_page_end: .byte 0\n"
        ".previous\n");
extern const char compare_page[] __asm__("compare_page");
extern const char compare_page_end[] __asm__("compare_page_end");

/* Where distributions put Chart.js, versions 3 and 4. */
#define CHARTJS_PACKAGE "libjs-chart.js"
static const char *const chartjs_files[] = {
    "/usr/share/javascript/chart.js/chart.umd.js",
    "/usr/share/javascript/chart.js/chart.min.js",
    "/usr/share/nodejs/chart.js/dist/chart.umd.js",
    "/usr/share/nodejs/chart.js/dist/chart.min.js",
};

struct page {
    const struct compare *compare;
    FILE *to;
    FILE *chartjs;
};

/* ---- text ---- */

static void put_escaped(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        default: fputc(*text, to);
        }
    }
}

/* 1234567 as 1 234 567, with spaces at which lines do not break. */
static void put_grouped(FILE *to, long long number)
{
    char digits[32];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%lld", number);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) fputs("&#8239;", to);
        fputc(digits[i], to);
    }
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* ---- the parts ---- */

static void put_title(const struct page *page)
{
    const char *program = text_at(page->compare->facts, "program");
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    put_escaped(page->to, *name != '\0' ? name : page->compare->options.trace);
}

static void put_fact(const struct page *page, const char *name, const char *text)
{
    if (text == NULL || *text == '\0') return;
    fprintf(page->to, "<div><dt>%s</dt><dd>", name);
    put_escaped(page->to, text);
    fputs("</dd></div>\n", page->to);
}

static void put_count(const struct page *page, const char *name, const char *key)
{
    fprintf(page->to, "<div><dt>%s</dt><dd>", name);
    put_grouped(page->to, json_integer_value(json_object_get(page->compare->facts, key)));
    fputs("</dd></div>\n", page->to);
}

static void put_facts(const struct page *page)
{
    const struct compare *compare = page->compare;
    json_t *all = compare_json(compare, false);
    const json_t *machine = json_object_get(all, "machine");
    char text[512];
    put_fact(page, "Program", text_at(compare->facts, "program"));
    put_fact(page, "Trace", compare->options.trace);
    put_count(page, "Events", "events");
    put_count(page, "Threads", "threads");
    put_count(page, "Switches between threads", "thread_switches");
    put_count(page, "Objects alive at the end", "live_at_end");
    put_fact(page, "Engine", text_at(all, "engine"));
    put_fact(page, "Touched of objects", text_at(all, "touch"));
    snprintf(text, sizeof text, "%u of each allocator, in turns", compare->options.rounds);
    put_fact(page, "Replays", text);
    snprintf(text, sizeof text, "%s, %lld processors, %s", text_at(machine, "processor"),
             (long long)json_integer_value(json_object_get(machine, "processors")),
             text_at(machine, "system"));
    put_fact(page, "Machine", text);
    put_fact(page, "Measured", text_at(all, "ended"));
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
    put_escaped(to, text);
}

static void put_settings(const struct page *page, const struct compare_row *row)
{
    for (size_t i = 0; i < row->entry->settings_count; i++) {
        fputs("<br><code>", page->to);
        put_escaped(page->to, row->entry->settings[i].name);
        fputs("=<wbr>", page->to);
        put_escaped(page->to, row->entry->settings[i].value);
        fputs("</code>", page->to);
    }
}

static void put_head(const struct page *page)
{
    fputs("<thead>\n<tr><td></td>", page->to);
    for (size_t i = 0; i < page->compare->rows_count; i++) {
        const struct compare_row *row = &page->compare->rows[i];
        if (*row->why != '\0') continue;
        fputs("<th scope=\"col\">", page->to);
        put_escaped(page->to, compare_row_name(row));
        put_settings(page, row);
        fputs("<br><small>", page->to);
        put_version(page->to, text_at(json_array_get(row->reports, 0), "allocator"));
        fputs("</small></th>", page->to);
    }
    fputs("</tr>\n</thead>\n", page->to);
}

static void put_value(const struct page *page, const struct compare_number *number, double value)
{
    char text[64];
    put_escaped(page->to, compare_text(page->compare, number, value, text, sizeof text));
}

static void put_cell(const struct page *page, const struct compare_number *number,
                     const json_t *reports)
{
    struct compare_spread spread = compare_spread_of(number, reports);
    if (isnan(spread.median)) {
        fputs("<td>&ndash;</td>", page->to);
        return;
    }
    fputs("<td>", page->to);
    put_value(page, number, spread.median);
    fputs("<br><small>", page->to);
    put_value(page, number, spread.least);
    fputs(" to ", page->to);
    put_value(page, number, spread.most);
    fputs("</small></td>", page->to);
}

static void put_line(const struct page *page, const struct compare_number *number)
{
    fputs("<tr><th scope=\"row\">", page->to);
    put_escaped(page->to, compare_group(page->compare, number));
    fprintf(page->to, "%s%s", *number->group != '\0' ? " " : "", number->title);
    if (*number->unit != '\0') fprintf(page->to, " <small>%s</small>", number->unit);
    fputs("</th>", page->to);
    for (size_t i = 0; i < page->compare->rows_count; i++)
        if (*page->compare->rows[i].why == '\0')
            put_cell(page, number, page->compare->rows[i].reports);
    fputs("</tr>\n", page->to);
}

static void put_table(const struct page *page)
{
    put_head(page);
    for (const struct compare_number *number = compare_numbers; number->key != NULL; number++) {
        bool first = number == compare_numbers || strcmp(number[-1].group, number->group) != 0;
        bool last = number[1].key == NULL || strcmp(number[1].group, number->group) != 0;
        if (first) fputs("<tbody>\n", page->to);
        put_line(page, number);
        if (last) fputs("</tbody>\n", page->to);
    }
}

static void put_failures(const struct page *page)
{
    for (size_t i = 0; i < page->compare->rows_count; i++) {
        const struct compare_row *row = &page->compare->rows[i];
        if (*row->why == '\0') continue;
        fputs("<p class=\"failed\">", page->to);
        put_escaped(page->to, row->label);
        fputs(": ", page->to);
        put_escaped(page->to, row->why);
        fputs("</p>\n", page->to);
    }
}

/* As it is: a library for the web never has the end of a script in it. */
static void put_chartjs(const struct page *page)
{
    char buffer[65536];
    size_t bytes;
    while ((bytes = fread(buffer, 1, sizeof buffer, page->chartjs)) > 0)
        fwrite(buffer, 1, bytes, page->to);
}

/* In a script, nothing is special but what begins with "<"; in JSON, that is always within a
 * string. */
static void put_data(const struct page *page)
{
    json_t *object = compare_json(page->compare, false);
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    for (const char *at = text; at != NULL && *at != '\0'; at++) {
        if (*at == '<')
            fputs("\\u003c", page->to);
        else
            fputc(*at, page->to);
    }
    free(text);
    json_decref(object);
}

/* ---- the whole ---- */

static const struct {
    const char *marker;
    void (*put)(const struct page *page);
} parts[] = {
    {"@TITLE@", put_title}, {"@FACTS@", put_facts},     {"@FAILURES@", put_failures},
    {"@TABLE@", put_table}, {"@CHARTJS@", put_chartjs}, {"@DATA@", put_data},
};

/* Puts the part whose marker stands at `at`; returns the marker's length, or 0 if there is none. */
static size_t put_part(const struct page *page, const char *at)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i].marker);
        if (strncmp(at, parts[i].marker, length) != 0) continue;
        parts[i].put(page);
        return length;
    }
    return 0;
}

static void put_page(const struct page *page)
{
    for (const char *at = compare_page; at < compare_page_end;) {
        size_t skipped = *at == '@' ? put_part(page, at) : 0;
        if (skipped == 0) fputc(*at++, page->to);
        at += skipped;
    }
}

static FILE *chartjs_open(void)
{
    FILE *file = NULL;
    for (size_t i = 0; i < sizeof chartjs_files / sizeof *chartjs_files && file == NULL; i++)
        file = fopen(chartjs_files[i], "re");
    return file;
}

bool compare_html_write(const struct compare *compare, const char *path, char *why,
                        size_t why_bytes)
{
    struct page page = {.compare = compare, .chartjs = chartjs_open()};
    if (page.chartjs == NULL) {
        snprintf(why, why_bytes, "Chart.js is not installed (Debian has it in %s)",
                 CHARTJS_PACKAGE);
        return false;
    }
    page.to = fopen(path, "we");
    if (page.to != NULL) put_page(&page);
    bool done = page.to != NULL && !ferror(page.to);
    if (page.to != NULL) done = fclose(page.to) == 0 && done;
    if (!done) snprintf(why, why_bytes, "cannot write %s: %s", path, strerror(errno));
    fclose(page.chartjs);
    return done;
}
