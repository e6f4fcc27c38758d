/* sink - the raw stream to an LZ4 frame in a file (FORMAT.md 2.4). Writer thread only.
 *
 *   sink_room() --caller writes a chunk--> sink_commit() ... sink_flush() --lz4 block--> file
 *
 * Chunks gather in a ring without gaps; a flush compresses what is new as one block, linked to the
 * blocks before. LZ4 looks for repetitions in the 64 KiB before, so small blocks compress as well
 * as large ones; it does not see what lies before a block that was stored. */
#ifndef MALLOCTAPE_SINK_H
#define MALLOCTAPE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest block of the frame (its descriptor says so), and chunk; and the ring, which must hold a
 * block, the 64 KiB before it, and a chunk. */
#define SINK_BLOCK_BYTES_MAX  (1024u * 1024)
/* 1 is the smallest and slowest of LZ4_compress_fast(); 2 to 16 took no less time. */
#define SINK_LZ4_ACCELERATION 1
#define SINK_RING_BYTES       (2560u * 1024)
/* docs/capture.md says why; rates are of bytes a microsecond, before LZ4, over at least
 * SINK_RATED_NS.
 *
 * A block that LZ4 does not make smaller by an eighth (of packed units a sixteenth; if plain units
 * come faster than the fast rate, two thirds) is stored, and so are the next 64 KiB, then twice as
 * many each time, up to 4 MiB. A small block, which proves nothing, does not cause that: the first
 * one is often the metadata. */
#define SINK_SHRINKS          8u
#define SINK_SHRINKS_PACKED   16u
#define SINK_FAST_RATE        64u
#define SINK_RATED_NS         UINT64_C(5000000)
#define SINK_STORED_MIN       (64u * 1024)
#define SINK_STORED_MAX       (4096u * 1024)
#define SINK_TELLING_BYTES    4096u
/* In an opaque stream LZ4_compress_HC takes packed units that come slower than the slow rate, if the
 * fast way leaves more than a third of them. */
#define SINK_SLOW_RATE        16u
#define SINK_POOR_RATIO       3u
#define SINK_LZ4_HC_LEVEL     1
/* Packing is evaluated every 64 KiB. If it does not pay it ends, and is tried again after 64 KiB,
 * then after twice as many each time, up to 1 MiB. It ends, too, where LZ4 makes blocks SINK_SMALL
 * times smaller, but not within 1 MiB of being tried again. */
#define SINK_EVALUATED_BYTES  (64u * 1024)
#define SINK_RETRY_BYTES_MAX  (1024u * 1024)
#define SINK_SMALL            6u
#define SINK_SMALL_OPAQUE     4u
/* How much to gather before a flush: as much as lz4 can keep in the second-level cache; where a
 * file gets stored blocks, large pieces, which cost the system half of what small ones do. */
#define SINK_FLUSH_BYTES      (64u * 1024)
#define SINK_STORE_BYTES      (960u * 1024)

struct sink {
    int file;
    /* A reader may be slow, or stop. A write never waits longer than patience_ns (0: no limit), and
     * calls meanwhile() now and then while it waits. */
    bool has_reader;
    uint64_t patience_ns;
    void (*meanwhile)(void *);
    void *meanwhile_argument;
    int error; /* negative errno of the first failed write; nothing is written after it */
    uint8_t *ring;
    size_t start; /* of what is not flushed yet */
    size_t end;
    uint8_t *block;
    void *lz4;
    void *lz4_hc;
    bool is_opaque;    /* the stream */
    bool was_hc;       /* the latest block was compressed by lz4_hc: lz4 does not know it */
    uint64_t rated_ns; /* when the rate was looked at last, and what bytes_in was then */
    uint64_t rated_bytes;
    bool fast_input; /* at that time */
    bool slow_input;
    bool poor_ratio;    /* LZ4 had compressed little at the last evaluation */
    size_t stored_span; /* stored_left after the next block that hardly shrinks */
    size_t stored_left; /* bytes that are written as they are, because the latest hardly shrank */
    bool packs;         /* what is committed from now on is to be packed, if it is not stored */
    size_t retry_left;  /* bytes before packing is tried again, or ends as blocks are small */
    size_t retry_span;  /* retry_left once packing has not paid */
    struct {
        size_t plain; /* bytes, if they were not packed */
        size_t in;    /* before lz4 */
        size_t out;   /* after it */
    } evaluated;      /* since the last evaluation */
    size_t saved;     /* bytes that packing has taken from what is not flushed yet */
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* Takes memory. 0 or a negative errno. */
int sink_prepare(struct sink *sink);

/* Writes the frame's header; the caller has set what concerns the reader. 0 or a negative errno. */
int sink_open(struct sink *sink, int file);

/* Gives the memory back, if there is any. */
void sink_release(struct sink *sink);

/* Room for `bytes` (at most SINK_BLOCK_BYTES_MAX) of whole chunks; flushes when the ring is
 * full. */
uint8_t *sink_room(struct sink *sink, size_t bytes);

/* `bytes` of the room have been used. */
static inline void sink_commit(struct sink *sink, size_t bytes)
{
    sink->end += bytes;
    sink->bytes_in += bytes;
}

/* The same for a packed chunk, which would have had `plain` bytes. */
static inline void sink_commit_packed(struct sink *sink, size_t bytes, size_t plain)
{
    sink->saved += plain;
    sink->saved -= bytes;
    sink_commit(sink, bytes);
}

static inline bool sink_wants_flush(const struct sink *sink)
{
    bool large = sink->stored_left > SINK_STORE_BYTES && !sink->has_reader;
    return sink->end - sink->start >= (large ? SINK_STORE_BYTES : SINK_FLUSH_BYTES);
}

/* Whether units should be packed (FORMAT.md 5.5): not if they will not be compressed, or if it
 * does not pay. */
static inline bool sink_wants_packed(const struct sink *sink)
{
    return sink->packs && sink->stored_left == 0;
}

/* Rates the input up to this time, when all that has been committed was there. So a writer that was
 * delayed, and then finds much, does not take it for fast; the time before the first call does not
 * count. */
void sink_rate(struct sink *sink, uint64_t now_ns);

/* The bytes of a block's length, which precedes its contents, and of the mark that ends the
 * frame. */
#define SINK_BLOCK_LENGTH_BYTES 4u
#define SINK_END_BYTES          4u
/* LZ4 frame format: magic, FLG (version 01, linked blocks, no checksums), BD (blocks up to 1 MiB),
 * checksum. */
#define SINK_FRAME_HEADER_BYTES 7u

/* The most bytes the file has if it ends here: no block takes more than its contents before lz4. */
static inline uint64_t sink_bytes_at_most(const struct sink *sink)
{
    return sink->bytes_out + (sink->end - sink->start) + SINK_BLOCK_LENGTH_BYTES + SINK_END_BYTES;
}

/* Writes out what has been committed. Returns sink->error. */
int sink_flush(struct sink *sink);

/* The same, unless the file would then be longer than `bytes_max`: what has been committed is then
 * dropped, and the result is false. */
bool sink_flush_within(struct sink *sink, uint64_t bytes_max);

/* Flushes, ends the frame and closes the file. Returns sink->error. */
int sink_close(struct sink *sink);

#endif
