/* witness - tells signals that were sent to our process group from those that were sent to us
 * alone.
 *
 * The program is in our group, so the former have reached it already, and only the latter must be
 * passed on. The system does not tell which is which. So there is a third process in the group,
 * which does nothing: a signal that it has received, too, was sent to the group. */
#ifndef MALLOCTAPE_WITNESS_H
#define MALLOCTAPE_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct witness {
    pid_t process;
    int channel; /* to it; -1: there is none */
};

/* Starts the witness. If it cannot be started, witness_saw() guesses. */
void witness_begin(struct witness *witness);

/* Whether a signal that we received was sent to the group. Consumes the signal in the witness. */
bool witness_saw(struct witness *witness, const siginfo_t *signal);

void witness_end(struct witness *witness);

#endif
