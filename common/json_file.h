/* json_file - writes a JSON value to a file. */
#ifndef MALLOCTAPE_JSON_FILE_H
#define MALLOCTAPE_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

/* Writes `value` and a newline to the file at `path`; "-" is the standard output. A value of NULL
 * is one that there was no memory for. False: see error. */
bool json_file_write(const json_t *value, const char *path, struct error *error);

#endif
