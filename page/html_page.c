#include "page/html_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/known.h"
#include "common/output.h"
#include "page/page_pack.h"

#ifndef HTML_DIRECTORY
#error "the build gives HTML_DIRECTORY, where page.html, page.css and page.js are"
#endif

HTML_EMBED(html_page_html, HTML_FILE(HTML_DIRECTORY "/page.html"));
HTML_EMBED(html_page_css, HTML_FILE(HTML_DIRECTORY "/page.css"));
HTML_EMBED(html_page_js, HTML_FILE(HTML_DIRECTORY "/page.js"));

/* Where distributions put Chart.js, versions 3 and 4. */
#define CHARTJS_PACKAGE "libjs-chart.js"
static const char *const chartjs_files[] = {
    "/usr/share/javascript/chart.js/chart.umd.js",
    "/usr/share/javascript/chart.js/chart.min.js",
    "/usr/share/nodejs/chart.js/dist/chart.umd.js",
    "/usr/share/nodejs/chart.js/dist/chart.min.js",
};

/* What the functions that write the parts of a page need. */
struct writing {
    const struct html_page *page;
    const char *data; /* JSON */
    FILE *chartjs;
};

/* ---- markers ---- */

/* What replaces a marker @NAME@. */
struct part {
    const char *marker; /* with both @ */
    void (*put)(FILE *to, const struct writing *writing);
};

static void html_page_put_text(FILE *to, const char *text)
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

/* What a function prints, to be freed; NULL without memory. */
static char *printed(html_print *print, const void *of)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return NULL;
    print(of, to);
    fclose(to);
    return text;
}

static void put_title(FILE *to, const struct writing *writing)
{
    html_page_put_text(to, writing->page->title);
}

static void put_style(FILE *to, const struct writing *writing)
{
    (void)writing;
    fputs(html_page_css, to);
}

static void put_notices(FILE *to, const struct writing *writing)
{
    char *text = printed(writing->page->notices, writing->page->of), *rest = text;
    for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        const bool warns = strncmp(line, "! ", 2) == 0;
        if (*line == '\0') continue;
        fprintf(to, "<p class=\"%s\">", warns ? "warning" : "answer");
        html_page_put_text(to, line + (warns ? 2 : 0));
        fputs("</p>\n", to);
    }
    free(text);
}

static void put_printed(FILE *to, const struct writing *writing)
{
    char *text = printed(writing->page->text, writing->page->of);
    if (text != NULL) html_page_put_text(to, text);
    free(text);
}

/* In a script element only "<" can begin something special; in JSON, "<" is always inside a string,
 * where it can be escaped. */
static void put_data(FILE *to, const struct writing *writing)
{
    for (const char *at = writing->data; *at != '\0'; at++) {
        if (*at == '<')
            fputs("\\u003c", to);
        else
            fputc(*at, to);
    }
}

/* page.js, with the allocators that have a colour of their own. */
static void put_page_script(FILE *to)
{
    static const char marker[] = "/*ALLOCATORS*/", names[] = ALLOCATOR_COLOURS;
    const char *at = strstr(html_page_js, marker);
    fwrite(html_page_js, 1, (size_t)(at - html_page_js), to);
    for (const char *name = names; *name != '\0';) {
        const int length = (int)strcspn(name, " ");
        fprintf(to, "%s'%.*s'", name > names ? ", " : "", length, name);
        name += length + (name[length] != '\0');
    }
    fputs(at + strlen(marker), to);
}

/* Copied unchanged: a library made for web pages never contains the end tag of a script. */
static void put_charts(FILE *to, const struct writing *writing)
{
    char buffer[65536];
    size_t bytes;
    while ((bytes = fread(buffer, 1, sizeof buffer, writing->chartjs)) > 0)
        fwrite(buffer, 1, bytes, to);
    fputs("\n</script>\n<script>\n", to);
    put_page_script(to);
}

static void put_script(FILE *to, const struct writing *writing)
{
    fputs(writing->page->script, to);
}

static const struct part parts[] = {
    {"@TITLE@", put_title},   {"@STYLE@", put_style}, {"@NOTICES@", put_notices},
    {"@TEXT@", put_printed},  {"@DATA@", put_data},   {"@CHARTS@", put_charts},
    {"@SCRIPT@", put_script}, {NULL, NULL},
};

static void put_page(FILE *to, const struct writing *writing)
{
    for (const char *at = html_page_html; *at != '\0';) {
        const struct part *part = parts;
        while (part->marker != NULL && strncmp(at, part->marker, strlen(part->marker)) != 0)
            part++;
        if (part->marker != NULL)
            part->put(to, writing);
        else
            fputc(*at, to);
        at += part->marker != NULL ? strlen(part->marker) : 1;
    }
}

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

static bool html_page_write_all(const struct writing *writing, const char *path, char *why,
                                size_t why_bytes)
{
    FILE *to = fopen(path, "we");
    if (to != NULL) put_page(to, writing);
    bool done = to != NULL && !ferror(to);
    if (to != NULL) done = fclose(to) == 0 && done;
    if (!done) snprintf(why, why_bytes, "cannot write %s: %s", path, strerror(errno));
    if (!done && to != NULL) output_remove(path);
    return done;
}

bool html_page_write(const struct html_page *page, const char *path, char *why, size_t why_bytes)
{
    FILE *chartjs = chartjs_open(why, why_bytes);
    json_t *packed = page_pack(page->data);
    char *data = json_dumps(packed, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const struct writing writing = {.page = page, .data = data, .chartjs = chartjs};
    if (chartjs != NULL && data == NULL) snprintf(why, why_bytes, "no memory for its data");
    bool done =
        chartjs != NULL && data != NULL && html_page_write_all(&writing, path, why, why_bytes);
    json_decref(packed);
    json_decref(page->data);
    free(data);
    if (chartjs != NULL) fclose(chartjs);
    return done;
}
