/* sweep/parallel - carries a round of a sweep out on other machines, by GNU parallel over ssh. They
 * see the sweep's directory, the traces and malloctape under the same paths. */
#ifndef MALLOCTAPE_SWEEP_PARALLEL_H
#define MALLOCTAPE_SWEEP_PARALLEL_H

#include <stdbool.h>

struct sweep;

/* How often it is begun anew for what came to no result. */
enum { PARALLEL_AGAIN_MAX = 3 };

/* `hosts`: a file as of parallel --sshloginfile. One task at a time on each. False: interrupted, or
 * it could not begin; it has been said. */
bool sweep_run_parallel(struct sweep *sweep, const char *hosts);

#endif
