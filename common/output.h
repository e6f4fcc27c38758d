/* output - a buffered byte sink over a file descriptor.
 *
 * Interrupted and short writes are continued. The first failure is kept in `error`, everything
 * after it is dropped, and output_close() returns false. So a producer may check only at the end.
 *
 *   offset == bytes handed to the system + used            (until a failure)
 *
 * With output_compress(), the bytes go into one LZ4 frame, as `lz4` makes it; offsets are those
 * before compression.
 *
 * If the reader of a pipe has closed it, the error is EPIPE if the program ignores SIGPIPE; else
 * the signal ends the program, as is usual in a pipeline. One thread. Memory: the buffer, from
 * pages_map(). */
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
    bool discards;    /* output_close() removes the file, because its contents are useless */
    const char *path; /* the caller's string given to output_open(), or NULL */
    bool unread;      /* the error is that the reader of a pipe has closed it */
    uint8_t *buffer;
    size_t used;
    void *frame;     /* LZ4F_cctx, with output_compress() */
    uint8_t *packed; /* room for the compressed form of a full buffer */
    size_t packed_bytes;
    uint64_t offset; /* bytes accepted so far: the offset of the next one */
    struct error error;
};

/* Opens `path` for writing, created or truncated; "-" is the standard output. If writing fails, or
 * output->discards is set, output_close() removes the file. `path` must stay valid until then.
 * False: see output->error. */
bool output_open(struct output *output, const char *path);

/* Whether output_open() is likely to succeed: to be checked before time is spent. Leaves no file
 * behind. False: see `error`. */
bool output_can_open(const char *path, struct error *error);

/* Whether writing to `path` would overwrite `input`, or append to it; "-" is the standard output or
 * input. */
bool output_would_replace(const char *path, const char *input);

/* Removes an incomplete file, unless it is a pipe, a device or a symbolic link. */
void output_remove(const char *path);

/* Takes a descriptor that stays the caller's. */
bool output_open_fd(struct output *output, int fd);

/* Whether a file is to be compressed, because its name ends in ".lz4". */
bool output_is_lz4(const char *path);

/* Compresses what is written. Call right after opening. False: see output->error. */
bool output_compress(struct output *output);

/* False once there has been a failure. */
bool output_write(struct output *output, const void *data, size_t bytes);

/* Passes everything to the system, or to the compressor. */
bool output_flush(struct output *output);

/* Flushes, closes what was opened here, frees the buffer. False if anything failed since the
 * opening; error stays readable. */
bool output_close(struct output *output);

#ifdef __cplusplus
}
#endif
#endif
