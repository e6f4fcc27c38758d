/* series - memory over time, from the CSV that replay writes (REPORT.md, "Series") to JSON.
 *
 *   original_seconds,net_rss_bytes,...     {"seconds":       [0.01, 0.02, ...],
 *   0.01,4096,...                   -->     "net_rss_bytes": [4096, ...],
 *   0.02,,...                               ...}                               unknown: null
 *
 * Columns are found by the names in the first line. Of a long series, neighbours are merged: their
 * last time, the most of everything else. */
#ifndef MALLOCTAPE_SERIES_H
#define MALLOCTAPE_SERIES_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At most so many points. The caller owns the object. NULL: the file cannot be read, or is not such
 * a one. */
json_t *series_load(const char *path, size_t points_max);

#ifdef __cplusplus
}
#endif
#endif
