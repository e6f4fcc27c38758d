/* metrics - what the process asks of its allocator, who has its memory, and which functions grow, as
 * OpenMetrics text. */
#ifndef MALLOCTAPE_KEEP_METRICS_H
#define MALLOCTAPE_KEEP_METRICS_H

#include "keep/functions.h"

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* The text, to be freed; NULL: no memory. Any thread, without the lock. */
char *metrics_text(struct keeper *keeper, struct functions *functions, size_t *bytes);

#endif
