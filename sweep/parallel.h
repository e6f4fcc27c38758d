/* sweep/parallel - carries a round of a sweep out on other machines, by GNU parallel over ssh. They
 * see the sweep's directory, the traces and malloctape under the same paths. */
#ifndef MALLOCTAPE_SWEEP_PARALLEL_H
#define MALLOCTAPE_SWEEP_PARALLEL_H

#include <stdbool.h>

struct sweep;

/* `hosts`: a file as of parallel --sshloginfile. One task at a time on each; one that fails
 * is tried again, three times at most, on another where there is one. False: interrupted, or
 * it could not begin; it has been said. */
bool sweep_run_parallel(struct sweep *sweep, const char *hosts);

#endif
