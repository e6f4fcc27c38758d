/* run_program - runs a program as if it had been started in our place.
 *
 * It is in our process group, so what is typed at the terminal or sent to the group reaches it as
 * usual; signals that are sent to us alone are passed on (witness.h). When one stops the program,
 * we stop, too. */
#ifndef MALLOCTAPE_RUN_PROGRAM_H
#define MALLOCTAPE_RUN_PROGRAM_H

#include <sys/types.h>

struct running_program {
    pid_t process;
    int status; /* as of waitpid() */
};

/* Runs the program at `path` to its end. Calls meanwhile(argument) when it has started and then
 * repeatedly. Returns 0, or the errno with which it could not be executed. */
int run_program(struct running_program *program, const char *path, char **words,
                void (*meanwhile)(void *), void *argument);

/* The status as in a shell: the exit status, or 128 plus the number of the signal that killed
 * it. */
int run_program_status(const struct running_program *program);

#endif
