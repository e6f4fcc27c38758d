/* sweep/slurm - carries out a round of a sweep on a cluster that Slurm manages.
 *
 *   DIR/slurm/N.list   lines of one submission: task I of its job array runs line I
 *   DIR/slurm/N.ids    their IDs
 *
 * All jobs have the same name, made from the directory, and N as their comment. Slurm and these
 * files have all information about jobs, so a later process knows as much. A task without a result
 * is missing, whatever Slurm says about its job. */
#ifndef MALLOCTAPE_SWEEP_SLURM_H
#define MALLOCTAPE_SWEEP_SLURM_H

#include <stdbool.h>
#include <stddef.h>

#include "sweep/tasks.h"

/* How often a task without a result is submitted again. */
enum { SLURM_AGAIN_MAX = 3 };

/* What Slurm says about a task; if it was submitted several times, about the latest. */
struct slurm_state {
    char id[SWEEP_ID_BYTES];
    char state[32], reason[96], node[64];
    unsigned list; /* N */
    unsigned long job;
    bool active; /* it runs or will */
};

struct slurm_states {
    struct slurm_state *states;
    size_t count, room;
};

/* Submits tasks without results, waits for them, and submits those again that fail. `partition`
 * NULL: Slurm's default. False: interrupted (the jobs go on), or nothing could be submitted; a
 * message has been printed. */
bool sweep_run_slurm(struct sweep *sweep, const char *partition);

/* Whether the sweep was ever submitted. */
bool slurm_was_used(const struct sweep *sweep);

/* False: Slurm does not answer; `why` is its message. */
bool slurm_read_states(const struct sweep *sweep, struct slurm_states *states, char *why,
                       size_t why_bytes);
void slurm_free_states(struct slurm_states *states);

/* NULL: Slurm does not know the task. */
const struct slurm_state *slurm_state_of(const struct slurm_states *states, const char *id);

/* The last line that Slurm wrote about the latest job of the task, which it forgets after minutes;
 * empty: none. */
void slurm_read_last_line(const struct sweep *sweep, const char *id, char *line, size_t bytes);

/* The name of the jobs, for squeue and scancel. */
void slurm_job_name(const struct sweep *sweep, char *name, size_t bytes);

#endif
