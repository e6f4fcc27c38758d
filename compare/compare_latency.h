/* compare_latency - times of single calls, from several replays.
 *
 *   reports --> histograms of a kind, added up --> percentiles of all samples
 *
 * One thread. */
#ifndef MALLOCTAPE_COMPARE_LATENCY_H
#define MALLOCTAPE_COMPARE_LATENCY_H

#include <jansson.h>

/* Merges `latency` (REPORT.md) of several reports of one allocator into one, without buckets:
 * `count` is the same in each, `sampled` is added up. A number is null only if all of them together
 * have too few samples. The caller owns it. */
json_t *compare_latency_merge(const json_t *reports);

#endif
