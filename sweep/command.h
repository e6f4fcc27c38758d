/* sweep/command - runs another program and reads what it prints. */
#ifndef MALLOCTAPE_SWEEP_COMMAND_H
#define MALLOCTAPE_SWEEP_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

/* What it printed on the standard output, to be freed, or NULL: `why` says why it failed, from its
 * messages if it had any. words[0] is looked for in PATH; its standard input is /dev/null. Statuses
 * of 0 and of 3 (PROGRAM_CUT) are no failures. */
char *command_read(const char *const *words, char *why, size_t why_bytes);

/* A word for a shell, in quotation marks. */
void command_put_quoted(FILE *to, const char *word);

#endif
