/* engine_auto - which engine suits a stream: threads if more than one thread has a part in its
 * calls (lane_shares.h), else switch. */
#ifndef MALLOCTAPE_REPLAY_ENGINE_AUTO_H
#define MALLOCTAPE_REPLAY_ENGINE_AUTO_H

#include "replay/engine.h"

/* Reads the whole file, in a process of its own, so that this one's memory holds nothing of it.
 * NULL: it is not a regular file, so it cannot be read twice. Only before SIGCHLD is ignored. */
const struct engine *engine_auto(const char *file);

#endif
