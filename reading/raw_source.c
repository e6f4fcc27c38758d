#include "reading/raw_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/program.h"

/* How many records are decoded at a time. */
enum { BATCH = 256 };

/* "PATH.spool"; NULL for a stream without a name. */
static char *spool_path(const char *path)
{
    char *text;
    if (strcmp(path, "-") == 0 || asprintf(&text, "%s.spool", path) < 0) return NULL;
    return text;
}

bool raw_source_open(struct raw_source *source, int fd, const char *path)
{
    *source = (struct raw_source){.spool_path = spool_path(path), .spool_file = -1};
    bool opened = raw_reader_open_fd(&source->reader, fd);
    if (opened) source->stream_end = RAW_HEADER_BYTES + source->reader.header.metadata_bytes;
    return opened;
}

bool raw_source_open_both(struct raw_source *source, int fd, int spool)
{
    const bool opened = raw_source_open(source, fd, "-");
    source->spool_file = spool;
    return opened;
}

static bool spool_open(struct raw_source *source)
{
    if (source->spool_file < 0)
        return spool_reader_open(&source->spool, source->spool_path, &source->reader);
    return spool_reader_open_fd(&source->spool, fcntl(source->spool_file, F_DUPFD_CLOEXEC, 0),
                                &source->reader);
}

/* Opens the spool once the stream has ended. A spool is optional: if it cannot be used, the stream
 * is read without it. */
static void spool_try(struct raw_source *source)
{
    source->spool_tried = true;
    if (source->spool_file < 0 &&
        (source->spool_path == NULL || !spool_is_there(source->spool_path)))
        return;
    source->spool_use = RAW_SPOOL_NOT_NEEDED;
    if (source->reader.state != RAW_STREAM_CUT) return;
    source->spool_opened = spool_open(source);
    if (source->spool_opened) return;
    source->spool_use = RAW_SPOOL_UNUSABLE;
    spool_reader_close(&source->spool);
}

static struct raw_chunk *spool_next(struct raw_source *source)
{
    if (!source->spool_tried) spool_try(source);
    if (!source->spool_opened) return NULL;
    struct raw_chunk *chunk = spool_reader_next(&source->spool, &source->reader);
    if (chunk != NULL)
        source->spool_use = RAW_SPOOL_USED;
    else if (error_is_set(&source->spool.error))
        source->error = source->spool.error;
    return chunk;
}

struct raw_chunk *raw_source_next(struct raw_source *source)
{
    struct raw_chunk *chunk = raw_reader_next(&source->reader);
    if (chunk == NULL) return spool_next(source);
    source->stream_end = chunk->end_offset;
    return chunk;
}

static struct raw_decoder *raw_source_no_memory(struct raw_source *source)
{
    errno = ENOMEM;
    error_set_system(&source->error, "no memory for a lane");
    return NULL;
}

static const char *raw_source_define(void *stacks, const struct stack_definition *definition)
{
    return stacks_define(stacks, definition);
}

struct raw_decoder *raw_source_lane(struct raw_source *source, uint32_t lane)
{
    if (!array_reserve(&source->decoders, &source->decoders_count, (size_t)lane + 1,
                       sizeof *source->decoders))
        return raw_source_no_memory(source);
    if (source->decoders[lane] == NULL) {
        struct raw_decoder *decoder = malloc(sizeof *decoder);
        if (decoder == NULL) return raw_source_no_memory(source);
        raw_decoder_init(decoder, lane, (uint32_t)source->reader.header.features);
        decoder->all_places_bytes = &source->places_bytes;
        decoder->define = raw_source_define;
        decoder->define_context = &source->stacks;
        source->decoders[lane] = decoder;
    }
    return source->decoders[lane];
}

static void visit_units(struct raw_source *source, const struct raw_chunk *chunk,
                        const struct raw_visitor *visitor, void *of)
{
    struct record records[BATCH];
    struct raw_decoder *decoder = raw_source_lane(source, chunk->lane);
    struct raw_batch batch = {.chunk = chunk, .decoder = decoder, .records = records};
    if (decoder == NULL) return;
    decoder->cache_records = visitor->cache_records;
    if (raw_decoder_open(decoder, chunk) && visitor->segment != NULL) visitor->segment(of, chunk);
    do {
        batch.number = decoder->records;
        batch.count = raw_decoder_next(decoder, records, BATCH);
        visitor->records(of, &batch);
    } while (batch.count > 0);
    if (error_is_set(&decoder->error)) source->error = decoder->error;
}

void raw_source_visit(struct raw_source *source, const struct raw_visitor *visitor, void *of)
{
    struct raw_chunk *chunk;
    while (!error_is_set(&source->error) && (chunk = raw_source_next(source)) != NULL) {
        if (chunk->type == RAW_CHUNK_TICK && visitor->tick != NULL) visitor->tick(of, chunk);
        if (chunk->type == RAW_CHUNK_UNITS) visit_units(source, chunk, visitor, of);
        if (chunk->type == RAW_CHUNK_MAPPINGS && visitor->mappings != NULL)
            visitor->mappings(of, chunk);
        if (chunk->type == RAW_CHUNK_RESIDENCY && visitor->residency != NULL)
            visitor->residency(of, chunk);
        free(chunk);
    }
}

enum raw_cut raw_source_cut(const struct raw_source *source)
{
    if (!source->spool_opened || source->spool.lanes_gapped > 0) return RAW_CUT_UNKNOWN;
    return source->spool.is_incomplete ? RAW_CUT_FAILED : RAW_CUT_WHOLE;
}

int raw_source_state(const struct raw_source *source, struct error *error)
{
    if (error_is_set(&source->error)) {
        *error = source->error;
        return PROGRAM_FAILED;
    }
    *error = source->reader.error;
    switch (source->reader.state) {
    case RAW_STREAM_COMPLETE: return PROGRAM_OK;
    case RAW_STREAM_CUT:
        return source->reader.has_header || source->spool_opened ? PROGRAM_CUT : PROGRAM_FAILED;
    default: return PROGRAM_FAILED;
    }
}

void raw_source_close(struct raw_source *source)
{
    for (uint32_t lane = 0; lane < source->decoders_count; lane++) {
        if (source->decoders[lane] != NULL) raw_decoder_free(source->decoders[lane]);
        free(source->decoders[lane]);
    }
    free(source->decoders);
    stacks_free(&source->stacks);
    if (source->spool_opened) spool_reader_close(&source->spool);
    free(source->spool_path);
    raw_reader_close(&source->reader);
}
