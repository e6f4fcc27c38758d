#include "common/html_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef HTML_DIRECTORY
#error "the build gives HTML_DIRECTORY, where page.html, page.css and page.js are"
#endif

HTML_EMBED(html_page_html, HTML_DIRECTORY "/page.html");
HTML_EMBED(html_page_css, HTML_DIRECTORY "/page.css");
HTML_EMBED(html_page_js, HTML_DIRECTORY "/page.js");

/* Where distributions put Chart.js, versions 3 and 4. */
#define CHARTJS_PACKAGE "libjs-chart.js"
static const char *const chartjs_files[] = {
    "/usr/share/javascript/chart.js/chart.umd.js",
    "/usr/share/javascript/chart.js/chart.min.js",
    "/usr/share/nodejs/chart.js/dist/chart.umd.js",
    "/usr/share/nodejs/chart.js/dist/chart.min.js",
};

/* What the parts of the whole need. */
struct writing {
    const struct html_page *page;
    const char *data; /* JSON */
    FILE *chartjs;
};

/* ---- for parts ---- */

void html_put_text(FILE *to, const char *text)
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
static void html_put_count(FILE *to, long long count)
{
    char digits[32];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%lld", count);
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') fputs("&#8239;", to);
        fputc(digits[i], to);
    }
}

void html_put_fact(FILE *to, const char *name, const char *text)
{
    if (text == NULL || *text == '\0') return;
    fprintf(to, "<div><dt>%s</dt><dd>", name);
    html_put_text(to, text);
    fputs("</dd></div>\n", to);
}

void html_put_fact_count(FILE *to, const char *name, long long count)
{
    fprintf(to, "<div><dt>%s</dt><dd>", name);
    html_put_count(to, count);
    fputs("</dd></div>\n", to);
}

/* ---- markers ---- */

/* Puts the part whose marker stands at `at`; returns the marker's length, or 0 if there is none. */
static size_t put_part(FILE *to, const char *at, const struct html_part *parts, const void *of)
{
    for (const struct html_part *part = parts; part->marker != NULL; part++) {
        size_t length = strlen(part->marker);
        if (strncmp(at, part->marker, length) != 0) continue;
        part->put(to, of);
        return length;
    }
    return 0;
}

static void put_template(FILE *to, const char *text, const struct html_part *parts, const void *of)
{
    for (const char *at = text; *at != '\0';) {
        size_t skipped = *at == '@' ? put_part(to, at, parts, of) : 0;
        if (skipped == 0) fputc(*at++, to);
        at += skipped;
    }
}

/* ---- the parts of every page ---- */

static void put_title(FILE *to, const void *of)
{
    html_put_text(to, ((const struct writing *)of)->page->title);
}

static void put_style(FILE *to, const void *of)
{
    (void)of;
    fputs(html_page_css, to);
}

static void put_main(FILE *to, const void *of)
{
    const struct html_page *page = ((const struct writing *)of)->page;
    put_template(to, page->main, page->parts, page->of);
}

/* In a script, nothing is special but what begins with "<"; in JSON, that is always within a
 * string. */
static void put_data(FILE *to, const void *of)
{
    for (const char *at = ((const struct writing *)of)->data; *at != '\0'; at++) {
        if (*at == '<')
            fputs("\\u003c", to);
        else
            fputc(*at, to);
    }
}

/* As it is: a library for the web never has the end of a script in it. */
static void put_charts(FILE *to, const void *of)
{
    FILE *chartjs = ((const struct writing *)of)->chartjs;
    char buffer[65536];
    size_t bytes;
    while ((bytes = fread(buffer, 1, sizeof buffer, chartjs)) > 0)
        fwrite(buffer, 1, bytes, to);
    fputs("\n</script>\n<script>\n", to);
    fputs(html_page_js, to);
}

static void put_script(FILE *to, const void *of)
{
    fputs(((const struct writing *)of)->page->script, to);
}

static const struct html_part whole[] = {
    {"@TITLE@", put_title},   {"@STYLE@", put_style},   {"@MAIN@", put_main}, {"@DATA@", put_data},
    {"@CHARTS@", put_charts}, {"@SCRIPT@", put_script}, {NULL, NULL},
};

/* ---- the whole ---- */

/* NULL: `why` says so. */
static FILE *chartjs_open(char *why, size_t why_bytes)
{
    FILE *file = NULL;
    for (size_t i = 0; i < sizeof chartjs_files / sizeof *chartjs_files && file == NULL; i++)
        file = fopen(chartjs_files[i], "re");
    if (file == NULL)
        snprintf(why, why_bytes, "Chart.js is not installed (Debian has it in %s)",
                 CHARTJS_PACKAGE);
    return file;
}

bool html_page_is_possible(char *why, size_t why_bytes)
{
    FILE *chartjs = chartjs_open(why, why_bytes);
    if (chartjs == NULL) return false;
    fclose(chartjs);
    return true;
}

static bool write_all(const struct writing *writing, const char *path, char *why, size_t why_bytes)
{
    FILE *to = fopen(path, "we");
    if (to != NULL) put_template(to, html_page_html, whole, writing);
    bool done = to != NULL && !ferror(to);
    if (to != NULL) done = fclose(to) == 0 && done;
    if (!done) snprintf(why, why_bytes, "cannot write %s: %s", path, strerror(errno));
    return done;
}

bool html_page_write(const struct html_page *page, const char *path, char *why, size_t why_bytes)
{
    FILE *chartjs = chartjs_open(why, why_bytes);
    char *data = json_dumps(page->data, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const struct writing writing = {.page = page, .data = data, .chartjs = chartjs};
    if (chartjs != NULL && data == NULL) snprintf(why, why_bytes, "no memory for its data");
    bool done = chartjs != NULL && data != NULL && write_all(&writing, path, why, why_bytes);
    json_decref(page->data);
    free(data);
    if (chartjs != NULL) fclose(chartjs);
    return done;
}
