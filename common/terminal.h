/* terminal - the width of lines of text, and printing text in such lines. */
#ifndef MALLOCTAPE_TERMINAL_H
#define MALLOCTAPE_TERMINAL_H

#include <stdio.h>

enum { LINE_WIDTH_LEAST = 80, LINE_WIDTH_MOST = 120 };

/* The columns of the terminal, else $COLUMNS, but at least LINE_WIDTH_LEAST and at most
 * LINE_WIDTH_MOST, which is also the default. */
int terminal_line_width(FILE *to);

/* Prints words, wrapped; the first line begins at column `at`, further ones at `indent`. */
void terminal_print_wrapped(const char *text, int at, int indent, FILE *to);

#endif
