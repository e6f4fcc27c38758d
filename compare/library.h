/* compare/library - what the files of libraries say: which build one is, as versions do not tell two
 * apart; and which others it needs. */
#ifndef MALLOCTAPE_COMPARE_LIBRARY_H
#define MALLOCTAPE_COMPARE_LIBRARY_H

#include <stddef.h>

#include "reading/others.h"

/* The build id of an ELF file, as hexadecimal digits; empty: it has none. Returns `text`. */
const char *library_build_id(const char *path, char *text, size_t bytes);

/* Libraries that a program has whatever its allocator is: those that its file is linked with, and
 * those that these are, as far as they were resident and are still there. Their names, with commas
 * between them, from malloc(); NULL: none. */
char *library_list_of_program(const struct others *others);

#endif
