/* growth - what a report says of a process that ran already when it was attached to: what it asks for
 * in a second, what was made since and is alive at the end, by age, and how much was there before and
 * is unknown. */
#ifndef MALLOCTAPE_REPORT_GROWTH_H
#define MALLOCTAPE_REPORT_GROWTH_H

#include <jansson.h>
#include <stdio.h>

#include "report/report.h"

/* Of other traces: nothing. */
void growth_print(const struct report_trace *trace, FILE *to);

/* docs/report.md. A new object; null for other traces. */
json_t *growth_json(const struct report_trace *trace);

#endif
