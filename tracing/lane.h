/* lane - the registry of lanes: which exist, and who may continue one.
 *
 *   UNUSED --a thread begins--> LIVE --its destructors have run--> ENDING --its id is gone--+
 *                                ^                                                          |
 *                                +---------------- another thread continues it -------------+
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

#include "capture.h"
#include "spool.h"

/* Lanes come from the system in blocks of this many. */
#define LANE_BLOCK 64u

enum lane_state { LANE_UNUSED = 0, LANE_LIVE, LANE_ENDING, LANE_TAKEN };

struct lane_registry {
    uint32_t present;     /* 0 in a forked child */
    uint32_t used;        /* lanes 0 .. used-1 have begun; read by the writer (acquire) */
    uint32_t ending;      /* lanes in state ENDING, approximately */
    uint32_t ending_from; /* where to look for one next */
    struct malloctape_lane *blocks[RAW_LANES_MAX / LANE_BLOCK]; /* wiped by fork like this */
};

/* Lane `number`, which is below registry->used. */
static inline struct malloctape_lane *lane_at(const struct lane_registry *registry, uint32_t number)
{
    return &registry->blocks[number / LANE_BLOCK][number % LANE_BLOCK];
}

/* NULL if there is no memory. */
struct lane_registry *lane_registry_create(void);
void lane_registry_release(struct lane_registry *registry);

/* Ready for the recording with this number (0: for whichever begins next), with nothing in it. */
void lane_reset(struct malloctape_lane *lane, uint32_t recording);

/* A lane for the calling thread: one whose thread has gone, or a new one; NULL if all are taken.
 * The lane is LIVE and of this thread, ready for the recording with this number; `*continued` tells
 * whether another thread had it before in the same recording, and its end is not recorded yet. */
struct malloctape_lane *lane_claim(struct lane_registry *registry, int thread_id,
                                   uint32_t recording, bool *continued);

/* The destructors of the lane's thread have run. */
void lane_end(struct lane_registry *registry, struct malloctape_lane *lane);

/* Marks live lanes as ending whose thread has gone without destructors. */
void lane_notice_gone(struct lane_registry *registry, struct malloctape_lane *lane);

/* For the writer: whether the lane's thread has gone; the lane is then the caller's until it puts
 * it back. */
bool lane_take_over(struct lane_registry *registry, struct malloctape_lane *lane);
void lane_put_back(struct lane_registry *registry, struct malloctape_lane *lane);

#endif
