/* raw_source - the chunks of a raw stream, and the decoder of each lane.
 *
 *   stream --raw_reader--> chunk, chunk, tick, chunk ...        each lane: one raw_decoder
 *
 *     if (raw_source_open(&source, fd, path))
 *         while ((chunk = raw_source_next(&source)) != NULL) {
 *             if (chunk->type == RAW_CHUNK_RECORDS) ... raw_source_lane(&source, chunk->lane) decodes it
 *             raw_source_release(&source, chunk);
 *         }
 *     raw_source_state(&source)
 *
 * A decoder follows one lane, so the chunks of a lane are to be decoded in the order in which they came; when, is
 * up to the caller, who keeps them as long.
 *
 * Memory  the chunks that were not released, about 1 KiB for each lane. One thread. */
#ifndef MALLOCTAPE_RAW_SOURCE_H
#define MALLOCTAPE_RAW_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "tracing/raw_decoder.h"
#include "tracing/raw_reader.h"

struct raw_source {
    struct raw_reader reader;
    struct raw_decoder **decoders; /* by lane; NULL where the lane has not been seen */
    uint32_t decoders_count;
    uint64_t stream_end; /* offset behind the latest chunk that came from the stream */
    struct error error;  /* of decoders and of memory; the reader has its own */
};

/* Reads the header of the stream at `fd`, which stays the caller's. `path` is the name of the stream, beside which
 * its spool is. False: there is nothing to read; raw_source_state() says why. */
bool raw_source_open(struct raw_source *source, int fd, const char *path);

/* The next chunk: records or a tick. NULL at the end. */
struct raw_chunk *raw_source_next(struct raw_source *source);
void raw_source_release(struct raw_source *source, struct raw_chunk *chunk);

/* The decoder of a lane; NULL without memory (source->error). */
struct raw_decoder *raw_source_lane(struct raw_source *source, uint32_t lane);

/* Whether the latest chunk came from the spool. */
bool raw_source_in_spool(const struct raw_source *source);

/* After the last chunk: PROGRAM_OK, PROGRAM_CUT or PROGRAM_FAILED (common/program.h), and in *error what is to be
 * said about it. */
int raw_source_state(const struct raw_source *source, struct error *error);

void raw_source_close(struct raw_source *source);

#endif
