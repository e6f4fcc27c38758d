/* html_page - writes a report as one HTML page that needs no other file and no network.
 *
 *   page.html, in which these markers stand:
 *     @TITLE@  title of the page              @DATA@    JSON
 *     @STYLE@  page.css                       @CHARTS@  Chart.js of this system, page.js
 *     @MAIN@   HTML of the command, with      @SCRIPT@  JavaScript of the command
 *              markers of its own
 *
 * What a reader needs is in the main part as plain HTML; scripts add the charts. page.js has what
 * the charts of all commands share: colours of allocators, axes, light and dark, the table behind
 * each. */
#ifndef MALLOCTAPE_HTML_PAGE_H
#define MALLOCTAPE_HTML_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A file of the source as the string `name`. The assembler puts it in, which no dependency tracking
 * sees: a Makefile.inc says that the object depends on the file. */
#define HTML_EMBED(name, file) HTML_EMBED_INCLUDING(name, ".incbin \"" file "\"\n")

/* The same of two files, one after the other. */
#define HTML_EMBED_BOTH(name, first, second) \
    HTML_EMBED_INCLUDING(name, ".incbin \"" first "\"\n.incbin \"" second "\"\n")

#define HTML_EMBED_INCLUDING(name, lines)                                 \
    __asm__(".section .rodata\n" #name ":\n" lines ".byte 0\n.previous"); \
    extern const char name[] __asm__(#name)

/* What stands for @NAME@ in the main part. */
struct html_part {
    const char *marker; /* with both @ */
    void (*put)(FILE *to, const void *of);
};

struct html_page {
    const char *title;             /* plain text */
    const char *main;              /* HTML with markers */
    const struct html_part *parts; /* end with a marker of NULL */
    const void *of;                /* handed to them */
    json_t *data;                  /* `data` of the scripts; html_page_write() frees it */
    const char *script;            /* JavaScript, after page.js */
};

/* Whether what every page needs is there: to ask before long work. False: `why` says what is
 * missing. */
bool html_page_is_possible(char *why, size_t why_bytes);

/* False: `why` says what is missing or cannot be written. */
bool html_page_write(const struct html_page *page, const char *path, char *why, size_t why_bytes);

/* ---- for parts ---- */

/* Text, so that it is shown as it is. */
void html_put_text(FILE *to, const char *text);

/* A fact, for a <dl>: nothing if the text is empty or NULL. Counts have spaces between thousands. */
void html_put_fact(FILE *to, const char *name, const char *text);
void html_put_fact_count(FILE *to, const char *name, long long count);

#endif
