#include "cli/finish.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/call_kind.h"
#include "common/output.h"
#include "reading/raw_source.h"
#include "stream/chunk_seal.h"
#include "stream/metadata.h"

/* Lengths in an LZ4 frame as the recorder writes it, without checksums and sizes. */
enum { FRAME_HEADER_BYTES = 7, BLOCK_LENGTH_BYTES = 4 };
#define FRAME_MAGIC  0x184d2204u
#define BLOCK_STORED 0x80000000u

struct tail {
    uint8_t *bytes;
    size_t used, room;
};

struct unfinished {
    const char *path;
    int file;
    uint64_t whole_blocks; /* offset of the end of the file's last complete block */
    struct raw_source source;
    uint64_t events, lost;
    uint64_t *units; /* by lane, at the end */
    uint32_t lanes;
    bool failed;      /* no memory for the tail */
    struct tail tail; /* what the stream lacks */
};

/* ---- the file ---- */

/* The offset of the end of the first frame's last complete block; 0: not known. */
static uint64_t blocks_end(int file)
{
    uint8_t at[FRAME_HEADER_BYTES];
    struct stat status;
    if (fstat(file, &status) != 0 || pread(file, at, sizeof at, 0) != (ssize_t)sizeof at ||
        bytes_get32(at) != FRAME_MAGIC)
        return 0;
    uint64_t end = FRAME_HEADER_BYTES;
    while (pread(file, at, BLOCK_LENGTH_BYTES, (off_t)end) == BLOCK_LENGTH_BYTES) {
        uint32_t bytes = bytes_get32(at) & ~BLOCK_STORED;
        uint64_t next = end + BLOCK_LENGTH_BYTES + bytes;
        /* The frame is complete: it was not interrupted. */
        if (bytes == 0) return 0;
        if (next > (uint64_t)status.st_size) break;
        end = next;
    }
    return end;
}

/* ---- what the stream lacks ---- */

static uint8_t *tail_room(struct tail *tail, size_t bytes)
{
    if (!array_reserve(&tail->bytes, &tail->room, tail->used + bytes, 1)) return NULL;
    return tail->bytes + tail->used;
}

static bool tail_add_units(struct tail *tail, const struct raw_chunk *chunk, uint32_t units)
{
    size_t profile = chunk->begin ? RAW_PROFILE_BYTES : 0;
    size_t payload = profile + 2 * (size_t)units;
    uint8_t *out = tail_room(tail, RAW_CHUNK_HEADER_BYTES + payload);
    if (out == NULL) return false;
    unsigned flags =
        (chunk->begin ? RAW_CHUNK_FLAG_BEGIN : 0u) | (chunk->key ? RAW_CHUNK_FLAG_KEY : 0u);
    memcpy(out + RAW_CHUNK_HEADER_BYTES, chunk->profile, profile);
    memcpy(out + RAW_CHUNK_HEADER_BYTES + profile, chunk->payload, payload - profile);
    tail->used += chunk_seal_units(out, flags, chunk->lane, payload, units, chunk->first_unit,
                                   chunk->first_allocation);
    return true;
}

static uint64_t units_of_lane(const void *units, uint32_t lane)
{
    return ((const uint64_t *)units)[lane];
}

/* Adds the end chunk. How long threads waited is not known. */
static bool tail_add_end(struct unfinished *stream)
{
    const struct raw_reader *reader = &stream->source.reader;
    const struct raw_end end = {.status = RAW_END_STOPPED,
                                .since_start_ns = reader->tick.since_start_ns,
                                .events = stream->events,
                                .lost_events = stream->lost,
                                .lanes = stream->lanes};
    uint8_t *out = tail_room(&stream->tail, CHUNK_END_BYTES_MAX(end.lanes) + VARINT_SLACK);
    if (out == NULL) return false;
    stream->tail.used += chunk_write_end(reader->ticks, &end, units_of_lane, stream->units, out);
    return true;
}

/* ---- reading ---- */

static void take_records(void *of, const struct raw_batch *batch)
{
    struct unfinished *stream = of;
    const struct raw_chunk *chunk = batch->chunk;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct record *record = &batch->records[i];
        stream->events += record->number < CALL_KINDS || record->number == RAW_FAILED;
        if (record->number == RAW_LOST) stream->lost += record->size;
    }
    if (batch->count > 0 || error_is_set(&batch->decoder->error)) return;
    const uint32_t units = chunk->packed ? chunk->units : raw_decoder_units_taken(batch->decoder);
    stream->units[chunk->lane] = chunk->first_unit + units;
    if (chunk->lane >= stream->lanes) stream->lanes = chunk->lane + 1;
    if (chunk->spool && !tail_add_units(&stream->tail, chunk, units)) stream->failed = true;
}

/* Reads everything. True: nothing is missing. */
static bool read_all(struct unfinished *stream)
{
    static const struct raw_visitor visitor = {.records = take_records};
    struct raw_source *source = &stream->source;
    if (!raw_source_open(source, stream->file, stream->path)) return false;
    raw_source_visit(source, &visitor, stream);
    return !stream->failed && !error_is_set(&source->error) &&
           source->reader.state == RAW_STREAM_CUT &&
           source->reader.error.kind == &raw_errors[RAW_CUT_NO_END] &&
           raw_source_cut(source) == RAW_CUT_WHOLE;
}

/* ---- writing ---- */

/* Ends the frame that is there, and adds another one. */
static bool write_tail(const struct unfinished *stream)
{
    static const uint8_t frame_end[BLOCK_LENGTH_BYTES];
    struct output output;
    if (pwrite(stream->file, frame_end, sizeof frame_end, (off_t)stream->whole_blocks) !=
            (ssize_t)sizeof frame_end ||
        lseek(stream->file, 0, SEEK_END) < 0 || !output_open_fd(&output, stream->file))
        return false;
    output_compress(&output);
    output_write(&output, stream->tail.bytes, stream->tail.used);
    return output_close(&output);
}

static bool has_other_malloc(const struct raw_header *header)
{
    size_t bytes;
    return metadata_value(header->metadata, header->metadata_bytes, "malloc", &bytes) != NULL;
}

static bool finish_file(struct unfinished *stream, struct finished *finished)
{
    bool done = read_all(stream) && tail_add_end(stream);
    finished->events = stream->events;
    finished->has_other_malloc = has_other_malloc(&stream->source.reader.header);
    done = done && write_tail(stream);
    if (done) finished->bytes = (uint64_t)lseek(stream->file, 0, SEEK_CUR);
    raw_source_close(&stream->source);
    return done;
}

static bool finish_with(const char *path, struct finished *finished)
{
    struct unfinished stream = {.path = path, .file = open(path, O_RDWR | O_CLOEXEC)};
    if (stream.file < 0) return false;
    off_t end = (off_t)blocks_end(stream.file);
    stream.whole_blocks = (uint64_t)end;
    stream.units = calloc(RAW_LANES_MAX, sizeof *stream.units);
    /* An incomplete block is cut off: the spool has its contents, too. */
    bool done = end > 0 && stream.units != NULL && ftruncate(stream.file, end) == 0 &&
                finish_file(&stream, finished);
    if (!done && end > 0 && ftruncate(stream.file, end) != 0)
        fprintf(stderr, "malloctape: %s: the incomplete block at its end cannot be removed\n",
                path);
    free(stream.units);
    free(stream.tail.bytes);
    close(stream.file);
    return done;
}

bool finish_read(const char *path, struct finished *finished)
{
    struct raw_reader reader;
    struct raw_chunk *chunk;
    *finished = (struct finished){0};
    const bool opened = raw_reader_open(&reader, path);
    while (opened && (chunk = raw_reader_next(&reader)) != NULL)
        free(chunk);
    const bool done = opened && reader.state == RAW_STREAM_COMPLETE;
    if (done)
        *finished = (struct finished){.events = reader.end.events,
                                      .bytes = raw_reader_bytes(&reader),
                                      .has_other_malloc = has_other_malloc(&reader.header)};
    raw_reader_close(&reader);
    return done;
}

bool finish(const char *path, struct finished *finished)
{
    char *spool_path;
    bool done = false;
    *finished = (struct finished){0};
    if (asprintf(&spool_path, "%s.spool", path) < 0) return false;
    /* The recorder keeps the spool locked while it records. */
    int spool = open(spool_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (spool >= 0 && flock(spool, LOCK_EX | LOCK_NB) == 0) done = finish_with(path, finished);
    if (done) unlink(spool_path);
    if (spool >= 0) close(spool);
    free(spool_path);
    return done;
}
