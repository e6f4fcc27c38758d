/* raw_source - the chunks of a raw stream and, where it was cut, of its spool; and the decoder of
 * each lane.
 *
 *   stream --raw_reader---> chunk, chunk, tick, chunk ...       each lane: one raw_decoder
 *   PATH.spool --spool_reader--> chunk, chunk ...               what the stream lacks
 *
 *     if (raw_source_open(&source, fd, path))
 *         while ((chunk = raw_source_next(&source)) != NULL) {
 *             if (chunk->type == RAW_CHUNK_UNITS)
 *                 ... raw_source_lane(&source, chunk->lane) decodes it
 *             free(chunk);
 *         }
 *     raw_source_state(&source)
 *
 * A decoder follows one lane, so the caller must decode the chunks of a lane in the order in which
 * they came. It may keep them for any time before that.
 *
 * Memory  the chunks that were not freed, about 4 KiB for each lane, and its cache. One thread. */
#ifndef MALLOCTAPE_READING_RAW_SOURCE_H
#define MALLOCTAPE_READING_RAW_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "stream/raw_decoder.h"
#include "stream/raw_reader.h"
#include "stream/spool_reader.h"
#include "stream/stacks.h"

/* What became of the spool beside the stream (FORMAT.md 8). */
enum raw_spool { RAW_SPOOL_NONE, RAW_SPOOL_NOT_NEEDED, RAW_SPOOL_USED, RAW_SPOOL_UNUSABLE };

struct raw_source {
    struct raw_reader reader;
    struct raw_decoder **decoders; /* by lane; NULL: the lane has not been seen */
    size_t decoders_count;         /* room for them */
    uint64_t places_bytes;         /* of decoders */
    struct stacks stacks;          /* what has been defined so far */
    uint64_t stream_end;           /* offset of the end of the latest chunk from the stream */
    struct error error;            /* of decoders, or no memory; the reader has its own */
    enum raw_spool spool_use;      /* final after the last chunk */

    /* From here on: raw_source.c only. */
    struct spool_reader spool;
    bool spool_opened, spool_tried;
    char *spool_path; /* NULL: nowhere to look */
    int spool_file;   /* that of the caller, or -1 */
};

/* Reads the header of the stream at `fd`, which stays the caller's. `path` is the name of the
 * stream, beside which its spool is. False: there is nothing to read; raw_source_state() says
 * why. */
bool raw_source_open(struct raw_source *source, int fd, const char *path);

/* The same with a spool that is open, which stays the caller's, too. */
bool raw_source_open_both(struct raw_source *source, int fd, int spool);

/* The next chunk, units or a tick; the caller frees it. NULL at the end. */
struct raw_chunk *raw_source_next(struct raw_source *source);

/* Consecutive records of one lane. */
struct raw_batch {
    const struct raw_chunk *chunk; /* the chunk that they are from */
    const struct raw_decoder *decoder;
    uint64_t number; /* of the first one in its lane, not counting records about the cache only */
    const struct record *records;
    uint32_t count;
};

/* Functions to call for the parts of a stream; all but `records` may be NULL. After the last
 * records of a chunk comes an empty batch. */
struct raw_visitor {
    void (*segment)(void *of, const struct raw_chunk *chunk); /* before its first records */
    void (*records)(void *of, const struct raw_batch *batch);
    void (*tick)(void *of, const struct raw_chunk *chunk);      /* decoded in source->reader.tick */
    bool cache_records;                                         /* raw_decoder.h */
    void (*mappings)(void *of, const struct raw_chunk *chunk);  /* checked: mapping.h */
    void (*residency)(void *of, const struct raw_chunk *chunk); /* checked: residency.h */
};

/* Goes through all chunks. raw_source_state() reports errors. */
void raw_source_visit(struct raw_source *source, const struct raw_visitor *visitor, void *of);

/* The decoder of a lane; NULL: no memory (source->error). */
struct raw_decoder *raw_source_lane(struct raw_source *source, uint32_t lane);

/* What is known about the end of a truncated stream, after its last chunk. */
enum raw_cut {
    RAW_CUT_WHOLE,  /* together with the spool, no event is missing */
    RAW_CUT_FAILED, /* an error ended the recording */
    RAW_CUT_UNKNOWN /* there is no spool, or it does not fit */
};
enum raw_cut raw_source_cut(const struct raw_source *source);

/* After the last chunk: returns PROGRAM_OK, PROGRAM_CUT (also when the spool had the rest) or
 * PROGRAM_FAILED (common/program.h), and sets *error to the message about it. */
int raw_source_state(const struct raw_source *source, struct error *error);

void raw_source_close(struct raw_source *source);

/* Whether the allocator is opaque (FORMAT.md 2.7). */
static inline bool raw_source_is_opaque(const struct raw_source *source)
{
    return (source->reader.header.features & RAW_FEATURE_OPAQUE) != 0;
}

#endif
