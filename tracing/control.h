/* control - the thread that carries out requests from outside (control.c). */
#ifndef MALLOCTAPE_CONTROL_H
#define MALLOCTAPE_CONTROL_H

#include <stdbool.h>

bool control_is_running(void);

/* Waits until the thread is gone. */
void control_end(void);

/* In a forked child, which has no such thread. */
void control_forget(void);

#endif
