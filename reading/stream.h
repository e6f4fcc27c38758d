/* stream - opens a file of either format and says which one it is.
 *
 *   path --input--> first bytes --magic--+--> input for an instruction_reader
 *                                        +--> fd, at the beginning again, for a raw_reader
 *
 * The first decoded bytes decide, and they cannot be put back. A file is read from its start again;
 * from a pipe, a child process passes the decoded bytes on through a second pipe. */
#ifndef MALLOCTAPE_READING_STREAM_H
#define MALLOCTAPE_READING_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/input.h"

#define STREAM_ERROR_LIST(X) \
    X(STREAM_UNKNOWN, "stream_unknown", "neither a raw stream nor an instruction stream")
enum stream_error { STREAM_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind stream_errors[];

enum stream_format { STREAM_RAW, STREAM_INSTRUCTIONS };

struct stream {
    enum stream_format format;
    bool lz4;
    bool is_file;        /* a regular file: it has a name, and may have a spool beside it */
    uint64_t file_bytes; /* 0: not a regular file */
    struct input input;  /* STREAM_INSTRUCTIONS: at the first byte */
    int fd;              /* STREAM_RAW: at the first byte */
    pid_t relay;         /* the child, or 0 */
};

/* Opens `path`; "-" is the standard input. An input too short to tell its format counts as a raw
 * stream: it may be a recording truncated at its beginning, whose spool has everything. False: see
 * `error`. */
bool stream_open(struct stream *stream, const char *path, struct error *error);

/* Close the readers that use the stream first. False: what came from a pipe is damaged, which a
 * message on the standard error says; its readers have only seen an early end. */
bool stream_close(struct stream *stream);

#endif
