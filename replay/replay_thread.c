#include "replay/replay_thread.h"

#include <errno.h>
#include <setjmp.h>

#include "common/pages.h"
#include "replay/engine.h"
#include "replay/main_thread.h"
#include "replay/new_handler.h"

/* A lane checks for sleepers after this many instructions. */
#define SLICE_INSTRUCTIONS 256u

/* Samples of calls that a thread keeps to itself until its task is over. */
#define SAMPLES_KEPT (LATENCY_THREAD_MAX - SLICE_INSTRUCTIONS)

/* How often a waiting thread checks again before it sleeps: a few microseconds, about the cost of
 * falling asleep. */
#define SPINS 100u

/* Allocators, touching and our own loop need a fraction of this. The C library caches up to 40 MiB
 * of stacks, so smaller stacks are reused more often. */
#define THREAD_STACK_BYTES (256u * 1024)

#define REPLAY_THREADS_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct replay_thread))

/* Makes the dispatcher check again. */
static void replay_threads_wake_dispatcher(struct replay_threads *pool)
{
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- failure ---- */

static void replay_threads_set_failed(struct replay_threads *pool)
{
    atomic_store_release(&pool->failed, 1);
    replay_threads_wake_dispatcher(pool);
}

static void replay_threads_fail_system(struct replay_threads *pool, int code, const char *what)
{
    pthread_mutex_lock(&pool->lock);
    errno = code;
    error_set_system(&pool->error, "%s", what);
    pthread_mutex_unlock(&pool->lock);
    replay_threads_set_failed(pool);
}

/* The instruction at task->at could not be carried out. */
static void replay_threads_fail_allocation(struct replay_threads *pool,
                                           const struct work_task *task)
{
    const struct work_job *job = task->job;
    uint32_t index = task->first + task->at;
    pthread_mutex_lock(&pool->lock);
    engine_set_allocation_error(&pool->error, pool->promises, job->at[index].opcode,
                                job->at[index].size, job->number + job->batch_index[index],
                                job->offset);
    pthread_mutex_unlock(&pool->lock);
    replay_threads_set_failed(pool);
}

/* ---- objects of other lanes ---- */

static bool wait_is_over(const struct replay_thread *sleeper)
{
    void *object;
    return shared_get(sleeper->wanted, sleeper->wanted_generation, &object);
}

/* Wakes the threads whose object this lane has made. A lane stores the object, then reads
 * `sleepers`; a sleeper increments `sleepers`, then checks for the object. Both are
 * read-modify-writes of `sleepers`, so the second one sees what the other did before its own. */
static void thread_wake(struct replay_thread *thread)
{
    struct replay_thread *sleeper;
    if (atomic_add_acq_rel(&thread->sleepers, 0) == 0) return;
    pthread_mutex_lock(&thread->lock);
    LIST_FOREACH (sleeper, &thread->list, next)
        if (wait_is_over(sleeper)) pthread_cond_signal(&sleeper->woken);
    pthread_mutex_unlock(&thread->lock);
}

/* Sleeps until lane `maker` has made the object that this thread wants. False: it never will. */
static bool thread_sleep(struct replay_thread *thread, struct replay_thread *maker)
{
    bool over;
    pthread_mutex_lock(&maker->lock);
    LIST_INSERT_HEAD(&maker->list, thread, next);
    atomic_add_acq_rel(&maker->sleepers, 1);
    while (!(over = wait_is_over(thread)) && !replay_threads_failed(thread->pool))
        pthread_cond_wait(&thread->woken, &maker->lock);
    LIST_REMOVE(thread, next);
    atomic_add_relaxed(&maker->sleepers, -1);
    pthread_mutex_unlock(&maker->lock);
    return over;
}

/* Waits for the object of the instruction at `index` of the job. False: it will never be made. */
static bool thread_await(struct replay_thread *thread, uint32_t index, void **object)
{
    struct replay_threads *pool = thread->pool;
    const struct work_job *job = thread->task->job;
    thread->wanted = &pool->objects[job->at[index].slot];
    thread->wanted_generation = job->at[index].generation;
    thread_wake(thread);
    for (unsigned i = 0; i < SPINS && !wait_is_over(thread); i++)
        atomic_pause();
    if (!wait_is_over(thread) && !thread_sleep(thread, &pool->at[job->makers[index]])) return false;
    return shared_get(thread->wanted, thread->wanted_generation, object);
}

/* ---- instructions ---- */

/* The object that an instruction ends, from the slot where its maker put it. False: it will never
 * be made. */
static inline bool replay_thread_take(struct replay_thread *thread, uint32_t index,
                                      const struct work_instruction *one, void **object)
{
    void **slot = &thread->pool->objects[one->slot];
    if (__builtin_expect(shared_get(slot, one->generation, object), 1)) return true;
    return thread_await(thread, index, object);
}

/* What is known of the pages of a large object, which work.c has put behind its operands. */
CALLS_INLINE struct calls_runs thread_runs(const struct replay_thread *thread,
                                           const struct work_instruction *one, enum how how,
                                           const uint64_t *operands)
{
    struct calls_runs touched = {NULL, 0, thread->calls.page_bytes};
    if (!(how & HOW_EXTRAS) || one->size < INSTRUCTION_TOUCHED_BYTES) return touched;
    touched.count = operands[0];
    touched.at = operands + 1;
    return touched;
}

/* A realloc takes from one slot and puts into another (slots.h). */
CALLS_INLINE bool thread_realloc(struct replay_thread *thread, enum how how, uint32_t index,
                                 const struct work_instruction *one, const uint64_t *operands)
{
    void *object;
    if (!replay_thread_take(thread, index, one, &object)) return false;
    object = calls_realloc(&thread->calls, how, one->opcode, object, one->size);
    if (object == NULL && one->size != 0) return false;
    if (!calls_note_object(&thread->calls, how, index, object, one->size, 0,
                           thread_runs(thread, one, how, operands + 1)))
        return false;
    shared_put(&thread->pool->objects[shared_operand_slot(operands[0])],
               shared_operand_generation(operands[0]), object);
    return true;
}

/* Carries out the instruction at `index` of the job. False: no memory, or its object will never be
 * made. */
CALLS_INLINE bool thread_run_one(struct replay_thread *thread, enum how how,
                                 const struct work_job *job, uint32_t index)
{
    const struct work_instruction *const one = &job->at[index];
    const uint64_t *const operands = job->operands + one->operand_at;
    struct calls *const calls = &thread->calls;
    const unsigned action = call_actions[one->opcode];
    void *object;
    switch (action) {
    case ACTION_FREE:
    case ACTION_FREE_SIZED:
        if (!replay_thread_take(thread, index, one, &object)) return false;
        if (action == ACTION_FREE_SIZED)
            calls_free_sized(calls, how, one->opcode, object, one->size, operands[0]);
        else
            calls_free(calls, how, one->opcode, object);
        return true;
    case ACTION_ALLOCATE:
    case ACTION_ALLOCATE_ALIGNED:
        if (action == ACTION_ALLOCATE_ALIGNED)
            object = calls_allocate_aligned(calls, how, one->opcode, one->size, operands[0]);
        else
            object = calls_allocate(calls, how, one->opcode, one->size);
        if (object == NULL && one->size != 0) return false;
        /* Before anybody else may end the object. */
        if (!calls_note_object(
                calls, how, index, object, one->size,
                action == ACTION_ALLOCATE_ALIGNED ? operands[0] : 0,
                thread_runs(thread, one, how, operands + (action == ACTION_ALLOCATE_ALIGNED))))
            return false;
        shared_put(&thread->pool->objects[one->slot], one->generation, object);
        return true;
    case ACTION_REALLOC: return thread_realloc(thread, how, index, one, operands);
    case ACTION_HEAP: calls_heap(calls, one->opcode, operands, one->generation); return true;
    default: return true;
    }
}

/* Carries out the task's instructions up to `to`, times some, and keeps task->at up to date. */
static void thread_run_sampled(struct replay_thread *thread, struct work_task *task, uint32_t to)
{
    struct calls *const calls = &thread->calls;
    const struct work_job *const job = task->job;
    const bool extras = calls_how(calls) & HOW_EXTRAS;
    for (bool done = true; task->at < to; task->at++) {
        const uint32_t index = task->first + task->at;
        if (calls->latency != NULL && calls->until_sample-- == 0) {
            done = thread_run_one(thread, HOW_EXTRAS | HOW_TIMED, job, index);
            calls_draw_sample(calls);
        } else if (extras) {
            done = thread_run_one(thread, HOW_EXTRAS, job, index);
        } else {
            done = thread_run_one(thread, 0, job, index);
        }
        if (!done) return;
    }
}

static void thread_run(struct replay_thread *thread, struct work_task *task, uint32_t to)
{
    /* An operator new that finds no memory calls the handler rather than throw through C. */
    jmp_buf out_of_memory;
    if (setjmp(out_of_memory) != 0) return;
    new_handler_arm(&out_of_memory);
    thread_run_sampled(thread, task, to);
    new_handler_arm(NULL);
}

/* ---- the queue ---- */

static bool queue_is_empty(const struct replay_thread *thread)
{
    return atomic_load_acquire(&thread->pushed) == thread->done;
}

/* The next task, or what is left of it; waits for it. NULL: there will be none. */
static struct work_task *thread_next_task(struct replay_thread *thread)
{
    struct replay_threads *pool = thread->pool;
    for (unsigned i = 0; i < SPINS && queue_is_empty(thread); i++)
        atomic_pause();
    pthread_mutex_lock(&thread->lock);
    while (queue_is_empty(thread) && !thread->stops && !replay_threads_failed(pool))
        pthread_cond_wait(&thread->work, &thread->lock);
    const bool more = !queue_is_empty(thread) && !replay_threads_failed(pool);
    struct work_task *task = more ? thread->tasks[thread->done % THREAD_JOBS] : NULL;
    pthread_mutex_unlock(&thread->lock);
    return task;
}

static void thread_finish_task(struct replay_thread *thread)
{
    struct work_job *job = thread->task->job;
    thread->done++;
    if (atomic_add_acq_rel(&job->unfinished, -1) == 1) replay_threads_wake_dispatcher(thread->pool);
}

/* ---- threads ---- */

static void *replay_thread_main(void *argument);

/* Creates the lane's next thread. Whoever calls this has found the lane without one. */
static void thread_start(struct replay_thread *thread)
{
    struct replay_threads *pool = thread->pool;
    pthread_t handle;
    if (thread == &pool->at[0] && main_thread_take(replay_thread_main, thread)) return;
    int code = pthread_create(&handle, &pool->attributes, replay_thread_main, thread);
    if (code == 0) return;
    atomic_store_release(&thread->absent, 1);
    replay_threads_fail_system(pool, code, "cannot create a thread");
}

/* The calling thread ends where the original did: creates its successor if the lane has work. */
static void thread_hand_on(struct replay_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    const bool ends = queue_is_empty(thread);
    if (ends) atomic_store_release(&thread->absent, 1);
    pthread_mutex_unlock(&thread->lock);
    if (ends)
        replay_threads_wake_dispatcher(thread->pool);
    else
        thread_start(thread);
}

/* Adds the samples of this thread to the report. */
static void thread_count_samples(struct replay_thread *thread)
{
    struct replay_threads *pool = thread->pool;
    if (thread->calls.samples->count == 0) return;
    pthread_mutex_lock(&pool->latency_lock);
    latency_count(pool->latency, thread->calls.samples);
    pthread_mutex_unlock(&pool->latency_lock);
}

/* Carries the task out up to `to`. False: something failed. */
static bool thread_carry_out(struct replay_thread *thread, uint32_t to)
{
    struct work_task *task = thread->task;
    while (task->at < to) {
        uint32_t end = to - task->at > SLICE_INSTRUCTIONS ? task->at + SLICE_INSTRUCTIONS : to;
        thread_run(thread, task, end);
        thread_wake(thread);
        if (thread->calls.samples->count > SAMPLES_KEPT) thread_count_samples(thread);
        if (replay_threads_failed(thread->pool)) return false;
        if (task->at < end) {
            replay_threads_fail_allocation(thread->pool, task);
            return false;
        }
    }
    return true;
}

/* The index of the next instruction of the task at which a thread may begin or end. */
static uint32_t task_next_border(const struct work_task *task)
{
    const struct work_instruction *at = task->job->at + task->first;
    uint32_t border = task->at;
    if (task->borders == 0) return task->count;
    while (border < task->count && at[border].opcode != INSTRUCTION_THREAD_BEGIN &&
           at[border].opcode != INSTRUCTION_THREAD_END)
        border++;
    return border;
}

enum task_result { TASK_DONE, TASK_ENDS_THREAD, TASK_FAILED };

/* Carries out the part of the current task that belongs to this thread, which is `fresh` until it
 * has carried out something. */
static enum task_result thread_play(struct replay_thread *thread, bool *fresh)
{
    struct work_task *task = thread->task;
    while (task->at < task->count) {
        uint32_t border = task_next_border(task);
        if (border > task->at) {
            *fresh = false;
            if (!thread_carry_out(thread, border)) return TASK_FAILED;
            continue;
        }
        if (task->job->at[task->first + border].opcode == INSTRUCTION_THREAD_END) {
            task->at++;
            return TASK_ENDS_THREAD;
        }
        if (!*fresh) return TASK_ENDS_THREAD; /* another thread begins here */
        *fresh = false;
        task->at++;
    }
    return TASK_DONE;
}

/* Waits until the lane's previous thread is gone. */
static void thread_succeed(struct replay_thread *thread)
{
    if (thread->has_predecessor) main_thread_join(thread->handle);
    thread->has_predecessor = true;
    thread->handle = pthread_self();
}

static void *replay_thread_main(void *argument)
{
    struct replay_thread *thread = argument;
    struct latency_sample room[LATENCY_THREAD_MAX];
    struct latency_list samples = {.samples = room};
    bool fresh = true;
    thread_succeed(thread);
    while ((thread->task = thread_next_task(thread)) != NULL) {
        thread->calls.samples = &samples;
        enum task_result result = thread_play(thread, &fresh);
        thread_count_samples(thread);
        if (result == TASK_FAILED) break;
        if (thread->task->at == thread->task->count) thread_finish_task(thread);
        if (result == TASK_DONE) continue;
        thread_hand_on(thread);
        return NULL;
    }
    /* There is nothing more to do. */
    atomic_store_release(&thread->absent, 1);
    replay_threads_wake_dispatcher(thread->pool);
    return NULL;
}

/* ---- the dispatcher's side ---- */

bool replay_threads_open(struct replay_threads *pool, const struct allocator *allocator,
                         const struct policy *policy, struct promises *promises,
                         struct latency *latency, struct error *error)
{
    *pool = (struct replay_threads){
        .allocator = allocator, .policy = policy, .promises = promises, .latency = latency};
    pool->at = pages_map(REPLAY_THREADS_BYTES);
    if (pool->at == NULL) return error_set_system(error, "no memory for threads");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pthread_mutex_init(&pool->latency_lock, NULL);
    pthread_attr_init(&pool->attributes);
    pthread_attr_setstacksize(&pool->attributes, THREAD_STACK_BYTES);
    return true;
}

static void replay_threads_add(struct replay_threads *pool, uint32_t lane)
{
    struct replay_thread *thread = &pool->at[lane];
    if (thread->pool != NULL) return;
    thread->pool = pool;
    thread->absent = 1;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->work, NULL);
    pthread_cond_init(&thread->woken, NULL);
    calls_open(&thread->calls, pool->allocator, pool->policy, pool->promises, pool->latency, lane);
    if (lane >= pool->lanes) pool->lanes = lane + 1;
}

static void thread_push(struct replay_thread *thread, struct work_task *task)
{
    pthread_mutex_lock(&thread->lock);
    const uint32_t absent = atomic_load_acquire(&thread->absent);
    thread->tasks[thread->pushed % THREAD_JOBS] = task;
    atomic_store_release(&thread->pushed, thread->pushed + 1);
    atomic_store_release(&thread->absent, 0);
    pthread_cond_signal(&thread->work);
    pthread_mutex_unlock(&thread->lock);
    if (absent) thread_start(thread);
}

void replay_threads_push(struct replay_threads *pool, struct work_job *job)
{
    /* The job may be reused as soon as the last task is pushed. */
    const uint32_t count = job->tasks_count;
    /* Add all lanes before pushing: a thread may wait for an object of any lane of the job. */
    for (uint32_t i = 0; i < count; i++)
        replay_threads_add(pool, job->tasks[i].lane);
    for (uint32_t i = 0; i < count; i++)
        thread_push(&pool->at[job->tasks[i].lane], &job->tasks[i]);
}

bool replay_threads_wait(struct replay_threads *pool, const struct work_job *job)
{
    pthread_mutex_lock(&pool->lock);
    while (!replay_threads_failed(pool) && atomic_load_acquire(&job->unfinished) > 0)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return !replay_threads_failed(pool);
}

/* Wakes a lane's thread and its sleepers: after a failure their objects may never be made. */
static void replay_thread_stop(struct replay_thread *thread)
{
    struct replay_thread *sleeper;
    pthread_mutex_lock(&thread->lock);
    thread->stops = true;
    pthread_cond_signal(&thread->work);
    LIST_FOREACH (sleeper, &thread->list, next)
        pthread_cond_signal(&sleeper->woken);
    pthread_mutex_unlock(&thread->lock);
}

/* Waits until the lane has no thread. */
static void thread_join(struct replay_thread *thread)
{
    struct replay_threads *pool = thread->pool;
    pthread_mutex_lock(&pool->lock);
    while (!atomic_load_acquire(&thread->absent))
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    if (thread->has_predecessor) main_thread_join(thread->handle);
    thread->has_predecessor = false;
}

void replay_threads_stop(struct replay_threads *pool)
{
    for (uint32_t lane = 0; lane < pool->lanes; lane++)
        if (pool->at[lane].pool != NULL) replay_thread_stop(&pool->at[lane]);
    for (uint32_t lane = 0; lane < pool->lanes; lane++)
        if (pool->at[lane].pool != NULL) thread_join(&pool->at[lane]);
}

void replay_threads_count(const struct replay_threads *pool, struct engine_state *state)
{
    state->realigned = state->untouched = state->reallocs = state->moved = 0;
    for (uint32_t lane = 0; lane < pool->lanes; lane++) {
        state->realigned += pool->at[lane].calls.realigned;
        state->untouched += pool->at[lane].calls.untouched;
        state->reallocs += pool->at[lane].calls.reallocs;
        state->moved += pool->at[lane].calls.moved;
    }
}

void replay_threads_close(struct replay_threads *pool)
{
    pages_unmap(pool->objects, pool->objects_count * sizeof *pool->objects);
    pages_unmap(pool->at, REPLAY_THREADS_BYTES);
    pthread_attr_destroy(&pool->attributes);
}
