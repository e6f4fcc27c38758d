/* sweep/tasks - the list of commands that a plan becomes, and the directory of the sweep.
 *
 *   DIR/plan.json      the plan, with absolute paths
 *   DIR/order          commands that put recordings in order, one a line: DIR/traces/NAME
 *   DIR/tasks          commands that compare, one a line: DIR/results/ID.json
 *   DIR/results/ID.again   is there if signals ended replays, so that a part of the result is missing
 *   DIR/results.list   the IDs whose results belong to the table
 *   DIR/groups         which entries each ID has (sweep/kept.h)
 *   DIR/logs/ID        what the command printed
 *   DIR/order.sh, compare.sh   what the lines call
 *
 * A task is one whole comparison of one trace. Its result is renamed into place; a task whose
 * result is whole does nothing, so each line may be run any number of times, by anything that can run
 * a line of shell. An ID is the trace's name, the number of the group of entries, and a checksum of
 * everything that the result depends on: when a plan changes, results that are still valid are
 * kept.
 *
 * A trace with more entries than plan.entries_per_task is split into several tasks. `compare` adds
 * the recorded allocator to each part; if it does not know that one, parts could not be joined, and
 * the trace is not split. */
#ifndef MALLOCTAPE_SWEEP_TASKS_H
#define MALLOCTAPE_SWEEP_TASKS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "sweep/kept.h"
#include "sweep/plan.h"

enum { SWEEP_ID_BYTES = 128 };

/* What is known of a trace. */
struct sweep_facts {
    bool recorded_is_known; /* `compare` knows the recorded allocator */
    double events;
    double peak_bytes; /* RSS of the program; 0: not known */
};

/* One command. */
struct sweep_job {
    char id[SWEEP_ID_BYTES];
    char *result;                   /* the file that it makes */
    char *line;                     /* the command */
    size_t row;                     /* of the plan */
    size_t *entries, entries_count; /* indexes in the row's list; none: puts the trace in order */
    unsigned runs;
};

struct sweep_list {
    struct sweep_job *jobs;
    size_t count, room;
};

struct sweep {
    char directory[PATH_MAX];
    struct plan plan;
    struct sweep_list orders; /* at most one a row */
    struct sweep_list tasks;  /* all; with --halving, those of all rounds so far */
    struct kept kept;         /* results of earlier plans */
    size_t round_begin;       /* the tasks from this index on belong to the current round */
};

/* Reads the plan and makes the directory. `path` is a plan, or the directory of a sweep;
 * `directory` NULL: NAME.sweep beside the plan. False: `why` says what is wrong. */
bool sweep_open(struct sweep *sweep, const char *path, const char *directory, char *why,
                size_t why_bytes);

void sweep_close(struct sweep *sweep);

/* Opens the directory only, which need not have a plan any more. False: as above. */
bool sweep_find(struct sweep *sweep, const char *path, const char *directory, char *why,
                size_t why_bytes);

/* How the tasks of a round differ from the plan. */
struct sweep_round {
    const bool *const *wanted; /* for each row, which entries; NULL: all */
    unsigned runs;             /* 0: those of the plan */
    bool no_latency;
};

/* Begins a round: adds its tasks, and writes the lists. False: as above. */
bool sweep_begin_round(struct sweep *sweep, const struct sweep_round *round, char *why,
                       size_t why_bytes);

/* Whether the job's result exists, with all its parts. */
bool sweep_is_done(const struct sweep *sweep, const struct sweep_job *job);

/* Whether a task of this round lacks its result and reads what the job puts in order. */
bool sweep_is_needed(const struct sweep *sweep, const struct sweep_job *order);

/* The number of results that are missing in this round. */
size_t sweep_round_missing(const struct sweep *sweep);

/* DIR/NAME, or DIR/NAME/FILE if `file` is not empty, in a static buffer that the next call
 * overwrites. */
const char *sweep_path(const struct sweep *sweep, const char *name, const char *file);

/* Reads the whole trace. If it cannot be read, nothing is known; its tasks will report why. */
struct sweep_facts sweep_read_facts(const struct plan_row *row);

/* The IDs of results.list; to be freed with sweep_free_results(). */
char **sweep_read_results(const struct sweep *sweep, size_t *count);
void sweep_free_results(char **ids, size_t count);

/* The same of the result of an ID. */
bool sweep_has_result(const struct sweep *sweep, const char *id);

/* The last non-empty line of a file; empty: there is none. */
void sweep_read_last_line(const char *path, char *line, size_t bytes);

#endif
