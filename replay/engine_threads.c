#include "replay/engine_threads.h"

#include "common/pages.h"
#include "replay/new_handler.h"
#include "replay/replay_thread.h"
#include "replay/shared.h"

struct engine_threads {
    struct work work;
    struct replay_threads pool;
    struct work_job jobs[THREAD_JOBS];
    uint64_t handed_over; /* jobs; the next one is jobs[handed_over % THREAD_JOBS] */
    bool stopped;         /* no thread is left, and none will be created */
};

static bool threads_open_jobs(struct engine_threads *threads, struct error *error)
{
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        if (!work_job_open(&threads->jobs[i], error)) return false;
    return true;
}

bool threads_open(struct engine_state *state)
{
    struct engine_threads *threads = pages_map(sizeof *threads);
    if (threads == NULL) return error_set_system(&state->error, "no memory for threads");
    state->threads = threads;
    if (replay_threads_open(&threads->pool, state->allocator, state->policy, state->latency,
                            &state->error) &&
        work_open(&threads->work, &state->error) && threads_open_jobs(threads, &state->error)) {
        new_handler_install();
        return true;
    }
    threads_finish(state);
    return false;
}

/* Waits for everything that was handed over. False: something failed. */
static bool threads_wait_for_all(struct engine_threads *threads)
{
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        if (!replay_threads_wait(&threads->pool, &threads->jobs[i])) return false;
    return true;
}

static bool threads_grow_objects(struct replay_threads *pool, uint64_t count)
{
    void **objects =
        pages_grow(pool->objects, pool->objects_count * sizeof *objects, count * sizeof *objects);
    if (objects == NULL) return false;
    pool->objects = objects;
    pool->objects_count = count;
    return true;
}

bool threads_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct engine_threads *threads = state->threads;
    struct slots *slots = &threads->work.slots;
    struct replay_threads *pool = &threads->pool;
    bool good = slots_reserve_registers(slots, batch->registers) &&
                (slots_suffice(slots, batch->count) || slots_reserve(slots, batch->count));
    if (good && pool->objects_count < slots->capacity) {
        /* The table moves, so nobody may be using it. This happens each time that it has doubled.
         */
        if (!threads_wait_for_all(threads)) return true; /* run() says what failed */
        good = threads_grow_objects(pool, slots->capacity);
    }
    if (good) return true;
    return error_set_system(&state->error, "no memory for %llu objects",
                            (unsigned long long)(batch->registers));
}

size_t threads_run(struct engine_state *state, const struct instruction_batch *batch, size_t from,
                   size_t to)
{
    struct engine_threads *threads = state->threads;
    struct work_job *job = &threads->jobs[threads->handed_over % THREAD_JOBS];
    if (!replay_threads_wait(&threads->pool, job)) {
        threads_drain(state);
        return from;
    }
    work_fill(&threads->work, job, batch, from, to);
    threads->handed_over++;
    replay_threads_push(&threads->pool, job);
    return to;
}

/* Each slice is a job, and jobs before those that exist have been carried out. */
uint64_t threads_carried_out(const struct engine_state *state)
{
    const struct engine_threads *threads = state->threads;
    uint64_t end = threads->handed_over, done = end > THREAD_JOBS ? end - THREAD_JOBS : 0;
    while (done < end && atomic_load_acquire(&threads->jobs[done % THREAD_JOBS].unfinished) == 0)
        done++;
    return done;
}

static void threads_stop(struct engine_threads *threads)
{
    if (!threads->stopped) replay_threads_stop(&threads->pool);
    threads->stopped = true;
}

/* Takes what the threads have left undone out of the totals. */
static void threads_take_back(struct engine_threads *threads, struct instruction_totals *totals)
{
    for (unsigned i = 0; i < THREAD_JOBS; i++) {
        const struct work_job *job = &threads->jobs[i];
        for (uint32_t task = 0; task < job->tasks_count; task++) {
            const struct instruction_batch batch = work_task_batch(&job->tasks[task]);
            engine_take_back(totals, &batch, job->tasks[task].at);
        }
    }
}

bool threads_drain(struct engine_state *state)
{
    struct engine_threads *threads = state->threads;
    if (threads->stopped) return !error_is_set(&state->error);
    if (threads_wait_for_all(threads)) return true;
    threads_stop(threads);
    state->error = threads->pool.error;
    threads_take_back(threads, state->totals);
    return false;
}

void *threads_address_of(const struct engine_state *state, uint32_t object)
{
    const struct engine_threads *threads = state->threads;
    const struct slots_object *at = &threads->work.slots.objects[object];
    void *address;
    shared_get(&threads->pool.objects[at->slot], at->generation, &address);
    return address;
}

/* By this thread, from slots whose object has not ended. */
uint64_t threads_free_all(struct engine_state *state)
{
    const struct engine_threads *threads = state->threads;
    const struct slots *slots = &threads->work.slots;
    uint64_t freed = 0;
    for (uint64_t slot = 0; slot < slots->used; slot++) {
        void *object;
        if (!slots->slots[slot].live) continue;
        shared_get(&threads->pool.objects[slot], slots->slots[slot].generation, &object);
        state->allocator->free(object);
        freed++;
    }
    return freed;
}

void threads_finish(struct engine_state *state)
{
    struct engine_threads *threads = state->threads;
    if (threads->pool.at != NULL) {
        threads_stop(threads);
        state->realigned = replay_threads_realigned(&threads->pool);
        replay_threads_close(&threads->pool);
    }
    work_close(&threads->work);
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        work_job_close(&threads->jobs[i]);
    pages_unmap(threads, sizeof *threads);
    state->threads = NULL;
}
