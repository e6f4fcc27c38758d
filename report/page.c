/* The pages of a report (common/page.h), of one trace and of two: facts, what is unusual, charts of
 * the JSON, the text. */
#include <stdlib.h>
#include <string.h>

#include "common/page.h"
#include "report/change.h"
#include "report/words.h"

#ifndef REPORT_DIRECTORY
#error "the build gives REPORT_DIRECTORY, where page.html and the scripts are"
#endif

PAGE_EMBED(report_page_html, REPORT_DIRECTORY "/page.html");
PAGE_EMBED_BOTH(report_page_js, REPORT_DIRECTORY "/shared.js", REPORT_DIRECTORY "/page.js");
PAGE_EMBED_BOTH(report_change_js, REPORT_DIRECTORY "/shared.js", REPORT_DIRECTORY "/change.js");

static void put_facts(FILE *to, const void *of)
{
    const struct report_trace *trace = of;
    const struct tally *tally = &trace->tally;
    page_put_fact(to, "Program", trace->program);
    page_put_fact(to, "Trace", trace->path);
    page_put_fact(to, "Allocator", trace->allocator);
    page_put_fact_count(to, "Calls", (long long)tally->calls);
    page_put_fact_count(to, "Objects made", (long long)tally->made);
    page_put_fact_count(to, "Threads", (long long)tally->totals.threads);
    if (tally->ns > 0) page_put_fact(to, "Time", words_ms(tally->ms));
    page_put_fact(to, "Alive at the peak", words_bytes(tally->peak.bytes));
    page_put_fact(to, "Alive at the end", words_bytes(tally->live_bytes));
    if (tally->peak_rss_bytes > 0)
        page_put_fact(to, "RSS of the program", words_bytes(tally->peak_rss_bytes));
    if (tally->peak_heap_bytes > 0)
        page_put_fact(to, "Its heap", words_bytes(tally->peak_heap_bytes));
}

/* What `print` prints, to be freed; NULL without memory. */
static char *printed(void (*print)(const void *of, FILE *to), const void *of)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return NULL;
    print(of, to);
    fclose(to);
    return text;
}

static void print_text(const void *of, FILE *to)
{
    report_print(of, to);
}

static void print_unusual(const void *of, FILE *to)
{
    report_print_unusual(of, to);
}

static void print_change(const void *of, FILE *to)
{
    change_print(of, to);
}

static void put_unusual_of(FILE *to, const struct report_trace *trace, const char *which)
{
    char *text = printed(print_unusual, trace), *rest = text;
    for (char *line; text != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "! ", 2) != 0) continue;
        fprintf(to, "<p class=\"warning\">%s", which);
        page_put_text(to, line + 2);
        fputs("</p>\n", to);
    }
    free(text);
}

static void put_unusual(FILE *to, const void *of)
{
    put_unusual_of(to, of, "");
}

static void put_printed(FILE *to, void (*print)(const void *of, FILE *to), const void *of)
{
    char *text = printed(print, of);
    if (text != NULL) page_put_text(to, text);
    free(text);
}

static void put_text(FILE *to, const void *of)
{
    put_printed(to, print_text, of);
}

/* ---- two traces ---- */

static void put_change_facts(FILE *to, const void *of)
{
    const struct change *change = of;
    const struct report_trace *traces[] = {change->before, change->after};
    page_put_fact(to, "Before", traces[0]->path);
    page_put_fact(to, "After", traces[1]->path);
    for (unsigned i = 0; i < 2; i++) {
        page_put_fact_count(to, i == 0 ? "Calls before" : "Calls after",
                            (long long)traces[i]->tally.calls);
        page_put_fact(to, i == 0 ? "Alive at the peak before" : "Alive at the peak after",
                      words_bytes(traces[i]->tally.peak.bytes));
    }
}

static void put_change_unusual(FILE *to, const void *of)
{
    const struct change *change = of;
    put_unusual_of(to, change->before, "Before: ");
    put_unusual_of(to, change->after, "After: ");
}

static void put_change_text(FILE *to, const void *of)
{
    put_printed(to, print_change, of);
}

/* ---- the whole ---- */

static const struct page_part parts[] = {
    {"@FACTS@", put_facts},
    {"@UNUSUAL@", put_unusual},
    {"@TEXT@", put_text},
    {NULL, NULL},
};

static const struct page_part change_parts[] = {
    {"@FACTS@", put_change_facts},
    {"@UNUSUAL@", put_change_unusual},
    {"@TEXT@", put_change_text},
    {NULL, NULL},
};

static bool write_page(struct page page, json_t *data, const char *path, char *why,
                       size_t why_bytes)
{
    page.main = report_page_html;
    page.data = data;
    bool done = page_write(&page, path, why, why_bytes);
    json_decref(data);
    return done;
}

bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes)
{
    char title[512];
    snprintf(title, sizeof title, "%.400s: what it asks of its allocator", report_name(trace));
    return write_page(
        (struct page){.title = title, .parts = parts, .of = trace, .script = report_page_js},
        report_json(trace), path, why, why_bytes);
}

bool change_page_write(const struct change *change, const char *path, char *why, size_t why_bytes)
{
    char title[1024];
    snprintf(title, sizeof title, "%.400s and %.400s: what changed for the allocator",
             report_name(change->before), report_name(change->after));
    return write_page(
        (struct page){
            .title = title, .parts = change_parts, .of = change, .script = report_change_js},
        change_json(change), path, why, why_bytes);
}
