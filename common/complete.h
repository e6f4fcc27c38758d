/* complete - what may come next on a command line, for a shell (cli/completions/).
 *
 *   malloctape compare --complete --allocators je       program_options() hands this on
 *   jemalloc                                            and the shell shows it
 *
 * A line is a word, which begins as the last one does, and behind a tab perhaps what it is about; or
 * for the shell to find:
 *
 *   :file        the name of a file
 *   :program N   a program and its command line, which are the last N words
 *
 * Options come from the table that they are read with, and of an argument without choices the help
 * says by its name what it is: FILE, OUT or IN. Other words come from the lines of usage: PID, a|b, or
 * else a file. */
#ifndef MALLOCTAPE_COMPLETE_H
#define MALLOCTAPE_COMPLETE_H

#include "common/program.h"

#define COMPLETE_OPTION "--complete"

/* The words behind COMPLETE_OPTION, of which the last, perhaps an empty one, is to be completed;
 * `name`: the program or command. Returns PROGRAM_OK. */
int complete_words(const char *name, int count, char **words, const struct program_option *known,
                   const char *help, enum program_where where);

/* Prints the word if it begins as `begun` does. `about` may be NULL. */
void complete_word(const char *begun, const char *word, const char *about);

#endif
