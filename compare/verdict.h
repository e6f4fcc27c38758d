/* compare/verdict - which rows are best for memory and for time.
 *
 * Memory is the peak of resident memory, time the processor time of a replay (rank.h says what is
 * equal). A row that failed and `none` have no rank, nor has any row if the trace is too short. */
#ifndef MALLOCTAPE_COMPARE_VERDICT_H
#define MALLOCTAPE_COMPARE_VERDICT_H

#include <jansson.h>

#include "compare/comparison.h"

/* Fewer calls say more about the start of a program than about an allocator. */
enum { COMPARE_CALLS_MIN = 10000 };

/* Ranks all rows and collects the warnings. Call once, after all runs. False: no memory. */
bool compare_rank_rows(struct compare *compare);

void compare_rank_end(struct compare *compare);

/* The row at `at`, from 0, in a table of that measure: best first, or as --sort says. */
const struct compare_row *compare_sorted(const struct compare *compare,
                                         enum compare_measure measure, size_t at);

/* One line: the present allocator, the best one, and what that gains; empty: nothing is known. */
const char *compare_headline(const struct compare *compare, char *text, size_t bytes);

/* A command line that starts a program with this allocator; empty: nothing needs to be set. */
const char *compare_row_paste(const struct compare_row *row, char *text, size_t bytes);

/* The same with what clearly gains memory, else time; *of: "memory" or "time". Empty, and *of NULL:
 * nothing does, or it needs nothing, or a row is missing that may be the best. */
const char *compare_paste_text(const struct compare *compare, const char **of, char *text,
                               size_t bytes);

/* A sentence for each measure, for people; empty if there is nothing to compare. */
const char *compare_verdict_text(const struct compare *compare, char *text, size_t bytes);

/* "1", "2=" if others have the same rank, "-" without a rank; followed by "?" if there were too few
 * runs. */
const char *compare_rank_text(const struct compare *compare, const struct compare_row *row,
                              enum compare_measure measure, char *text, size_t bytes);

/* docs/compare.md. The caller owns it. */
json_t *compare_verdict_json(const struct compare *compare);

#endif
