/* engine_threads - a replay by as many threads as the original had.
 *
 *   batch --(dispatcher)--> job --> pool, one for each lane --> allocator
 *                           one of THREAD_JOBS, in a ring
 *
 * The dispatcher is the thread that reads the stream. It sorts each slice by lane (work.h) and
 * hands it over (replay_thread.h). Each lane's thread carries out the lane's instructions in order,
 * and waits only for objects that another lane has not yet allocated. When all jobs are handed
 * over, the dispatcher waits for the oldest one. This bounds memory, and how far one lane gets
 * ahead of another.
 *
 * Why it cannot get stuck. Call an instruction older than another when it comes first in the
 * stream. Of all that are not yet carried out, let X be the oldest.
 *
 *   1. X is in a queue. The dispatcher hands over in the order of the stream, whole slices, and
 *      waits for others only between two of them: for the oldest job when the ring is full, or
 *      for all.
 *   2. X is next in its lane: what precedes it there is older. The lane has a thread, or the one
 *      that cleared THREAD_ABSENT is creating it; and a thread that waits for its predecessor
 *      waits for one that only ends.
 *   3. X does not wait. An allocation never does (slots.h). A free or realloc waits for an
 *      allocation, which is older. Its thread may sleep, but the allocating lane wakes it after the
 *      slice with the allocation, and before it waits itself.
 *
 * So X is carried out, whatever else waits. This rests on the order of the stream, which the reader
 * has checked: no position names an object that was not allocated before. No queue can be full: a
 * lane has at most one task in each job.
 *
 * Memory of the system's only: jobs, slots and stacks. A thread's creation makes the C library ask
 * calloc() for the table of its thread-local storage, when it has no used stack in its cache, and
 * free() it when that cache is full; REPORT.md says so. */
#ifndef MALLOCTAPE_REPLAY_ENGINE_THREADS_H
#define MALLOCTAPE_REPLAY_ENGINE_THREADS_H

#include "replay/engine.h"

bool threads_open(struct engine_state *state);
bool threads_prepare(struct engine_state *state, const struct instruction_batch *batch);
size_t threads_run(struct engine_state *state, const struct instruction_batch *batch, size_t from,
                   size_t to);
uint64_t threads_carried_out(const struct engine_state *state);
bool threads_drain(struct engine_state *state);
void *threads_address_of(const struct engine_state *state, uint32_t object);
uint64_t threads_free_all(struct engine_state *state);
void threads_finish(struct engine_state *state);

#endif
