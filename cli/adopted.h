/* adopted - processes whose parent has ended. The kernel gives them to the first process of a
 * container, which may be `record`: keepers among them, each of which would stay as a zombie. */
#ifndef MALLOCTAPE_ADOPTED_H
#define MALLOCTAPE_ADOPTED_H

#include <stddef.h>
#include <sys/types.h>

/* Takes what is left of those that have ended, but not of `ours`, for which somebody waits. Does nothing
 * in any other process than the first. */
void adopted_take(const pid_t *ours, size_t count);

#endif
