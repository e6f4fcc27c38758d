/* each - one of many keepers: with a %p in FILE, each process that is recorded starts one of its own.
 *
 *   process --writer--> pipe --> malloctape-keep --process 4711 ...
 *                                |  becomes postprocess --ordered--> the keeper, its child --> FILE
 *
 * So a process that ends waits until postprocess has read everything, and not until FILE is written.
 * Names are chosen once the stream has begun: a process that records nothing leaves nothing. */
#ifndef MALLOCTAPE_KEEP_EACH_H
#define MALLOCTAPE_KEEP_EACH_H

#include "common/error.h"
#include "keep/keep_options.h"

/* A forked child that makes fewer calls leaves no FILE: most of them only run another program. */
enum { EACH_FORKED_CALLS = 1000 };

/* Returns in a child what is to be followed; this process becomes postprocess. -1: see error. */
int each_split(struct error *error);

/* Fills names in, and makes the directory. As in any recording, a name with the process in it replaces
 * no file. False: see error. */
bool each_choose_names(struct keep_options *options, struct error *error);

#endif
