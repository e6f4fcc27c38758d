/* complete - what may come next on a command line, for a shell (cli/completions/).
 *
 *   malloctape compare --complete --allocators je       program_options() calls complete_words(),
 *   jemalloc                                            and the shell shows this
 *
 * A line is a possible word, followed perhaps by a tab and a description; or it tells the shell
 * what to complete by itself:
 *
 *   :file        the name of a file
 *   :program N   a program and its command line, which are the last N words
 *
 * Options come from the table with which they are parsed. The type of an argument without choices
 * is told by its name in the help: FILE, OUT or IN. Other words come from the lines of usage: PID,
 * a|b, or else a file. */
#ifndef MALLOCTAPE_COMPLETE_H
#define MALLOCTAPE_COMPLETE_H

#include "common/program_option.h"

#define COMPLETE_OPTION "--complete"

/* Completes the last of the words after COMPLETE_OPTION, which may be empty. `name`: of the program
 * or command. */
void complete_words(const char *name, int count, char **words, const struct program_option *known,
                    const char *help, enum program_where where);

/* Prints the word if it begins as `begun` does. `about` may be NULL. */
void complete_word(const char *begun, const char *word, const char *about);

#endif
