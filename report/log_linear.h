/* log_linear - counts of numbers of any magnitude, in a fixed number of classes.
 *
 * Numbers below 32 have a class each; each doubling above has 16 classes of equal width. So a class
 * is at most a sixteenth as wide as its lowest number, and powers of two are always the lowest
 * number of a class. */
#ifndef MALLOCTAPE_REPORT_LOG_LINEAR_H
#define MALLOCTAPE_REPORT_LOG_LINEAR_H

#include <stdint.h>

enum { LOG_LINEAR_BITS = 4, LOG_LINEAR_CLASSES = (64 - LOG_LINEAR_BITS + 1) << LOG_LINEAR_BITS };

static inline unsigned log_linear_class(uint64_t number)
{
    const unsigned exact = 1u << (LOG_LINEAR_BITS + 1);
    if (number < exact) return (unsigned)number;
    const unsigned shift = 63u - LOG_LINEAR_BITS - (unsigned)__builtin_clzll(number);
    return (shift << LOG_LINEAR_BITS) + (unsigned)(number >> shift);
}

/* The lowest number of a class. The highest is one less than the lowest of the next class. */
static inline uint64_t log_linear_lowest(unsigned at)
{
    const unsigned exact = 1u << (LOG_LINEAR_BITS + 1), steps = 1u << LOG_LINEAR_BITS;
    if (at < exact) return at;
    const unsigned shift = (at >> LOG_LINEAR_BITS) - 1;
    return ((uint64_t)(at & (steps - 1)) + steps) << shift;
}

static inline uint64_t log_linear_highest(unsigned at)
{
    return at + 1 < LOG_LINEAR_CLASSES ? log_linear_lowest(at + 1) - 1 : UINT64_MAX;
}

/* The class in which the part `share` of all `total` numbers ends. */
static inline unsigned log_linear_percentile(const uint64_t *counts, uint64_t total, double share)
{
    const double wanted = share * (double)total;
    uint64_t sum = 0;
    unsigned last = 0;
    for (unsigned at = 0; at < LOG_LINEAR_CLASSES; at++) {
        if (counts[at] == 0) continue;
        last = at;
        sum += counts[at];
        if ((double)sum >= wanted) break;
    }
    return last;
}

/* How many numbers are less than `power`, a power of two: exact. */
static inline uint64_t log_linear_below(const uint64_t *counts, uint64_t power)
{
    uint64_t sum = 0;
    for (unsigned at = 0; at < log_linear_class(power); at++)
        sum += counts[at];
    return sum;
}

#endif
