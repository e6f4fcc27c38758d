/* keep_run - follows a recording to its end, starts what answers meanwhile (control.h, listen.h), and
 * writes what is kept. */
#ifndef MALLOCTAPE_KEEP_RUN_H
#define MALLOCTAPE_KEEP_RUN_H

#include "keep/keep_options.h"

/* Returns an exit status. */
int keep_run(struct keep_options *options);

#endif
