#include "replay/engine.h"

#include <string.h>

#include "replay/new_handler.h"

static bool engine_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    return carrier_prepare(&state->carrier, batch, &state->error);
}

/* ---- switch ---- */

static bool switch_open(struct engine_state *state, const struct allocator *allocator,
                        bool allow_switching)
{
    state->cache_switching = allow_switching && allocator->set_cache != NULL;
    if (!carrier_open(&state->carrier, allocator, state->cache_switching, &state->error))
        return false;
    new_handler_install();
    carrier_attach(&state->carrier);
    return true;
}

static size_t switch_run(struct engine_state *state, const struct instruction_batch *batch)
{
    return carrier_run(&state->carrier, batch);
}

static void switch_finish(struct engine_state *state)
{
    carrier_detach(&state->carrier);
    carrier_close(&state->carrier);
}

/* ---- null ---- */

static bool null_open(struct engine_state *state, const struct allocator *allocator,
                      bool allow_switching)
{
    (void)allow_switching;
    return carrier_open(&state->carrier, allocator, false, &state->error);
}

static size_t null_run(struct engine_state *state, const struct instruction_batch *batch)
{
    return carrier_run_null(&state->carrier, batch);
}

static void null_finish(struct engine_state *state)
{
    carrier_close(&state->carrier);
}

/* ---- the table ---- */

const struct engine engines[] = {
    {
        .name = "switch",
        .help = "one thread, which takes over the thread cache of each original thread in turn",
        .calls_allocator = true,
        .open = switch_open,
        .prepare = engine_prepare,
        .run = switch_run,
        .finish = switch_finish,
    },
    {
        .name = "null",
        .help = "everything but the allocator: what a replay costs by itself",
        .calls_allocator = false,
        .open = null_open,
        .prepare = engine_prepare,
        .run = null_run,
        .finish = null_finish,
    },
    {.name = NULL},
};

const struct engine *engine_find(const char *name)
{
    for (const struct engine *engine = engines; engine->name != NULL; engine++)
        if (strcmp(engine->name, name) == 0) return engine;
    return NULL;
}
