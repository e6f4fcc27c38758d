/* lane - the registry of lanes: which exist, and who may continue one (state.h).
 *
 * The last frees of a thread come after its destructors, so it goes on using its lane. Another
 * thread gets the lane only when the kernel says that the first one is gone. Threads that never run
 * destructors (raw clone) are noticed by the writer, which asks of silent lanes. A lane stays with
 * its thread from one recording to the next.
 *
 * Threads   No locks, because a thread may be stopped for good anywhere in here, for example by
 *           _exit() in a signal handler. Nobody waits for it. Whoever takes a lane's state out of
 *           ENDING by a compare-and-swap owns the lane until it stores the next state. */
#ifndef MALLOCTAPE_LANE_H
#define MALLOCTAPE_LANE_H

#include "state.h"

/* NULL if there is no memory. */
struct lane_registry *lane_registry_create(void);
void lane_registry_release(struct lane_registry *registry);

/* Nothing of the recording before is in the lane for the next one. Its thread, which records nothing
 * now, may be looking at it. */
void lane_forget(struct malloctape_lane *lane);

/* Ready for the recording with this number, with nothing in it. Who has the lane. */
void lane_reset(struct malloctape_lane *lane, uint32_t recording_number);

/* A lane for the calling thread: one whose thread has gone, or a new one; NULL if all are taken.
 * The lane is LIVE and of this thread, ready for the recording with this number; `*continued` tells
 * whether another thread had it before in the same recording, and its end is not recorded yet. */
struct malloctape_lane *lane_claim(struct lane_registry *registry, int thread_id,
                                   uint32_t recording_number, bool *continued);

/* The destructors of the lane's thread have run. */
void lane_end(struct lane_registry *registry, struct malloctape_lane *lane);

/* Marks live lanes as ending whose thread has gone without destructors. */
void lane_notice_gone(struct lane_registry *registry, struct malloctape_lane *lane);

/* For the writer: whether the lane's thread has gone; the lane is then the caller's until it puts
 * it back. */
bool lane_take_over(struct lane_registry *registry, struct malloctape_lane *lane);
void lane_put_back(struct lane_registry *registry, struct malloctape_lane *lane);

#endif
