/* latency - times of single calls, from several replays.
 *
 *   reports --> histograms of a kind, added up --> percentiles of all samples
 *
 * One thread. */
#ifndef MALLOCTAPE_COMPARE_LATENCY_H
#define MALLOCTAPE_COMPARE_LATENCY_H

#include <jansson.h>

/* `latency` of some reports of one allocator (REPORT.md) as that of one report, without buckets:
 * `count` as in each of them, `sampled` of all. What is null there for want of samples is so only
 * if all of them together have too few. The caller owns it. */
json_t *compare_latency_merge(const json_t *reports);

#endif
