#include "common/histogram.h"

uint64_t histogram_bucket_low(unsigned bucket)
{
    if (bucket < 2u << HISTOGRAM_SUB_BITS) return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

uint64_t histogram_bucket_high(unsigned bucket)
{
    return bucket + 1 < HISTOGRAM_BUCKETS ? histogram_bucket_low(bucket + 1) - 1 : UINT64_MAX;
}

unsigned histogram_bucket_at(const uint64_t buckets[HISTOGRAM_BUCKETS], uint64_t before)
{
    uint64_t below = 0;
    unsigned bucket = 0;
    while ((below += buckets[bucket]) <= before)
        bucket++;
    return bucket;
}

bool histogram_quantile(const struct histogram *histogram, double share, double *value)
{
    const uint64_t rank = (uint64_t)(share * (double)histogram->count);
    if (histogram->count < rank + HISTOGRAM_ABOVE_LEAST) return false;
    const unsigned bucket = histogram_bucket_at(histogram->buckets, rank);
    uint64_t low = histogram_bucket_low(bucket), high = histogram_bucket_high(bucket);
    if (high > histogram->max) high = histogram->max;
    *value = ((double)low + (double)high) / 2;
    return true;
}
