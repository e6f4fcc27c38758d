/* printable - makes a text from a trace safe to show to people and programs: a trace is untrusted.
 *
 *   "a\x1b[2J" --> "a\x1b[2J" of 8 characters     control characters, those above ASCII too, marks
 *   "a\xe9"    --> "a\xe9" of 5 characters        that turn the direction of a line, and bytes that
 *   "\u00e9"   --> the same                       are not UTF-8 are written with a backslash
 *
 * So it cannot control a terminal, and it is valid UTF-8, which JSON and pages need. */
#ifndef MALLOCTAPE_PRINTABLE_H
#define MALLOCTAPE_PRINTABLE_H

#include <stdarg.h>
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

/* Prints a message and a line end. Whatever it says of files, processes and programs is from
 * outside: all messages are printed with this. Allocates no memory; a very long one is cut. */
void printable_say(FILE *to, const char *message, ...) __attribute__((format(printf, 2, 3)));
void printable_say_list(FILE *to, const char *message, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* The text itself if it is printable, else a copy that is, cut if it is very long; for an argument
 * of printf(). A copy stays until so many later ones are made. One thread. */
enum { PRINTABLE_TEXTS = 16 };
const char *printable_text(const char *text);

/* Prints a text and nothing else. */
void printable_put(FILE *to, const char *text);

#ifdef __cplusplus
}
#endif
#endif
