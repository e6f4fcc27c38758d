/* installed - where the other parts of malloctape are, seen from the running program.
 *
 * The layout depends on whether this is the build directory or an installation:
 *
 *   built                                   installed, below PREFIX
 *   bin/malloctape                          bin/malloctape
 *   bin/postprocess                         bin/malloctape-postprocess
 *   lib/libtcmalloc_minimal_tracing.so      lib/libtcmalloc_minimal_tracing.so
 *   lib/libtcmalloc_minimal.so              lib/malloctape/libtcmalloc_minimal.so
 *
 * In an installation, names that another package may have, too, are changed or moved. */
#ifndef MALLOCTAPE_INSTALLED_H
#define MALLOCTAPE_INSTALLED_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Overrides the search for libraries: only this directory is searched. */
#define INSTALLED_LIBRARIES_VARIABLE "MALLOCTAPE_LIBDIR"

struct installed {
    char path[PATH_MAX];
};

/* The library `name`, to be preloaded, in $MALLOCTAPE_LIBDIR, or the first of: ../lib/malloctape
 * and ../lib as seen from this program, and the same where `make install` puts them. False: `why`
 * says where it was looked for. */
bool installed_find_library(struct installed *installed, const char *name, char *why,
                            size_t why_bytes);

/* Whether LD_PRELOAD can hold a path; if not, `why` says so. */
bool installed_can_preload(const char *path, char *why, size_t why_bytes);

/* Finds the program `name` in the directory of this one, by its installed name or by that of the
 * build directory. False: installed->path is where it should be. */
bool installed_find_program(struct installed *installed, const char *name);

#endif
