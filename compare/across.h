/* compare/across - several recordings of one program, each compared by itself, and what they say
 * together.
 *
 *   recording --> compare --> change of each entry from the recorded allocator --+--> mean of all,
 *   recording --> compare --> ...                                               --'    and 95 %
 *
 * One recording is not the program: from one to the next, an allocator may be the best or the worst.
 * What counts is the change that each has, in per cent of what the program had; the interval that
 * has its mean with 95 % is Student's. Entries are known by their names; one that failed in any
 * recording takes no part. */
#ifndef MALLOCTAPE_COMPARE_ACROSS_H
#define MALLOCTAPE_COMPARE_ACROSS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct compare;

enum { COMPARE_RECORDINGS_MAX = 16 };

void across_print(const struct compare *recordings, size_t count, FILE *to);

/* docs/compare.md. The caller owns it. */
json_t *across_json(const struct compare *recordings, size_t count, bool with_reports);

#ifdef __cplusplus
}
#endif
#endif
