/* report_html - a report as one page. */
#ifndef MALLOCTAPE_REPORT_REPORT_HTML_H
#define MALLOCTAPE_REPORT_REPORT_HTML_H

#include "report/report_trace.h"

/* A page with charts. False: `why` says what is missing or cannot be written. */
bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes);

#endif
