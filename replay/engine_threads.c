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
 *   2. X is next in its lane: what precedes it there is older. The lane has a thread, or whoever
 *      cleared `absent` is creating it. A thread that waits for its predecessor waits for one that
 *      has nothing left to do but end.
 *   3. X does not wait. An allocation never does (slots.h). A free or realloc waits for an
 *      allocation, which is older. Its thread may sleep, but the allocating lane wakes it after the
 *      slice with the allocation, and before it waits itself.
 *
 * So X is carried out, whatever else waits. This rests on the order of the stream, which the reader
 * has checked: no position names an object that was not allocated before. No queue can be full: a
 * lane has at most one task in each job.
 *
 * Jobs, slots and stacks come from the system, not from the allocator. But when a thread is created
 * and the C library has no used stack in its cache, it calls calloc() for the table of thread-local
 * storage, and it calls free() when that cache is full (REPORT.md). */
#include "common/pages.h"
#include "replay/engine.h"
#include "replay/new_handler.h"
#include "replay/replay_thread.h"

struct threads {
    struct work work;
    struct replay_threads pool;
    struct work_job jobs[THREAD_JOBS];
    uint64_t handed_over; /* jobs; the next one is jobs[handed_over % THREAD_JOBS] */
    bool stopped;         /* no thread is left, and none will be created */
};

static bool threads_open_jobs(struct threads *threads, struct error *error)
{
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        if (!work_job_open(&threads->jobs[i], error)) return false;
    return true;
}

/* Waits for everything that was handed over. False: something failed. */
static bool threads_wait_for_all(struct threads *threads)
{
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        if (!replay_threads_wait(&threads->pool, &threads->jobs[i])) return false;
    return true;
}

static bool threads_prepare(struct engine_state *state, const struct instruction_batch *batch)
{
    struct threads *threads = state->own;
    struct slots *slots = &threads->work.slots;
    struct replay_threads *pool = &threads->pool;
    bool good = slots_reserve(slots, batch->registers, batch->count);
    if (good && pool->objects_count < slots->capacity) {
        /* The table moves, so nobody may be using it. This happens each time that its size doubles.
         */
        if (!threads_wait_for_all(threads)) return true; /* run() says what failed */
        good = pages_reserve(&pool->objects, &pool->objects_count, slots->capacity, slots->capacity,
                             sizeof *pool->objects);
    }
    if (good) return true;
    return error_set_system(&state->error, "no memory for %llu objects",
                            (unsigned long long)(batch->registers));
}

static void threads_stop(struct threads *threads)
{
    if (!threads->stopped) replay_threads_stop(&threads->pool);
    threads->stopped = true;
}

/* Subtracts what the threads have left undone from the totals. */
static void threads_take_back(struct threads *threads, struct instruction_totals *totals)
{
    for (unsigned number = 0; number < THREAD_JOBS; number++) {
        const struct work_job *job = &threads->jobs[number];
        for (uint32_t i = 0; i < job->tasks_count; i++) {
            const struct work_task *task = &job->tasks[i];
            for (uint32_t at = task->at; at < task->count; at++)
                engine_take_back(totals, job->at[task->first + at].opcode);
        }
    }
}

static bool threads_drain(struct engine_state *state)
{
    struct threads *threads = state->own;
    if (threads->stopped) return !error_is_set(&state->error);
    if (threads_wait_for_all(threads)) return true;
    threads_stop(threads);
    state->error = threads->pool.error;
    threads_take_back(threads, state->totals);
    return false;
}

static size_t threads_run(struct engine_state *state, const struct instruction_batch *batch,
                          size_t from, size_t to)
{
    struct threads *threads = state->own;
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

/* Each slice is a job. Jobs that are no longer in the ring have been carried out. */
static uint64_t threads_carried_out(const struct engine_state *state)
{
    const struct threads *threads = state->own;
    uint64_t end = threads->handed_over, done = end > THREAD_JOBS ? end - THREAD_JOBS : 0;
    while (done < end && atomic_load_acquire(&threads->jobs[done % THREAD_JOBS].unfinished) == 0)
        done++;
    return done;
}

static void *threads_address_of(const struct engine_state *state, uint64_t object)
{
    const struct threads *threads = state->own;
    const struct slots_object *at = &threads->work.slots.objects[object];
    void *address;
    shared_get(&threads->pool.objects[at->slot], at->generation, &address);
    return address;
}

/* The calling thread frees the objects of all live slots. */
static uint64_t threads_free_all(struct engine_state *state)
{
    const struct threads *threads = state->own;
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

static void threads_finish(struct engine_state *state)
{
    struct threads *threads = state->own;
    if (threads->pool.at != NULL) {
        threads_stop(threads);
        replay_threads_count(&threads->pool, state);
        replay_threads_close(&threads->pool);
    }
    work_close(&threads->work);
    for (unsigned i = 0; i < THREAD_JOBS; i++)
        work_job_close(&threads->jobs[i]);
    pages_unmap(threads, sizeof *threads);
    state->own = NULL;
}

static bool threads_open(struct engine_state *state)
{
    struct threads *threads = pages_map(sizeof *threads);
    if (threads == NULL) return error_set_system(&state->error, "no memory for threads");
    state->own = threads;
    if (replay_threads_open(&threads->pool, state->allocator, state->policy, state->promises,
                            state->latency, &state->error) &&
        work_open(&threads->work, &state->error) && threads_open_jobs(threads, &state->error)) {
        new_handler_install();
        return true;
    }
    threads_finish(state);
    return false;
}

static void threads_count(struct engine_state *state)
{
    const struct threads *threads = state->own;
    replay_threads_count(&threads->pool, state);
}

const struct engine engine_threads = {
    .name = "threads",
    .calls_allocator = true,
    .open = threads_open,
    .prepare = threads_prepare,
    .run = threads_run,
    .carried_out = threads_carried_out,
    .drain = threads_drain,
    .address_of = threads_address_of,
    .free_all = threads_free_all,
    .count = threads_count,
    .finish = threads_finish,
};
