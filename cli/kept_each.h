/* kept_each - `record --keep` of a process and those that come of it: each has a keeper of its own, which
 * its recorder starts (keep/each.h).
 *
 *   record --starts--> PROGRAM -----> |malloctape-keep --process 4711 ...     its FILE, with %p
 *                         \--forks--> |malloctape-keep --process 4712 ...
 *                                        \--"keeping 4712 FILE.keep"--> record, which waits for all
 *
 * Threads   one. */
#ifndef MALLOCTAPE_KEPT_EACH_H
#define MALLOCTAPE_KEPT_EACH_H

#include "cli/kept.h"
#include "cli/recordings.h"

/* A recorder takes no more. */
enum { KEPT_COMMAND_BYTES = 4096 };

/* Writes what a recorder is to record to. `report`: the file of recordings.h, or empty. Returns an exit
 * status, after a message unless it is PROGRAM_OK. */
int kept_each_output(const struct kept *kept, const char *report, char *output, size_t bytes);

/* The program has ended. Waits until the keepers of all processes that have ended, too, have written
 * their FILE, or a signal asks us to end. Returns how many still run. `lost`: how many could not write it. */
size_t kept_each_end(struct recordings *recordings, size_t *lost);

/* The FILE of one of them that keeps something. */
void kept_each_file(const struct keeping *keeping, char file[PATH_MAX]);

#endif
