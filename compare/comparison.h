/* comparison - one trace, replayed under many allocators in fresh processes, and what follows about
 * them.
 *
 *   TRACE --reading/ordered_file.c--> ordered file --+--> replay, engine null: what is in the trace
 *   LIST ---list.c--> entries                        |
 *           --launch/allocators.c--> libraries ------+--> replay, once a round for each entry
 *                                         `--> reports --numbers.c, verdict.c--> table, JSON, page
 *
 * An allocator that fails has a row that says why; it takes no part in later rounds, and the others
 * go on. A replay that a signal ends is tried again before. Rounds alternate in direction, so that
 * no entry always follows the same one.
 *
 * One thread. Reports stay JSON (REPORT.md): keys that this program does not know are passed on. */
#ifndef MALLOCTAPE_COMPARE_COMPARISON_H
#define MALLOCTAPE_COMPARE_COMPARISON_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "change/change_stream.h"
#include "compare/compare_numbers.h"
#include "compare/list.h"
#include "compare/rank.h"
#include "launch/allocators.h"
#include "launch/process.h"
#include "launch/recorded_settings.h"
#include "reading/others.h"
#include "reading/untouched.h"

enum { COMPARE_RECORDINGS_MAX = 16, COMPARE_WHAT_IFS_MAX = 40 };

#define COMPARE_REPLAY "replay" /* the program */

struct compare_options {
    const char *traces[COMPARE_RECORDINGS_MAX];
    unsigned traces_count;
    const char *trace;       /* one of them */
    const char *engine;      /* NULL: compare_engine() chooses */
    const char *json, *html; /* NULL: none */
    const char *thp;         /* NULL: as the system has huge pages; else tune.h */
    unsigned rounds;
    double limit_s;      /* of one replay; 0: none; negative: derived from the first replay */
    char **replay_words; /* further options of replay; ends with NULL */
    struct compare_list list;
    const struct change_list *what_ifs;
    unsigned what_ifs_count;
    const struct change_places *places; /* for the names in them */
    bool list_is_default, tune, no_latency, no_series;
    enum compare_measure
        sort; /* all tables are sorted by this; COMPARE_MEASURES: each by its own measure */
};

/* NAN: not known. */
struct compare_original {
    /* Without the recorder's memory: of the whole process. */
    double peak_bytes, mean_bytes, end_bytes;
    double cpu_seconds;       /* user and system, without the writer's */
    double allocator_seconds; /* of these, about what the allocator and touching new pages take;
                                 NAN: no row has a change of time */
    bool untouched;           /* a replay writes to much memory that the program never touched */
    double touched;           /* reading/untouched.h: the share of that which counts; 0: all does */
    struct untouched_replayed replayed;
    double follows;    /* the distance of the curves, as a share of the peak: 0 is best */
    char why_not[192]; /* empty, or why there are no absolute figures of memory */
};

/* What is expected under a row's allocator. */
struct compare_expected {
    double peak_bytes, mean_bytes, end_bytes; /* RSS of the process */
    double cpu_change;                        /* s, most likely difference from the original, */
    double cpu_change_least, cpu_change_most; /* and its range; unknown with few runs */
};

/* The trace as it would be if the code were changed (what_if.h). */
struct compare_changed {
    const struct change_list *list;
    char ordered[PATH_MAX]; /* the stream */
    json_t *null_report;    /* of that */
    struct change_result result;
};

/* One entry of the list, and its results. */
struct compare_row {
    const struct compare_entry *entry;
    const struct compare_changed *changed; /* NULL: the trace is replayed as it is */
    struct allocator_found found;
    char label[256];          /* allocator and settings, for people */
    char why[PATH_MAX + 256]; /* empty, or why there are no numbers */
    struct process_end end;   /* how the replay ended that there are no numbers of */
    json_t *reports;     /* one a round, each with the `latency` of all rounds that time calls */
    json_t *timed;       /* reports of the rounds that only time calls */
    json_t *series;      /* curves of one round, or NULL */
    double series_looks; /* the number of looks in them */
    struct compare_expected expected;
    double more_bytes; /* that the program may have beyond its replays (contention.h) */
    char printed[256]; /* first line that the allocator printed in any round; empty: none */
    unsigned rank[COMPARE_MEASURES]; /* from 1; 0: none */
    bool rank_shared[COMPARE_MEASURES];
};

/* The result by one measure. */
struct compare_verdict {
    const struct compare_row **order; /* all rows, best first */
    size_t ranked, best;              /* how many have a rank; how many rank 1 */
    const struct compare_row *next;   /* the row of the second rank that is closest, or NULL */
    const struct compare_row *before; /* the row of rank 1 that leads it by `lead` */
    double before_median;
    struct rank_difference lead; /* next minus before */
};

/* Why a number, or a whole row, is not to be trusted. */
struct compare_warning {
    const struct compare_row *row; /* NULL: the whole comparison */
    const char *number;            /* key of the number that it is about, or NULL */
    char text[400];
};

struct compare {
    struct compare_options options;
    struct process_directory directory;
    char ordered[PATH_MAX];          /* the stream that is replayed */
    struct others others;            /* what of the process was not its allocator's */
    char *program_has;               /* linked_list() */
    char replay[PATH_MAX];           /* the program */
    json_t *machine;                 /* machine.h, before the first replay */
    json_t *null_report;             /* report of engine null */
    double null_s;                   /* how long that took */
    struct compare_changed *changed; /* one for each of options.what_ifs, or NULL */
    double lane_peaks_bytes;         /* contention.h; NAN: not needed */
    struct compare_row *rows;        /* the last one may be that of `recorded_entry`, and hidden */
    size_t rows_count, rows_hidden;
    struct recorded_settings recorded_settings; /* of the recorded allocator */
    struct compare_entry recorded_entry;
    bool recorded_is_added;             /* a row for it */
    const struct compare_row *recorded; /* with the allocator of the recording, or NULL */
    struct compare_row uncleared; /* the same, as the recorder's tcmalloc leaves pages alone that upstream's
                                     clears for calloc(); without reports: there are none */
    struct compare_original original;
    bool few_calls; /* too few for a ranking */
    struct compare_verdict verdicts[COMPARE_MEASURES];
    struct compare_warning *warnings;
    size_t warnings_count, warnings_room;
    bool warnings_lack; /* one, for want of memory */
    unsigned runs_done; /* of all rows; for the progress line */
    double started;     /* s, monotonic */
};

/* A row for the entry, without reports as yet. */
void compare_row_open(struct compare_row *row, const struct compare_entry *entry);

/* The same for the trace as changed. */
void compare_row_open_changed(struct compare_row *row, const struct compare_entry *entry,
                              const struct compare_changed *changed);

/* The name of a row without its settings; for a library, without its directory. */
const char *compare_row_name(const struct compare_row *row);

/* Whether it has no numbers although its allocator might do: a signal or the time limit ended a
 * replay. It might have been the best. */
static inline bool compare_row_is_missing(const struct compare_row *row)
{
    return row->end.signal != 0 || row->end.timed_out;
}

/* Whether there is such a row. */
bool compare_is_missing_any(const struct compare *compare);

/* The report without an allocator of what the row replays. */
static inline const json_t *compare_row_null_report(const struct compare *compare,
                                                    const struct compare_row *row)
{
    return row->changed != NULL ? row->changed->null_report : compare->null_report;
}

/* Whether it is `none`. */
static inline bool compare_row_is_nothing(const struct compare_row *row)
{
    return row->found.known != NULL && row->found.known->where == ALLOCATOR_NOTHING;
}

/* Whether the trace has everything that the program did. */
bool compare_is_whole(const struct compare *compare);

/* The row whose memory the recorded program's is to follow; only if there is `recorded`. */
static inline const struct compare_row *compare_row_to_follow(const struct compare *compare)
{
    return json_array_size(compare->uncleared.reports) > 0 ? &compare->uncleared
                                                           : compare->recorded;
}

/* A report of any row that did not fail and is not `none`, for what is the same in all of them;
 * NULL: there is no such row. */
const json_t *compare_any_report(const struct compare *compare);

#endif
