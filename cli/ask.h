/* ask - requests to a process that was started with TCMALLOC_TRACE_CONTROL=1 and waits at an
 * abstract socket (tracing/process/control.c). */
#ifndef MALLOCTAPE_ASK_H
#define MALLOCTAPE_ASK_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/cli.h"

bool ask_parse_process(pid_t *process, const char *word);

enum ask_result {
    ASK_NOBODY = 0, /* listens */
    ASK_ANSWERED,
    ASK_REFUSED,
    ASK_SILENT,     /* somebody listens, but does not answer in time */
    ASK_INTERRUPTED /* by a signal */
};

struct ask {
    const struct cli_command *command; /* for messages; NULL: none */
    pid_t process;
    int signals;            /* a signalfd: what it has ends the wait; -1: none */
    double heeds_s;         /* before this time of seconds_now() they are dropped */
    int given[2];           /* descriptors that go with the request: both, or -1 */
    enum ask_result result; /* set by ask_process() */
};

/* Sends the line `request` and reads the answer (tracing/process/request.h), at most `room` - 1 bytes and a
 * null byte. Leaves in `answer` what follows CONTROL_OK, and returns its length; 0 if the answer is
 * another or there is none, after a message. */
size_t ask_process(struct ask *ask, const char *request, char *answer, size_t room);

/* Calls `add` for each process that can be asked, for COMPLETE_OPTION. */
void ask_offer(program_add *add);

#endif
