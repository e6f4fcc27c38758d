/* temporary - a file without a name, in TMPDIR or /tmp. */
#ifndef MALLOCTAPE_TEMPORARY_H
#define MALLOCTAPE_TEMPORARY_H

#include "common/error.h"

/* A descriptor to read and write, or -1: see `error`. */
int temporary_file(struct error *error);

#endif
