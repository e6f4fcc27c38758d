/* compare/across - several recordings, each compared by itself, and the result over all of them that
 * repeat each other.
 *
 *   recording --> compare --> change of each entry from the recorded allocator --+--> mean of all,
 *   recording --> compare --> ...                                               --'    and 95 %
 *
 * One recording is not the program: an allocator may be the best in one and the worst in the next.
 * What counts is each entry's change, in per cent of what the program had; its geometric mean has a
 * 95 % confidence interval by Student's t. Entries are matched by name; one that failed in any
 * recording takes no part.
 *
 * The processes of one run, such as a master and its workers, are no repetitions. Recordings that
 * differ much are told apart as roles, and there is a mean for each role. */
#ifndef MALLOCTAPE_COMPARE_ACROSS_H
#define MALLOCTAPE_COMPARE_ACROSS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compare/comparison.h"

#ifdef __cplusplus
extern "C" {
#endif

void across_print(const struct compare *recordings, size_t count, FILE *to);

/* docs/compare.md. The caller owns it. */
json_t *across_json(const struct compare *recordings, size_t count, bool with_reports);

#ifdef __cplusplus
}
#endif
#endif
