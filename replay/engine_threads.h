/* engine_threads - a replay by as many threads as the original had.
 *
 *   batch --(dispatcher)--> unit --> pool, one for each lane --> allocator
 *                           one of THREAD_UNITS, in a ring
 *
 * The dispatcher is the thread that reads the stream. It sorts each slice by lane (work.h) and
 * hands it over (replay_thread.h); each lane's thread carries out what is the lane's, in order, and
 * waits only for objects that another lane has not yet made. When all units are out the dispatcher
 * waits for the oldest one: memory is bounded, and no lane gets further ahead of another than the
 * units hold.
 *
 * Why it cannot get stuck. Call an instruction older than another when it comes first in the
 * stream. Of all that are not yet carried out, let X be the oldest.
 *
 *   1. X is in a queue. The dispatcher hands over in the order of the stream, whole slices, and
 *      waits for others only between two of them: for the oldest unit when the ring is full, or
 *      for all.
 *   2. X is next in its lane: what precedes it there is older. The lane has a thread, or the one
 *      that cleared THREAD_ABSENT is creating it; and a thread that waits for its predecessor
 *      waits for one that only ends.
 *   3. X does not wait. An allocation never does (slots.h). A free or realloc waits for an allocation, which
 *      is older; its thread may sleep, but its maker looks whom to wake after the slice that had
 *      the allocation in it, and before it waits.
 *
 * So X is carried out, whatever else waits. The order that this rests on is one that the reader has
 * checked: no place names an object that was not allocated before. No queue can be full: a lane has at
 * most one run in each unit.
 *
 * Memory of the system's only: units, slots and stacks. A thread's creation makes the C library ask
 * calloc() for the table of its thread-local storage, when it has no used stack in its cache, and
 * free() it when that cache is full; REPORT.md says so. */
#ifndef MALLOCTAPE_REPLAY_ENGINE_THREADS_H
#define MALLOCTAPE_REPLAY_ENGINE_THREADS_H

#include "replay/engine.h"

bool threads_open(struct engine_state *state);
bool threads_prepare(struct engine_state *state, const struct instruction_batch *batch);
size_t threads_run(struct engine_state *state, const struct instruction_batch *batch, size_t from,
                   size_t to);
bool threads_drain(struct engine_state *state);
void threads_finish(struct engine_state *state);

#endif
