/* growth - the part of a report about a process that had objects before recording began, because
 * the recorder was attached to it, or because it was forked: what it asks for per second; what was
 * made since and is alive at the end, by age; and how much existed before and is unknown. */
#ifndef MALLOCTAPE_REPORT_GROWTH_H
#define MALLOCTAPE_REPORT_GROWTH_H

#include <jansson.h>
#include <stdio.h>

#include "report/report_trace.h"

/* Prints nothing for other traces. */
void growth_print(const struct report_trace *trace, FILE *to);

/* docs/report.md. A new object; null for other traces. */
json_t *growth_json(const struct report_trace *trace);

#endif
