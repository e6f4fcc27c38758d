/* first - what a report says first: where the memory of the process is, which sizes may leak, and what
 * makes the calls.
 *
 *   RSS == alive + rounded up + rest of the heap (partly full and empty pages) + not the heap's
 *
 * at the first tick with the most RSS. What rounding up adds then is taken from what it adds where
 * most was alive, by the recorded allocator's rules. Which pages of the heap are partly full and
 * which are empty says a replay under the recorded allocator (report --under), at its own most RSS. */
#ifndef MALLOCTAPE_REPORT_FIRST_H
#define MALLOCTAPE_REPORT_FIRST_H

#include <jansson.h>
#include <stdio.h>

#include "report/report.h"

void first_print(const struct report_trace *trace, FILE *to);

/* The same in a sentence or two, a line each. */
void first_print_notice(const struct report_trace *trace, FILE *to);

/* docs/report.md. A new object. */
json_t *first_json(const struct report_trace *trace);

#endif
