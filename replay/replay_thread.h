/* replay_thread - the threads of one lane, one after another, and the queue that they work from.
 *
 *   dispatcher --push--> [ task | task | task ] --> thread --> allocator
 *                        one for each job at most
 *
 * Life. A lane's thread is created when there is something to carry out for the lane and ends where
 * the original's did; what follows in the lane is the next thread's, which first waits until its
 * predecessor is gone, with whatever the allocator does at the end of a thread. So there are no
 * more threads at a time than the original had. A thread that ends creates its successor if the
 * lane has work; otherwise the dispatcher creates it when there is work.
 *
 * Waiting. A thread waits for work and, in a free or realloc, for the object. It first spins, then
 * it sleeps; if for an object, in the list of the lane that makes it. After each slice of
 * instructions, and before it waits itself, a lane wakes those in its list whose objects are there,
 * and nobody else: with a thousand threads, waking all would take longer than the calls. So an
 * allocation needs just one store.
 *
 * Failure. The first thread that cannot carry out an instruction leaves the error and sets
 * `failed`; every thread then stops at the end of its slice, or in its wait, from which the
 * dispatcher wakes all. What was carried out is what task->at says. */
#ifndef MALLOCTAPE_REPLAY_REPLAY_THREAD_H
#define MALLOCTAPE_REPLAY_REPLAY_THREAD_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/atomic.h"
#include "common/error.h"
#include "replay/calls.h"
#include "replay/engine.h"
#include "replay/work.h"

/* Jobs that are handed over at a time, so the most that a lane can be ahead of another: 16 times
 * 16 384 instructions, in 5 MiB. */
#define THREAD_JOBS 16u

struct replay_threads;

struct replay_thread {
    struct replay_threads *pool; /* NULL: the lane has never had work */
    pthread_mutex_t lock;

    /* The queue: under the lock, but `pushed` is read without it. */
    struct work_task *tasks[THREAD_JOBS]; /* those from `done` to `pushed`, modulo THREAD_JOBS */
    uint32_t pushed;                      /* atomic */
    uint32_t absent;     /* atomic: the lane has no thread; whoever clears it creates one */
    bool stops;          /* it ends when there is no more work */
    pthread_cond_t work; /* there is some, or it stops */

    /* Used only by the lane's thread. */
    uint32_t done; /* tasks */
    struct work_task *task;
    bool has_predecessor;
    pthread_t handle; /* the latest that began to work */
    struct calls calls;

    /* While this thread waits for an object: its entry in the list of the lane that makes it. */
    void **wanted;
    uint8_t wanted_generation;
    pthread_cond_t woken; /* the object is there, or something failed; lock: that lane's */
    LIST_ENTRY(replay_thread) next;

    /* The threads that wait for objects of this lane: under the lock. */
    LIST_HEAD(, replay_thread) list;
    uint32_t sleepers; /* atomic: entries */
} __attribute__((aligned(64)));

/* What all lanes share. */
struct replay_threads {
    struct replay_thread *at; /* by lane */
    uint32_t lanes;           /* no lane from this number on has ever had work */
    void **objects;           /* by slot; moved only when nothing is handed over */
    uint64_t objects_count;
    const struct allocator *allocator;
    const struct policy *policy;
    struct promises *promises;

    struct latency *latency; /* with the lock */
    pthread_mutex_t latency_lock;

    uint32_t failed; /* atomic */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job was carried out, a thread has ended, or something failed */
    struct error error;     /* under the lock; final when all threads are gone */
    pthread_attr_t attributes;
};

/* False: see *error. */
bool replay_threads_open(struct replay_threads *pool, const struct allocator *allocator,
                         const struct policy *policy, struct promises *promises,
                         struct latency *latency, struct error *error);

/* Hands over the tasks of a job. Called by the dispatcher only; the job belongs to the threads
 * until job->unfinished is 0. */
void replay_threads_push(struct replay_threads *pool, struct work_job *job);

static inline bool replay_threads_failed(const struct replay_threads *pool)
{
    return atomic_load_acquire(&pool->failed);
}

/* Waits until the job has been carried out. False: something failed. */
bool replay_threads_wait(struct replay_threads *pool, const struct work_job *job);

/* Lets threads end, when they have nothing more to do, and waits until they are gone. */
void replay_threads_stop(struct replay_threads *pool);

/* Sets what finish() has to set. Only when all threads are gone. */
void replay_threads_count(const struct replay_threads *pool, struct engine_state *state);

void replay_threads_close(struct replay_threads *pool);

#endif
