/* The page of a report (common/page.h): facts, what is unusual, charts of the JSON, the text. */
#include <stdlib.h>
#include <string.h>

#include "common/page.h"
#include "report/report.h"
#include "report/words.h"

#ifndef REPORT_DIRECTORY
#error "the build gives REPORT_DIRECTORY, where page.html and page.js are"
#endif

PAGE_EMBED(report_page_html, REPORT_DIRECTORY "/page.html");
PAGE_EMBED(report_page_js, REPORT_DIRECTORY "/page.js");

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
static char *printed(const struct report_trace *trace,
                     void (*print)(const struct report_trace *trace, FILE *to))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return NULL;
    print(trace, to);
    fclose(to);
    return text;
}

static void put_unusual(FILE *to, const void *of)
{
    char *text = printed(of, report_print_unusual), *rest = text;
    for (char *line; text != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "! ", 2) != 0) continue;
        fputs("<p class=\"warning\">", to);
        page_put_text(to, line + 2);
        fputs("</p>\n", to);
    }
    free(text);
}

static void put_text(FILE *to, const void *of)
{
    char *text = printed(of, report_print);
    if (text != NULL) page_put_text(to, text);
    free(text);
}

static const struct page_part parts[] = {
    {"@FACTS@", put_facts},
    {"@UNUSUAL@", put_unusual},
    {"@TEXT@", put_text},
    {NULL, NULL},
};

bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes)
{
    char title[512];
    snprintf(title, sizeof title, "%.400s: what it asks of its allocator", report_name(trace));
    json_t *data = report_json(trace);
    const struct page page = {.title = title,
                              .main = report_page_html,
                              .parts = parts,
                              .of = trace,
                              .data = data,
                              .script = report_page_js};
    bool done = page_write(&page, path, why, why_bytes);
    json_decref(data);
    return done;
}
