/* carrier - one OS thread that carries out instructions, and what it needs for that.
 *
 *   position --> objects[position] --> address in the allocator under test
 *   lane     --> caches[lane]      --> thread cache of the original thread, detached (engine switch)
 *
 * Everything here is mapped before it is needed, by carrier_prepare(), outside the timed part: between two clock
 * readings nothing is asked of the system or of the allocator but what the stream says.
 *
 * One call in `sample_every`, on average, is timed by itself. Which ones is random, so that no pattern of the program can
 * hide from it, but the same in every replay of a stream.
 *
 * Invariant   while a lane is current, its cache is attached and caches[lane] is stale; every other cache stands
 *             in the table. The carrier's own cache is attached only before carrier_attach() and after
 *             carrier_detach(). */
#ifndef MALLOCTAPE_REPLAY_CARRIER_H
#define MALLOCTAPE_REPLAY_CARRIER_H

#include "common/error.h"
#include "postprocess/instruction_reader.h"
#include "replay/allocator.h"
#include "replay/latency.h"
#include "replay/policy.h"

struct carrier;

/* The object that instruction `at` of the batch ends or changes is not there yet. Returns when it is, or false: it will not
 * come. */
typedef bool carrier_await(struct carrier *carrier, size_t at);

struct carrier {
    void **objects;         /* by position (instruction_reader.h) */
    uint64_t objects_count; /* entries */
    uint64_t live;          /* objects that are alive */
    void *nowhere;          /* what carrier_run_null() would write */
    size_t taken;           /* instructions of batch->at that have been carried out */
    const struct allocator *allocator;

    bool switching; /* thread caches are given to lanes */
    void **caches;  /* by lane, INSTRUCTION_LANES_MAX entries */
    uint64_t lane;
    void *own_cache;

    enum touch touch;
    bool heap_calls;
    uint64_t *addresses; /* where objects came to be, by index in the batch; NULL: not wanted */

    struct latency *latency;      /* NULL: no call is timed by itself */
    struct latency_list *samples; /* where they go; NULL: to `latency` itself */
    uint64_t sample_every;
    uint64_t until_sample; /* instructions before the one that will be timed */
    uint64_t random;       /* state of a xorshift generator */
    uint64_t sample_ticks; /* of the call just timed; CARRIER_NO_SAMPLE when there was none */

    carrier_await *await; /* NULL: no other carrier works on these objects */

    size_t at; /* index in the batch; kept up to date only before calls that may not return */
};

#define CARRIER_NO_SAMPLE UINT64_MAX

/* Thread caches are switched when policy->switching says so and the allocator can. `latency` may be NULL. False: see
 * *error. */
bool carrier_open(struct carrier *carrier, const struct allocator *allocator,
                  const struct policy *policy, struct latency *latency, struct error *error);

/* A carrier among others, carrier number `number`. What they share is `objects`, in which instructions name slots
 * (shared.h) and not positions, so that batches have `at` only, and `latency`; so the samples are left in a list. Before
 * carrier_run(), which is the only other function for it, the caller sets `objects`, `objects_count`, and `samples` with room
 * for as many as there are instructions. */
void carrier_open_shared(struct carrier *carrier, const struct allocator *allocator,
                         const struct policy *policy, struct latency *latency, uint32_t number,
                         carrier_await *await);

/* Makes room for the registers of a batch. */
bool carrier_prepare(struct carrier *carrier, const struct instruction_batch *batch,
                     struct error *error);

/* From the carrier's own cache to that of the current lane, and back. No-ops without switching. */
void carrier_attach(struct carrier *carrier);
void carrier_detach(struct carrier *carrier);

/* Carries out the instructions `from` to `to` - 1 of a batch on the allocator; a batch may be carried out in several parts, one
 * after another. Returns `to`, or the index of the one that asked for memory and got none, or whose object will not come. */
size_t carrier_run(struct carrier *carrier, const struct instruction_batch *batch, size_t from,
                   size_t to);

/* The same without the allocator: what a replay costs by itself. Leaves the objects as they are. */
size_t carrier_run_null(struct carrier *carrier, const struct instruction_batch *batch, size_t from,
                        size_t to);

void carrier_close(struct carrier *carrier);

#endif
