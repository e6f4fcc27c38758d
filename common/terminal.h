/* terminal - how many columns a line of text may have, and texts in such lines. */
#ifndef MALLOCTAPE_TERMINAL_H
#define MALLOCTAPE_TERMINAL_H

#include <stdio.h>

enum { LINE_WIDTH_LEAST = 80, LINE_WIDTH_MOST = 120 };

/* As many as the terminal has, else as $COLUMNS says, but LINE_WIDTH_LEAST at least; LINE_WIDTH_MOST
 * is the most, and what it is without either. */
int terminal_line_width(FILE *to);

/* Words until the line is full, from column `at` on; further lines begin at `indent`. */
void terminal_print_wrapped(const char *text, int at, int indent, FILE *to);

#endif
