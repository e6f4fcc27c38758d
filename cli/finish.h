/* finish - completes a recording whose process has ended without finishing it.
 *
 *   stream, cut:  [frame: block, block, part of one       + spool: what the stream lacks
 *   finished:     [frame: block, block][frame: the spool's chunks, end chunk]
 *
 * Only if nothing is missing: the spool is from the same run and has no gap, no error had ended the
 * recording, and no process uses the spool any more. Otherwise both files stay as they are; all
 * readers can read them. */
#ifndef MALLOCTAPE_FINISH_H
#define MALLOCTAPE_FINISH_H

#include <stdbool.h>
#include <stdint.h>

struct finished {
    uint64_t events; /* of the whole recording */
    uint64_t bytes;
    bool has_other_malloc; /* the recording says that malloc was not the recorder's */
};

/* `path`: of the stream; the spool is beside it. True: the stream is complete and its spool has
 * been removed. */
bool finish(const char *path, struct finished *finished);

/* Reads the whole stream. True: the process has finished it itself. */
bool finish_read(const char *path, struct finished *finished);

#endif
