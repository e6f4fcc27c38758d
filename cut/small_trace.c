#include "cut/small_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "launch/process.h"
#include "reading/linked.h"

enum { RUNS_SIZE, RUNS_NEXT, RUNS_COUNT, RUNS_AT }; /* in `runs` */

/* ---- reading ---- */

struct small_reading {
    struct small_trace *trace;
    uint32_t *row; /* by index: the object */
    uint64_t row_capacity, live;
    uint16_t lane;
    bool no_memory;
};

static void small_add(struct small_reading *state, unsigned kind, uint32_t object, uint64_t size)
{
    struct small_trace *trace = state->trace;
    trace->calls[trace->count++] = (struct small_call){object, state->lane, (uint8_t)kind, size};
    if (state->lane >= trace->lanes) trace->lanes = state->lane + 1u;
}

static void small_add_heap(struct small_reading *state, const struct instruction *one,
                           const uint64_t *numbers)
{
    struct small_trace *trace = state->trace;
    if (!array_reserve(&trace->heaps, &trace->heaps_room, trace->heaps_count + 1,
                       sizeof *trace->heaps)) {
        state->no_memory = true;
        return;
    }
    struct small_heap *heap = &trace->heaps[trace->heaps_count];
    heap->count = one->operands;
    for (unsigned i = 0; i < one->operands; i++)
        heap->numbers[i] = numbers[i];
    small_add(state, instruction_number(one), SMALL_NONE, trace->heaps_count++);
}

static void small_begin(struct small_reading *state, const struct instruction *one,
                        const uint64_t *operands)
{
    struct small_trace *trace = state->trace;
    unsigned kind = instruction_number(one);
    const uint32_t object = (uint32_t)trace->objects_count++;
    if (call_shapes[kind] == SHAPE_REALLOC) kind = CALL_MALLOC; /* of an unknown object */
    const bool aligned = call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED;
    trace->objects[object] = (struct small_object){.alignment = aligned ? operands[0] : 0,
                                                   .first_size = one->size,
                                                   .last_size = one->size,
                                                   .lane = state->lane};
    state->row[state->live++] = object;
    small_add(state, kind, object, one->size);
}

/* Which pages of an object were resident, if that is known. */
static void small_add_runs(struct small_reading *state, const struct instruction_walk *walk,
                           const struct instruction *one, struct small_object *object)
{
    struct small_trace *trace = state->trace;
    const uint64_t *runs;
    const size_t count = instruction_walk_touched(walk, one, &runs);
    const size_t first = trace->runs_count > 0 ? trace->runs_count : 1;
    if (count == 0 || first > UINT32_MAX) return;
    if (!array_reserve(&trace->runs, &trace->runs_room, first + RUNS_AT + 2 * count,
                       sizeof *trace->runs)) {
        state->no_memory = true;
        return;
    }
    if (object->runs == 0)
        object->runs = (uint32_t)first;
    else
        trace->runs[object->latest_runs + RUNS_NEXT] = first;
    object->latest_runs = (uint32_t)first;
    trace->runs[first + RUNS_SIZE] = one->size;
    trace->runs[first + RUNS_NEXT] = 0;
    trace->runs[first + RUNS_COUNT] = count;
    memcpy(&trace->runs[first + RUNS_AT], runs, 2 * count * sizeof *runs);
    trace->runs_count = first + RUNS_AT + 2 * count;
}

static void small_take(struct small_reading *state, const struct instruction *one,
                       const struct instruction_walk *walk)
{
    const uint64_t *operands = walk->batch->operands + one->operand_at;
    const unsigned number = instruction_number(one);
    uint32_t object;
    switch (instruction_does[one->opcode]) {
    case INSTRUCTION_BEGINS:
        object = (uint32_t)state->trace->objects_count;
        small_begin(state, one, operands);
        small_add_runs(state, walk, one, &state->trace->objects[object]);
        break;
    case INSTRUCTION_RESIZES:
        object = state->row[one->object];
        state->trace->objects[object].last_size = one->size;
        state->trace->objects[object].grows = true;
        small_add(state, number, object, one->size);
        small_add_runs(state, walk, one, &state->trace->objects[object]);
        break;
    case INSTRUCTION_ENDS:
        object = state->row[one->object];
        state->row[one->object] = state->row[--state->live];
        state->trace->objects[object].ends = true;
        small_add(state, number, object, one->size);
        break;
    case INSTRUCTION_OTHER:
        if (number == INSTRUCTION_LANE) state->lane = (uint16_t)operands[0];
        if (number == INSTRUCTION_TICK || number == INSTRUCTION_THREAD_BEGIN ||
            number == INSTRUCTION_THREAD_END)
            small_add(state, number, SMALL_NONE, one->operands > 0 ? operands[0] : 0);
        break;
    default:
        if (call_shapes[number] == SHAPE_HEAP) small_add_heap(state, one, operands);
    }
}

static bool small_take_batch(struct small_reading *state, const struct instruction_batch *batch)
{
    struct small_trace *trace = state->trace;
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    if (!pages_reserve(&trace->calls, &trace->calls_capacity, trace->count + batch->count,
                       INSTRUCTION_BLOCK_MAX, sizeof *trace->calls) ||
        !pages_reserve(&trace->objects, &trace->objects_capacity,
                       trace->objects_count + batch->count, INSTRUCTION_BLOCK_MAX,
                       sizeof *trace->objects) ||
        !pages_reserve(&state->row, &state->row_capacity, state->live + batch->count,
                       INSTRUCTION_BLOCK_MAX, sizeof *state->row))
        return false;
    if (trace->objects_count + batch->count >= SMALL_NONE) return false;
    while (instruction_walk_next(&walk, &one))
        small_take(state, &one, &walk);
    return !state->no_memory;
}

/* What `compare` would ask a recording for: libraries that the program has under any allocator. */
static bool small_add_linked(struct small_trace *trace, const struct others *others)
{
    char *const line = linked_line(others);
    const size_t bytes = strlen(trace->metadata);
    if (line == NULL) return true;
    char *const text = realloc(trace->metadata, bytes + strlen(line) + 1);
    if (text != NULL) strcpy(text + bytes, line);
    if (text != NULL) trace->metadata = text;
    free(line);
    return text != NULL;
}

bool small_trace_read(struct small_trace *trace, struct input *input, char *why, size_t why_bytes)
{
    struct others_reading *reading = NULL;
    struct others others = {.count = 0};
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct small_reading state = {.trace = trace};
    *trace = (struct small_trace){.lanes = 1};
    bool good = instruction_reader_open(&reader, input);
    if (good) {
        instruction_reader_use_indices(&reader);
        trace->metadata = strndup(reader.header.metadata, reader.header.metadata_bytes);
        reading = others_begin(&others, &reader, "");
        state.no_memory = trace->metadata == NULL || reading == NULL;
        while (!process_interrupted() && instruction_reader_next(&reader, &batch))
            if (!small_take_batch(&state, &batch)) {
                state.no_memory = true;
                break;
            }
    }
    if (reading != NULL && !others_end(reading)) state.no_memory = true;
    if (!state.no_memory && good && !small_add_linked(trace, &others)) state.no_memory = true;
    others_free(&others);
    trace->is_cut = reader.state == INSTRUCTIONS_CUT;
    if (state.no_memory)
        good = error_explain(why, why_bytes, "no memory for all calls");
    else if (process_interrupted())
        good = error_explain(why, why_bytes, "interrupted");
    else if (reader.state == INSTRUCTIONS_FAILED) {
        good = false;
        error_text(&reader.error, why, why_bytes);
    }
    pages_unmap(state.row, state.row_capacity * sizeof *state.row);
    instruction_reader_close(&reader);
    return good;
}

void small_trace_free(struct small_trace *trace)
{
    pages_unmap(trace->calls, trace->calls_capacity * sizeof *trace->calls);
    pages_unmap(trace->objects, trace->objects_capacity * sizeof *trace->objects);
    free(trace->heaps);
    free(trace->runs);
    free(trace->metadata);
    *trace = (struct small_trace){.count = 0};
}

uint64_t small_trace_calls(const struct small_trace *trace)
{
    uint64_t calls = 0;
    for (uint64_t i = 0; i < trace->count; i++)
        calls += trace->calls[i].object != SMALL_NONE;
    return calls;
}

/* ---- changes ---- */

#define SMALL_LARGEST (UINT64_C(1) << 30) /* no larger size is multiplied */

static bool small_is_in(const struct small_change *change, const struct small_call *call)
{
    return call->object != SMALL_NONE && call->object >= change->from && call->object < change->to;
}

static bool small_has_size(const struct small_trace *trace, const struct small_change *change,
                           const struct small_call *call)
{
    const uint64_t size = trace->objects[call->object].first_size;
    return size >= change->from && size <= change->to;
}

static bool small_is_sampled(const struct small_change *change, const struct small_call *call)
{
    return (call->object * UINT32_C(2654435761) >> 8) % change->value == 0;
}

static bool small_is_realloc(const struct small_call *call)
{
    return call->kind == CALL_REALLOC_MOVED || call->kind == CALL_REALLOC_IN_PLACE;
}

static bool small_is_free(const struct small_call *call)
{
    return call->kind < CALL_KINDS && shape_is_free(call_shapes[call->kind]);
}

/* A kind that says no more than that it makes, changes or frees an object. */
static void small_make_plain(struct small_call *call)
{
    if (call->object == SMALL_NONE || small_is_realloc(call)) return;
    call->kind = small_is_free(call) ? CALL_FREE : CALL_MALLOC;
}

/* Changes the call, which is number `at`. False: it is left out. */
static bool small_change_call(const struct small_trace *trace, const struct small_change *change,
                              uint64_t at, struct small_call *call)
{
    const bool is_in = small_is_in(change, call), has_object = call->object != SMALL_NONE;
    switch (change->what) {
    case SMALL_END: return at < change->value;
    case SMALL_DROP_OBJECTS: return !is_in;
    case SMALL_DROP_SIZES: return !has_object || !small_has_size(trace, change, call);
    case SMALL_DROP_LANE:
        return (has_object ? trace->objects[call->object].lane : call->lane) != change->value;
    case SMALL_DROP_KIND:
        return has_object || (change->value == CALL_KINDS ? call->kind >= CALL_KINDS
                                                          : call->kind != change->value);
    case SMALL_DROP_FREES: return !is_in || !small_is_free(call);
    case SMALL_DROP_REALLOCS:
        if (is_in && small_is_realloc(call)) return false;
        if (is_in) call->size = trace->objects[call->object].last_size;
        return true;
    case SMALL_SET_SIZE:
        if (is_in) call->size = change->value;
        return true;
    case SMALL_HALVE_SIZE:
        if (is_in && call->size > 1) call->size /= 2;
        return true;
    case SMALL_JOIN_LANE:
        if (call->lane == change->value) call->lane = 0;
        return true;
    case SMALL_PLAIN: small_make_plain(call); return true;
    case SMALL_SELECT:
        return !has_object || (change->bits[call->object / 64] >> call->object % 64 & 1);
    case SMALL_KEEP_OBJECTS: return !has_object || is_in;
    case SMALL_KEEP_SIZES: return !has_object || small_has_size(trace, change, call);
    case SMALL_KEEP_LANE: return !has_object || trace->objects[call->object].lane == change->value;
    case SMALL_KEEP_SAMPLE: return !has_object || small_is_sampled(change, call);
    case SMALL_KEEP_LARGER:
        if (has_object && call->size < SMALL_LARGEST) call->size *= change->value;
        return !has_object || small_is_sampled(change, call);
    }
    return true;
}

static bool small_changed(const struct small_trace *trace, const struct small_change *changes,
                          size_t count, uint64_t at, struct small_call *call)
{
    *call = trace->calls[at];
    for (size_t i = 0; i < count; i++)
        if (!small_change_call(trace, &changes[i], at, call)) return false;
    return true;
}

bool small_trace_apply(struct small_trace *trace, const struct small_change *changes, size_t count)
{
    const size_t bytes = trace->objects_count * sizeof(uint32_t) + 1;
    uint32_t *numbers = pages_map(bytes); /* plus one; 0: not there */
    struct small_object *objects = pages_map(trace->objects_count * sizeof *objects + 1);
    uint64_t kept = 0, kept_objects = 0;
    struct small_call call;
    if (numbers == NULL || objects == NULL) return false;
    for (uint64_t at = 0; at < trace->count; at++) {
        if (!small_changed(trace, changes, count, at, &call)) continue;
        if (call.object != SMALL_NONE && numbers[call.object] == 0) {
            objects[kept_objects] = trace->objects[call.object];
            objects[kept_objects].ends = objects[kept_objects].grows = false;
            objects[kept_objects].lane = call.lane;
            objects[kept_objects].first_size = call.size;
            if (call_shapes[call.kind] != SHAPE_ALLOCATION_ALIGNED)
                objects[kept_objects].alignment = 0;
            numbers[call.object] = (uint32_t)++kept_objects;
        }
        if (call.object != SMALL_NONE) {
            call.object = numbers[call.object] - 1;
            if (small_is_free(&call))
                objects[call.object].ends = true;
            else
                objects[call.object].last_size = call.size;
            objects[call.object].grows |= small_is_realloc(&call);
        }
        trace->calls[kept++] = call;
    }
    pages_unmap(trace->objects, trace->objects_capacity * sizeof *objects);
    trace->objects_capacity = trace->objects_count;
    trace->objects = objects;
    trace->objects_count = kept_objects;
    trace->count = kept;
    pages_unmap(numbers, bytes);
    return true;
}

/* ---- writing ---- */

struct small_writing {
    const struct small_trace *trace;
    struct instruction_writer writer;
    uint32_t *names;  /* by object: its register */
    uint32_t *runs;   /* by object: those of its `runs` that were written last; 0: none */
    uint64_t ns;      /* since the latest tick */
    bool *has_thread; /* by lane: a thread has begun */
};

/* What of the object was resident, if it has the size that it had then. */
static void small_put_runs(struct small_writing *state, const struct small_call *call)
{
    const struct small_trace *trace = state->trace;
    const uint32_t first = trace->objects[call->object].runs;
    if (first == 0) return;
    uint32_t *latest = &state->runs[call->object];
    const uint64_t at = *latest == 0 ? first : trace->runs[*latest + RUNS_NEXT];
    if (at == 0 || trace->runs[at + RUNS_SIZE] != call->size) return;
    instruction_put_touched_runs(&state->writer, &trace->runs[at + RUNS_AT],
                                 trace->runs[at + RUNS_COUNT]);
    *latest = (uint32_t)at;
}

static void small_put(struct small_writing *state, const struct small_call *call)
{
    struct instruction_writer *writer = &state->writer;
    const struct small_trace *trace = state->trace;
    if (call->kind == INSTRUCTION_TICK) {
        instruction_put_tick(writer, call->size, 0, 0);
        return;
    }
    instruction_put_lane(writer, call->lane);
    if (call->kind != INSTRUCTION_THREAD_END && !state->has_thread[call->lane]) {
        instruction_put_thread_begin(
            writer, call->kind == INSTRUCTION_THREAD_BEGIN ? call->size : call->lane + UINT64_C(1));
        state->has_thread[call->lane] = true;
        if (call->kind == INSTRUCTION_THREAD_BEGIN) return;
    }
    if (call->kind == INSTRUCTION_THREAD_BEGIN) return;
    if (call->kind == INSTRUCTION_THREAD_END) {
        if (state->has_thread[call->lane]) instruction_put_thread_end(writer);
        state->has_thread[call->lane] = false;
        return;
    }
    if (call->object == SMALL_NONE) {
        const struct small_heap *heap = &trace->heaps[call->size];
        instruction_put_heap(writer, (enum call_kind)call->kind, heap->count, heap->numbers);
        return;
    }
    const uint64_t alignment = trace->objects[call->object].alignment;
    uint32_t *name = &state->names[call->object];
    if (!small_is_free(call)) small_put_runs(state, call);
    if (small_is_realloc(call))
        instruction_put_realloc(writer, (enum call_kind)call->kind, *name, call->size, 0);
    else if (small_is_free(call))
        instruction_put_free_with(writer, (enum call_kind)call->kind, *name, call->size, alignment);
    else
        *name = instruction_put_allocation_with(writer, (enum call_kind)call->kind, call->size,
                                                alignment, 0);
}

/* The metadata of the trace, but for lines that are true no more, and `lines`. NULL: no memory. */
static char *small_metadata(const struct small_trace *trace, const char *lines)
{
    static const char *const untrue[] = {
        "stacks", "statistics=", "minimized=", "thin=", "thin.weights="};
    char *text = malloc(strlen(trace->metadata) + strlen(lines) + 2), *to = text;
    if (text == NULL) return NULL;
    for (const char *at = trace->metadata; *at != '\0';) {
        const size_t bytes = strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
        bool stays = true;
        for (size_t i = 0; i < sizeof untrue / sizeof *untrue; i++)
            stays = stays && strncmp(at, untrue[i], strlen(untrue[i])) != 0;
        if (stays) memcpy(to, at, bytes);
        if (stays) to += bytes;
        at += bytes;
    }
    strcpy(to, lines);
    return text;
}

bool small_trace_write(const struct small_trace *trace, const struct small_change *changes,
                       size_t count, const char *lines, const char *path, char *why,
                       size_t why_bytes)
{
    struct small_writing state = {.trace = trace};
    struct small_call call;
    struct output output;
    const size_t bytes = trace->objects_count * sizeof *state.names + 1;
    char *metadata = small_metadata(trace, lines);
    state.names = pages_map(bytes);
    state.runs = pages_map(bytes);
    state.has_thread = calloc(trace->lanes, sizeof *state.has_thread);
    if (metadata == NULL || state.names == NULL || state.runs == NULL || state.has_thread == NULL)
        return error_explain(why, why_bytes, "no memory");
    if (!output_open(&output, path)) {
        error_text(&output.error, why, why_bytes);
        return false;
    }
    if (output_is_lz4(path)) output_compress(&output);
    const struct instruction_header header = {.metadata = metadata,
                                              .metadata_bytes = strlen(metadata)};
    bool good = instruction_writer_open(&state.writer, &output, &header);
    for (uint64_t at = 0; good && at < trace->count; at++)
        if (small_changed(trace, changes, count, at, &call)) small_put(&state, &call);
    good = good && instruction_writer_finish(&state.writer, INSTRUCTION_STATUS_COMPLETE);
    if (!good) error_text(&state.writer.error, why, why_bytes);
    instruction_writer_close(&state.writer);
    output.discards = !good;
    const bool closed = output_close(&output);
    if (good && !closed) error_text(&output.error, why, why_bytes);
    pages_unmap(state.names, bytes);
    pages_unmap(state.runs, bytes);
    free(state.has_thread);
    free(metadata);
    return good && closed;
}
