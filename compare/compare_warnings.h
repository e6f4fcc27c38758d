/* compare/warnings - what makes numbers of a comparison doubtful: warnings in replay's reports,
 * what an allocator printed, and properties of the trace. */
#ifndef MALLOCTAPE_COMPARE_WARNINGS_H
#define MALLOCTAPE_COMPARE_WARNINGS_H

#include <jansson.h>

#include "compare/comparison.h"

/* Fills compare->warnings; the caller frees them. False: no memory. */
bool compare_warnings_collect(struct compare *compare);

/* Whether any warning of the row is about that number. */
bool compare_is_spoiled(const struct compare *compare, const struct compare_row *row,
                        const char *number);

/* The texts of a row's warnings; NULL: of those of the whole comparison. The caller owns them. */
json_t *compare_warnings_json(const struct compare *compare, const struct compare_row *row);

#endif
