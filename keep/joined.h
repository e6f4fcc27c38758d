/* joined - what is kept, as one trace: the oldest segment, and what the program did in the others.
 *
 *   7.lz4  [ base | ................ ] --all----------------> writer --> FILE
 *   8.lz4  [ base | ................ ] --behind its base----^    objects of the base are those that
 *          8.join                                                segment 7 has left (segments.h)
 *
 * Files are opened when it begins, so that they may be removed meanwhile.
 *
 * Memory   as copy.h, twice. Threads: any one. */
#ifndef MALLOCTAPE_KEEP_JOINED_H
#define MALLOCTAPE_KEEP_JOINED_H

#include "keep/segments.h"

struct joined {
    size_t count;
    struct {
        int stream, join; /* descriptors; -1: none */
    } at[SEGMENTS_MAX];
    enum instruction_status status;
    struct instruction_totals totals; /* of what has been written */
    struct error error;
};

/* Opens the first `count` segments. False: see error. */
bool joined_open(struct joined *joined, const struct segments *segments, size_t count);

/* Writes the trace, and closes the segments. `path`: compressed if it ends in .lz4. False: see
 * error; there is no file then. */
bool joined_write(struct joined *joined, const char *path);

void joined_close(struct joined *joined);

#endif
