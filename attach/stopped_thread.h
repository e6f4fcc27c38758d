/* stopped_thread - one thread of the process is stopped (ptrace(2)) where that leaves no mark, and let
 * go. */
#ifndef MALLOCTAPE_ATTACH_STOPPED_THREAD_H
#define MALLOCTAPE_ATTACH_STOPPED_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "attach/frame.h"
#include "attach/safe_place.h"
#include "attach/target.h"
#include "attach/wait.h"

/* A stop at a system call (ptrace(2), PTRACE_O_TRACESYSGOOD). */
enum { SYSCALL_STOP = SIGTRAP | 0x80 };

/* At most this many threads at a time may have been asked to stop and not have stopped yet. */
enum { STOPPED_THREAD_LATE_MAX = 64 };

struct stopped_thread {
    const struct target *target;
    pid_t id;
    struct frame_state state; /* where it was */
    bool is_made_again;       /* the system call that it was in: the registers must be put */
    bool is_gone;             /* the process has ended meanwhile */
    uint64_t since_ns;
    pid_t late[STOPPED_THREAD_LATE_MAX]; /* 0: none */
    unsigned denials;                    /* EPERM, one after the other */
    uint64_t denied_since_ns;            /* the first of these */
};

/* Stops thread `id`. True: it is at a safe place, and stays there. *error: why no thread can be
 * stopped, or 0. */
bool stopped_thread_take(struct stopped_thread *stopped, const struct safe_places *places, pid_t id,
                         const struct wait *wait, int *error);

/* It goes on where it was. */
void stopped_thread_release(struct stopped_thread *stopped);

/* Waits for the thread's next stop. False: it has ended. */
bool stopped_thread_await(struct stopped_thread *stopped, int *status);

static inline int stopped_thread_event(int status)
{
    return status >> 16;
}

static inline uint64_t stopped_thread_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void stopped_thread_rest(uint64_t ns)
{
    const struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

#endif
