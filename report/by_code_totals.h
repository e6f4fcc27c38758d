/* by_code_totals - what rows of by_code.h have with what they call.
 *
 * Exact numbers are added up while the stacks are walked, so no list of the stacks of each row is
 * needed. Estimates need one, of the stacks that were sampled: these are few. */
#ifndef MALLOCTAPE_REPORT_BY_CODE_TOTALS_H
#define MALLOCTAPE_REPORT_BY_CODE_TOTALS_H

#include "report/by_code.h"

/* Makes code->groups, whose options are set, and code->total. False: no memory. */
bool by_code_totals_make(struct by_code *code);

/* What happened in buckets of code->tally.times, from `from` until before `until`, by stack; then by
 * row. The caller frees the arrays. NULL, false: no memory. */
struct by_code_span *by_code_spans(const struct by_code *code, unsigned from, unsigned until);
bool by_code_spans_of_rows(struct by_code *code, const struct by_code_span *spans,
                           struct by_code_span **self, struct by_code_span **total);

#endif
