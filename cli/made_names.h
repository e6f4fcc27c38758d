/* made_names - keeps the names of code that a recorded program generated while it ran, as node and
 * Java do: /tmp/perf-PID.map is copied to OUTPUT.perf.map, beside the recording, where readers look
 * for it (symbols/code_names.h).
 *
 * Only call stacks need them. At most 64 MiB are kept, up to the end of a line. */
#ifndef MALLOCTAPE_MADE_NAMES_H
#define MALLOCTAPE_MADE_NAMES_H

#include <sys/types.h>

/* Copies the names; call when the process is no longer recorded. A file last written before
 * `since_s` (seconds since the epoch) is another process's and ignored. Prints a message if not all
 * was kept. */
void made_names_keep(pid_t process, double since_s, const char *output);

/* When a running process was started, in seconds since the epoch; 0: not known. */
double made_names_since(pid_t process);

#endif
