/* html_page - writes a report as one HTML page that needs no other file and no network.
 *
 *   page.html, in which these markers are replaced:
 *     @TITLE@    title of the page            @DATA@    JSON
 *     @STYLE@    page.css                     @CHARTS@  Chart.js of this system, page.js
 *     @NOTICES@  paragraphs to come first     @SCRIPT@  JavaScript of the command
 *     @TEXT@     what a terminal would show
 *
 * Without scripts the page shows the text; facts, charts and tables are made from the JSON. page.js
 * has what the pages of all commands share: colours of allocators, axes, light and dark, tables. */
#ifndef MALLOCTAPE_HTML_PAGE_H
#define MALLOCTAPE_HTML_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Embeds a source file as the string `name`, or several ones, concatenated:
 *
 *     HTML_EMBED(name, HTML_FILE(DIRECTORY "/a.js") HTML_FILE(DIRECTORY "/b.js"));
 *
 * The assembler reads them, which dependency tracking does not see, so a Makefile.inc must state that
 * the object depends on them. */
#define HTML_FILE(file) ".incbin \"" file "\"\n"

/* Global, because with -flto code that uses it may be in another object. */
#define HTML_EMBED(name, files)                                                         \
    __asm__(".section .rodata\n.globl " #name "\n.hidden " #name "\n" #name ":\n" files \
            ".byte 0\n.previous");                                                      \
    extern const char name[] __asm__(#name)

typedef void html_print(const void *of, FILE *to);

struct html_page {
    const char *title;   /* plain text, as all that is printed */
    html_print *notices; /* a paragraph a line; those that begin with "! " are warnings */
    html_print *text;
    const void *of;     /* handed to both */
    json_t *data;       /* `data` of the scripts; html_page_write() frees it */
    const char *script; /* JavaScript, after page.js */
};

/* Whether everything that a page needs is installed: to be checked before long work. False: `why`
 * says what is missing. */
bool html_page_is_possible(char *why, size_t why_bytes);

/* False: `why` says what is missing or cannot be written. */
bool html_page_write(const struct html_page *page, const char *path, char *why, size_t why_bytes);

#endif
