/* threads - how threads of the program begin and end in a recording. */
#ifndef MALLOCTAPE_THREADS_H
#define MALLOCTAPE_THREADS_H

#include "tracing/data/state.h"

/* Before the first recording. False: no key for thread-specific data is left. */
bool threads_prepare(void);

/* Gives the calling thread a lane, or makes its lane one of this recording. False: there is
 * none. */
bool threads_begin(struct malloctape_lane *lane);

#endif
