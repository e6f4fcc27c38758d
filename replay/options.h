/* options - the command line of replay. */
#ifndef MALLOCTAPE_REPLAY_OPTIONS_H
#define MALLOCTAPE_REPLAY_OPTIONS_H

#include "replay/engine.h"

#define REPLAY_PROGRAM "replay"

struct options {
    const struct engine *engine;
    struct policy policy;
    const char *file;          /* NULL: the standard input */
    const char *json;          /* NULL: none */
    const char *release_every; /* as given; NULL: never */
    bool trace_run;            /* the report is as that of glibc's trace_run */
    bool sample_is_given;      /* --sample */
    const char *snapshot;      /* NULL: none */
    const char *csv;           /* what names of files begin with; NULL: none */
    bool quiet;
};

/* Returns -1 to go on, or an exit status: --help and the like have been done, or an error has been
 * printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif
