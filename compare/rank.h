/* compare/rank - which of several candidates are better by one measure (less is better), and how
 * sure that is.
 *
 * Each candidate was measured once a round. For two candidates, all differences between a value of
 * one and a value of the other are taken; their median is the difference of the two (Hodges and
 * Lehmann), and its 95 % confidence interval goes from the k-th least to the k-th greatest of them
 * (Mann and Whitney). With five rounds k is 3. So a disturbed round hardly moves the difference,
 * and at worst makes the two equal.
 *
 *   worse     the difference is above the threshold, and the whole interval above `surely`
 *   equal     neither is worse
 * `more` of a candidate widens the interval at one end.
 * ranks rank 1: candidates that are worse than no other; the next rank: those of the rest that
 *             are worse than no other of the rest; and so on */
#ifndef MALLOCTAPE_COMPARE_RANK_H
#define MALLOCTAPE_COMPARE_RANK_H

#include <stdbool.h>
#include <stddef.h>

#include "compare/compare_numbers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With fewer values of each candidate, the interval's confidence is below 95 %. */
enum { RANK_VALUES_MIN = 4 };

struct rank_candidate {
    double *values; /* in any order; none: takes no part */
    size_t count;   /* the same for all that take part */
    unsigned rank;  /* from 1; 0: takes no part */
    bool shared;    /* others have this rank */
    bool is_next;   /* rank.c only */
    double more;    /* what it stands for may be more than the values, by up to this */
};

/* A difference below either of the first two does not count. */
struct rank_threshold {
    double absolute;
    double relative; /* of the lesser median */
    double surely;   /* the whole interval must be above this */
};

/* For peak memory (bytes), and for the processor time of replays, which differs by a few per cent
 * from one comparison to the next. */
extern const struct rank_threshold rank_thresholds[COMPARE_MEASURES];

/* The first candidate minus the other. */
struct rank_difference {
    double median, least, most; /* NAN: no values */
    bool counts;                /* not equal */
};

struct rank_difference rank_difference_of(const struct rank_candidate *one,
                                          const struct rank_candidate *other,
                                          const struct rank_threshold *threshold);

/* Sets `rank` and `shared` of all candidates. */
void rank_all(struct rank_candidate *candidates, size_t count,
              const struct rank_threshold *threshold);

#ifdef __cplusplus
}
#endif
#endif
