/* text - a report for a terminal. */
#ifndef MALLOCTAPE_REPORT_TEXT_H
#define MALLOCTAPE_REPORT_TEXT_H

#include <stdio.h>

#include "report/report_trace.h"

void report_print(const struct report_trace *trace, FILE *to);

/* Prints a line for each number that few programs have; each begins with "! " and `words`. */
void report_print_unusual(const struct report_trace *trace, const char *words, FILE *to);

#endif
