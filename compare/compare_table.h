/* compare_table - the tables of a comparison, for a terminal. */
#ifndef MALLOCTAPE_COMPARE_COMPARE_TABLE_H
#define MALLOCTAPE_COMPARE_COMPARE_TABLE_H

#include <stdio.h>

#include "compare/comparison.h"

/* The heading above a number: its group, or the kind of call that the group stands for. */
const char *compare_group(const struct compare *compare, const struct compare_number *number);

/* The step of the clock that times single calls, in ns. */
double compare_clock_step(const struct compare *compare);

/* What the recorded process had and used, and whether the replay under its own allocator follows
 * it; empty: not known. */
const char *compare_original_text(const struct compare *compare, char *text, size_t bytes);

/* For a terminal. */
void compare_table_print(const struct compare *compare, FILE *to);

#endif
