/* convert_files - what import and export need to know of files. */
#ifndef MALLOCTAPE_CONVERT_FILES_H
#define MALLOCTAPE_CONVERT_FILES_H

#include "common/error.h"

/* A file without a name, in TMPDIR or /tmp: a descriptor to read and write, or -1: see `error`. */
int file_temporary(struct error *error);

#endif
