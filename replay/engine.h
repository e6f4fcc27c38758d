/* engine - one way to replay, behind a table.
 *
 *   open --> (prepare --> run ... run)* --> drain --> finish
 *            untimed      timed             timed
 *
 * Instructions come in batches, and a batch in slices: the main program cuts at ticks, at the end
 * of the warm-up and at the limit, and between two slices it looks at memory and waits for the
 * original's time. The engines share one struct, so that a new way to replay adds a line to the
 * table and leaves the main program alone.
 *
 * An engine either carries out a slice within run(), or hands it over to threads of its own and has
 * drain(). In the latter case it copies what it needs: a batch is valid only until the next
 * prepare(). */
#ifndef MALLOCTAPE_REPLAY_ENGINE_H
#define MALLOCTAPE_REPLAY_ENGINE_H

#include "common/error.h"
#include "replay/allocator.h"
#include "replay/latency.h"
#include "replay/policy.h"
#include "replay/promises.h"
#include "stream/instruction_reader.h"

struct engine_state {
    /* Before open(). */
    const struct allocator *allocator;
    const struct policy *policy;
    const char *own_sizes; /* of the recorder's library's objects (INSTRUCTIONS.md); no zero byte */
    size_t own_sizes_bytes;
    uint64_t *addresses; /* receives objects' addresses, by index in the batch; NULL: not wanted,
                            as with any engine but switch */
    struct promises *promises;         /* of the allocator */
    struct latency *latency;           /* has all samples once drain() has returned */
    struct instruction_totals *totals; /* of what was handed over; a drain() that fails subtracts
                                          what was not carried out */

    /* Set by open(). */
    bool cache_switching;    /* thread caches follow the lanes */
    char caches[160];        /* by which functions, or why not; empty: nothing to say */
    uint64_t own_heap_bytes; /* bytes of the heap that are the replay's own */

    struct error error; /* when a function below has failed */
    /* Set by count() and finish(), as in calls.h. */
    uint64_t realigned, untouched, reallocs, moved;

    void *own; /* the engine's; set by open() */
};

struct engine {
    const char *name;
    bool calls_allocator;
    bool indices; /* batches have indices instead of registers */

    /* `state` is zero but for its first eight members. False: see state->error. */
    bool (*open)(struct engine_state *state);
    /* Makes room for what the batch needs. False: see state->error. */
    bool (*prepare)(struct engine_state *state, const struct instruction_batch *batch);
    /* Carries out the instructions `from` to `to` - 1, or hands them over. Returns `to`, or the
     * index of the first one that could not be carried out; state->error may say why. */
    size_t (*run)(struct engine_state *state, const struct instruction_batch *batch, size_t from,
                  size_t to);
    /* Goes through a whole batch without calling the allocator, before run() carries it out; leaves
     * the state unchanged. NULL when the engine cannot. */
    void (*run_null)(struct engine_state *state, const struct instruction_batch *batch);
    /* How many slices, counted from the first that run() was given, have been carried out without a
     * gap. NULL when run() does it all. */
    uint64_t (*carried_out)(const struct engine_state *state);
    /* Waits until everything that was handed over has been carried out; run() may follow. NULL when
     * run() does it all. False: state->error says which instruction could not be carried out. */
    bool (*drain)(struct engine_state *state);
    /* Sets what finish() would, so far. Only when everything has been carried out. */
    void (*count)(struct engine_state *state);
    /* The address of a live object, given its register or index. Only when everything has been
     * carried out. NULL when the engine keeps no objects. */
    void *(*address_of)(const struct engine_state *state, uint64_t object);
    /* Frees all live objects and returns their number. Only when everything has been carried out.
     * NULL when the engine keeps no objects. */
    uint64_t (*free_all)(struct engine_state *state);
    /* Leaves the allocator as usable as it was before open(). */
    void (*finish)(struct engine_state *state);
};

extern const struct engine engine_switch, engine_threads, engine_null;

/* Subtracts an instruction that was not carried out from the totals. */
void engine_take_back(struct instruction_totals *totals, unsigned opcode);

/* Reports that instruction `number`, in the block at `offset`, could not be carried out, or that the
 * allocator broke a promise there. */
void engine_set_allocation_error(struct error *error, struct promises *promises, unsigned opcode,
                                 uint64_t size, uint64_t number, uint64_t offset);

/* NULL when there is no engine of that name. */
const struct engine *engine_find(const char *name);

#endif
