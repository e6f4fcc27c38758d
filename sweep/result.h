/* sweep/result - one result of a sweep: a file that `malloctape compare --json` wrote for one
 * trace, on one machine (docs/compare.md).
 *
 * Each result has its own yardstick, the replays of the allocator that the program was recorded on:
 * an entry is described by its change from that, in this result. So entries of two results, even
 * from different machines, can be compared.
 *
 * memory what an entry's replays have more than the recorded allocator's, as a share of what the
 *            process had; if that is not known, of what the replays had
 *   time     the expected change of the program's processor time, as a share of that; if it is not
 *            known, the change of replays
 *
 * Texts and values are the result's until result_free(). */
#ifndef MALLOCTAPE_SWEEP_RESULT_H
#define MALLOCTAPE_SWEEP_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "compare/compare_numbers.h"
#include "compare/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shares of what the recorded allocator has: -0.1 is 10 % less. NAN: not known. */
struct result_change {
    double share;
    double least, most; /* 95 % confidence interval; not known with few runs */
    bool counts;        /* above the noise, by compare's thresholds */
};

/* What changes describe. */
enum result_of {
    RESULT_PROCESS,    /* what the process, or the program, is expected to have */
    RESULT_DIFFERENCE, /* memory: its peak is known, but not how much of it is the allocator's */
    RESULT_REPLAYS
};

struct result_entry {
    const char *label;     /* the allocator and its settings */
    const char *allocator; /* its name and version, from a replay; NULL: none ran */
    const char *why;       /* NULL, or why there are no numbers */
    bool is_missing;       /* there are none because a signal or a time limit ended a replay */
    bool recorded;         /* the program was recorded on it */
    double peak_bytes;     /* expected RSS of the process, or of replays; NAN: not known */
    double more;           /* bytes that the program may have beyond the replays; or 0 */
    double peak_change;    /* bytes, of replays from the recorded allocator's; NAN: not known */
    struct result_change change[COMPARE_MEASURES];
    double *of_run[COMPARE_MEASURES]; /* by run, relative to what the recorded allocator has: 1 is
                                         equal; NULL: not known */
    size_t runs;
    const json_t *json; /* in `allocators` */
};

struct result {
    json_t *json;      /* the file */
    const char *trace; /* its path as given to compare */
    enum result_of of[COMPARE_MEASURES];
    /* What the recorded program had; NAN: not known. */
    double process_bytes, process_seconds;
    /* The thresholds of noise for differences of `of_run` between two entries. */
    struct rank_threshold threshold[COMPARE_MEASURES];
    struct result_entry *entries; /* all but `none` */
    size_t entries_count;
    const struct result_entry *recorded; /* NULL: no entry, or it failed */
};

/* False: `why` says what is wrong with the file. */
bool result_read(struct result *result, const char *path, char *why, size_t why_bytes);

/* What the program may have beyond the entry's replays, as a share like `of_run`. */
double result_more(const struct result *result, const struct result_entry *entry,
                   enum compare_measure measure);

/* Also for a result that is all zero, or could not be read. */
void result_free(struct result *result);

#ifdef __cplusplus
}
#endif
#endif
