/* main_thread - the process's first thread makes the calls of the original's first thread.
 *
 *   first thread    waits ------------> makes the calls of lane 0 --------> waits, ends
 *   dispatcher      reads, hands out -> ...
 *
 * For some allocators the first thread is not like others: glibc's has the main arena, whose heap
 * grows and shrinks at the break. So with engine `threads` the dispatcher is a thread of its own,
 * and lane 0 begins in the first one. Threads that come after that in the lane are like any others.
 *
 * Outside of main_thread_run() nothing can be given. */
#ifndef MALLOCTAPE_REPLAY_MAIN_THREAD_H
#define MALLOCTAPE_REPLAY_MAIN_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Called by the first thread: has another one call `dispatch`, and returns when that has returned.
 * Without memory for a thread calls it by itself. */
void main_thread_run(void (*dispatch)(void *), void *argument);

/* Has the first thread call `function`, once. Whoever asks sees what was asked before: only those
 * do that start the thread of lane 0. False: it cannot. */
bool main_thread_take(void *(*function)(void *), void *argument);

/* Waits until a thread has ended or, if that is the first one, until what was given has returned.
 * Once for each thread. */
void main_thread_join(pthread_t thread);

#endif
