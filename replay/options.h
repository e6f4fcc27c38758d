/* options - the command line of replay. Filled in once, then read only. */
#ifndef MALLOCTAPE_REPLAY_OPTIONS_H
#define MALLOCTAPE_REPLAY_OPTIONS_H

#include <errno.h>
#include <stdbool.h>

#include "replay/engine.h"
#include "replay/policy.h"

/* The program's name in messages: it is built, installed, and run as a command of malloctape under
 * different names. */
#define REPLAY_PROGRAM program_invocation_short_name

struct options {
    const struct engine *engine; /* NULL: that of engine_auto() */
    struct policy policy;
    const char *file;          /* NULL: the standard input */
    const char *json;          /* NULL: none */
    const char *release_every; /* as given; NULL: never */
    const char *snapshot;      /* NULL: none */
    const char *csv;           /* what names of files begin with; NULL: none */
    unsigned trace_run;        /* 1: the report looks like that of glibc's trace_run */
    bool quiet, series;
};

/* Returns PROGRAM_GO_ON, or an exit status: --help and the like have been done, or an error has
 * been printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif
