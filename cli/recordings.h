/* recordings - what recordings tell the `malloctape record` that has started their program
 * (tracing/report.h).
 *
 * Lines for people are printed as they come; beginnings and ends are kept until the program has
 * ended. */
#ifndef MALLOCTAPE_RECORDINGS_H
#define MALLOCTAPE_RECORDINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct recording {
    pid_t process;
    char *output;
    char *summary; /* NULL until it has ended */
    uint64_t events;
    bool has_other_malloc;
    bool is_forgotten; /* its output is gone */
};

/* Processes that a recorded one started and that are not recorded. */
struct unfollowed {
    char *program; /* the first that was started, or NULL */
    size_t programs, forks;
};

struct recordings {
    char path[PATH_MAX]; /* of the file; empty: there is none */
    FILE *file;
    struct recording *list;
    size_t count, room;
    struct unfollowed unfollowed;
    char *line; /* recordings.c only */
    size_t line_room;
};

/* Makes the file, in the directory for temporary files or, where that has no space, in another
 * one: `output_directory`, unless it is NULL. False: it cannot be made; recordings then speak for
 * themselves. */
bool recordings_begin(struct recordings *recordings, const char *output_directory);

/* A line on standard error, for people. It is left out if it would have to wait for a reader, who
 * may wait for our end, or if there is none. */
void recordings_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes what has come. */
void recordings_look(struct recordings *recordings);

/* Removes the file, and frees what is kept. */
void recordings_end(struct recordings *recordings);

#endif
