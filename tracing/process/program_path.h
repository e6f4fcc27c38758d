/* program_path - where execvp() finds a program. */
#ifndef MALLOCTAPE_PROGRAM_PATH_H
#define MALLOCTAPE_PROGRAM_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* How much room the path of a program named `file` may take. */
size_t program_path_bytes(const char *file);

/* Looks for it in the directories of $PATH and writes its path. */
bool program_path_find(const char *file, char *path);

#endif
