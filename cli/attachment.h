/* attachment - the recording of a running process, until it is as before: what `record --pid` and
 * `top --pid` share.
 *
 *     status = attachment_begin(&attachment, output);
 *     while (status == PROGRAM_OK && attachment_wait(&attachment, ms, -1) == ATTACHMENT_GOES_ON)
 *         ...
 *     attachment_end(&attachment);
 *
 * A process that already listens to requests is used as it is. Into any other, libmalloctape.so is
 * loaded, and disconnected again at the end.
 *
 * Threads   one. The signals by which users end programs are blocked from attachment_begin() on, or
 *           attachment_block_signals(), for whoever makes files before. */
#ifndef MALLOCTAPE_ATTACHMENT_H
#define MALLOCTAPE_ATTACHMENT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/ask.h"
#include "cli/cli.h"

enum { ATTACHMENT_ANSWER_BYTES = 4096 };

enum attachment_state {
    ATTACHMENT_GOES_ON,
    ATTACHMENT_ASKED_TO_END, /* by a signal */
    ATTACHMENT_INPUT,        /* there is input */
    ATTACHMENT_STOPPED, /* the recording has ended by itself, or `malloctape ctl` has ended it */
    ATTACHMENT_PROCESS_ENDED,
    ATTACHMENT_OTHER_PROGRAM /* the process has executed another program, which is not recorded */
};

struct attachment {
    const struct cli_command *command;
    pid_t process;
    const char *library;  /* libmalloctape.so */
    const char *settings; /* lines "NAME=VALUE\n" for a process that must be attached to, or NULL */
    bool quiet;
    bool may_be_recording; /* for somebody else: that recording is used, and left alone */

    /* From here on: attachment.c only. */
    bool is_attached;  /* must be undone */
    bool is_abandoned; /* somebody else attached to it, and was killed */
    bool has_begun;
    bool is_silent;         /* it has not answered the request to end */
    int signals, ended;     /* descriptors, or -1 */
    double heeds_s;         /* from then on another signal ends the wait for an answer */
    enum ask_result result; /* of the latest request */
    size_t libraries;       /* how many it had when last counted */
    char answer[ATTACHMENT_ANSWER_BYTES];
};

/* Returns those that are blocked, which will be read as a descriptor. */
sigset_t attachment_block_signals(void);

/* Begins a recording. `given`: descriptors of its stream and its spool (recording_files.h), of which
 * `output` is what is told; or NULL: `output` is the name by which the process opens it. Returns
 * PROGRAM_OK, or an exit status, after a message: then the process is as before. */
int attachment_begin(struct attachment *attachment, const char *output, const int *given);

/* Waits up to `ms` milliseconds, or until there is input at the descriptor `input` (-1: none). */
enum attachment_state attachment_wait(struct attachment *attachment, int ms, int input);

/* Ends the recording. Returns the process's answer, one line; NULL: none, after a message if the
 * process is there. */
const char *attachment_stop(struct attachment *attachment);

/* Ends the recording if it has not ended, and detaches from the process if it still exists. */
void attachment_end(struct attachment *attachment, enum attachment_state state);

#endif
