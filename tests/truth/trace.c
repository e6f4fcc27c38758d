#include "trace.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/call_table.h"
#include "common/program.h"
#include "reading/raw_source.h"
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
            .ended = record->bound,
            .began = record->serial ? raw_allocations(lane, record->serial) : 0,
            .address = record->address,
            .place = record->place,
            .end_place = record->ends,
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
    reading->trace->allocations[chunk->lane] = decoder->allocations;
}

/* ---- whom a place and a bound mean (FORMAT.md 2.5) ---- */

struct allocation {
    uint64_t where; /* lane and place */
    uint64_t began;
};

static uint64_t where(uint64_t allocations, uint32_t place)
{
    return (uint64_t)raw_allocations_lane(allocations) << 32 | place;
}

static int by_place(const void *left, const void *right)
{
    const struct allocation *one = left, *other = right;
    if (one->where != other->where) return one->where < other->where ? -1 : 1;
    return (one->began > other->began) - (one->began < other->began);
}

/* All allocations, by lane, place and number. */
static struct allocation *allocations_collect(const struct trace *trace, size_t *count)
{
    size_t room = 0;
    for (uint32_t i = 0; i < trace->threads_count; i++)
        room += trace->threads[i].count;
    struct allocation *allocations = truth_memory(room, sizeof *allocations);
    *count = 0;
    for (uint32_t i = 0; i < trace->threads_count; i++)
        for (uint32_t at = 0; at < trace->threads[i].count; at++) {
            const struct trace_call *call = &trace->threads[i].calls[at];
            if (call->began == 0) continue;
            allocations[(*count)++] =
                (struct allocation){where(call->began, call->place), call->began};
        }
    qsort(allocations, *count, sizeof *allocations, by_place);
    return allocations;
}

/* The latest object that the bound's lane has allocated at the place among so many allocations. */
static uint64_t allocations_find(const struct allocation *allocations, size_t count, uint64_t bound,
                                 uint32_t place)
{
    const struct allocation wanted = {where(bound, place), bound};
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&allocations[middle], &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && allocations[low - 1].where == wanted.where ? allocations[low - 1].began
                                                                 : TRACE_NOBODY;
}

/* Puts the objects themselves where places and bounds are. A bound of allocations that are not in
 * the stream stays: it names nothing (FORMAT.md 4.4). */
static void name_objects(struct trace *trace)
{
    size_t count;
    struct allocation *allocations = allocations_collect(trace, &count);
    for (uint32_t i = 0; i < trace->threads_count; i++)
        for (uint32_t at = 0; at < trace->threads[i].count; at++) {
            struct trace_call *call = &trace->threads[i].calls[at];
            if (call->ended == TRACE_UNKNOWN ||
                raw_allocations_count(call->ended) >
                    trace->allocations[raw_allocations_lane(call->ended)])
                continue;
            call->ended = allocations_find(allocations, count, call->ended, call->end_place);
        }
    free(allocations);
}

void trace_read(struct trace *trace, const char *path)
{
    struct raw_source source;
    struct raw_chunk *chunk;
    struct error error = {0};
    struct reading reading = {.trace = trace, .path = path};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) truth_fail(path, "cannot be read");
    *trace = (struct trace){.allocations = truth_memory(RAW_LANES_MAX, sizeof *trace->allocations)};
    reading.playing = truth_memory(RAW_LANES_MAX, sizeof *reading.playing);
    raw_source_open(&source, file, path);
    while ((chunk = raw_source_next(&source)) != NULL) {
        if (chunk->type == RAW_CHUNK_UNITS) chunk_take(&reading, &source, chunk);
        free(chunk);
    }
    if (raw_source_state(&source, &error) == PROGRAM_FAILED) {
        error_print(stderr, "truth_check", path, &error);
        exit(2);
    }
    raw_source_close(&source);
    close(file);
    free(reading.playing);
    name_objects(trace);
}

void trace_free(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->threads_count; i++)
        free(trace->threads[i].calls);
    free(trace->threads);
    free(trace->allocations);
}
