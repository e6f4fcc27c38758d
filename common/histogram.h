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

/* A percentile is known when so many values are above it: then, if they are drawn by chance, their
 * number is right within 18 % (one deviation). */
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

/* The least value of a bucket, and the greatest. */
uint64_t histogram_bucket_low(unsigned bucket);
uint64_t histogram_bucket_high(unsigned bucket);

/* The bucket of the value that has so many before it in ascending order; there are more. */
unsigned histogram_bucket_at(const uint64_t buckets[HISTOGRAM_BUCKETS], uint64_t before);

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max) histogram->max = value;
    histogram->buckets[histogram_bucket(value)]++;
}

/* The value below which `share` of all lie: the middle of its bucket, but never above the largest
 * value. False: too few values are above it to know. */
bool histogram_quantile(const struct histogram *histogram, double share, double *value);

#ifdef __cplusplus
}
#endif
#endif
