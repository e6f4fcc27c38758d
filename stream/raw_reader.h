/* raw_reader - takes a raw event stream apart into checked chunks.
 *
 *   file or pipe --input--> header, metadata | chunk | chunk | ... | end chunk
 *                                                |
 *                                                +--> raw_decoder, when somebody wants its records
 *
 * A chunk that comes out holds plain units, also where the stream has them packed.
 *
 * What is checked here is what can be checked without decoding: limits, checksums, the sequence of
 * the chunks of each lane, and the totals of the end chunk. raw_decoder checks the rest.
 *
 * A loop over a stream:
 *
 *     struct raw_reader reader;
 *     if (!raw_reader_open(&reader, path)) ... reader.error
 *     struct raw_chunk *chunk;
 *     while ((chunk = raw_reader_next(&reader)) != NULL) {
 *         ...
 *         free(chunk);             at any later time, in any order
 *     }
 *     reader.state says how it ended: RAW_STREAM_COMPLETE, RAW_STREAM_CUT or RAW_STREAM_FAILED
 *
 * Memory   one input buffer and the chunks that were not freed, at most 1 MiB and a little each.
 * Threads  one. */
#ifndef MALLOCTAPE_RAW_READER_H
#define MALLOCTAPE_RAW_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/input.h"
#include "stream/pack.h"
#include "stream/raw_error.h"
#include "stream/raw_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* FORMAT.md 4.1. */
struct raw_header {
    uint16_t version_major, version_minor;
    uint64_t features, info;
    uint8_t recording_id[RAW_RECORDING_ID_BYTES];
    uint64_t start_ns;
    uint32_t pid;
    uint32_t metadata_bytes;
    char *metadata; /* metadata_bytes, and a zero byte after them */
};

/* How far the chunks of a lane have got. */
struct raw_lane_position {
    uint64_t units;              /* so far */
    uint64_t segment_unit;       /* those before the latest segment */
    uint64_t segment_allocation; /* allocations before it */
    bool begun;                  /* it has had a chunk */
};

/* A chunk, or a slot of a spool that takes the place of one (FORMAT.md 4.2, 8). The payload of a
 * chunk of units is units of two bytes each: as many as `units`, or fewer if it is packed, as some
 * then stand for two (FORMAT.md 5.5). RAW_CHUNK_SLACK readable bytes follow it. */
struct raw_chunk {
    struct raw_chunk *next; /* for lists of whoever holds the chunk, */
    uint64_t window;        /* as is this */
    uint8_t type;           /* enum raw_chunk_type */
    bool begin, key;
    bool gap;        /* chunks of its lane before it were left out; it is key */
    bool packed;     /* in the stream: its units have no offsets of their own there */
    bool spool;      /* from a spool, as are its offsets */
    bool open_ended; /* ends before the first record that would begin with 0 */
    uint8_t profile[RAW_PROFILE_BYTES]; /* of a begin chunk, FORMAT.md 5.1 */
    uint32_t lane;
    uint32_t payload_bytes;
    uint32_t units;
    uint64_t first_unit;       /* of a tick: its number */
    uint64_t first_allocation; /* allocations of the lane before the segment */
    uint64_t offset;           /* of the chunk, in the decoded stream or in the spool, */
    uint64_t payload_offset;   /* of its payload there, without the profile, */
    uint64_t end_offset;       /* and after it */
    uint8_t *payload;
};

/* How much may be read after a payload, initialized but of no particular value: a record that runs
 * over the end is noticed only after it was read. */
#define RAW_CHUNK_SLACK 256

enum raw_stream_state {
    RAW_STREAM_MORE,
    RAW_STREAM_COMPLETE, /* the end chunk has been read, and nothing follows it */
    RAW_STREAM_CUT,      /* no end chunk; what was delivered is good, `error` says where it ends */
    RAW_STREAM_FAILED    /* damage or a system error: `error` */
};

struct raw_reader {
    enum raw_stream_state state;
    struct error error;
    bool has_header; /* false only with RAW_STREAM_CUT or RAW_STREAM_FAILED */
    struct raw_header header;
    struct raw_end end;   /* valid once state is RAW_STREAM_COMPLETE */
    uint64_t *end_units;  /* with it: by lane */
    struct raw_tick tick; /* of the latest tick chunk that was returned */
    struct raw_lane_position *lanes;
    uint32_t lanes_count; /* lanes seen: highest number plus one */
    uint64_t chunks, ticks;
    uint64_t mapping_cells; /* that came before the next chunk of mappings */
    uint64_t mappings;      /* records in those that were returned */
    uint64_t residencies;

    /* With `salvage`, to be set after the opening, reading goes on after damage at the next good
     * chunk: chunks that are damaged, or cannot be used because of those that are missing, are left
     * out. An LZ4 block that cannot be decoded is the end. */
    bool salvage;
    uint64_t damages;    /* that were left out */
    struct error damage; /* the first of them */

    /* From here on: raw_reader.c only. */
    bool searching; /* after damage, for the next chunk */
    struct input input;
    int fd;
    bool owned;
    size_t lanes_room;
    uint32_t packed_entries[PACK_ENTRIES];
};

/* Opens `path` ("-": standard input) and reads the header. False: see state and error. A stream
 * that ends within its header is RAW_STREAM_CUT: its spool may still have everything. */
bool raw_reader_open(struct raw_reader *reader, const char *path);

/* Takes a descriptor that stays the caller's. */
bool raw_reader_open_fd(struct raw_reader *reader, int fd);

/* The next chunk of a known type, checked; NULL at the end (see state). The chunk is the
 * caller's, to be freed; the end chunk is not returned but parsed into `end`, a tick is parsed
 * into `tick`. The payload of one of mappings or of residency has been checked (mapping.h,
 * residency.h). */
struct raw_chunk *raw_reader_next(struct raw_reader *reader);

/* A chunk with room for `payload_bytes` and slack, for what comes from elsewhere (spool_reader).
 * NULL: no memory. To be freed like any other. */
struct raw_chunk *raw_chunk_new(uint32_t payload_bytes);

/* Makes sure that reader->lanes covers `lane`. False: no memory, see error. */
bool raw_reader_know_lane(struct raw_reader *reader, uint32_t lane);

/* Notes in reader->lanes, which covers the lane, that the chunk has come. */
void raw_reader_advance_lane(struct raw_reader *reader, const struct raw_chunk *chunk);

/* Whether raw_reader_next() would have to wait for whoever writes into the pipe. May say true when
 * it need not, never false when it must. */
bool raw_reader_is_dry(const struct raw_reader *reader);

/* Bytes of the file that have been used so far. */
uint64_t raw_reader_bytes(const struct raw_reader *reader);

/* Frees what the reader holds; chunks that are out stay. */
void raw_reader_close(struct raw_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
