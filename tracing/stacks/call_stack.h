/* call_stack - the call stack of the calling thread, in its lane (FORMAT.md 2.8).
 *
 * A lane remembers the frames of its latest stack. The words by which they were found tell which
 * are still there, so rules and nodes are only looked up for the others (docs/capture.md).
 *
 * Threads   the lane's own. A call that interrupts another one here, in a signal handler, has no
 *           stack. */
#ifndef MALLOCTAPE_CALL_STACK_H
#define MALLOCTAPE_CALL_STACK_H

#include "tracing/data/state.h"

#define STACKS_DEPTH_MAX 128u

/* To be called before a recording with stacks. NULL, or why they cannot be recorded. */
const char *stacks_begin(void);

/* The node of the calling thread's stack, less than RAW_STACK_LIMIT; 0: it has none. What is new in
 * the stack is defined in the lane, and may fill the slot; if no other was left, and no writer, the
 * recording has ended. Keeps errno. */
uint32_t stacks_find(struct malloctape_lane *lane);

/* Whether the caller may be a signal handler that has interrupted this library in this thread: then
 * nothing may be written into the lane. `outside`: where the stack of what has called this library
 * begins. Keeps errno. */
bool stacks_interrupt(struct malloctape_lane *lane, const void *outside);

/* Writes the stack of the next allocation, realloc or free. There may be no room in the slot
 * afterwards; as above. */
void stacks_put(struct malloctape_lane *lane);

#endif
