/* keep_options - what the keeper is asked for. */
#ifndef MALLOCTAPE_KEEP_OPTIONS_H
#define MALLOCTAPE_KEEP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "keep/triggers.h"

struct keep_options {
    const char *output;    /* FILE */
    const char *directory; /* of segments */
    const char *listen;    /* where to listen, or NULL */
    const char *token;     /* a file with the token, or NULL */
    const char *process; /* of which this is the keeper (each.h), perhaps with a number; or NULL */
    const char *program; /* its name, if there is a process */
    const char *report;  /* the file that `record` reads (tracing/data/notice.h), or NULL */
    uint64_t keep_ns, max_bytes;
    struct triggers triggers;
    bool has_keep, quiet;
    bool rescue; /* nothing is followed: what an earlier keeper has left is joined */
};

/* Returns PROGRAM_GO_ON or an exit status. */
int keep_options_parse(struct keep_options *options, int count, char **words);

#endif
