/* told - what recordings tell the `malloctape record` that has started their program
 * (tracing/report.h).
 *
 * Lines for people are printed as they come; beginnings and ends are kept until the program has
 * ended. */
#ifndef MALLOCTAPE_TOLD_H
#define MALLOCTAPE_TOLD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct told_recording {
    pid_t process;
    char *output;
    char *summary; /* NULL until it has ended */
    uint64_t events;
    bool has_foreign_malloc;
    bool is_forgotten; /* its output is gone */
};

/* Processes that a recorded one started and that are not recorded. */
struct told_unfollowed {
    char *program; /* the first that was started, or NULL */
    size_t programs, forks;
};

struct told {
    char path[PATH_MAX]; /* of the file; empty: there is none */
    FILE *file;
    struct told_recording *recordings;
    size_t count;
    struct told_unfollowed unfollowed;
    char *line; /* told.c only */
    size_t line_room;
};

/* Makes the file. False: it cannot be made; recordings then speak for themselves. */
bool told_begin(struct told *told);

/* Takes what has come. */
void told_look(struct told *told);

/* Removes the file, and frees what is kept. */
void told_end(struct told *told);

#endif
