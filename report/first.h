/* first - the beginning of a report: where the memory of the process is, which sizes may leak, and
 * what makes the calls.
 *
 *   RSS == alive + rounded up + rest of the heap (partly full and empty pages) +
 *          files and shared memory + the rest
 *
 * at the first tick with 99 % of the highest RSS. What rounding up adds there is estimated from what it
 * adds at the peak of live bytes, by the recorded allocator's rules. A replay under the recorded
 * allocator (report --under), at its own peak RSS, tells partly full pages of the heap from empty
 * ones. */
#ifndef MALLOCTAPE_REPORT_FIRST_H
#define MALLOCTAPE_REPORT_FIRST_H

#include <jansson.h>
#include <stdio.h>

#include "report/report_trace.h"

void first_print(const struct report_trace *trace, FILE *to);

/* The same in one or two sentences, each on its line. */
void first_print_notice(const struct report_trace *trace, FILE *to);

/* docs/report.md. A new object. */
json_t *first_json(const struct report_trace *trace);

#endif
