/* sweep/result - one result of a sweep: a file that `malloctape compare --json` wrote of one trace,
 * on one machine (docs/compare.md).
 *
 * Each result has its own yardstick, the replays of the allocator that the program was recorded on:
 * what is said of an entry is the change from that, in this result. So entries of two results, even
 * of unequal machines, can stand side by side.
 *
 *   memory   what an entry's replays have more than the recorded allocator's, as a share of what the
 *            process had; where that is not known, of replays
 *   time     the change of the program's processor time that is to be expected, as a share of it;
 *            where that is not known, of replays
 *
 * Texts and values are the result's until result_free(). */
#ifndef MALLOCTAPE_SWEEP_RESULT_H
#define MALLOCTAPE_SWEEP_RESULT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "compare/numbers.h"
#include "compare/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shares of what the recorded allocator has: -0.1 is 10 % less. NAN: not known. */
struct result_change {
    double share;
    double least, most; /* has it with 95 %; not known of few runs */
    bool counts;        /* above the noise, by what compare goes by */
};

/* What changes are of. */
enum result_of {
    RESULT_PROCESS,    /* what the process, or the program, is expected to have */
    RESULT_DIFFERENCE, /* memory: its most is known, but not how much of it is the allocator's */
    RESULT_REPLAYS
};

struct result_entry {
    const char *label;     /* the allocator and its settings */
    const char *allocator; /* its name and version, as replays tell; NULL: none ran */
    const char *why;       /* NULL, or why there are no numbers */
    bool recorded;         /* it is what the program was recorded on */
    double peak_bytes;     /* expected RSS of the process, or of replays; NAN: not known */
    double peak_change;    /* bytes, of replays from the recorded allocator's; NAN: not known */
    struct result_change change[COMPARE_MEASURES];
    double *of_run[COMPARE_MEASURES]; /* by run, as a share of what the recorded allocator has: 1 is
                                         as much; NULL: not known */
    size_t runs;
    const json_t *json; /* in `allocators` */
};

struct result {
    json_t *json;      /* the file */
    const char *trace; /* its path, as compare was given it */
    enum result_of of[COMPARE_MEASURES];
    /* What the recorded program had; NAN: not known. */
    double process_bytes, process_seconds;
    /* What is above the noise between two entries, of the values `of_run`. */
    struct rank_threshold threshold[COMPARE_MEASURES];
    struct result_entry *entries; /* all but `none` */
    size_t entries_count;
    const struct result_entry *recorded; /* NULL: no entry, or it failed */
};

/* False: `why` says what is wrong with the file. */
bool result_read(struct result *result, const char *path, char *why, size_t why_bytes);

/* NULL: the result has no such entry. */
const struct result_entry *result_find(const struct result *result, const char *label);

/* Also of one that is all zero, or could not be read. */
void result_free(struct result *result);

#ifdef __cplusplus
}
#endif
#endif
