/* printable - a text from a trace, as it may be shown to people and programs: whoever made the trace
 * chose its bytes.
 *
 *   "a\x1b[2J" --> "a\x1b[2J" of 8 characters     control characters, those above ASCII too, marks
 *   "a\xe9"    --> "a\xe9" of 5 characters        that turn the direction of a line, and bytes that
 *   "\u00e9"   --> the same                       are no UTF-8 are written with a backslash
 *
 * So a terminal obeys nothing of it, and it is valid UTF-8, which JSON and pages need. */
#ifndef MALLOCTAPE_PRINTABLE_H
#define MALLOCTAPE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether it is printable as it is. */
bool printable_is(const char *text, size_t bytes);

/* To be freed, ends with a zero byte. NULL: no memory. */
char *printable_copy(const char *text, size_t bytes);

void printable_print(FILE *to, const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
