/* control - answers `malloctape ctl PID keep FILE`, on a socket of the abstract name
 * malloctape-keep-PID, where PID is the recorded process:
 *
 *     "keep /path/FILE\n"   -->  "ok: 12345 events\n" or "error: why\n"
 *
 *     "recent /path/FILE\n"   the latest segment, for `malloctape top`
 *
 * Only the same user, and root, are answered. Threads   its own. */
#ifndef MALLOCTAPE_KEEP_CONTROL_H
#define MALLOCTAPE_KEEP_CONTROL_H

#include "keep/keeper.h"

/* False: see error; the keeper goes on without it. */
bool control_begin(struct keeper *keeper, struct error *error);

#endif
