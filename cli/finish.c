#include "cli/finish.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/tell.h"
#include "common/array.h"
#include "common/bytes.h"
#include "common/call_kind.h"
#include "common/output.h"
#include "common/output_name.h"
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
    int file, spool;
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

static bool tail_add_mappings(struct tail *tail, const struct raw_chunk *chunk)
{
    uint8_t *out = tail_room(tail, RAW_CHUNK_HEADER_BYTES + (size_t)chunk->payload_bytes);
    if (out == NULL) return false;
    memcpy(out + RAW_CHUNK_HEADER_BYTES, chunk->payload, chunk->payload_bytes);
    tail->used += chunk_seal_mappings(out, chunk->payload_bytes, chunk->units, chunk->first_unit);
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

static void finish_take_records(void *of, const struct raw_batch *batch)
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

static void finish_take_mappings(void *of, const struct raw_chunk *chunk)
{
    struct unfinished *stream = of;
    if (chunk->spool && !tail_add_mappings(&stream->tail, chunk)) stream->failed = true;
}

/* Reads everything. True: nothing is missing. */
static bool finish_read_all(struct unfinished *stream)
{
    static const struct raw_visitor visitor = {.records = finish_take_records,
                                               .mappings = finish_take_mappings};
    struct raw_source *source = &stream->source;
    if (!raw_source_open_both(source, stream->file, stream->spool)) return false;
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
    bool done = finish_read_all(stream) && tail_add_end(stream);
    finished->events = stream->events;
    finished->has_other_malloc = has_other_malloc(&stream->source.reader.header);
    done = done && write_tail(stream);
    if (done) finished->bytes = (uint64_t)lseek(stream->file, 0, SEEK_CUR);
    raw_source_close(&stream->source);
    return done;
}

/* An incomplete block is cut off: the spool has its contents, too. */
static bool finish_locked(struct unfinished *stream, const char *name, struct finished *finished)
{
    const off_t end = (off_t)blocks_end(stream->file);
    stream->whole_blocks = (uint64_t)end;
    stream->units = calloc(RAW_LANES_MAX, sizeof *stream->units);
    const bool done = end > 0 && stream->units != NULL && ftruncate(stream->file, end) == 0 &&
                      lseek(stream->file, 0, SEEK_SET) == 0 && finish_file(stream, finished);
    if (!done && end > 0 && ftruncate(stream->file, end) != 0)
        cli_tell("malloctape: %s: the incomplete block at its end cannot be removed", name);
    free(stream->units);
    free(stream->tail.bytes);
    return done;
}

bool finish_files(int stream, int spool, const char *name, struct finished *finished)
{
    struct unfinished unfinished = {.file = stream, .spool = spool};
    *finished = (struct finished){0};
    /* The recorder keeps the spool locked while it records. */
    return flock(spool, LOCK_EX | LOCK_NB) == 0 && finish_locked(&unfinished, name, finished);
}

bool finish_read(int stream, struct finished *finished)
{
    struct raw_reader reader;
    struct raw_chunk *chunk;
    *finished = (struct finished){0};
    if (lseek(stream, 0, SEEK_SET) != 0) return false;
    const bool opened = raw_reader_open_fd(&reader, stream);
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

/* ---- by name ---- */

static int open_in(int directory, const char *name, int flags, struct stat *status)
{
    const int file = openat(directory, name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0 || (fstat(file, status) == 0 && S_ISREG(status->st_mode))) return file;
    close(file);
    return -1;
}

static void finish_remove_spool(int directory, const char *name, const struct stat *ours)
{
    struct stat there;
    if (fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        there.st_dev == ours->st_dev && there.st_ino == ours->st_ino)
        unlinkat(directory, name, 0);
}

static bool is_made(const struct stat *status, const struct finish_made *made)
{
    return status->st_dev == made->device && status->st_ino == made->inode;
}

static bool finish_in(int directory, const char *path, const struct finish_made *made,
                      struct finished *finished)
{
    struct stat of_stream, of_spool;
    char *spool_name;
    bool done = false;
    if (asprintf(&spool_name, "%s.spool", output_name_last(path)) < 0) return false;
    /* The user may have named a link, which the recorder has followed. */
    const bool is_there =
        fstatat(directory, output_name_last(path), &of_stream, 0) == 0 && is_made(&of_stream, made);
    const int stream =
        is_there ? open_in(directory, output_name_last(path), O_RDWR, &of_stream) : -1;
    const int spool = open_in(directory, spool_name, O_RDONLY | O_NOFOLLOW, &of_spool);
    if (stream >= 0 && spool >= 0 && is_made(&of_stream, made) &&
        of_stream.st_uid == of_spool.st_uid)
        done = finish_files(stream, spool, path, finished);
    if (done) finish_remove_spool(directory, spool_name, &of_spool);
    if (stream >= 0) close(stream);
    if (spool >= 0) close(spool);
    free(spool_name);
    return done;
}

bool finish(const char *path, const struct finish_made *made, struct finished *finished)
{
    const size_t length = (size_t)(output_name_last(path) - path);
    char *directory_path;
    *finished = (struct finished){0};
    if (asprintf(&directory_path, "%.*s.", (int)length, path) < 0) return false;
    const int directory = open(directory_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const bool done = directory >= 0 && finish_in(directory, path, made, finished);
    if (directory >= 0) close(directory);
    free(directory_path);
    return done;
}
