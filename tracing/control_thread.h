/* control_thread - the thread of control.c, as long as there is one. */
#ifndef MALLOCTAPE_CONTROL_THREAD_H
#define MALLOCTAPE_CONTROL_THREAD_H

#include <stdbool.h>

/* 0 or a negative errno. */
int control_thread_start(void (*run)(void *unused));

bool control_thread_is_running(void);

/* For the thread itself. */
bool control_thread_is_to_end(void);

/* Waits until the thread is gone. */
void control_thread_end(void);

/* In a forked child, which has no such thread. */
void control_thread_forget(void);

#endif
