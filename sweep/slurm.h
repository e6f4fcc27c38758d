/* sweep/slurm - carries a round of a sweep out on a cluster that Slurm manages.
 *
 *   DIR/slurm/N.list   lines of one submission: task I of its job array carries line I out
 *   DIR/slurm/N.ids    their IDs
 *
 * All jobs have one name, which is made of the directory, and N as their comment: what Slurm and
 * these files say is all that is known of jobs, so whoever looks later knows as much. What has no
 * result is missing, whatever Slurm says of its job. */
#ifndef MALLOCTAPE_SWEEP_SLURM_H
#define MALLOCTAPE_SWEEP_SLURM_H

#include <stdbool.h>
#include <stddef.h>

#include "sweep/tasks.h"

/* How often a task that leaves no result is submitted again. */
enum { SLURM_AGAIN_MAX = 3 };

/* What Slurm says of a task; of one that was submitted several times, of the latest. */
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

/* Submits what lacks its result, waits for it, and submits again what did not come to one.
 * `partition` NULL: Slurm's default. False: interrupted, and the jobs go on, or nothing could be
 * submitted; it has been said. */
bool sweep_run_slurm(struct sweep *sweep, const char *partition);

/* Whether the sweep was ever submitted. */
bool slurm_was_used(const struct sweep *sweep);

/* False: Slurm does not answer, `why` has its words. */
bool slurm_read_states(const struct sweep *sweep, struct slurm_states *states, char *why,
                       size_t why_bytes);
void slurm_free_states(struct slurm_states *states);

/* NULL: it knows nothing of it. */
const struct slurm_state *slurm_state_of(const struct slurm_states *states, const char *id);

/* The last line that Slurm wrote about the latest job of the task, which it knows of for minutes only;
 * empty: none. */
void slurm_read_last_line(const struct sweep *sweep, const char *id, char *line, size_t bytes);

/* The name of the jobs: for squeue and scancel. */
void slurm_job_name(const struct sweep *sweep, char *name, size_t bytes);

#endif
