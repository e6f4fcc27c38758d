/* preload_list - the libraries that record, in an LD_PRELOAD. */
#ifndef MALLOCTAPE_PRELOAD_LIST_H
#define MALLOCTAPE_PRELOAD_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* What follows the = if `variable` is LD_PRELOAD; else NULL. */
const char *preload_list_in(const char *variable);

bool preload_list_has_own(const char *list);

/* Writes the path of the first of them. False: it has no directory, or what the linker would fill in
 * ($LIB), or needs more room. */
bool preload_list_own_path(char *to, size_t room, const char *list);

/* Writes the list without them. `to` has room for all of it, and may be `list`. */
void preload_list_without_own(char *to, const char *list);

#endif
