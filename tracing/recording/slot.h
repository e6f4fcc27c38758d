/* slot - a lane gets slots of the spool, and records in each what must come first.
 *
 * The calling thread owns the lane, which is marked busy. */
#ifndef MALLOCTAPE_SLOT_H
#define MALLOCTAPE_SLOT_H

#include "tracing/data/state.h"

/* The thread may be inside the allocator, with its locks: a slot is taken without asking that
 * anything. */
extern MALLOCTAPE_THREAD_LOCAL bool slot_asks_nothing;

/* Gives the lane a new slot. False: it has found none, or recording has ended. */
bool slot_take(struct malloctape_lane *lane);

/* From now on the lane's thread is recorded. It may take the fast path, unless that is off for all
 * or nothing is recorded any more. The lane has room. */
void slot_enable_fast_path(struct malloctape_lane *lane);

/* Records that the lane's thread begins, and before that, if it is `continued`, that the thread
 * before has ended: now, or when the lane gets a slot. */
void slot_begin_thread(struct malloctape_lane *lane, bool continued);

/* Whether there is room for a record that is no event; takes another slot if need be. The lane is
 * not marked busy. The thread may be in the middle of a call and hold a lock of the allocator. */
bool slot_has_room(struct malloctape_lane *lane, long units);

/* An event found no slot. Does nothing if that is because recording ends. */
void slot_lose(struct malloctape_lane *lane);

#endif
