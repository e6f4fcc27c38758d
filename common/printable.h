/* printable - makes a text from a trace safe to show to people and programs: a trace is untrusted.
 *
 *   "a\x1b[2J" --> "a\x1b[2J" of 8 characters     control characters, those above ASCII too, marks
 *   "a\xe9"    --> "a\xe9" of 5 characters        that turn the direction of a line, and bytes that
 *   "\u00e9"   --> the same                       are not UTF-8 are written with a backslash
 *
 * So it cannot control a terminal, and it is valid UTF-8, which JSON and pages need. */
#ifndef MALLOCTAPE_PRINTABLE_H
#define MALLOCTAPE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the text is printable as it is. */
bool printable_is(const char *text, size_t bytes);

/* A printable copy with a zero byte; the caller frees it. NULL: no memory. */
char *printable_copy(const char *text, size_t bytes);

void printable_print(FILE *to, const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
