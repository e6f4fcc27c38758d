/* by_code_lives - sizes and lifetimes of what a row of by_code.h makes. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_LIVES_H
#define MALLOCTAPE_REPORT_BY_CODE_LIVES_H

#include "report/by_code.h"

/* Objects, and of these those that ended within STACK_SHORT_CALLS, and by class of lifetimes. */
struct by_code_lives {
    double made, bytes, peak_bytes, end_bytes, end_objects, short_lived;
    double lived[STACK_LIFETIMES];
};

/* Adds what a cell has. */
void by_code_lives_add(const struct by_code *code, struct by_code_lives *to,
                       const struct stack_cell *cell);

/* Prints a table of the rows that make most objects. */
void by_code_print_lives(const struct by_code *code, FILE *to);

/* Prints those of one row, by size: what it makes itself. */
void by_code_print_lives_of(const struct by_code *code, uint32_t row, FILE *to);

#endif
