/* sweep/command - runs another program and reads what it prints. */
#ifndef MALLOCTAPE_SWEEP_COMMAND_H
#define MALLOCTAPE_SWEEP_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

/* Runs a program and returns what it printed on the standard output, which the caller frees. NULL:
 * it failed; `why` says why, from its messages if it printed any. words[0] is looked for in PATH;
 * its standard input is /dev/null. Exit statuses 0 and 3 (PROGRAM_CUT) are not failures. */
char *command_read(const char *const *words, char *why, size_t why_bytes);

/* Prints a word quoted for a shell. */
void command_put_quoted(FILE *to, const char *word);

#endif
