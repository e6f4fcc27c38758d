/* linked - which functions the libraries of this process have, read from the lists of the dynamic
 * linker.
 *
 * dlsym() would take a lock, and, where it finds nothing, memory from the program's heap.
 *
 * Threads   the libraries with which the program was started stay where they are. While others may
 *           be loaded or unloaded, only linked_function_now...() may be called by a thread that does
 *           not have the lock of dlopen(). */
#ifndef MALLOCTAPE_LINKED_H
#define MALLOCTAPE_LINKED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* The library of this process that has the address; NULL: none. */
const struct link_map *linked_library(const void *address);

/* The address of this function in the library; NULL: it has none. */
void *linked_function_in(const struct link_map *library, const char *name);

/* The same in the first library after `behind` (NULL: in the first of all) that has it. That
 * library goes to *found, unless `found` is NULL. */
void *linked_function(const struct link_map *behind, const char *name,
                      const struct link_map **found);

/* The same among all libraries that are loaded now. Takes the lock of the dynamic linker's list, as
 * the unwinder of C++ does. `behind` is a library with which the program was started. */
void *linked_function_now(const struct link_map *behind, const char *name);

/* The same, in the first of all libraries but `own`. */
void *linked_function_now_of_others(const struct link_map *own, const char *name);

/* The same for a thread that has the lock of dlopen(): takes none. That library goes to *found,
 * unless `found` is NULL. */
void *linked_function_of_others(const struct link_map *own, const char *name,
                                const struct link_map **found);

/* The library's program headers in memory; NULL: not found. */
const ElfW(Phdr) * linked_segments(const struct link_map *library, size_t *count);

/* The entry with this tag in the library's dynamic section, as an address or as a number; NULL or 0
 * if there is none. */
const void *linked_table(const struct link_map *library, long tag);
size_t linked_number(const struct link_map *library, long tag);

/* The name of its file, without directories. */
const char *linked_file(const struct link_map *library);

#endif
