/* ordered_file - turns a trace of any form into a file that can be replayed any number of times.
 *
 *   instruction stream in a file     --> that file
 *   instruction stream from a pipe   --> a copy
 *   raw recording                    --> what postprocess makes of it, once
 *
 * Copies are written to the caller's directory, not compressed: about three bytes an event. */
#ifndef MALLOCTAPE_READING_ORDERED_FILE_H
#define MALLOCTAPE_READING_ORDERED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/process.h"

/* Fills `ordered` with the path of the file. `ordered_bytes` must be at least PATH_MAX and
 * PROCESS_PATH_BYTES. `path` may be "-". False: `why` says what is wrong with the trace. */
bool ordered_file_prepare(const struct process_directory *directory, const char *path,
                          char *ordered, size_t ordered_bytes, char *why, size_t why_bytes);

#endif
