/* compare_run - the replays of a comparison. */
#ifndef MALLOCTAPE_COMPARE_COMPARE_RUN_H
#define MALLOCTAPE_COMPARE_COMPARE_RUN_H

#include "compare/comparison.h"

/* Replays without an allocator, for compare->null_report. False: `why` says what is wrong with the
 * trace. */
bool compare_run_null(struct compare *compare, char *why, size_t why_bytes);

/* The same of a changed trace, for changed->null_report. */
bool compare_run_null_changed(const struct compare *compare, struct compare_changed *changed,
                              char *why, size_t why_bytes);

/* Replays once more without an allocator, for compare->lane_peaks_bytes. False: as above. */
bool compare_run_lane_peaks(struct compare *compare, char *why, size_t why_bytes);

/* The engine for every row that calls an allocator: the one that was asked for, else threads if
 * several threads make a noticeable share of the calls (replay/lane_shares.h), else switch. */
const char *compare_engine(const struct compare *compare);

/* Runs all rounds of all rows. */
void compare_run_rows(struct compare *compare);

/* Replays the recorded row as often again, for compare->uncleared, if there is a difference. */
void compare_run_uncleared(struct compare *compare);

/* Replays a row once more, and writes to the beginning of each object only. NULL: it has failed. */
json_t *compare_run_beginning(struct compare *compare, struct compare_row *row);

#endif
