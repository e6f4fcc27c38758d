/* source - the bytes, or the lines, of a file in another format.
 *
 *   path --libarchive: lz4, gzip, zstd, xz, bzip2, a zip of one file--> [next .. end] --> reader
 *
 *     while (source_line(&source, &line)) ...          text
 *     if (source_peek(&source, 24) < 24) ...           binary: then source_skip(&source, 24)
 *
 * A mistake in the file is said with its line or offset: source_bad_line() and source_bad_bytes().
 *
 * Invariant   source->ended: what lies between next and end is all there will ever be
 * Memory      the buffer; with source_map(), for input that is packed or no file, a file without a
 *             name in TMPDIR. One thread. */
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
    bool part; /* one of several files that are parts of one recording */
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

/* These bytes, which stay the caller's. */
void source_open_memory(struct source *source, const uint8_t *data, size_t bytes);

/* Tries to have `bytes` (at most SOURCE_PEEK_MAX) bytes at source->next, and returns how many there
 * are: fewer only at the end, or after a failure (source->error). */
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

/* A line without its end; \r\n counts as one. Good until the next call. False at the end and after
 * a failure. A line of more than SOURCE_LINE_MAX bytes is one. */
bool source_line(struct source *source, struct fields *line);

/* All that is left, as one piece of memory, from source->next on. False: see source->error. */
bool source_map(struct source *source);

/* What source_map() brought into memory may leave it; it comes back when it is looked at. */
void source_forget(struct source *source);

/* "line 17: MESSAGE". Return false. */
bool source_bad_line(struct source *source, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

/* "offset 0x40: MESSAGE". */
bool source_bad_bytes(struct source *source, uint64_t offset, const char *message, ...)
    __attribute__((format(printf, 3, 4)));

void source_close(struct source *source);

#endif
