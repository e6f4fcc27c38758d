/* The pages of a report (common/html_page.h), of one trace and of two: facts, what is unusual,
 * charts of the JSON, the text. */
#include <stdlib.h>
#include <string.h>

#include "common/html_page.h"
#include "report/change.h"
#include "report/words.h"

#ifndef REPORT_DIRECTORY
#error "the build gives REPORT_DIRECTORY, where page.html and the scripts are"
#endif

HTML_EMBED(report_page_html, REPORT_DIRECTORY "/page.html");
HTML_EMBED_BOTH(report_page_js, REPORT_DIRECTORY "/shared.js", REPORT_DIRECTORY "/page.js");
HTML_EMBED_BOTH(report_change_js, REPORT_DIRECTORY "/shared.js", REPORT_DIRECTORY "/change.js");

/* What a page is of. */
struct told {
    const struct report_trace *traces[2];
    unsigned count;
    const char *text;
};

static void put_facts(FILE *to, const void *of)
{
    const struct told *told = of;
    for (unsigned i = 0; i < told->count; i++) {
        const struct report_trace *trace = told->traces[i];
        const struct tally *tally = &trace->tally;
        if (i > 0) fputs("</dl>\n<dl>\n", to);
        html_put_fact(to, "Program", trace->program);
        html_put_fact(to, told->count == 1 ? "Trace" : i == 0 ? "Before" : "After", trace->path);
        html_put_fact(to, "Allocator", trace->allocator);
        html_put_fact_count(to, "Calls", (long long)tally->calls);
        html_put_fact_count(to, "Objects made", (long long)tally->made);
        html_put_fact_count(to, "Threads", (long long)tally->totals.threads);
        if (tally->ns > 0) html_put_fact(to, "Time", words_ms(tally->ms));
        html_put_fact(to, "Alive at the peak", words_bytes(tally->peak.bytes));
        html_put_fact(to, "Alive at the end", words_bytes(tally->live_bytes));
        if (tally->peak_rss_bytes > 0)
            html_put_fact(to, "RSS of the program", words_bytes(tally->peak_rss_bytes));
        if (tally->peak_heap_bytes > 0)
            html_put_fact(to, "Its heap", words_bytes(tally->peak_heap_bytes));
    }
}

/* What a function prints, to be freed; NULL without memory. */
#define PRINTED(print, of, text)                         \
    do {                                                 \
        size_t bytes;                                    \
        FILE *to_text = open_memstream(&(text), &bytes); \
        if (to_text != NULL) {                           \
            print(of, to_text);                          \
            fclose(to_text);                             \
        }                                                \
    } while (0)

static void put_unusual(FILE *to, const void *of)
{
    const struct told *told = of;
    for (unsigned i = 0; i < told->count; i++) {
        char *text = NULL;
        PRINTED(report_print_unusual, told->traces[i], text);
        char *rest = text;
        for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) {
            if (strncmp(line, "! ", 2) != 0) continue;
            fprintf(to, "<p class=\"warning\">%s",
                    told->count == 1 ? ""
                    : i == 0         ? "Before: "
                                     : "After: ");
            html_put_text(to, line + 2);
            fputs("</p>\n", to);
        }
        free(text);
    }
}

static void put_text(FILE *to, const void *of)
{
    const struct told *told = of;
    if (told->text != NULL) html_put_text(to, told->text);
}

static const struct html_part parts[] = {
    {"@FACTS@", put_facts},
    {"@UNUSUAL@", put_unusual},
    {"@TEXT@", put_text},
    {NULL, NULL},
};

bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes)
{
    char title[512], *text = NULL;
    PRINTED(report_print, trace, text);
    snprintf(title, sizeof title, "%.400s: what it asks of its allocator", report_name(trace));
    const struct told told = {{trace}, 1, text};
    bool done = html_page_write(&(struct html_page){title, report_page_html, parts, &told,
                                                    report_json(trace), report_page_js},
                                path, why, why_bytes);
    free(text);
    return done;
}

bool change_page_write(const struct change *change, const char *path, char *why, size_t why_bytes)
{
    char title[1024], *text = NULL;
    const char *before = report_name(change->before), *after = report_name(change->after);
    if (strcmp(before, after) == 0) {
        before = basename(change->before->path);
        after = basename(change->after->path);
    }
    PRINTED(change_print, change, text);
    snprintf(title, sizeof title, "%.400s and %.400s: what changed for the allocator", before,
             after);
    const struct told told = {{change->before, change->after}, 2, text};
    bool done = html_page_write(&(struct html_page){title, report_page_html, parts, &told,
                                                    change_json(change), report_change_js},
                                path, why, why_bytes);
    free(text);
    return done;
}
