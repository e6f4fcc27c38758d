#include "trace.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/raw_source.h"
#include "common/call_table.h"
#include "common/program.h"
#include "truth_file.h"

enum { BATCH = 256, CALLS_FIRST = 1024, NO_THREAD = 0 };

struct reading {
    struct trace *trace;
    uint32_t *playing; /* by lane: the thread in it, counted from 1 */
    uint32_t threads_room;
    const char *path;
};

static void thread_begins(struct reading *reading, uint32_t lane, uint64_t id)
{
    struct trace *trace = reading->trace;
    if (trace->threads_count == reading->threads_room) {
        reading->threads_room = reading->threads_room * 2 + 64;
        trace->threads = realloc(trace->threads, reading->threads_room * sizeof *trace->threads);
        if (trace->threads == NULL) truth_fail(reading->path, "out of memory");
    }
    trace->threads[trace->threads_count] = (struct trace_thread){.id = id};
    reading->playing[lane] = ++trace->threads_count;
}

static struct trace_call *call_new(struct reading *reading, uint32_t lane)
{
    if (reading->playing[lane] == NO_THREAD)
        truth_fail(reading->path, "a call before the beginning of its thread");
    struct trace_thread *thread = &reading->trace->threads[reading->playing[lane] - 1];
    if (thread->count == thread->room) {
        thread->room = thread->room == 0 ? CALLS_FIRST : thread->room * 2;
        thread->calls = realloc(thread->calls, thread->room * sizeof *thread->calls);
        if (thread->calls == NULL) truth_fail(reading->path, "out of memory");
    }
    return &thread->calls[thread->count++];
}

static void record_take(struct reading *reading, uint32_t lane, const struct record *record)
{
    bool is_call = record->number < CALL_KINDS;
    if (is_call && record->shape == SHAPE_HEAP) {
        reading->trace->heap_calls++;
    } else if (is_call || record->number == RAW_FAILED || record->number == RAW_LOST) {
        *call_new(reading, lane) = (struct trace_call){
            .number = record->number,
            .kind = record->kind,
            .size = record->size,
            .alignment = record->operand,
            .ended = record->token,
            .began = record->serial ? raw_token(lane, record->serial) : 0,
            .address = record->address,
        };
        if (record->number == RAW_LOST) reading->trace->lost += record->size;
    } else if (record->number == RAW_THREAD_BEGIN) {
        thread_begins(reading, lane, record->operand);
    } else if (record->number == RAW_THREAD_END) {
        reading->playing[lane] = NO_THREAD;
    }
}

static void chunk_take(struct reading *reading, struct raw_source *source,
                       const struct raw_chunk *chunk)
{
    struct record records[BATCH];
    struct raw_decoder *decoder = raw_source_lane(source, chunk->lane);
    uint32_t count;
    if (decoder == NULL || !raw_decoder_open(decoder, chunk))
        truth_fail(reading->path, "a chunk cannot be decoded");
    while ((count = raw_decoder_next(decoder, records, BATCH)) > 0)
        for (uint32_t i = 0; i < count; i++)
            record_take(reading, chunk->lane, &records[i]);
    if (error_is_set(&decoder->error)) truth_fail(reading->path, "a chunk cannot be decoded");
    reading->trace->births[chunk->lane] = decoder->births;
}

void trace_read(struct trace *trace, const char *path)
{
    struct raw_source source;
    struct raw_chunk *chunk;
    struct error error = {0};
    struct reading reading = {.trace = trace, .path = path};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) truth_fail(path, "cannot be read");
    *trace = (struct trace){.births = truth_memory(RAW_LANES_MAX, sizeof *trace->births)};
    reading.playing = truth_memory(RAW_LANES_MAX, sizeof *reading.playing);
    raw_source_open(&source, file, path);
    while ((chunk = raw_source_next(&source)) != NULL) {
        if (chunk->type == RAW_CHUNK_UNITS) chunk_take(&reading, &source, chunk);
        raw_source_release(&source, chunk);
    }
    if (raw_source_state(&source, &error) == PROGRAM_FAILED) {
        error_print(stderr, "truth_check", path, &error);
        exit(2);
    }
    raw_source_close(&source);
    close(file);
    free(reading.playing);
}

void trace_free(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->threads_count; i++)
        free(trace->threads[i].calls);
    free(trace->threads);
    free(trace->births);
}
