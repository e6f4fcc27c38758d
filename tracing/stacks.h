/* stacks - the call stack of the calling thread, in its lane (FORMAT.md 2.8).
 *
 * A lane remembers the frames of its latest stack: which are still there is seen by the words in the
 * stack that they were found by, so rules and nodes are only looked up for the others
 * (docs/capture.md).
 *
 * Threads   the lane's own. A call that interrupts another one here, in a signal handler, has no
 *           stack. */
#ifndef MALLOCTAPE_STACKS_H
#define MALLOCTAPE_STACKS_H

#include "capture.h"

#define STACKS_DEPTH_MAX 128u

/* Before a recording begins in which stacks are recorded. NULL, or why they cannot be. */
const char *stacks_begin(void);

/* Writes the stack of the next allocation, realloc or free. There may be no room in the slot afterwards. */
void stacks_put(struct malloctape_lane *lane);

#endif
