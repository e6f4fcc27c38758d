/* control - requests from outside, for a process that was started with TCMALLOC_TRACE_CONTROL=1.
 *
 *   malloctape ctl PID REQUEST --abstract socket "malloctape-PID"--> the control thread of the process
 *
 * A request is one line: "start", "start OUTPUT", "stop", "pause", "resume", "sync" or "status"; the answer is
 * "ok" or "error TEXT" and, after "ok", lines of text for people. One request a connection. Only the user that the
 * process runs as, and root, are answered. */
#ifndef MALLOCTAPE_CONTROL_H
#define MALLOCTAPE_CONTROL_H

#include <stdbool.h>

/* Starts the thread. A line on standard error says why it could not. */
void control_start(void);

bool control_is_running(void);

/* Waits until the thread is gone. */
void control_end(void);

/* In a forked child, which has no such thread. */
void control_forget(void);

#endif
