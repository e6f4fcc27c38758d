/* wait - what a thread of a running process waits for, seen without stopping it, and how that wait
 * goes on when the thread has been stopped.
 *
 * A stop wakes the thread. From some waits the system call then returns at once, with EINTR or with
 * a part of its work, though no signal was sent: the program would notice. Others are made again
 * by the kernel. Where a call that returned EINTR has done nothing yet, the tracer makes it again.
 *
 * Threads   one of this process. */
#ifndef MALLOCTAPE_ATTACH_WAIT_H
#define MALLOCTAPE_ATTACH_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum wait_kind {
    WAIT_NONE,    /* it runs, as far as is known */
    WAIT_KEPT,    /* goes on, and ends when it would have ended */
    WAIT_RENEWED, /* goes on, but its time limit begins anew */
    WAIT_FRAGILE  /* does not go on: leave the thread alone */
};

struct wait {
    enum wait_kind kind;
    long number; /* of the system call; -1: none */
    uint64_t arguments[6];
    uint64_t stack, code; /* pointers of the thread */
};

/* Takes about 10 us. */
void wait_look(struct wait *wait, pid_t process, pid_t thread);

/* The kind of wait of this call with these arguments. */
enum wait_kind wait_kind_of(pid_t process, long number, const uint64_t arguments[6]);

/* How often the thread has begun to wait. False: it has ended. */
bool wait_count(pid_t process, pid_t thread, uint64_t *count);

#endif
