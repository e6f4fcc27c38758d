#include "replay/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/call_table.h"
#include "replay/engine_threads.h"
#include "replay/new_handler.h"
#include "replay/settle.h"

#define ENGINE_ERROR_LIST(X)                        \
    X(ENGINE_ERROR_ALLOCATION, "replay_allocation", \
      "an allocation failed that had not failed when it was recorded")
enum engine_error { ENGINE_ERROR_LIST(ERROR_LIST_ENUM) };
/* No library's own object has so many bytes. */
#define OWN_BYTES_MAX ((size_t)1 << 24)

static const struct error_kind engine_errors[] = {ENGINE_ERROR_LIST(ERROR_LIST_KIND)};

/* ---- what engines share ---- */

void engine_take_back(struct instruction_totals *totals, const struct instruction_batch *batch,
                      size_t from)
{
    for (size_t i = from; i < batch->count; i++) {
        unsigned opcode = instruction_batch_opcode(batch, i);
        unsigned number = opcode & INSTRUCTION_NUMBER_MASK, shape = call_shapes[number];
        bool failed = opcode & INSTRUCTION_FAILED, unknown = opcode & INSTRUCTION_UNKNOWN;
        totals->instructions--;
        if (number < CALL_KINDS) {
            totals->calls--;
            totals->by_kind[number]--;
        }
        if (!failed && (shape_is_allocation(shape) || (shape == SHAPE_REALLOC && unknown)))
            totals->live--;
        else if (shape_is_free(shape) && !unknown)
            totals->live++;
        totals->lane_changes -= number == INSTRUCTION_LANE;
        totals->threads -= number == INSTRUCTION_THREAD_BEGIN;
        totals->ticks -= number == INSTRUCTION_TICK;
        totals->unknown -= unknown;
        totals->freed_twice -= number == INSTRUCTION_FREED_TWICE;
    }
}

void engine_set_allocation_error(struct error *error, const struct instruction *one,
                                 uint64_t number, uint64_t offset)
{
    error_set(error, &engine_errors[ENGINE_ERROR_ALLOCATION], offset,
              "instruction %" PRIu64 ": %s of %" PRIu64 " bytes", number,
              call_names[instruction_number(one)], one->size);
}

static bool engine_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    return executor_prepare(&state->executor, batch, &state->error);
}

/* ---- switch ---- */

/* How lanes get thread caches, or why not. */
static void switch_name_caches(struct engine_state *state)
{
    state->cache_switching = state->policy->switching && state->allocator->set_cache != NULL;
    if (state->cache_switching)
        snprintf(state->caches, sizeof state->caches,
                 "release_malloc_thread_cache() and set_malloc_thread_cache()");
    else if (!state->policy->switching)
        snprintf(state->caches, sizeof state->caches,
                 "not switched: NO_THREAD_CACHE_SWITCH is set");
    else
        snprintf(state->caches, sizeof state->caches,
                 "not switched: %s has no set_malloc_thread_cache()", state->allocator->name);
}

/* The recorder's library made objects before the first recorded call. Here they are made again, so
 * that tcmalloc has the same free memory. */
static void switch_make_own(struct engine_state *state)
{
    const char *at = state->own_sizes;
    const char *end = at + state->own_sizes_bytes;
    if (state->allocator->library.MallocExtension_MarkThreadIdle == NULL) return;
    while (at < end) {
        size_t size = 0;
        for (; at < end && *at >= '0' && *at <= '9' && size < OWN_BYTES_MAX; at++)
            size = size * 10 + (size_t)(*at - '0');
        if (size > 0 && size < OWN_BYTES_MAX) state->allocator->malloc(size);
        at++;
    }
    state->executor.keeps_cache = true;
}

static bool switch_open(struct engine_state *state)
{
    switch_name_caches(state);
    if (!executor_open(&state->executor, state->allocator, state->policy, state->latency,
                       &state->error))
        return false;
    new_handler_install();
    state->own_heap_bytes = settle(state->allocator);
    executor_attach(&state->executor);
    switch_make_own(state);
    return true;
}

static size_t switch_run(struct engine_state *state, const struct instruction_batch *batch,
                         size_t from, size_t to)
{
    return executor_run(&state->executor, batch, from, to);
}

/* On a copy, so that what is sampled stays the same. */
static void switch_run_null(struct engine_state *state, const struct instruction_batch *batch,
                            size_t from, size_t to)
{
    struct executor copy = state->executor;
    executor_run_null(&copy, batch, from, to);
}

static void switch_note_addresses(struct engine_state *state, uint64_t *addresses)
{
    state->executor.calls.addresses = addresses;
}

static uint64_t switch_free_all(struct engine_state *state)
{
    return executor_free_all(&state->executor);
}

static void switch_finish(struct engine_state *state)
{
    executor_detach(&state->executor);
    state->realigned = state->executor.calls.realigned;
    executor_close(&state->executor);
}

/* ---- null ---- */

static bool null_open(struct engine_state *state)
{
    return executor_open(&state->executor, state->allocator, state->policy, NULL, &state->error);
}

/* Entries that nobody ever wrote would all be the same memory, the system's one page of zeroes. */
static bool null_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct executor *executor = &state->executor;
    if (!executor_prepare(executor, batch, &state->error)) return false;
    for (; state->null_entries < batch->registers; state->null_entries++)
        executor->objects[state->null_entries] = executor;
    return true;
}

static size_t null_run(struct engine_state *state, const struct instruction_batch *batch,
                       size_t from, size_t to)
{
    return executor_run_null(&state->executor, batch, from, to);
}

static void null_finish(struct engine_state *state)
{
    executor_close(&state->executor);
}

/* ---- the table ---- */

const struct engine engines[] = {
    {
        .name = "switch",
        .calls_allocator = true,
        .indices = true,
        .open = switch_open,
        .prepare = engine_prepare,
        .run = switch_run,
        .run_null = switch_run_null,
        .note_addresses = switch_note_addresses,
        .free_all = switch_free_all,
        .finish = switch_finish,
    },
    {
        .name = "threads",
        .calls_allocator = true,
        .open = threads_open,
        .prepare = threads_prepare,
        .run = threads_run,
        .carried_out = threads_carried_out,
        .drain = threads_drain,
        .address_of = threads_address_of,
        .free_all = threads_free_all,
        .finish = threads_finish,
    },
    {
        .name = "null",
        .calls_allocator = false,
        .indices = true,
        .open = null_open,
        .prepare = null_prepare,
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
