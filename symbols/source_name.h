/* source_name - names of functions that an interpreter runs, by the file of their source code. */
#ifndef MALLOCTAPE_SYMBOLS_SOURCE_NAME_H
#define MALLOCTAPE_SYMBOLS_SOURCE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define SOURCE_NAME_BYTES 1024

/* Writes "module.function": the module as Python would import the file, as far as its path tells
 * (below site-packages or the like all of it, else the file's own name). */
void source_name(const char *path, const char *function, char name[SOURCE_NAME_BYTES]);

/* Whether a file of source code is of the standard library of Python or Ruby: not of what is installed
 * beside that. */
bool source_is_library(const char *path);

#endif
