/* stopped_thread - one thread of the process is stopped (ptrace(2)) where that leaves no mark, and let
 * go. For inject.c; the thread and its state are in struct inject. */
#ifndef MALLOCTAPE_ATTACH_STOPPED_THREAD_H
#define MALLOCTAPE_ATTACH_STOPPED_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "attach/inject.h"
#include "attach/safe_place.h"
#include "attach/wait.h"

/* A stop at a system call (ptrace(2), PTRACE_O_TRACESYSGOOD). */
enum { SYSCALL_STOP = SIGTRAP | 0x80 };

/* Stops a thread. True: it is at a safe place, and stays there. */
bool stopped_thread_take(struct inject *inject, const struct safe_places *places, pid_t thread,
                         const struct wait *wait, int *error);

/* It goes on where it was. */
void stopped_thread_release(struct inject *inject);

/* Waits for the thread's next stop. False: it has ended. */
bool stopped_thread_await(struct inject *inject, int *status);

static inline int stopped_thread_event(int status)
{
    return status >> 16;
}

static inline uint64_t inject_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void inject_rest(uint64_t ns)
{
    const struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

#endif
