/* sweep/run - carries a round of a sweep out on this machine, one task after another.
 *
 * A lock (DIR/lock) is held by this process and by the task that runs: a sweep that begins while
 * another one is under way, or while a task runs on whose sweep was killed, waits for it, and finds
 * the result there. SIGINT, SIGTERM and SIGHUP end the task; the next sweep begins it anew. */
#ifndef MALLOCTAPE_SWEEP_RUN_H
#define MALLOCTAPE_SWEEP_RUN_H

#include <stdbool.h>

struct sweep;

/* The commands that lack what they make. What fails is left out; who wants to know asks
 * sweep_is_done(). False: interrupted, or it could not begin; the reason has been printed. */
bool sweep_run_here(struct sweep *sweep);

/* Whether a task runs here, or a sweep. */
bool sweep_is_running_here(const struct sweep *sweep);

/* From now on, signals that ask this process to end are remembered; calls that wait return with
 * EINTR. */
void sweep_catch_signals(void);
bool sweep_interrupted(void);

#endif
