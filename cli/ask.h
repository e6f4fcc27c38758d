/* ask - requests to a process that was started with TCMALLOC_TRACE_CONTROL=1 and waits at an
 * abstract socket (tracing/control.c). */
#ifndef MALLOCTAPE_ASK_H
#define MALLOCTAPE_ASK_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/cli.h"

bool ask_parse_process(pid_t *process, const char *word);

/* Sends the line `request` and reads the answer, up to `room` - 1 bytes with what stands before it
 * (tracing/request.h), and a null byte. Leaves what stands behind CONTROL_OK, and returns its
 * length; 0 if it is another answer or none, and that has been said, unless `command` is NULL. */
size_t ask_process(const struct cli_command *command, pid_t process, const char *request,
                   char *answer, size_t room);

/* Hands over those that can be asked, for COMPLETE_OPTION. */
void ask_offer(program_add *add);

/* A process that is asked may be anybody's: takes out what a terminal would obey. */
void ask_make_printable(char *text);

#endif
