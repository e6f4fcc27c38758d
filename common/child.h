/* child - starts a program. */
#ifndef MALLOCTAPE_CHILD_H
#define MALLOCTAPE_CHILD_H

#include <sys/types.h>

struct child {
    const char *path;         /* of the program */
    char *const *words;       /* its name, arguments, NULL */
    int input, output, error; /* what it gets as its standard streams; -1: ours */
    /* Called in the child before the program starts, unless it is NULL: its signals, its
     * environment. */
    void (*enter)(void *of);
    void *of;
};

/* Returns 0, or the errno with which the program could not be started; *process is then 0. */
int child_start(const struct child *child, pid_t *process);

#endif
