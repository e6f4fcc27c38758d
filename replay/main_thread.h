/* main_thread - the process's first thread makes the calls of the original's first thread.
 *
 *   first thread    waits ------------> makes the calls of lane 0 --------> waits, ends
 *   dispatcher      reads, hands out -> ...
 *
 * For some allocators the first thread is special: glibc's has the main arena, whose heap grows and
 * shrinks at the break. So with engine `threads` the dispatcher is a thread of its own, and lane 0
 * begins in the first one. Later threads of that lane are ordinary ones.
 *
 * main_thread_take() fails outside of main_thread_run(). */
#ifndef MALLOCTAPE_REPLAY_MAIN_THREAD_H
#define MALLOCTAPE_REPLAY_MAIN_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Called by the first thread: has another thread call `dispatch` and returns when that has
 * returned. If no thread can be created, calls it itself. */
void main_thread_run(void (*dispatch)(void *), void *argument);

/* Has the first thread call `function`, once. False: it cannot. Callers are those that start a
 * thread of lane 0, one after another, so each sees what the previous one did. */
bool main_thread_take(void *(*function)(void *), void *argument);

/* Waits until a thread has ended or, if it is the first one, until the function given to it has
 * returned. Once for each thread. */
void main_thread_join(pthread_t thread);

#endif
