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
#include <sys/types.h>

struct finished {
    uint64_t events; /* of the whole recording */
    uint64_t bytes;
    bool has_other_malloc; /* the recording says that malloc was not the recorder's */
};

/* Which file the recorder has made for a stream; device and inode 0: not known. */
struct finish_made {
    dev_t device;
    ino_t inode;
};

/* `path`: of the stream; the spool is beside it. True: the stream is complete and its spool has
 * been removed. Others may be able to write to the directory: nothing is changed in a stream that
 * is not the file that was made, nor by a spool that is not of the same owner. */
bool finish(const char *path, const struct finish_made *made, struct finished *finished);

/* The same with open files, which stay the caller's; the spool is not removed. `name`: for
 * messages. */
bool finish_files(int stream, int spool, const char *name, struct finished *finished);

/* Reads the whole stream, from its beginning. True: the process has finished it itself. */
bool finish_read(int stream, struct finished *finished);

#endif
