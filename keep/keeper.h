/* keeper - what is known of a recording while it goes on (keep_run.h), and files of what is kept.
 *
 *   recorded process --raw--> FIFO --> postprocess --ordered--> follow --> segments
 *                                                                 |         |
 *                                              triggers, metrics <+         +--> joined --> FILE
 *
 * It is a process of its own, in a session of its own: what ends the recorded program does not end
 * it. It ends when the stream does, and writes FILE then.
 *
 * Threads   one follows the stream; others ask (control.h, listen.h): each takes `lock` for what is
 *           below it. Files are written without the lock. */
#ifndef MALLOCTAPE_KEEP_KEEPER_H
#define MALLOCTAPE_KEEP_KEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "keep/joined.h"
#include "keep/keep_options.h"
#include "keep/segments.h"

/* Of the names of files in the directory, of which answers are made. */
#define KEEPER_ANSWER "answer"
#define KEEPER_NAME   "malloctape keep"

struct keeper {
    const struct keep_options *options;
    pid_t process;       /* that is recorded, as it calls itself */
    char run[64];        /* the recording's id, in hexadecimal digits; empty: not known */
    const char *program; /* its name */
    double start_s;      /* when the recording began, since the epoch */

    pthread_mutex_t lock;
    struct follow follow;
    struct segments segments;
    struct triggers triggers;
    bool has_restarted;
    uint64_t restarted_ns, grown_ns;
    unsigned fired; /* files written by triggers */
    bool has_begun, has_ended;

    pthread_mutex_t writing; /* one file at a time */
};

/* Writes what is kept at present to `path`. Any thread, without the lock. False: see error. */
bool keeper_write(struct keeper *keeper, const char *path, struct instruction_totals *totals,
                  struct error *error);

/* Writes the latest segment, up to now: what is alive, and the latest calls. The same. */
bool keeper_write_recent(struct keeper *keeper, const char *path, struct error *error);

/* Writes what is alive at present, and nothing else. The same. */
bool keeper_write_live(struct keeper *keeper, const char *path, struct error *error);

/* Writes it beside `path`, and then gives it that name. False: see error. */
bool keeper_write_joined(struct joined *joined, const char *path, struct error *error);

/* Has lines go to the file that `record` reads (tracing/data/notice.h), as long as it is there; NULL:
 * to the standard error. */
void keeper_report_to(const char *path);

/* Writes a line into that file. False: there is none. */
bool keeper_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line for people, unless they want none. */
void keeper_say(const struct keeper *keeper, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints an error about `what`, or NULL. Returns PROGRAM_FAILED. */
int keeper_fail(const char *what, const struct error *error);

#endif
