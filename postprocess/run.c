#include "postprocess/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "postprocess/instruction_writer.h"
#include "tracing/spool_reader.h"

/* ---- the header of the output ---- */

struct metadata {
    char text[INSTRUCTION_METADATA_MAX + 256];
    size_t bytes;
};

/* A line is left out rather than cut. */
static void metadata_add(struct metadata *metadata, const char *key, size_t key_bytes,
                         const char *value, size_t value_bytes)
{
    if (key_bytes + value_bytes + 2 > INSTRUCTION_METADATA_MAX - metadata->bytes) return;
    char *at = metadata->text + metadata->bytes;
    memcpy(at, key, key_bytes);
    at[key_bytes] = '=';
    memcpy(at + key_bytes + 1, value, value_bytes);
    at[key_bytes + 1 + value_bytes] = '\n';
    metadata->bytes += key_bytes + value_bytes + 2;
}

static void metadata_add_text(struct metadata *metadata, const char *key, const char *value)
{
    metadata_add(metadata, key, strlen(key), value, strlen(value));
}

static bool is_key(const char *line, size_t bytes, const char *key)
{
    return bytes == strlen(key) && memcmp(line, key, bytes) == 0;
}

/* The keys that both formats know (INSTRUCTIONS.md 4.1). */
static void metadata_copy(struct metadata *metadata, const struct raw_header *header)
{
    const char *line = header->metadata;
    const char *end = line + header->metadata_bytes;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        const char *equals = memchr(line, '=', (size_t)(line_end - line));
        if (equals != NULL) {
            size_t key = (size_t)(equals - line);
            if (is_key(line, key, "program") || is_key(line, key, "allocator") ||
                is_key(line, key, "own") || (key > 4 && memcmp(line, "env.", 4) == 0))
                metadata_add(metadata, line, key, equals + 1, (size_t)(line_end - equals - 1));
        }
        line = line_end + 1;
    }
}

static void metadata_make(struct metadata *metadata, const struct raw_header *header)
{
    char text[64];
    metadata->bytes = 0;
    for (unsigned i = 0; i < RAW_RUN_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", header->run_id[i]);
    metadata_add_text(metadata, "run", text);
    snprintf(text, sizeof text, "%" PRIu32, header->pid);
    metadata_add_text(metadata, "pid", text);
    snprintf(text, sizeof text, "%" PRIu64, header->start_ns / 1000000000);
    metadata_add_text(metadata, "start", text);
    if (header->metadata != NULL) metadata_copy(metadata, header);
}

/* Opens a writer for what was recorded with this header. False: see the writer's error. */
static bool run_open_writer(struct instruction_writer *writer, struct output *output,
                            const struct raw_header *raw)
{
    struct metadata metadata;
    metadata_make(&metadata, raw);
    struct instruction_header header = {.metadata = metadata.text,
                                        .metadata_bytes = metadata.bytes};
    if ((raw->features & RAW_FEATURE_ADDRESSES) != 0)
        header.features |= INSTRUCTION_FEATURE_ADDRESSES;
    return instruction_writer_open(writer, output, &header);
}

/* ---- the stream ---- */

struct run {
    struct raw_reader *reader;
    struct read_ahead ahead;
    struct spool_reader spool;
    bool has_spool;
    struct instruction_writer writer;
    struct order *order;
    const struct run_options *options;
    struct run_result *result;
};

/* The next chunk. Whoever reads the output gets what there is before this waits for input. */
static struct raw_chunk *run_next_chunk(struct run *run, struct raw_tick *tick)
{
    if (read_ahead_is_dry(&run->ahead)) instruction_writer_flush(&run->writer);
    return read_ahead_next(&run->ahead, tick);
}

/* False after damage or when the output has failed. */
static bool run_stream(struct run *run)
{
    const struct run_options *options = run->options;
    struct raw_chunk *chunk;
    struct raw_tick tick;
    while ((chunk = run_next_chunk(run, &tick)) != NULL) {
        if (options->progress != NULL)
            options->progress(options->context, read_ahead_bytes(&run->ahead),
                              run->writer.totals.instructions);
        if (chunk->type == RAW_CHUNK_UNITS) {
            if (!order_chunk(run->order, chunk)) return false;
            continue;
        }
        read_ahead_release(&run->ahead, chunk);
        if (!order_tick(run->order, &tick)) return false;
    }
    return !instruction_writer_failed(&run->writer);
}

static bool run_spool(struct run *run)
{
    struct raw_chunk *chunk;
    while ((chunk = spool_reader_next(&run->spool, run->reader)) != NULL)
        if (!order_chunk(run->order, chunk)) return false;
    run->result->spool_lanes_gapped = run->spool.lanes_gapped;
    if (error_is_set(&run->spool.error)) {
        run->result->spool = RUN_SPOOL_DAMAGED;
        run->result->spool_error = run->spool.error;
    }
    return true;
}

/* Opens the spool of a stream that was cut, if it is there and belongs to it. */
static void run_open_spool(struct run *run, const char *path)
{
    if (path == NULL || access(path, F_OK) != 0) return;
    bool opened = spool_reader_open(&run->spool, path);
    run->has_spool = opened && spool_reader_belongs(&run->spool, run->reader);
    if (run->has_spool) {
        run->result->spool = RUN_SPOOL_USED;
    } else {
        run->result->spool = opened ? RUN_SPOOL_OTHER : RUN_SPOOL_DAMAGED;
        run->result->spool_error = run->spool.error;
        spool_reader_close(&run->spool);
    }
}

/* A stream that was cut before its header was complete: its spool knows whose it is. */
static bool run_adopt_spool(struct run *run)
{
    if (run->reader->has_header) return true;
    if (!run->has_spool) return false;
    memcpy(run->reader->header.run_id, run->spool.run_id, RAW_RUN_ID_BYTES);
    run->reader->header.pid = run->spool.pid;
    run->reader->header.features = run->spool.features;
    return true;
}

/* Everything there is, in order. False: see run_judge(). */
static bool run_everything(struct run *run)
{
    if (!run_stream(run)) return false;
    if (run->reader->state == RAW_STREAM_CUT) {
        run->result->cut = run->reader->error;
        run->result->truncated = true;
        if (!run->has_spool) run_open_spool(run, run->options->spool_path);
        if (run->has_spool && !run_spool(run)) return false;
    }
    bool ordered = order_end(run->order);
    run->result->spool_records = order_totals_of(run->order)->spool_records;
    if (!ordered) return false;
    if (run->reader->state != RAW_STREAM_COMPLETE) return true;
    run->result->truncated = run->reader->end.status == RAW_END_ERROR;
    run->result->lost_at_end = run->reader->end.lost_events;
    return run->options->order.salvage || order_check_totals(run->order, &run->reader->end);
}

/* What the errors that may have been set mean, the first cause first. */
static void run_judge(struct run *run)
{
    struct run_result *result = run->result;
    const struct error *damage = order_error(run->order);
    if (instruction_writer_failed(&run->writer)) {
        result->status = RUN_FAILED;
        result->error = run->writer.error;
    } else if (error_is_set(damage) || run->reader->state == RAW_STREAM_FAILED) {
        result->error = error_is_set(damage) ? *damage : run->reader->error;
        result->status = result->error.kind == &error_system ? RUN_FAILED : RUN_DAMAGED;
    } else if (error_is_set(order_damage(run->order)) || run->reader->damages > 0) {
        result->error = run->reader->damages > 0 ? run->reader->damage : *order_damage(run->order);
        result->status = RUN_SALVAGED;
    } else if (result->spool == RUN_SPOOL_DAMAGED) {
        result->error = result->spool_error;
        result->status = RUN_DAMAGED;
    } else if (result->truncated || result->lost_at_end > 0 ||
               order_totals_of(run->order)->lost_events > 0) {
        result->status = RUN_CUT;
    } else {
        result->status = RUN_COMPLETE;
    }
}

static void run_finish(struct run *run, struct output *output)
{
    static const enum instruction_status statuses[] = {
        [RUN_COMPLETE] = INSTRUCTION_STATUS_COMPLETE, [RUN_CUT] = INSTRUCTION_STATUS_CUT,
        [RUN_SALVAGED] = INSTRUCTION_STATUS_DAMAGED,  [RUN_DAMAGED] = INSTRUCTION_STATUS_DAMAGED,
        [RUN_FAILED] = INSTRUCTION_STATUS_DAMAGED,
    };
    struct run_result *result = run->result;
    result->totals = *instruction_writer_totals(&run->writer);
    result->order = *order_totals_of(run->order);
    result->order.damages += run->reader->damages;
    result->ticks = run->reader->ticks;
    bool written = instruction_writer_finish(&run->writer, statuses[result->status]);
    if (!written && result->status != RUN_FAILED) {
        result->status = RUN_FAILED;
        result->error = run->writer.error;
    }
    result->bytes_in = raw_reader_bytes(run->reader);
    result->bytes_out = output->offset;
}

/* With a writer and an order engine to work with. */
static void run_with_writer(struct run *run, struct output *output)
{
    if (!read_ahead_start(&run->ahead, run->reader) ||
        (run->order = order_new(&run->ahead, &run->writer, &run->options->order)) == NULL) {
        errno = ENOMEM;
        error_set_system(&run->result->error, "no memory for ordering");
        run->result->status = RUN_FAILED;
    } else {
        run_everything(run);
        read_ahead_stop(&run->ahead);
        run_judge(run);
        run_finish(run, output);
        order_free(run->order);
    }
    read_ahead_free(&run->ahead);
}

void run_order(struct raw_reader *reader, const struct run_options *options, struct output *output,
               struct run_result *result)
{
    *result = (struct run_result){.status = RUN_DAMAGED};
    reader->salvage = options->order.salvage;
    struct run run = {.reader = reader, .options = options, .result = result};
    if (reader->state == RAW_STREAM_CUT) run_open_spool(&run, options->spool_path);
    if (!run_adopt_spool(&run)) {
        result->error = reader->error;
    } else if (run_open_writer(&run.writer, output, &reader->header)) {
        run_with_writer(&run, output);
        instruction_writer_close(&run.writer);
    } else {
        result->status = RUN_FAILED;
        result->error = run.writer.error;
    }
    if (run.has_spool) spool_reader_close(&run.spool);
}
