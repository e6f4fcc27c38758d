/* request - what `malloctape ctl` and `top` ask a process (control.c), and what it answers.
 *
 *   request   CONTROL_HEAD REQUEST "\n"        malloctape 2 status
 *   answer    CONTROL_OK TEXT                  malloctape 2 ok
 *             CONTROL_ERROR TEXT               malloctape 2 error it is not recording
 *
 * The version comes first, so that text of another version is not misread. It changes with the
 * words of a request and with struct watch_counts. */
#ifndef MALLOCTAPE_REQUEST_H
#define MALLOCTAPE_REQUEST_H

#define CONTROL_NAME    "malloctape "
#define CONTROL_VERSION "2"
#define CONTROL_HEAD    CONTROL_NAME CONTROL_VERSION " "
#define CONTROL_OK      CONTROL_HEAD "ok\n"
#define CONTROL_ERROR   CONTROL_HEAD "error "

#endif
