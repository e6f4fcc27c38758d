/* compare/rank - which of several candidates are better by one measure, less being better, and how
 * sure that is.
 *
 * Each candidate was measured once a round. Of two, all differences between a value of the one and
 * a value of the other are taken; their median is the difference of the two (Hodges and Lehmann),
 * and the interval that holds the true one with 95 % goes from the k-th least to the k-th greatest
 * of them (Mann and Whitney). Of five rounds k is 3. So a disturbed round hardly moves the
 * difference, and at worst makes the two equal.
 *
 *   worse     the difference is above the threshold, and the whole interval above `surely`
 *   equal     neither is worse
 *   rank 1    those that are worse than none; of the others again those that are worse than none
 *             of the others; ... */
#ifndef MALLOCTAPE_COMPARE_RANK_H
#define MALLOCTAPE_COMPARE_RANK_H

#include <stdbool.h>
#include <stddef.h>

#include "compare/numbers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With fewer values of each, the interval says less than 95 %. */
enum { RANK_VALUES_MIN = 4 };

struct rank_candidate {
    double *values; /* in any order; none: takes no part */
    size_t count;   /* the same of all that take part */
    unsigned rank;  /* from 1; 0: takes no part */
    bool shared;    /* others have this rank */
    bool is_next;   /* rank.c only */
};

/* What is below either does not count. */
struct rank_threshold {
    double absolute;
    double relative; /* of the lesser median */
    double surely;   /* what the whole interval must be above */
};

/* Of the peak of memory (bytes), and of the processor time of replays, which differs by some per
 * cent from one comparison to the next. */
extern const struct rank_threshold rank_thresholds[COMPARE_MEASURES];

/* One less the other. */
struct rank_difference {
    double median, least, most; /* NAN: no values */
    bool counts;                /* not equal */
};

struct rank_difference rank_difference_of(const struct rank_candidate *one,
                                          const struct rank_candidate *other,
                                          const struct rank_threshold *threshold);

/* Sets rank and shared of all. */
void rank_all(struct rank_candidate *candidates, size_t count,
              const struct rank_threshold *threshold);

#ifdef __cplusplus
}
#endif
#endif
