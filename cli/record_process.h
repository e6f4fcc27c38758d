/* record_process - `malloctape record --pid`: records a running process. */
#ifndef MALLOCTAPE_RECORD_PROCESS_H
#define MALLOCTAPE_RECORD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/kept.h"

struct record_process {
    pid_t process;
    const char *output;   /* an absolute path: of a file to be made, or of what the process opens */
    const char *pattern;  /* the same for the latter, which fills names in */
    const char *library;  /* libmalloctape.so */
    const char *settings; /* attachment.h */
    double seconds;       /* 0: until a signal comes or the process ends */
    struct kept *kept;    /* who gets the recording; NULL: it goes to `output` */
    bool quiet;
};

/* Returns an exit status. */
int record_process(const struct record_process *record);

#endif
