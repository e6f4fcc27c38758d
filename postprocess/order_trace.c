#include "postprocess/order_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "postprocess/touched_table.h"
#include "stream/instruction_writer.h"
#include "stream/spool_reader.h"

/* ---- the header of the output ---- */

/* Lines about the recording, then the recording's own metadata (INSTRUCTIONS.md 4.1). NULL: no
 * memory. */
static char *metadata_make(const struct raw_header *header)
{
    char id[2 * RAW_RECORDING_ID_BYTES + 1], *text;
    for (unsigned i = 0; i < RAW_RECORDING_ID_BYTES; i++)
        snprintf(id + 2 * (size_t)i, 3, "%02x", header->recording_id[i]);
    int bytes =
        asprintf(&text, "run=%s\npid=%" PRIu32 "\nstart=%" PRIu64 "\n%s", id, header->pid,
                 header->start_ns / 1000000000, header->metadata != NULL ? header->metadata : "");
    return bytes < 0 ? NULL : text;
}

/* Opens a writer for what was recorded with this header. False: see the writer's error. */
static bool open_writer(struct instruction_writer *writer, struct output *output,
                        const struct raw_header *raw)
{
    char *metadata = metadata_make(raw);
    if (metadata == NULL) return error_set_system(&writer->error, "no memory for the header");
    struct instruction_header header = {.metadata = metadata, .metadata_bytes = strlen(metadata)};
    if ((raw->features & RAW_FEATURE_ADDRESSES) != 0)
        header.features |= INSTRUCTION_FEATURE_ADDRESSES;
    if ((raw->features & RAW_FEATURE_STACKS) != 0) {
        header.features |= INSTRUCTION_FEATURE_STACKS;
        if ((raw->features & RAW_FEATURE_FREE_STACKS) != 0)
            header.features |= INSTRUCTION_FEATURE_FREE_STACKS;
    }
    if ((raw->info & RAW_INFO_MAPPINGS) != 0) header.features |= INSTRUCTION_FEATURE_MAPPINGS;
    bool opened = instruction_writer_open(writer, output, &header);
    free(metadata);
    return opened;
}

/* ---- the stream ---- */

struct work {
    struct raw_reader *reader;
    struct spool_reader spool;
    bool has_spool;
    struct instruction_writer writer;
    struct order *order;
    const struct order_trace_options *options;
    struct order_trace_result *result;
};

/* The next chunk. Whoever reads the output gets what there is before this waits for input. */
static struct raw_chunk *next_chunk(struct work *work)
{
    if (work->reader->state != RAW_STREAM_MORE) return NULL;
    if (raw_reader_is_dry(work->reader)) instruction_writer_flush(&work->writer);
    return raw_reader_next(work->reader);
}

/* False after damage or when the output has failed. */
static bool order_stream(struct work *work)
{
    const struct order_trace_options *options = work->options;
    struct raw_chunk *chunk;
    while ((chunk = next_chunk(work)) != NULL) {
        if (options->progress != NULL)
            options->progress(options->context, raw_reader_bytes(work->reader),
                              work->writer.totals.instructions);
        if (chunk->type == RAW_CHUNK_UNITS) {
            if (!order_chunk(work->order, chunk)) return false;
            continue;
        }
        if (chunk->type != RAW_CHUNK_TICK) {
            order_pass(work->order, chunk);
            continue;
        }
        free(chunk);
        if (!order_tick(work->order, &work->reader->tick)) return false;
    }
    return !instruction_writer_failed(&work->writer);
}

static bool order_spool(struct work *work)
{
    struct raw_chunk *chunk;
    while ((chunk = spool_reader_next(&work->spool, work->reader)) != NULL)
        if (chunk->type != RAW_CHUNK_UNITS)
            order_pass(work->order, chunk);
        else if (!order_chunk(work->order, chunk))
            return false;
    work->result->spool_lanes_gapped = work->spool.lanes_gapped;
    if (error_is_set(&work->spool.error)) {
        work->result->spool = ORDER_TRACE_SPOOL_DAMAGED;
        work->result->spool_error = work->spool.error;
    }
    return true;
}

/* Opens the spool of a stream that was cut, if it is there and belongs to it. */
static void open_spool(struct work *work, const char *path)
{
    if (path == NULL || access(path, F_OK) != 0) return;
    struct order_trace_result *result = work->result;
    work->has_spool = spool_reader_open(&work->spool, path, work->reader);
    result->spool = ORDER_TRACE_SPOOL_USED;
    if (work->has_spool) return;
    result->spool_error = work->spool.error;
    result->spool = work->spool.error.kind == &raw_errors[SPOOL_OTHER_RECORDING]
                        ? ORDER_TRACE_SPOOL_OTHER
                        : ORDER_TRACE_SPOOL_DAMAGED;
    spool_reader_close(&work->spool);
}

/* The same for a stream that came through a pipe: the name has the recording's id in it. */
static void open_spool_elsewhere(struct work *work)
{
    char path[PATH_MAX];
    const char *directory = work->options->spool_directory;
    if (directory == NULL || !work->reader->has_header) return;
    if (spool_elsewhere_path(directory, work->reader->header.recording_id, path, sizeof path) &&
        spool_is_there(path))
        open_spool(work, path);
}

static void spool_complete(struct work *work)
{
    if (work->options->spool_completes && work->has_spool && work->spool.lanes_gapped == 0 &&
        !work->spool.is_incomplete && !error_is_set(&work->spool.error))
        work->result->truncated = false;
}

/* Everything there is, in order. False: see judge(). */
static bool order_everything(struct work *work)
{
    if (!order_stream(work)) return false;
    if (work->reader->state == RAW_STREAM_CUT) {
        work->result->cut = work->reader->error;
        work->result->truncated = true;
        if (!work->has_spool) open_spool(work, work->options->spool_path);
        if (!work->has_spool) open_spool_elsewhere(work);
        if (work->has_spool && !order_spool(work)) return false;
        spool_complete(work);
    }
    bool ordered = order_end(work->order);
    work->result->spool_records = order_totals_of(work->order)->spool_records;
    if (!ordered) return false;
    if (work->reader->state != RAW_STREAM_COMPLETE) return true;
    work->result->truncated = work->reader->end.status == RAW_END_ERROR;
    work->result->lost_at_end = work->reader->end.lost_events;
    return work->options->order.salvage || order_check_totals(work->order, &work->reader->end);
}

/* What the errors that may have been set mean, the first cause first. */
static void judge(struct work *work)
{
    struct order_trace_result *result = work->result;
    const struct error *damage = order_error(work->order);
    if (instruction_writer_failed(&work->writer)) {
        result->status = ORDER_TRACE_FAILED;
        result->error = work->writer.error;
    } else if (error_is_set(damage) || work->reader->state == RAW_STREAM_FAILED) {
        result->error = error_is_set(damage) ? *damage : work->reader->error;
        result->status =
            result->error.kind == &error_system ? ORDER_TRACE_FAILED : ORDER_TRACE_DAMAGED;
    } else if (error_is_set(order_damage(work->order)) || work->reader->damages > 0) {
        result->error =
            work->reader->damages > 0 ? work->reader->damage : *order_damage(work->order);
        result->status = ORDER_TRACE_SALVAGED;
    } else if (result->spool == ORDER_TRACE_SPOOL_DAMAGED) {
        result->error = result->spool_error;
        result->status = ORDER_TRACE_DAMAGED;
    } else if (result->truncated || result->lost_at_end > 0 ||
               order_totals_of(work->order)->lost_events > 0) {
        result->status = ORDER_TRACE_CUT;
    } else {
        result->status = ORDER_TRACE_COMPLETE;
    }
}

static void order_trace_finish(struct work *work, struct output *output)
{
    static const enum instruction_status statuses[] = {
        [ORDER_TRACE_COMPLETE] = INSTRUCTION_STATUS_COMPLETE,
        [ORDER_TRACE_CUT] = INSTRUCTION_STATUS_CUT,
        [ORDER_TRACE_SALVAGED] = INSTRUCTION_STATUS_DAMAGED,
        [ORDER_TRACE_DAMAGED] = INSTRUCTION_STATUS_DAMAGED,
        [ORDER_TRACE_FAILED] = INSTRUCTION_STATUS_DAMAGED,
    };
    struct order_trace_result *result = work->result;
    result->totals = *instruction_writer_totals(&work->writer);
    result->order = *order_totals_of(work->order);
    result->order.damages += work->reader->damages;
    result->ticks = work->reader->ticks;
    const bool at_exec = result->status == ORDER_TRACE_COMPLETE &&
                         work->reader->state == RAW_STREAM_COMPLETE &&
                         work->reader->end.status == RAW_END_EXEC;
    bool written = instruction_writer_finish(&work->writer, at_exec ? INSTRUCTION_STATUS_EXEC
                                                                    : statuses[result->status]);
    if (!written && result->status != ORDER_TRACE_FAILED) {
        result->status = ORDER_TRACE_FAILED;
        result->error = work->writer.error;
    }
    result->bytes_in = raw_reader_bytes(work->reader);
    result->bytes_out = output->offset;
}

/* Makes an order engine, and orders everything with it. */
static void order_with_writer(struct work *work, struct output *output)
{
    struct order_options how = work->options->order;
    struct touched_table touched;
    touched_table_read(&touched, work->options->path, work->options->spool_path);
    how.touched = &touched;
    work->order = order_new(work->reader, &work->writer, &how);
    if (work->order == NULL) {
        errno = ENOMEM;
        error_set_system(&work->result->error, "no memory for ordering");
        work->result->status = ORDER_TRACE_FAILED;
    } else {
        order_everything(work);
        judge(work);
        order_trace_finish(work, output);
        order_free(work->order);
    }
    touched_table_free(&touched);
}

void order_trace(struct raw_reader *reader, const struct order_trace_options *options,
                 struct output *output, struct order_trace_result *result)
{
    *result = (struct order_trace_result){.status = ORDER_TRACE_DAMAGED};
    reader->salvage = options->order.salvage;
    struct work work = {.reader = reader, .options = options, .result = result};
    if (reader->state == RAW_STREAM_CUT) open_spool(&work, options->spool_path);
    if (!reader->has_header && !work.has_spool) {
        result->error = reader->error;
    } else if (open_writer(&work.writer, output, &reader->header)) {
        order_with_writer(&work, output);
        instruction_writer_close(&work.writer);
    } else {
        result->status = ORDER_TRACE_FAILED;
        result->error = work.writer.error;
    }
    if (work.has_spool) spool_reader_close(&work.spool);
}
