/* histogram - counts of values in buckets that are at most 3 % wide, for percentiles.
 *
 *   bucket of a value   = its highest bit and the HISTOGRAM_SUB_BITS bits below it: within 1/32 of
 *                       it
 *   count               = sum over all buckets
 *
 * Histograms of several runs add up bucket by bucket. One thread. */
#ifndef MALLOCTAPE_HISTOGRAM_H
#define MALLOCTAPE_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HISTOGRAM_SUB_BITS 5
#define HISTOGRAM_BUCKETS  ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

/* A percentile is known if at least this many values are above it: in a random sample, their number
 * then has a standard deviation of at most 18 %. */
#define HISTOGRAM_ABOVE_LEAST 30

struct histogram {
    uint64_t count;
    uint64_t sum, max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t value)
{
    if (value < 2u << HISTOGRAM_SUB_BITS) return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

/* The smallest and the greatest value of a bucket. */
uint64_t histogram_bucket_low(unsigned bucket);
uint64_t histogram_bucket_high(unsigned bucket);

/* The bucket of the value that has `before` values before it in ascending order; there must be more
 * values than that. */
unsigned histogram_bucket_at(const uint64_t buckets[HISTOGRAM_BUCKETS], uint64_t before);

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max) histogram->max = value;
    histogram->buckets[histogram_bucket(value)]++;
}

/* The value below which `share` of all values lie: the middle of its bucket, but never above the
 * largest value. False: not known, too few values are above it. */
bool histogram_quantile(const struct histogram *histogram, double share, double *value);

#ifdef __cplusplus
}
#endif
#endif
