/* compare/library - what the files of libraries say: which build one is, as versions do not tell two
 * apart. */
#ifndef MALLOCTAPE_COMPARE_LIBRARY_H
#define MALLOCTAPE_COMPARE_LIBRARY_H

#include <stddef.h>

/* The build id of an ELF file, as hexadecimal digits; empty: it has none. Returns `text`. */
const char *library_build_id(const char *path, char *text, size_t bytes);

#endif
