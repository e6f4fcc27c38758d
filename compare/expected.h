/* compare/expected - what the recorded program would have had under each allocator, as a process.
 *
 *   the original's memory and time, from its ticks  ------------------------+
 *   replays under the recorded allocator --> how well they follow it        +--> per row: RSS, CPU
 *                                        --> difference to the row's own  --+
 *
 * expected = original + (replay under the row's allocator - replay under the recorded one)
 *
 * Memory is without the recorder's. A replay has the memory of the allocator alone, so absolute
 * figures are valid only if the rest of the process stays the same over its life, or if it is known
 * what it had (others.h): if the replay under the recorded allocator does not follow the recorded
 * curve, none are given. REPORT.md and
 * docs/prediction.md define the terms and say how accurate all this is. */
#ifndef MALLOCTAPE_COMPARE_EXPECTED_H
#define MALLOCTAPE_COMPARE_EXPECTED_H

#include "compare/comparison.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shortens a series (REPORT.md) to at most `points_max` points: merged neighbours get their last
 * time and the maximum of everything else. NULL is ignored. */
void compare_curves_shorten(json_t *series, size_t points_max);

/* The distance of two curves after a vertical shift: the minimum over c of the mean over time of
 * |one - other - c|. The curves have values at the same times, NAN if not known. Returns NAN if
 * there are fewer than COMPARE_CURVE_POINTS_MIN. */
enum { COMPARE_CURVE_POINTS_MIN = 5 };
double compare_curves_distance(const double *seconds, const double *one, const double *other,
                               size_t count);

/* Subtracts what others had from a curve: values at these times, which ascend. Before the first look and after
 * the last one, what they had at these. */
void compare_curves_subtract(const struct others *others, const double *seconds, double *values,
                             size_t count);

/* Turns the range by which the processor time of replays differs into that by which a program's
 * does, which takes `cpu_seconds` of it. All in seconds. */
void compare_cpu_range(double cpu_seconds, double *least, double *most);

/* The same, but the result is shares of the program's time: how much more one row takes than
 * another. False: the program's time is not known, or there are too few runs. */
bool compare_cpu_shares(const struct compare *compare, double *least, double *most);

/* If replays differ by less than this, the range contains 0. */
double compare_cpu_least(double cpu_seconds);

/* Whether a range contains 0, so that it is open whether the program takes more or less time. */
static inline bool compare_is_tie(double least, double most)
{
    return least <= 0 && most >= 0;
}

/* Fills in compare->original and row->expected of all rows, from the reports. */
void compare_expect(struct compare *compare);

#ifdef __cplusplus
}
#endif
#endif
