/* control - the thread that carries out requests from outside (control.c), in a process into which
 * the library was loaded while it ran. In one that was started with it the thread begins by itself. */
#ifndef MALLOCTAPE_CONTROL_H
#define MALLOCTAPE_CONTROL_H

/* Begins to listen, if nobody does. `given`: settings_attach(). 0 or a negative errno value. What the
 * caller has stored before is then there for all threads, however they come here. */
int control_attach(const char *given);

/* Asks the thread to end, which it does soon. */
void control_detach(void);

#endif
