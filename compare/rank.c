#include "compare/rank.h"

#include <math.h>
#include <stdlib.h>

#include "common/numbers.h"

/* Standard deviations of the normal distribution on each side that contain 95 %. */
#define DEVIATIONS_95 1.96

const struct rank_threshold rank_thresholds[COMPARE_MEASURES] = {
    [COMPARE_MEMORY] = {MIB, 0.01, 0},
    [COMPARE_TIME] = {0, 0.05, 0},
};

/* How many differences are outside the confidence interval, on each side. */
static size_t outside(size_t one_count, size_t other_count)
{
    double pairs = (double)one_count * (double)other_count;
    double deviation = sqrt(pairs * (double)(one_count + other_count + 1) / 12);
    double k = floor(pairs / 2 - DEVIATIONS_95 * deviation);
    return k > 1 ? (size_t)k - 1 : 0;
}

static double rank_median_of(const struct rank_candidate *candidate)
{
    return compare_spread_values(candidate->values, candidate->count).median;
}

struct rank_difference rank_difference_of(const struct rank_candidate *one,
                                          const struct rank_candidate *other,
                                          const struct rank_threshold *threshold)
{
    struct rank_difference difference = {NAN, NAN, NAN, false};
    size_t pairs = one->count * other->count, skipped = outside(one->count, other->count);
    double *all = pairs > 0 ? calloc(pairs, sizeof *all) : NULL;
    if (all == NULL) return difference;
    for (size_t i = 0; i < pairs; i++)
        all[i] = one->values[i / other->count] - other->values[i % other->count];
    difference.median = compare_spread_values(all, pairs).median; /* sorts them */
    difference.least = all[skipped] - other->more;
    difference.most = all[pairs - 1 - skipped] + one->more;
    free(all);
    double least_that_counts =
        fmax(threshold->absolute,
             threshold->relative * fmin(rank_median_of(one), rank_median_of(other)));
    difference.counts =
        fabs(difference.median) > least_that_counts &&
        (difference.least > threshold->surely || difference.most < -threshold->surely);
    return difference;
}

static bool is_worse(const struct rank_candidate *one, const struct rank_candidate *other,
                     const struct rank_threshold *threshold)
{
    struct rank_difference difference = rank_difference_of(one, other, threshold);
    return difference.counts && difference.median > 0;
}

static bool rank_is_waiting(const struct rank_candidate *one)
{
    return one->rank == 0 && one->count > 0;
}

/* Whether `one` is worse than any candidate that has no rank yet. */
static bool is_beaten(const struct rank_candidate *candidates, size_t count,
                      const struct rank_candidate *one, const struct rank_threshold *threshold)
{
    for (size_t i = 0; i < count; i++)
        if (rank_is_waiting(&candidates[i]) && is_worse(one, &candidates[i], threshold))
            return true;
    return false;
}

void rank_all(struct rank_candidate *candidates, size_t count,
              const struct rank_threshold *threshold)
{
    unsigned rank = 1, left = 0, given;
    for (size_t i = 0; i < count; i++) {
        candidates[i].rank = 0;
        left += candidates[i].count > 0;
    }
    for (; left > 0; rank += given, left -= given) {
        given = 0;
        for (size_t i = 0; i < count; i++) {
            struct rank_candidate *one = &candidates[i];
            one->is_next = rank_is_waiting(one) && !is_beaten(candidates, count, one, threshold);
            given += one->is_next;
        }
        const bool noise = given == 0; /* a cycle: each is worse than another one */
        if (noise) given = left;
        for (size_t i = 0; i < count; i++) {
            struct rank_candidate *one = &candidates[i];
            if (!one->is_next && !(noise && rank_is_waiting(one))) continue;
            one->rank = rank;
            one->shared = given > 1;
        }
    }
}
