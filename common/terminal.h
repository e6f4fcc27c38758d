/* terminal - how many columns a line of text may have. */
#ifndef MALLOCTAPE_TERMINAL_H
#define MALLOCTAPE_TERMINAL_H

#include <stdio.h>

enum { LINE_WIDTH_LEAST = 80, LINE_WIDTH_MOST = 120 };

/* As many as the terminal has, else as $COLUMNS says, but LINE_WIDTH_LEAST at least; LINE_WIDTH_MOST
 * is the most, and what it is without either. */
int terminal_line_width(FILE *to);

#endif
