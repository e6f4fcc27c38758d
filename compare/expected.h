/* compare/expected - what the recorded program would have had under each allocator, as a process.
 *
 *   what the ticks say of the original  --------------------------------+
 *   replays of the recorded allocator --> how well they follow it       +--> per row: RSS, CPU
 *                                     --> difference to the row's own --+
 *
 * expected = original + (replay of the row's allocator - replay of the recorded one)
 *
 * The memory is that without the recorder's. A replay has the memory of the allocator alone, so
 * absolute figures hold only as far as the rest of the process stays the same over its life: where
 * the replay of the recorded allocator does not follow the recorded curve, none are given.
 * REPORT.md and docs/prediction.md have the terms and how far all this is right. */
#ifndef MALLOCTAPE_COMPARE_EXPECTED_H
#define MALLOCTAPE_COMPARE_EXPECTED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct compare;
struct compare_row;

/* NAN: not known. */
struct compare_original {
    /* Without the recorder's memory: of the whole process. */
    double peak_bytes, mean_bytes, end_bytes;
    double cpu_seconds;       /* user and system, without the writer's */
    double allocator_seconds; /* of these, about so much goes to the allocator and to touching new
                                 pages; NAN: no row has any */
    bool untouched;           /* a replay writes to much that the program left alone */
    double follows;           /* the distance of the curves, as a share of the peak: 0 is best */
    char why_not[192];        /* empty, or why there are no absolute figures of memory */
};

/* Of a row. */
struct compare_expected {
    double peak_bytes, mean_bytes, end_bytes; /* RSS of the process */
    double cpu_change;                        /* s, to be added to the original's: most likely, */
    double cpu_change_least, cpu_change_most; /* and its range; unknown of few runs */
};

/* Makes of a series (REPORT.md) one of at most so many points: neighbours are merged, their last
 * time, the most of everything else. NULL is ignored. */
void compare_curves_shorten(json_t *series, size_t points_max);

/* How far two curves are apart once one is moved up or down: the mean over time of |one - other -
 * c| for the c that is best. Looks at equal times, NAN where one is not known; NAN: fewer than
 * COMPARE_CURVE_POINTS_MIN are. */
enum { COMPARE_CURVE_POINTS_MIN = 5 };
double compare_curves_distance(const double *seconds, const double *one, const double *other,
                               size_t count);

/* The range of what the processor time of a program differs in (s) that takes `cpu_seconds` of it,
 * where that of replays differs by `least` to `most`. */
void compare_cpu_range(double cpu_seconds, double *least, double *most);

/* The same as shares of the program's time: what one row takes more than another one. False: the
 * program's time is not known, or there are too few runs. */
bool compare_cpu_shares(const struct compare *compare, double *least, double *most);

/* Replays that differ by less give a range with 0 in it. */
double compare_cpu_least(double cpu_seconds);

/* Whether a range says neither that a program takes longer nor that it takes less. */
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
