/* attachment - a process that runs, from before a recording of it begins until it is as before: what
 * `record --pid` and `top --pid` share.
 *
 *     status = attachment_begin(&attachment, output);
 *     while (status == PROGRAM_OK && attachment_wait(&attachment, ms, -1) == ATTACHMENT_GOES_ON)
 *         ...
 *     attachment_end(&attachment);
 *
 * A process that listens to requests already is used as it is. Another one gets libmalloctape.so,
 * which is led past again at the end.
 *
 * Threads   one. The signals by which users end programs are blocked from attachment_begin() on. */
#ifndef MALLOCTAPE_ATTACHMENT_H
#define MALLOCTAPE_ATTACHMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/cli.h"

enum { ATTACHMENT_ANSWER_BYTES = 4096 };

enum attachment_state {
    ATTACHMENT_GOES_ON,
    ATTACHMENT_ASKED_TO_END, /* by a signal */
    ATTACHMENT_INPUT,        /* there is input */
    ATTACHMENT_STOPPED, /* the recording has ended by itself, or `malloctape ctl` has ended it */
    ATTACHMENT_PROCESS_ENDED,
    ATTACHMENT_OTHER_PROGRAM /* the process has begun another one (exec), which is not recorded */
};

struct attachment {
    const struct cli_command *command;
    pid_t process;
    const char *library;  /* libmalloctape.so */
    const char *settings; /* lines "NAME=VALUE\n" for a process that is attached to, or NULL */
    bool quiet;
    bool may_be_recording; /* by somebody else: then that recording is looked at and left alone */

    /* From here on: attachment.c only. */
    bool is_attached;  /* to be undone */
    bool is_abandoned; /* somebody else attached to it, and was killed */
    bool has_begun;
    int signals, ended; /* descriptors, or -1 */
    size_t libraries;   /* that it had when that was looked at */
    char answer[ATTACHMENT_ANSWER_BYTES];
};

/* Begins a recording to `output`, as the process is to open it. Returns PROGRAM_OK, or an exit status:
 * what is wrong has been said, and the process is as before. */
int attachment_begin(struct attachment *attachment, const char *output);

/* Waits up to so long, at most until there is input at the descriptor (-1: none). */
enum attachment_state attachment_wait(struct attachment *attachment, int ms, int input);

/* Ends the recording. What the process says of it, in one line; NULL: it says nothing. */
const char *attachment_stop(struct attachment *attachment);

/* Ends what is left, and leaves the process as it was, if it is there. */
void attachment_end(struct attachment *attachment, enum attachment_state state);

#endif
