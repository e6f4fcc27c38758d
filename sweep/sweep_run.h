/* sweep/run - carries out a round of a sweep on this machine, one task after another.
 *
 * This process and the running task hold a lock (DIR/lock). A sweep that begins while another one
 * is running, or while a task still runs whose sweep was killed, waits for it and then finds its
 * result. SIGINT, SIGTERM and SIGHUP end the task; the next sweep begins it anew. */
#ifndef MALLOCTAPE_SWEEP_RUN_H
#define MALLOCTAPE_SWEEP_RUN_H

#include <stdbool.h>

struct sweep;

/* Runs the commands whose results are missing. Failures are skipped; see sweep_is_done(). False:
 * interrupted, or it could not begin; the reason has been printed. */
bool sweep_run_here(struct sweep *sweep);

/* Whether a task runs here, or a sweep. */
bool sweep_is_running_here(const struct sweep *sweep);

/* From now on, signals that ask this process to end are remembered, and waiting calls return with
 * EINTR. */
void sweep_catch_signals(void);
bool sweep_interrupted(void);

#endif
