/* files - what import and export need to know of files. */
#ifndef MALLOCTAPE_FILES_H
#define MALLOCTAPE_FILES_H

#include <stdbool.h>

#include "common/error.h"

/* A file without a name, in TMPDIR or /tmp: a descriptor to read and write, or -1: see `error`. */
int file_temporary(struct error *error);

/* Whether both are names of one regular file: to write one would destroy the other. */
bool files_are_same(const char *one, const char *other);

#endif
