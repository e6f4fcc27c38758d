/* report_json - a report as JSON. */
#ifndef MALLOCTAPE_REPORT_REPORT_JSON_H
#define MALLOCTAPE_REPORT_REPORT_JSON_H

#include <jansson.h>

#include "report/report_trace.h"

/* A new object. NULL without memory. */
json_t *report_json(const struct report_trace *trace);

#endif
