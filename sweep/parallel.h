/* sweep/parallel - carries out a round of a sweep on other machines, by GNU parallel over ssh. They
 * must have the sweep's directory, the traces and malloctape at the same paths. */
#ifndef MALLOCTAPE_SWEEP_PARALLEL_H
#define MALLOCTAPE_SWEEP_PARALLEL_H

#include <stdbool.h>

struct sweep;

/* `hosts`: a file for parallel --sshloginfile. Each host runs one task at a time; one that fails is
 * tried again, at most three times, on another host if there is one. False: interrupted, or it
 * could not begin; a message has been printed. */
bool sweep_run_parallel(struct sweep *sweep, const char *hosts);

#endif
