/* executor - carries out instructions in one thread, for the engines switch and null.
 *
 *   index --> objects[index] --> address in the allocator under test
 *   lane     --> caches[lane]      --> thread cache of the original thread (engine switch)
 *
 * executor_prepare() maps all memory that a batch needs, outside the timed part. So between two
 * readings of the clock the system and the allocator get only the calls of the stream.
 *
 * Invariant   the thread cache of the current lane is attached, and caches[lane] is stale; the
 *             caches of all other lanes are in the table. The executor's own cache is attached only
 *             before executor_attach() and after executor_detach(). */
#ifndef MALLOCTAPE_REPLAY_EXECUTOR_H
#define MALLOCTAPE_REPLAY_EXECUTOR_H

#include "common/error.h"
#include "postprocess/instruction_reader.h"
#include "replay/calls.h"

struct executor {
    struct calls calls;
    void **objects;         /* by index (instruction_reader.h) */
    uint64_t objects_count; /* entries */
    uint64_t live;          /* objects that are alive */
    size_t taken;           /* instructions of batch->at that have been carried out */

    bool switching; /* thread caches are given to lanes */
    void **caches;  /* by lane, INSTRUCTION_LANES_MAX entries */
    uint64_t lane;
    void *own_cache;
    bool keeps_cache; /* at the next border: the first lane has used it before its thread begins */

    size_t at; /* index in the batch of the latest call that may not return */
};

/* Thread caches are switched when policy->switching says so and the allocator can. `latency` may be
 * NULL. False: see *error. */
bool executor_open(struct executor *executor, const struct allocator *allocator,
                   const struct policy *policy, struct latency *latency, struct error *error);

/* Makes room for the registers of a batch. */
bool executor_prepare(struct executor *executor, const struct instruction_batch *batch,
                      struct error *error);

/* From the executor's own cache to that of the current lane, and back. No-ops without switching. */
void executor_attach(struct executor *executor);
void executor_detach(struct executor *executor);

/* Carries out the instructions `from` to `to` - 1 of a batch; a batch may be carried out in several
 * parts, one after another. Returns `to`, or the index of the one that asked for memory and got
 * none. */
size_t executor_run(struct executor *executor, const struct instruction_batch *batch, size_t from,
                    size_t to);

/* The same without the allocator: what a replay costs by itself. Leaves the objects as they are. */
size_t executor_run_null(struct executor *executor, const struct instruction_batch *batch,
                         size_t from, size_t to);

/* Frees all objects that are alive, with free(). Returns how many. */
uint64_t executor_free_all(struct executor *executor);

void executor_close(struct executor *executor);

#endif
