/* control - the thread that carries out requests from outside (control.c), in a process into which
 * the library was loaded while it ran. In one that was started with it the thread begins by itself. */
#ifndef MALLOCTAPE_CONTROL_H
#define MALLOCTAPE_CONTROL_H

/* Begins to listen, if nobody does. `stacks`: what TCMALLOC_TRACE_STACKS may be, or NULL. 0 or a
 * negative errno value. */
int control_attach(const char *stacks);

/* Asks the thread to end, which it does soon. */
void control_detach(void);

#endif
