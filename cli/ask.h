/* ask - requests to a process that was started with TCMALLOC_TRACE_CONTROL=1 and waits at an
 * abstract socket (tracing/process/control.c). */
#ifndef MALLOCTAPE_ASK_H
#define MALLOCTAPE_ASK_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/cli.h"

bool ask_parse_process(pid_t *process, const char *word);

/* Sends the line `request` and reads the answer (tracing/process/request.h), at most `room` - 1 bytes and a
 * null byte. Leaves in `answer` what follows CONTROL_OK, and returns its length; 0 if the answer is
 * another or there is none, after a message unless `command` is NULL. */
size_t ask_process(const struct cli_command *command, pid_t process, const char *request,
                   char *answer, size_t room);

/* Calls `add` for each process that can be asked, for COMPLETE_OPTION. */
void ask_offer(program_add *add);

/* Removes characters that a terminal would obey: the answering process is untrusted. */
void ask_make_printable(char *text);

#endif
