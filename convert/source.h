/* source - the bytes, or the lines, of a file in another format.
 *
 *   path --libarchive: lz4, gzip, zstd, xz, bzip2, a zip of one file--> [next .. end] --> reader
 *
 *     while (source_line(&source, &line)) ...          text
 *     if (source_peek(&source, 24) < 24) ...           binary: then source_skip(&source, 24)
 *
 * Errors in the file are reported with line or offset: source_bad_line() and source_bad_bytes().
 *
 * Invariant   source->ended: the bytes between next and end are all there will ever be
 * Memory      the buffer; with source_map(), for input that is compressed or not a file, a file
 *             without a name in TMPDIR. One thread. */
#ifndef MALLOCTAPE_SOURCE_H
#define MALLOCTAPE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/fields.h"

/* The most a reader may ask for at once, and the longest line. */
#define SOURCE_PEEK_MAX (256u * 1024)
#define SOURCE_LINE_MAX (64u * 1024)

#define SOURCE_ERROR_LIST(X)                            \
    X(SOURCE_LINE, "source_line", "")                   \
    X(SOURCE_BYTES, "source_bytes", "")                 \
    X(SOURCE_PACKED, "source_packed", "cannot be read") \
    X(SOURCE_FILES, "source_files", "more than one file in the archive; one is read, the first: ")
enum source_error { SOURCE_ERROR_LIST(ERROR_LIST_ENUM) };
extern const struct error_kind source_errors[];

struct source {
    const uint8_t *next, *end;
    uint64_t end_offset; /* of `end`, in the unpacked data */
    uint64_t line;       /* the number of the latest one, from 1 */
    bool ended;
    bool part; /* the file is one of several parts of a recording */
    struct error error;

    /* From here on: source.c only. */
    int fd;
    bool by_name;
    void *archive; /* NULL: all is in memory */
    uint8_t *buffer;
    void *map;
    size_t map_bytes;
};

/* Opens `path`; "-" is the standard input. False: see source->error. */
bool source_open(struct source *source, const char *path);

/* Reads from these bytes, which stay the caller's. */
void source_open_memory(struct source *source, const uint8_t *data, size_t bytes);

/* Makes `bytes` (at most SOURCE_PEEK_MAX) bytes available at source->next, and returns how many
 * there are: fewer only at the end, or after a failure (source->error). */
size_t source_peek(struct source *source, size_t bytes);

static inline void source_skip(struct source *source, size_t bytes)
{
    source->next += bytes;
}

/* Offset of source->next in the unpacked data. */
static inline uint64_t source_offset(const struct source *source)
{
    return source->end_offset - (uint64_t)(source->end - source->next);
}

/* Gets a line without its end (\n or \r\n), valid until the next call. False at the end and after a
 * failure, such as a line of more than SOURCE_LINE_MAX bytes. */
bool source_line(struct source *source, struct fields *line);

/* Makes all the rest available from source->next on, in one piece. False: see source->error. */
bool source_map(struct source *source);

/* Lets the system drop pages of source_map() from memory; they are read again when accessed. */
void source_forget(struct source *source);

/* "line 17: MESSAGE". Return false. */
bool source_bad_line(struct source *source, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* "offset 0x40: MESSAGE". */
bool source_bad_bytes(struct source *source, uint64_t offset, const char *message, ...)
    __attribute__((format(printf, 3, 4)));

void source_close(struct source *source);

#endif
