#include "tracing/data/sink.h"

#include "common/atomic.h"
#include "common/bytes.h"
#include "tracing/os/os.h"

#include <errno.h>
#include <lz4.h>
#include <lz4hc.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FRAME_FLAGS        0x40
#define FRAME_BLOCK_MAX    0x60
#define FRAME_BLOCK_STORED 0x80000000u
#define BLOCK_LENGTH_BYTES SINK_BLOCK_LENGTH_BYTES
/* The ring, the states of LZ4 and of LZ4_compress_HC, a block and its length. */
#define MEMORY_BYTES                                                   \
    (SINK_RING_BYTES + sizeof(LZ4_stream_t) + sizeof(LZ4_streamHC_t) + \
     LZ4_COMPRESSBOUND(SINK_BLOCK_BYTES_MAX) + BLOCK_LENGTH_BYTES)

/* Between two writes that were refused although there was room. */
#define REFUSED_NS   UINT64_C(1000000)
/* How long a wait lasts until meanwhile() is called. */
#define MEANWHILE_NS UINT64_C(2000000)

/* Waits until there is room, or patience_ns is over. */
static int wait_for_room(struct sink *sink)
{
    uint64_t since = 0;
    for (;;) {
        int result = os_file_wait_writable(sink->file, MEANWHILE_NS);
        if (result != -ETIMEDOUT && result != -EINTR) return result;
        uint64_t now = os_clock_ns();
        if (!since) since = now - MEANWHILE_NS;
        if (sink->patience_ns && now - since >= sink->patience_ns) return -ETIMEDOUT;
        sink->meanwhile(sink->meanwhile_argument);
    }
}

/* Writes a part, at least one byte, or returns a negative errno. What is written to a reader is
 * so short that it does not wait once there is room; -EAGAIN all the same when somebody else
 * writes to the same pipe. */
static long write_part(struct sink *sink, const uint8_t *data, size_t bytes)
{
    uint64_t refused_since = 0;
    bool wait = sink->has_reader;
    if (sink->has_reader && bytes > OS_PIPE_BYTES) bytes = OS_PIPE_BYTES;
    for (;;) {
        int result = wait ? wait_for_room(sink) : 0;
        if (result < 0) return result;
        long written = os_file_write(sink->file, data, bytes);
        if (written != -EAGAIN) return written == 0 ? -EIO : written;
        uint64_t now = os_clock_ns();
        if (!refused_since) refused_since = now;
        if (sink->patience_ns && now - refused_since >= sink->patience_ns) return -ETIMEDOUT;
        if (wait) os_sleep(REFUSED_NS);
        wait = true;
    }
}

static void sink_write_all(struct sink *sink, const uint8_t *data, size_t bytes)
{
    while (bytes && !sink->error) {
        long written = write_part(sink, data, bytes);
        if (written < 0) {
            sink->error = (int)written;
            return;
        }
        data += written;
        bytes -= (size_t)written;
        atomic_add_own_relaxed(&sink->bytes_out, (uint64_t)written);
    }
}

int sink_prepare(struct sink *sink)
{
    sink->ring = os_memory_reserve(MEMORY_BYTES);
    if (sink->ring == NULL) return -ENOMEM;
    sink->lz4 = sink->ring + SINK_RING_BYTES;
    /* Initialized where it is first used: most streams are small. */
    sink->lz4_hc = sink->ring + SINK_RING_BYTES + sizeof(LZ4_stream_t);
    sink->block = sink->ring + SINK_RING_BYTES + sizeof(LZ4_stream_t) + sizeof(LZ4_streamHC_t);
    LZ4_initStream(sink->lz4, sizeof(LZ4_stream_t));
    return 0;
}

void sink_release(struct sink *sink)
{
    if (sink->ring != NULL) os_memory_release(sink->ring, MEMORY_BYTES);
    sink->ring = NULL;
}

int sink_open(struct sink *sink, int file)
{
    sink->file = file;
    uint8_t header[SINK_FRAME_HEADER_BYTES];
    bytes_put32(header, 0x184d2204u);
    header[4] = FRAME_FLAGS;
    header[5] = FRAME_BLOCK_MAX;
    header[6] = (uint8_t)(XXH32(header + 4, 2, 0) >> 8);
    sink_write_all(sink, header, sizeof header);
    sink->start = sink->end = BLOCK_LENGTH_BYTES;
    sink->packs = true;
    sink->stored_span = SINK_STORED_MIN;
    sink->retry_span = SINK_EVALUATED_BYTES;
    return sink->error;
}

/* Before the first block there is room for its length. */
uint8_t *sink_room(struct sink *sink, size_t bytes)
{
    if (sink->end - sink->start + bytes > SINK_BLOCK_BYTES_MAX) sink_flush(sink);
    if (sink->end + bytes > SINK_RING_BYTES) {
        sink_flush(sink);
        sink->start = sink->end = BLOCK_LENGTH_BYTES;
    }
    return sink->ring + sink->end;
}

/* The length is put directly before the block, so that both are written at once. It overwrites the
 * end of the block before, which is restored: LZ4 refers to it, and only to what lies before a
 * block without a gap. */
static void write_stored(struct sink *sink, uint8_t *data, size_t bytes)
{
    uint8_t *block = data - BLOCK_LENGTH_BYTES;
    uint32_t kept = bytes_get32(block);
    bytes_put32(block, (uint32_t)bytes | FRAME_BLOCK_STORED);
    sink_write_all(sink, block, BLOCK_LENGTH_BYTES + bytes);
    bytes_put32(block, kept);
}

/* Decides after a block whether to pack from now on. */
static void evaluate_packing(struct sink *sink, size_t bytes, size_t compressed)
{
    sink->retry_left -= bytes < sink->retry_left ? bytes : sink->retry_left;
    sink->evaluated.plain += bytes + sink->saved;
    sink->evaluated.in += bytes;
    sink->evaluated.out += compressed;
    sink->saved = 0;
    if (sink->evaluated.in < SINK_EVALUATED_BYTES) return;
    bool pays = sink->evaluated.in <= sink->evaluated.plain - sink->evaluated.plain / 16;
    size_t share = sink->is_opaque ? SINK_SMALL_OPAQUE : SINK_SMALL;
    bool small = sink->evaluated.in / share >= sink->evaluated.out;
    sink->poor_ratio = sink->evaluated.in / SINK_POOR_RATIO < sink->evaluated.out;
    memset(&sink->evaluated, 0, sizeof sink->evaluated);
    if (sink->packs && pays) sink->retry_span = SINK_EVALUATED_BYTES;
    if (sink->packs && !pays) {
        sink->packs = false;
        sink->retry_left = sink->retry_span;
        if (sink->retry_span < SINK_RETRY_BYTES_MAX) sink->retry_span *= 2;
    } else if (sink->packs && small && sink->retry_left == 0) {
        sink->packs = false;
    } else if (!sink->packs && !small && sink->retry_left == 0) {
        sink->packs = true;
        sink->retry_left = SINK_RETRY_BYTES_MAX;
    }
}

void sink_rate(struct sink *sink, uint64_t now_ns)
{
    uint64_t ns = now_ns - sink->rated_ns, bytes = sink->bytes_in - sink->rated_bytes;
    if (ns < SINK_RATED_NS) return;
    sink->fast_input = sink->rated_ns && ns < bytes * 1000 / SINK_FAST_RATE;
    sink->slow_input = sink->rated_ns && ns > bytes * 1000 / SINK_SLOW_RATE;
    sink->rated_ns = now_ns;
    sink->rated_bytes = sink->bytes_in;
}

/* By how many bytes a block must shrink to be stored compressed. */
static size_t least_loss(const struct sink *sink, size_t bytes)
{
    if (sink->packs) return bytes / SINK_SHRINKS_PACKED;
    return sink->fast_input ? bytes / 3 * 2 : bytes / SINK_SHRINKS;
}

/* The next block must not refer to blocks before it: the compressor has not seen the latest one, or
 * it has not been written. */
static void forget_history(struct sink *sink)
{
    if (sink->was_hc)
        LZ4_resetStreamHC_fast(sink->lz4_hc, SINK_LZ4_HC_LEVEL);
    else
        LZ4_resetStream_fast(sink->lz4);
}

/* Into sink->block. Returns its length, or 0 if it is not worth it. */
static size_t compress(struct sink *sink, const uint8_t *data, size_t bytes)
{
    size_t least = least_loss(sink, bytes);
    const char *from = (const char *)data;
    char *to = (char *)sink->block + BLOCK_LENGTH_BYTES;
    const int room = LZ4_COMPRESSBOUND(SINK_BLOCK_BYTES_MAX);
    bool hc = sink->is_opaque && sink->packs && sink->slow_input && sink->poor_ratio;
    if (hc != sink->was_hc) {
        sink->was_hc = hc;
        forget_history(sink);
    }
    int compressed = hc ? LZ4_compress_HC_continue(sink->lz4_hc, from, to, (int)bytes, room)
                        : LZ4_compress_fast_continue(sink->lz4, from, to, (int)bytes, room,
                                                     SINK_LZ4_ACCELERATION);
    bool shrinks = compressed > 0 && (size_t)compressed <= bytes - least;
    evaluate_packing(sink, bytes, shrinks ? (size_t)compressed : bytes);
    return shrinks ? (size_t)compressed : 0;
}

static void write_block(struct sink *sink, uint8_t *data, size_t bytes, size_t compressed)
{
    if (compressed) {
        sink->stored_span = SINK_STORED_MIN;
        bytes_put32(sink->block, (uint32_t)compressed);
        sink_write_all(sink, sink->block, BLOCK_LENGTH_BYTES + compressed);
    } else if (sink->stored_left > 0) {
        write_stored(sink, data, bytes);
        sink->stored_left -= bytes < sink->stored_left ? bytes : sink->stored_left;
        if (sink->stored_left == 0) forget_history(sink);
    } else if (bytes < SINK_TELLING_BYTES) {
        write_stored(sink, data, bytes);
    } else {
        write_stored(sink, data, bytes);
        sink->stored_left = sink->stored_span;
        if (sink->stored_span < SINK_STORED_MAX) sink->stored_span *= 2;
    }
}

bool sink_flush_within(struct sink *sink, uint64_t bytes_max)
{
    size_t bytes = sink->end - sink->start;
    uint8_t *data = sink->ring + sink->start;
    if (bytes == 0 || sink->error) return true;
    size_t compressed = sink->stored_left > 0 ? 0 : compress(sink, data, bytes);
    uint64_t written = BLOCK_LENGTH_BYTES + (compressed ? compressed : bytes);
    if (sink->bytes_out + written > bytes_max) {
        sink->end = sink->start;
        sink->saved = 0;
        sink->bytes_in -= bytes;
        forget_history(sink);
        return false;
    }
    write_block(sink, data, bytes, compressed);
    sink->start = sink->end;
    return true;
}

int sink_flush(struct sink *sink)
{
    sink_flush_within(sink, UINT64_MAX);
    return sink->error;
}

int sink_close(struct sink *sink)
{
    static const uint8_t end_mark[SINK_END_BYTES];
    sink_flush(sink);
    sink_write_all(sink, end_mark, sizeof end_mark);
    os_file_close(sink->file);
    return sink->error;
}
