/* The pages of a report (page/html_page.h), of one trace and of two. */
#include "report/report_html.h"

#include <string.h>

#include "page/html_page.h"
#include "report/by_code_source.h"
#include "report/change.h"
#include "report/first.h"
#include "report/report_json.h"
#include "report/text.h"

#ifndef REPORT_DIRECTORY
#error "the build gives REPORT_DIRECTORY, where the scripts are"
#endif

#define REPORT_FILE(name) HTML_FILE(REPORT_DIRECTORY "/" name)
#define REPORT_CODE_FILES           \
    REPORT_FILE("code_numbers.js")  \
    REPORT_FILE("code_branches.js") \
    REPORT_FILE("code_table.js")    \
    REPORT_FILE("code_tree.js")     \
    REPORT_FILE("code_flame.js")    \
    REPORT_FILE("code_time.js")     \
    REPORT_FILE("code_columns.js")  \
    REPORT_FILE("code_controls.js") \
    REPORT_FILE("code_chosen.js") REPORT_FILE("code_first.js") REPORT_FILE("code.js")

HTML_EMBED(report_page_js, REPORT_FILE("shared.js") REPORT_CODE_FILES REPORT_FILE("page.js"));
HTML_EMBED(report_change_js, REPORT_FILE("shared.js") REPORT_CODE_FILES REPORT_FILE("change.js"));

static void report_html_print_notices(const void *of, FILE *to)
{
    first_print_notice(of, to);
    report_print_unusual(of, "", to);
}

/* The source of a function stands above the report, if it was asked for. */
static void report_html_print_text(const void *of, FILE *to)
{
    const struct report_trace *trace = of;
    if (trace->code.is_known && trace->code.options->source != NULL)
        by_code_print_source(&trace->code, trace->code.options->source, to);
    report_print(trace, to);
}

bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes)
{
    char title[512];
    snprintf(title, sizeof title, "%.400s: what it asks of its allocator", report_name(trace));
    return html_page_write(&(struct html_page){title, report_html_print_notices,
                                               report_html_print_text, trace, report_json(trace),
                                               report_page_js},
                           path, why, why_bytes);
}

static void print_change_notices(const void *of, FILE *to)
{
    const struct change *change = of;
    change_print_first(change, to);
    report_print_unusual(change->before, "Before: ", to);
    report_print_unusual(change->after, "After: ", to);
}

static void print_change_text(const void *of, FILE *to)
{
    change_print(of, to);
}

bool change_page_write(const struct change *change, const char *path, char *why, size_t why_bytes)
{
    char title[1024];
    const char *before = report_name(change->before), *after = report_name(change->after);
    if (strcmp(before, after) == 0) {
        before = basename(change->before->path);
        after = basename(change->after->path);
    }
    snprintf(title, sizeof title, "%.400s and %.400s: what changed for the allocator", before,
             after);
    return html_page_write(&(struct html_page){title, print_change_notices, print_change_text,
                                               change, change_json(change), report_change_js},
                           path, why, why_bytes);
}
