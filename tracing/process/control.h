/* control - the thread that carries out requests from outside (control.c), in a process into which
 * the library was loaded while it ran. If it was loaded at the start, the thread begins by
 * itself. */
#ifndef MALLOCTAPE_CONTROL_H
#define MALLOCTAPE_CONTROL_H

/* Begins to listen, if nobody does. `given`: settings_attach(). 0 or a negative errno value. All
 * threads, however they come here, then see what the caller stored before. */
int control_attach(const char *given);

/* Asks the thread to end, which it does soon. */
void control_detach(void);

#endif
