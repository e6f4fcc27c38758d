/* by_code_json - the part of a report's JSON about code: docs/report.md. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_JSON_H
#define MALLOCTAPE_REPORT_BY_CODE_JSON_H

#include <jansson.h>

#include "report/by_code.h"

/* A new object. */
json_t *by_code_json(const struct by_code *code);

#endif
