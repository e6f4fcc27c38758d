/* linked - what a recorded program is linked with. */
#ifndef MALLOCTAPE_READING_LINKED_H
#define MALLOCTAPE_READING_LINKED_H

#include "reading/others.h"

/* Libraries that a program has whatever its allocator is: those that its file is linked with, and
 * those that these are, as far as they were resident and are still there; or what the trace says of
 * that. Their names, with commas between them, from malloc(); NULL: none. */
char *linked_list(const struct others *others);

/* The same as a line of metadata, for a trace that leaves out what was resident; NULL: nothing to add. */
char *linked_line(const struct others *others);

#endif
