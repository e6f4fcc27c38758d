/* made_names - keeps the names of code that a recorded program made while it ran, as node and Java
 * do: what it wrote into /tmp/perf-PID.map becomes OUTPUT.perf.map, beside the recording, where
 * readers look for it (symbols/code_names.h).
 *
 * Call stacks need them, nothing else does. At most 64 MiB are kept, up to the end of a line. */
#ifndef MALLOCTAPE_MADE_NAMES_H
#define MALLOCTAPE_MADE_NAMES_H

#include <sys/types.h>

/* Once the process has left the recording. A file last written before `since_s` (seconds since the
 * epoch) is another process's. Says so if not all was kept. */
void made_names_keep(pid_t process, double since_s, const char *output);

/* Since when a process that runs, runs; 0: not known. */
double made_names_since(pid_t process);

#endif
