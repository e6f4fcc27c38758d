/* recordings - messages from recordings to the `malloctape record` that has started their program
 * (tracing/data/notice.h).
 *
 * Lines for people are printed as they arrive; beginnings and ends are kept until the program has
 * ended. */
#ifndef MALLOCTAPE_RECORDINGS_H
#define MALLOCTAPE_RECORDINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/finish.h"

struct recording {
    pid_t process;
    char *output;
    struct finish_made made;
    char *summary; /* NULL until it has ended */
    uint64_t events;
    bool has_other_malloc;
    bool is_forgotten; /* its output is gone */
};

/* What recorded processes started that is not recorded. */
struct unrecorded {
    char *program; /* the first that was started, or went on in a recorded process, or NULL */
    size_t programs, forks;
    pid_t process; /* of the program */
};

/* The keeper of one of many processes (kept_each.h). */
struct keeping {
    pid_t process;
    char *directory; /* of its segments: FILE.keep; empty: it keeps nothing */
};

struct recordings {
    char path[PATH_MAX]; /* of the file; empty: there is none */
    FILE *file;
    struct recording *list;
    size_t count, room;
    struct keeping *keepings;
    size_t keepings_count, keepings_room;
    struct unrecorded unfollowed, other_libc, unreadable;
    char *line; /* recordings.c only */
    size_t line_room;
};

/* Creates the file in the directory for temporary files or, if that has no space, in
 * `output_directory`, unless it is NULL. False: it cannot be created; then recordings print their
 * messages themselves. */
bool recordings_begin(struct recordings *recordings, const char *output_directory);

/* Takes the messages that have arrived. */
void recordings_look(struct recordings *recordings);

/* Says what was not recorded. A fork followed by exec counts as a program only. */
void recordings_tell_unrecorded(const struct recordings *recordings);

/* Removes the file, and frees what is kept. */
void recordings_end(struct recordings *recordings);

#endif
