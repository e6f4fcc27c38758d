/* witness - tells signals that were sent to our process group from those that were sent to us.
 *
 * The program is in our group, so the former have reached it already, and only the latter are to be
 * passed on. The system tells nobody which they were. So there is a third process in the group,
 * which does nothing: what it has been sent, too, was sent to all. */
#ifndef MALLOCTAPE_WITNESS_H
#define MALLOCTAPE_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct witness {
    pid_t process;
    int channel; /* to it; -1: there is none */
};

/* Starts it. If it cannot be started, what witness_saw() says is a guess. */
void witness_begin(struct witness *witness);

/* Whether the signal, which we were sent, was sent to the group. It takes the signal from the
 * witness. */
bool witness_saw(struct witness *witness, const siginfo_t *signal);

void witness_end(struct witness *witness);

#endif
