/* linked - which functions the libraries of this process have, read from the lists of the dynamic
 * linker.
 *
 * dlsym() takes a lock, and where it finds nothing, memory of the program's heap.
 *
 * Threads   the libraries with which the program was started stay where they are. While others may
 *           be loaded or unloaded, only linked_function_now() may be called. */
#ifndef MALLOCTAPE_LINKED_H
#define MALLOCTAPE_LINKED_H

#include <stdbool.h>
#include <stddef.h>

struct link_map;

/* The library of this process that has the address; NULL: none. */
const struct link_map *linked_library(const void *address);

/* Where the library has this function; NULL: nowhere. */
void *linked_function_in(const struct link_map *library, const char *name);

/* The same, of the first library behind the given one (NULL: of all) that has it. That library
 * goes to *found, unless `found` is NULL. */
void *linked_function(const struct link_map *behind, const char *name,
                      const struct link_map **found);

/* The same, of all libraries that are there now. Takes the lock of the dynamic linker's list, as the
 * unwinder of C++ does. `behind` is one with which the program was started. */
void *linked_function_now(const struct link_map *behind, const char *name);

/* The same, of all but one library. */
void *linked_function_of_others(const struct link_map *own, const char *name);

/* What the library's dynamic section says with this tag: an address, or a number; NULL or 0 if it has
 * no such entry. */
const void *linked_table(const struct link_map *library, long tag);
size_t linked_number(const struct link_map *library, long tag);

/* The name of its file, without directories. */
const char *linked_file(const struct link_map *library);

#endif
