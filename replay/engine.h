/* engine - one way to replay, behind a table.
 *
 *   open --> (prepare --> run)* --> finish
 *            untimed      timed
 *
 * Only run() is between two readings of the clock. The engines share one struct, so that a new way to replay adds a
 * line to the table and leaves the main program alone. */
#ifndef MALLOCTAPE_REPLAY_ENGINE_H
#define MALLOCTAPE_REPLAY_ENGINE_H

#include "replay/carrier.h"

struct engine_state {
    struct carrier carrier;
    bool cache_switching; /* thread caches follow the lanes */
    struct error error;
};

struct engine {
    const char *name;
    const char *help;
    bool calls_allocator;

    /* `state` is all zero. `allow_switching`: thread caches may be switched, if the allocator can. False: see
     * state->error. */
    bool (*open)(struct engine_state *state, const struct allocator *allocator,
                 bool allow_switching);
    /* Makes room for what the batch needs. */
    bool (*prepare)(struct engine_state *state, const struct instruction_batch *batch);
    /* Returns how many instructions were carried out; the next one could not be. */
    size_t (*run)(struct engine_state *state, const struct instruction_batch *batch);
    /* Leaves the allocator as usable as it was before open(). */
    void (*finish)(struct engine_state *state);
};

/* Ends with an entry without a name. The first one is the default. */
extern const struct engine engines[];

/* NULL when there is no engine of that name. */
const struct engine *engine_find(const char *name);

#endif
