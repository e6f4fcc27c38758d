/* compare/warnings - what spoils numbers of a comparison: what reports of replay say, what an
 * allocator printed, and what the trace is of. */
#ifndef MALLOCTAPE_COMPARE_WARNINGS_H
#define MALLOCTAPE_COMPARE_WARNINGS_H

#include <jansson.h>
#include <stdbool.h>

struct compare;
struct compare_row;

/* What makes a number, or all of a row, less than it seems. */
struct compare_warning {
    const struct compare_row *row; /* NULL: the whole comparison */
    const char *number;            /* key of the number that it spoils, or NULL */
    char text[400];
};

/* Fills compare->warnings; the caller frees them. False: no memory. */
bool compare_warnings_collect(struct compare *compare);

/* Whether a warning of the row is about that number. */
bool compare_is_spoiled(const struct compare *compare, const struct compare_row *row,
                        const char *number);

/* The texts of a row's, or of those of the whole comparison. The caller owns them. */
json_t *compare_warnings_json(const struct compare *compare, const struct compare_row *row);

#endif
