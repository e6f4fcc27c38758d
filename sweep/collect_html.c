/* The page of collected results (page/html_page.h). */
#include "sweep/collection.h"

#include <stdlib.h>
#include <string.h>

#include "page/html_page.h"

#ifndef SWEEP_DIRECTORY
#error "the build gives SWEEP_DIRECTORY, where page.js is"
#endif

HTML_EMBED(sweep_page_js, HTML_FILE(SWEEP_DIRECTORY "/page.js"));

static void collect_html_print_notices(const void *of, FILE *to)
{
    char *text = NULL, *rest;
    size_t bytes;
    FILE *warnings = open_memstream(&text, &bytes);
    collection_print_answer(of, to);
    if (warnings == NULL) return;
    collection_print_warnings(of, warnings);
    fclose(warnings);
    rest = text;
    for (char *line; rest != NULL && (line = strsep(&rest, "\n")) != NULL;)
        if (*line != '\0') fprintf(to, "! %s\n", line);
    free(text);
}

static void collect_html_print_text(const void *of, FILE *to)
{
    collection_print(of, to);
}

bool collection_html_write(const struct collection *collection, const char *path, char *why,
                           size_t why_bytes)
{
    char title[128];
    snprintf(title, sizeof title, "%zu trace%s under %zu allocators and settings",
             collection->traces_count, collection->traces_count == 1 ? "" : "s",
             collection->entries_count);
    return html_page_write(&(struct html_page){title, collect_html_print_notices,
                                               collect_html_print_text, collection,
                                               collection_json(collection), sweep_page_js},
                           path, why, why_bytes);
}
