/* output - a buffered byte sink over a file descriptor.
 *
 * Interrupted and short writes are continued; the first failure is kept in `error`, everything
 * after it is dropped, and output_close() tells. So a producer may check once, at the end, or as
 * often as it likes.
 *
 *   offset == bytes handed to the system + used            (until a failure)
 *
 * With output_compress(), the bytes go into one LZ4 frame, as `lz4` makes it; offsets are those
 * before compression.
 *
 * A reader that went away is EPIPE here if the program ignores SIGPIPE, else the signal ends the
 * program, as is usual in a pipeline. One thread. Memory: the buffer, from pages_map(). */
#ifndef MALLOCTAPE_OUTPUT_H
#define MALLOCTAPE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Twice the default size of a pipe, and small enough to stay in a second-level cache. */
#define OUTPUT_BUFFER_BYTES (128u * 1024)

struct output {
    int fd;
    bool owned;       /* output_close() closes the descriptor */
    bool discards;    /* output_close() removes the file: what is in it is of no use */
    const char *path; /* as it was given to output_open(), which it must outlive; or NULL */
    bool unread;      /* the error is that the reader of a pipe went away */
    uint8_t *buffer;
    size_t used;
    void *frame;     /* LZ4F_cctx, with output_compress() */
    uint8_t *packed; /* what it makes of a full buffer */
    size_t packed_bytes;
    uint64_t offset; /* bytes accepted so far: the offset of the next one */
    struct error error;
};

/* Opens `path` for writing, created or emptied; "-" is the standard output. If writing fails, or
 * output->discards is set, output_close() removes the file. False: see output->error. */
bool output_open(struct output *output, const char *path);

/* Whether output_open() is likely to succeed, before time is spent on what is to be written. Leaves
 * no file behind. False: see `error`. */
bool output_can_open(const char *path, struct error *error);

/* Whether writing to `path` would destroy `input`, or add to it; "-" is the standard output, and the
 * standard input. */
bool output_would_replace(const char *path, const char *input);

/* Removes what could not be written, unless it is a pipe, a device or a link. */
void output_remove(const char *path);

/* Takes a descriptor that stays the caller's. */
bool output_open_fd(struct output *output, int fd);

/* Whether what is written there is to be compressed: the name ends in ".lz4". */
bool output_is_lz4(const char *path);

/* Right after the opening: compress what is written. False: see output->error. */
bool output_compress(struct output *output);

/* False once a failure has happened. */
bool output_write(struct output *output, const void *data, size_t bytes);

/* Hands everything to the system, or to the frame. */
bool output_flush(struct output *output);

/* Flushes, closes what was opened here, frees the buffer. False if anything failed since the
 * opening; error stays readable. */
bool output_close(struct output *output);

#ifdef __cplusplus
}
#endif
#endif
