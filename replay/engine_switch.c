/* engine_switch - one thread carries out all instructions: engines switch and null.
 *
 *   index --> objects[index] --> address in the allocator under test
 *   lane  --> caches[lane]   --> thread cache of the original thread (engine switch)
 *
 * prepare() maps all memory that a batch needs, outside the timed part. So between two readings of
 * the clock the system and the allocator get only the calls of the stream.
 *
 * Invariant   the thread cache of the current lane is attached, and caches[lane] is stale; the
 *             caches of all other lanes are in the table. This thread's own cache is attached only
 *             before executor_attach() and after executor_detach(). */
#include <setjmp.h>
#include <stdio.h>

#include "common/pages.h"
#include "replay/calls.h"
#include "replay/engine.h"
#include "replay/new_handler.h"
#include "replay/settle.h"

#define CACHES_BYTES (INSTRUCTION_LANES_MAX * sizeof(void *))

/* More bytes than any object of the recorder's library has. */
#define OWN_BYTES_MAX ((size_t)1 << 24)

struct executor {
    struct calls calls;
    void **objects;               /* by index (instruction_reader.h) */
    uint64_t objects_count;       /* entries */
    uint64_t null_entries;        /* of these, written by engine null */
    uint64_t live;                /* objects that are alive */
    struct instruction_walk walk; /* in the current batch, after what has been carried out */

    bool switching;                   /* thread caches are given to lanes */
    struct ThreadCacheState **caches; /* by lane, INSTRUCTION_LANES_MAX entries */
    uint64_t lane;
    struct ThreadCacheState *own_cache;
    bool keeps_cache; /* at the first border, as switch_make_own() has used the cache */

    size_t at; /* index in the batch of the latest call that may not return */
};

/* ---- opening and closing ---- */

static bool executor_open(struct engine_state *state, struct latency *latency)
{
    struct executor *executor = state->own = pages_map(sizeof *executor);
    if (executor == NULL) return error_set_system(&state->error, "no memory for an engine");
    executor->switching = state->policy->switching && state->allocator->set_cache != NULL;
    executor->caches = pages_map(CACHES_BYTES);
    calls_open(&executor->calls, state->allocator, state->policy, state->promises, latency, 0);
    executor->calls.addresses = state->addresses;
    return executor->caches != NULL ||
           error_set_system(&state->error, "no memory for thread caches");
}

static void executor_count(struct engine_state *state)
{
    const struct executor *executor = state->own;
    state->realigned = executor->calls.realigned;
    state->untouched = executor->calls.untouched;
    state->reallocs = executor->calls.reallocs;
    state->moved = executor->calls.moved;
}

static void executor_close(struct engine_state *state)
{
    struct executor *executor = state->own;
    executor_count(state);
    pages_unmap(executor->caches, CACHES_BYTES);
    pages_unmap(executor->objects, executor->objects_count * sizeof(void *));
    pages_unmap(executor, sizeof *executor);
}

static bool executor_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct executor *executor = state->own;
    return pages_reserve(&executor->objects, &executor->objects_count, batch->registers,
                         INSTRUCTION_BLOCK_MAX, sizeof *executor->objects) ||
           error_set_system(&state->error, "no memory for %llu registers",
                            (unsigned long long)batch->registers);
}

/* ---- thread caches ---- */

static struct ThreadCacheState *executor_release(const struct executor *executor)
{
    struct ThreadCacheState *cache = NULL;
    executor->calls.allocator->release_cache(&cache);
    return cache;
}

static void executor_attach(struct executor *executor)
{
    if (!executor->switching) return;
    executor->own_cache = executor_release(executor);
    executor->calls.allocator->set_cache(executor->caches[executor->lane]);
}

static void executor_detach(struct executor *executor)
{
    if (!executor->switching) return;
    executor->caches[executor->lane] = executor_release(executor);
    executor->calls.allocator->set_cache(executor->own_cache);
}

static void executor_switch(struct executor *executor, uint64_t lane)
{
    if (executor->switching) {
        executor->caches[executor->lane] = executor_release(executor);
        executor->calls.allocator->set_cache(executor->caches[lane]);
    }
    executor->lane = lane;
}

/* ---- instructions ---- */

/* False: there is no memory for the object. `at`: its index in the batch. */
CALLS_INLINE bool executor_allocate(struct executor *executor, enum how how, size_t at,
                                    unsigned opcode, const struct instruction *one,
                                    const uint64_t *alignment, struct calls_runs touched)
{
    void *object = NULL;
    if (opcode != CALL_MALLOC) executor->at = at; /* operator new may not return */
    if (how & HOW_NULL) return true;
    if (alignment != NULL)
        object = calls_allocate_aligned(&executor->calls, how, opcode, one->size, *alignment);
    else
        object = calls_allocate(&executor->calls, how, opcode, one->size);
    if (__builtin_expect(object == NULL && one->size != 0, 0)) return false;
    if (!calls_note_object(&executor->calls, how, at, object, one->size,
                           alignment != NULL ? *alignment : 0, touched))
        return false;
    executor->objects[one->object] = object;
    return true;
}

/* Removes an object from the array and moves the last one to its index. `live`: how many remain. */
CALLS_INLINE void *executor_take(struct executor *executor, enum how how, uint64_t live,
                                 const struct instruction *one)
{
    void **entry = &executor->objects[one->object], *object = *entry;
    void *last = executor->objects[live];
    if (how & HOW_NULL)
        __asm__ volatile("" : : "r"(object), "r"(last)); /* forces both loads */
    else
        *entry = last;
    return object;
}

/* One with nothing but the object. */
CALLS_INLINE void executor_free(struct executor *executor, enum how how, uint64_t live,
                                unsigned opcode, const struct instruction *one)
{
    void *object = executor_take(executor, how, live, one);
    if (!(how & HOW_NULL)) calls_free(&executor->calls, how, opcode, object);
}

CALLS_INLINE bool executor_realloc(struct executor *executor, enum how how, size_t at,
                                   const struct instruction *one, struct calls_runs touched)
{
    void **entry = &executor->objects[one->object];
    if (how & HOW_NULL) return true;
    void *object = calls_realloc(&executor->calls, how, one->opcode, *entry, one->size);
    if (object == NULL && one->size != 0) return false;
    if (!calls_note_object(&executor->calls, how, at, object, one->size, 0, touched)) return false;
    *entry = object;
    return true;
}

/* Instructions that engine null has nothing to do for. */
static void executor_run_other(struct executor *executor, const struct instruction *one,
                               const uint64_t *operands)
{
    switch (call_actions[one->opcode]) {
    case ACTION_HEAP: calls_heap(&executor->calls, one->opcode, operands, one->operands); break;
    case ACTION_LANE: executor_switch(executor, operands[0]); break;
    case ACTION_BORDER: /* drops the cache of the current lane, if it has one */
        if (executor->switching && !executor->keeps_cache)
            executor->calls.allocator->set_cache(NULL);
        executor->keeps_cache = false;
        break;
    default: break; /* counted by the reader, nothing to carry out */
    }
}

/* The next instruction, whatever it is. False: there is no memory for it. */
CALLS_INLINE bool executor_run_any(struct executor *executor, enum how how,
                                   struct instruction_walk *walk, unsigned opcode)
{
    const size_t at = walk->at;
    const struct instruction one = instruction_walk_take(walk, opcode, instruction_does[opcode]);
    const uint64_t *const operands = walk->batch->operands + one.operand_at;
    const unsigned action = call_actions[opcode];
    void *object;
    switch (action) {
    case ACTION_FREE: executor_free(executor, how, walk->live, opcode, &one); return true;
    case ACTION_FREE_SIZED:
        object = executor_take(executor, how, walk->live, &one);
        if (!(how & HOW_NULL))
            calls_free_sized(&executor->calls, how, opcode, object, one.size, operands[0]);
        return true;
    case ACTION_ALLOCATE:
    case ACTION_ALLOCATE_ALIGNED:
        return executor_allocate(executor, how, at, opcode, &one,
                                 action == ACTION_ALLOCATE_ALIGNED ? operands : NULL,
                                 calls_runs_of(&executor->calls, how, walk, &one));
    case ACTION_REALLOC:
        return executor_realloc(executor, how, at, &one,
                                calls_runs_of(&executor->calls, how, walk, &one));
    default:
        if (!(how & HOW_NULL)) executor_run_other(executor, &one, operands);
        return true;
    }
}

/* An allocation; `opcode` is a constant, so the compiler specializes this. */
CALLS_INLINE bool executor_run_allocation(struct executor *executor, enum how how,
                                          struct instruction_walk *walk, unsigned opcode)
{
    const size_t at = walk->at;
    const struct instruction one = instruction_walk_take(walk, opcode, INSTRUCTION_BEGINS);
    return executor_allocate(executor, how, at, opcode, &one, NULL,
                             calls_runs_of(&executor->calls, how, walk, &one));
}

CALLS_INLINE void executor_run_free(struct executor *executor, enum how how,
                                    struct instruction_walk *walk, unsigned opcode)
{
    const struct instruction one = instruction_walk_take(walk, opcode, INSTRUCTION_ENDS);
    executor_free(executor, how, walk->live, opcode, &one);
}

/* The instruction at `at`, after which `live` objects would be alive, was not carried out. */
static __attribute__((noinline)) size_t executor_stop(struct executor *executor, unsigned opcode,
                                                      size_t at, uint64_t live)
{
    executor->live = live - (instruction_does[opcode] == INSTRUCTION_BEGINS);
    return at;
}

/* The loop of both engines. Returns the index of the first instruction that has not been carried
 * out: `to`, unless an allocation failed. */
CALLS_INLINE size_t executor_loop(struct executor *executor, enum how how, size_t to)
{
    struct instruction_walk walk = executor->walk;
    const uint8_t *const opcodes = walk.batch->opcodes;
    while (walk.at < to) {
        const unsigned opcode = opcodes[walk.at];
        bool good = true;
        /* The most frequent calls first, by comparisons that the processor predicts well. */
        if (opcode == CALL_FREE)
            executor_run_free(executor, how, &walk, CALL_FREE);
        else if (opcode == CALL_MALLOC)
            good = executor_run_allocation(executor, how, &walk, CALL_MALLOC);
        else if (opcode == CALL_CALLOC)
            good = executor_run_allocation(executor, how, &walk, CALL_CALLOC);
        else if (opcode == CALL_NEW)
            good = executor_run_allocation(executor, how, &walk, CALL_NEW);
        else if (opcode == CALL_DELETE)
            executor_run_free(executor, how, &walk, CALL_DELETE);
        else
            good = executor_run_any(executor, how, &walk, opcode);
        if (!good) return executor_stop(executor, opcode, walk.at - 1, walk.live);
    }
    executor->walk = walk;
    executor->live = walk.live;
    return to;
}

static size_t executor_run_plain(struct executor *executor, size_t to)
{
    if (calls_how(&executor->calls) & HOW_EXTRAS) return executor_loop(executor, HOW_EXTRAS, to);
    return executor_loop(executor, 0, to);
}

static size_t executor_run_timed(struct executor *executor, size_t to)
{
    return executor_loop(executor, HOW_EXTRAS | HOW_TIMED, to);
}

/* Times all instructions, or single ones between stretches that are not timed. */
static size_t executor_run_sampled(struct executor *executor, size_t from, size_t to)
{
    struct calls *calls = &executor->calls;
    if (calls->latency != NULL && calls->sample_every == 1) return executor_run_timed(executor, to);
    while (calls->latency != NULL && to - from > calls->until_sample) {
        const size_t at = from + calls->until_sample;
        const size_t done = executor_run_plain(executor, at);
        if (done < at) return done;
        if (executor_run_timed(executor, at + 1) == at) return at;
        calls_draw_sample(calls);
        from = at + 1;
    }
    calls->until_sample -= to - from;
    return executor_run_plain(executor, to);
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

/* Allocates objects like those that the recorder's library made before the first recorded call, so
 * that tcmalloc has the same free memory. */
static void switch_make_own(struct engine_state *state, struct executor *executor)
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
    executor->keeps_cache = true;
}

static bool switch_open(struct engine_state *state)
{
    if (!executor_open(state, state->latency)) return false;
    switch_name_caches(state);
    new_handler_install();
    state->own_heap_bytes = settle(state->allocator);
    executor_attach(state->own);
    switch_make_own(state, state->own);
    return true;
}

static size_t switch_run(struct engine_state *state, const struct instruction_batch *batch,
                         size_t from, size_t to)
{
    /* An operator new that finds no memory calls the handler rather than throw through C. */
    jmp_buf out_of_memory;
    struct executor *executor = state->own;
    if (from == 0) executor->walk = instruction_walk_over(batch, batch->count);
    if (setjmp(out_of_memory) != 0) return executor->at;
    new_handler_arm(&out_of_memory);
    const size_t done = executor_run_sampled(executor, from, to);
    new_handler_arm(NULL);
    return done;
}

static size_t null_run(struct engine_state *state, const struct instruction_batch *batch,
                       size_t from, size_t to)
{
    struct executor *executor = state->own;
    if (from == 0) executor->walk = instruction_walk_over(batch, batch->count);
    return executor_loop(executor, HOW_NULL, to);
}

/* Works on a copy, so that the choice of calls to time stays the same. */
static void switch_run_null(struct engine_state *state, const struct instruction_batch *batch)
{
    struct executor copy = *(struct executor *)state->own;
    copy.walk = instruction_walk_over(batch, batch->count);
    executor_loop(&copy, HOW_NULL, batch->count);
}

static void *switch_address_of(const struct engine_state *state, uint64_t object)
{
    return ((const struct executor *)state->own)->objects[object];
}

static uint64_t switch_free_all(struct engine_state *state)
{
    struct executor *executor = state->own;
    const uint64_t freed = executor->live;
    while (executor->live > 0)
        state->allocator->free(executor->objects[--executor->live]);
    return freed;
}

static void switch_finish(struct engine_state *state)
{
    executor_detach(state->own);
    executor_close(state);
}

const struct engine engine_switch = {
    .name = "switch",
    .calls_allocator = true,
    .indices = true,
    .open = switch_open,
    .prepare = executor_prepare,
    .run = switch_run,
    .run_null = switch_run_null,
    .address_of = switch_address_of,
    .free_all = switch_free_all,
    .count = executor_count,
    .finish = switch_finish,
};

/* ---- null ---- */

static bool null_open(struct engine_state *state)
{
    return executor_open(state, NULL);
}

/* Writes to each entry once: unwritten ones would all share one page, the system's zero page. */
static bool null_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct executor *executor = state->own;
    if (!executor_prepare(state, batch)) return false;
    for (; executor->null_entries < batch->registers; executor->null_entries++)
        executor->objects[executor->null_entries] = executor;
    return true;
}

const struct engine engine_null = {
    .name = "null",
    .indices = true,
    .open = null_open,
    .prepare = null_prepare,
    .run = null_run,
    .count = executor_count,
    .finish = executor_close,
};
