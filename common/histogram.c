#include "common/histogram.h"

uint64_t histogram_bucket_low(unsigned bucket)
{
    if (bucket < 2u << HISTOGRAM_SUB_BITS) return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

bool histogram_quantile(const struct histogram *histogram, double share, double *value)
{
    const uint64_t rank = (uint64_t)(share * (double)histogram->count);
    uint64_t below = 0;
    unsigned bucket = 0;
    if (histogram->count < rank + HISTOGRAM_ABOVE_LEAST) return false;
    while ((below += histogram->buckets[bucket]) <= rank)
        bucket++;
    uint64_t low = histogram_bucket_low(bucket), high = histogram_bucket_low(bucket + 1) - 1;
    if (high > histogram->max) high = histogram->max;
    *value = ((double)low + (double)high) / 2;
    return true;
}
