#include "postprocess/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/call_table.h"
#include "postprocess/instruction_reader.h"
#include "postprocess/instruction_writer.h"

#define NO_LANE UINT32_MAX

struct source {
    struct merge_input *input;
    pthread_t thread;
    bool started; /* the thread */
    int write_fd, read_fd;
    struct input pipe;
    struct instruction_reader reader;
    struct instruction_batch batch;
    size_t at; /* in the batch */
    bool ended;
    uint64_t now_ns; /* since the epoch: when its window began */
    uint64_t rss_bytes, heap_bytes;
    uint32_t lane;   /* of the result */
    uint32_t *lanes; /* INSTRUCTION_LANES_MAX of them: lane of the result, or NO_LANE */
    uint32_t *registers;
    uint64_t registers_room;
};

struct merge {
    struct source *sources;
    uint32_t count;
    struct instruction_writer writer;
    uint32_t lanes; /* given so far */
    uint64_t now_ns;
    struct error error;
};

static bool no_memory(struct merge *merge)
{
    errno = ENOMEM;
    return error_set_system(&merge->error, "no memory for merging");
}

/* ---- one recording ---- */

static void *order_input(void *argument)
{
    struct source *source = argument;
    struct output output;
    output_open_fd(&output, source->write_fd);
    run_order(source->input->reader, &source->input->options, &output, &source->input->result);
    output_close(&output);
    close(source->write_fd);
    return NULL;
}

static bool source_start(struct merge *merge, struct source *source, struct merge_input *input)
{
    int ends[2];
    *source = (struct source){.input = input, .read_fd = -1};
    source->lanes = malloc(INSTRUCTION_LANES_MAX * sizeof *source->lanes);
    if (source->lanes == NULL) return no_memory(merge);
    memset(source->lanes, 0xff, INSTRUCTION_LANES_MAX * sizeof *source->lanes);
    source->now_ns = input->reader->header.start_ns;
    source->lane = NO_LANE;
    if (pipe2(ends, O_CLOEXEC) != 0) return error_set_system(&merge->error, "cannot make a pipe");
    source->read_fd = ends[0];
    source->write_fd = ends[1];
    int failed = pthread_create(&source->thread, NULL, order_input, source);
    source->started = failed == 0;
    if (source->started) return true;
    close(ends[1]);
    errno = failed;
    return error_set_system(&merge->error, "cannot make a thread");
}

static bool source_open(struct source *source)
{
    input_open_fd(&source->pipe, source->read_fd);
    bool opened = instruction_reader_open(&source->reader, &source->pipe);
    source->ended = !opened;
    return opened;
}

/* The ordering ends, too, when nobody reads what it writes. */
static void source_close(struct source *source)
{
    if (source->reader.input != NULL) {
        instruction_reader_close(&source->reader);
        input_close(&source->pipe);
    }
    if (source->read_fd >= 0) close(source->read_fd);
    if (source->started) pthread_join(source->thread, NULL);
    free(source->lanes);
    free(source->registers);
}

/* ---- instructions ---- */

static bool source_reserve(struct merge *merge, struct source *source)
{
    if (source->batch.registers <= source->registers_room) return true;
    uint64_t room = source->registers_room == 0 ? 1024 : source->registers_room;
    while (room < source->batch.registers)
        room *= 2;
    uint32_t *registers = realloc(source->registers, room * sizeof *registers);
    if (registers == NULL) return no_memory(merge);
    source->registers = registers;
    source->registers_room = room;
    return true;
}

/* False: there are more lanes than an instruction stream can have. */
static bool source_map_lane(struct merge *merge, struct source *source, uint64_t lane, uint32_t *to)
{
    static const struct error_kind too_many = {"merge_lanes", "too many lanes for one stream"};
    uint32_t *place = &source->lanes[lane];
    if (*place == NO_LANE) {
        if (merge->lanes == INSTRUCTION_LANES_MAX)
            return error_set(&merge->error, &too_many, ERROR_NO_OFFSET, NULL);
        *place = merge->lanes++;
    }
    *to = *place;
    return true;
}

/* A call of a shape that begins, moves or ends an object. */
static void put_call(struct instruction_writer *writer, struct source *source,
                     const struct instruction *one, uint64_t operand, uint64_t address)
{
    enum call_kind kind = (enum call_kind)instruction_number(one);
    bool failed = one->opcode & INSTRUCTION_FAILED, unknown = one->opcode & INSTRUCTION_UNKNOWN;
    uint32_t none,
        *object = one->object != INSTRUCTION_NO_REGISTER ? &source->registers[one->object] : &none;
    switch (call_shapes[kind]) {
    case SHAPE_BIRTH:
    case SHAPE_BIRTH_ALIGNED:
        if (failed)
            instruction_put_birth_failed(writer, kind, one->size, operand);
        else if (call_shapes[kind] == SHAPE_BIRTH)
            *object = instruction_put_birth(writer, kind, one->size, address);
        else
            *object = instruction_put_birth_aligned(writer, kind, one->size, operand, address);
        return;
    case SHAPE_REALLOC:
        if (failed && unknown)
            instruction_put_realloc_unknown_failed(writer, one->size);
        else if (failed)
            instruction_put_realloc_failed(writer, *object, one->size);
        else if (unknown)
            *object = instruction_put_realloc_unknown(writer, kind, one->size, address);
        else
            instruction_put_realloc(writer, kind, *object, one->size, address);
        return;
    default: break;
    }
    if (unknown) {
        instruction_put_death_unknown(writer, kind, one->size, operand);
        return;
    }
    switch (call_shapes[kind]) {
    case SHAPE_DEATH_SIZED: instruction_put_death_sized(writer, kind, *object, one->size); break;
    case SHAPE_DEATH_ALIGNED: instruction_put_death_aligned(writer, kind, *object, operand); break;
    case SHAPE_DEATH_SIZED_ALIGNED:
        instruction_put_death_sized_aligned(writer, kind, *object, one->size, operand);
        break;
    default: instruction_put_death(writer, kind, *object); break;
    }
}

static bool put_other(struct merge *merge, struct source *source, const struct instruction *one,
                      const uint64_t *operands)
{
    uint32_t lane = 0;
    switch (instruction_number(one)) {
    case INSTRUCTION_LANE: return source_map_lane(merge, source, operands[0], &source->lane);
    case INSTRUCTION_THREAD_BEGIN:
        instruction_put_thread_begin(&merge->writer, operands[0]);
        return true;
    case INSTRUCTION_THREAD_END: instruction_put_thread_end(&merge->writer); return true;
    case INSTRUCTION_THREAD_CACHE_DELETED:
        instruction_put_thread_cache_deleted(&merge->writer);
        return true;
    case INSTRUCTION_FREED_TWICE: instruction_put_freed_twice(&merge->writer); return true;
    case INSTRUCTION_LOST:
        if (!source_map_lane(merge, source, operands[0], &lane)) return false;
        instruction_put_lost(&merge->writer, lane, operands[1]);
        return true;
    default: /* a tick */
        source->now_ns += operands[0];
        source->rss_bytes = operands[1];
        source->heap_bytes = operands[2];
        return true;
    }
}

static bool put(struct merge *merge, struct source *source, size_t index)
{
    const struct instruction *one = &source->batch.at[index];
    const uint64_t *operands = source->batch.operands + one->operand_at;
    unsigned number = instruction_number(one);
    bool in_lane =
        number != INSTRUCTION_LANE && number != INSTRUCTION_TICK && number != INSTRUCTION_LOST;
    if (in_lane) {
        if (source->lane == NO_LANE && !source_map_lane(merge, source, 0, &source->lane))
            return false;
        instruction_put_lane(&merge->writer, source->lane);
    }
    if (number >= CALL_KINDS) return put_other(merge, source, one, operands);
    if (call_shapes[number] == SHAPE_HEAP)
        instruction_put_heap(&merge->writer, (enum call_kind)number, one->operands, operands);
    else
        put_call(&merge->writer, source, one, one->operands > 0 ? operands[0] : 0,
                 source->batch.addresses != NULL ? source->batch.addresses[index] : 0);
    return true;
}

/* Up to the next tick, or the end. */
static bool source_put_window(struct merge *merge, struct source *source)
{
    for (;;) {
        while (source->at < source->batch.count) {
            size_t at = source->at++;
            if (!put(merge, source, at)) return false;
            if (instruction_number(&source->batch.at[at]) == INSTRUCTION_TICK) return true;
        }
        source->at = source->batch.count = 0;
        if (!instruction_reader_next(&source->reader, &source->batch)) break;
        if (!source_reserve(merge, source)) return false;
    }
    source->ended = true;
    source->rss_bytes = source->heap_bytes = 0;
    return true;
}

/* ---- all of them ---- */

static struct source *merge_first(struct merge *merge)
{
    struct source *first = NULL;
    for (uint32_t i = 0; i < merge->count; i++) {
        struct source *source = &merge->sources[i];
        if (source->ended || (first != NULL && first->now_ns <= source->now_ns)) continue;
        first = source;
    }
    return first;
}

static void merge_tick(struct merge *merge, uint64_t now_ns)
{
    uint64_t rss_bytes = 0, heap_bytes = 0;
    if (now_ns <= merge->now_ns) return;
    for (uint32_t i = 0; i < merge->count; i++) {
        rss_bytes += merge->sources[i].rss_bytes;
        heap_bytes += merge->sources[i].heap_bytes;
    }
    instruction_put_tick(&merge->writer, now_ns - merge->now_ns, rss_bytes, heap_bytes);
    merge->now_ns = now_ns;
}

static bool merge_all(struct merge *merge,
                      void (*progress)(void *context, uint64_t bytes_in, uint64_t instructions),
                      void *context)
{
    struct source *source;
    while ((source = merge_first(merge)) != NULL) {
        merge_tick(merge, source->now_ns);
        if (!source_put_window(merge, source)) return false;
        if (instruction_writer_failed(&merge->writer)) return false;
        if (progress != NULL) progress(context, 0, merge->writer.totals.instructions);
    }
    return true;
}

/* ---- what came of it ---- */

static void add_order(struct order_totals *to, const struct order_totals *from)
{
    to->records += from->records;
    to->stamps += from->stamps;
    to->failed += from->failed;
    to->unknown_objects += from->unknown_objects;
    to->displaced += from->displaced;
    to->lost_events += from->lost_events;
    to->stamps_missing += from->stamps_missing;
    to->windows += from->windows;
    to->windows_overtaken += from->windows_overtaken;
    to->units_stepped += from->units_stepped;
    to->relaxed += from->relaxed;
    to->damages += from->damages;
    to->lanes += from->lanes;
}

static void merge_results(const struct merge *merge, struct run_result *result)
{
    for (uint32_t i = 0; i < merge->count; i++) {
        const struct run_result *one = &merge->sources[i].input->result;
        add_order(&result->order, &one->order);
        result->bytes_in += one->bytes_in;
        result->ticks += one->ticks;
        result->truncated |= one->truncated;
        if (one->status > result->status) result->status = one->status;
        if (!error_is_set(&result->error)) result->error = one->error;
    }
}

static enum instruction_status end_status(enum run_status status)
{
    switch (status) {
    case RUN_COMPLETE: return INSTRUCTION_STATUS_COMPLETE;
    case RUN_CUT: return INSTRUCTION_STATUS_CUT;
    default: return INSTRUCTION_STATUS_DAMAGED;
    }
}

static int by_start(const void *left, const void *right)
{
    const struct merge_input *one = left, *other = right;
    uint64_t a = one->reader->header.start_ns, b = other->reader->header.start_ns;
    return (a > b) - (a < b);
}

/* Starts the orderings; the result has addresses if all have them. */
static bool merge_start(struct merge *merge, struct merge_input *inputs, struct output *output)
{
    struct raw_header header = inputs[0].reader->header;
    for (uint32_t i = 0; i < merge->count; i++)
        header.features &= inputs[i].reader->header.features;
    merge->now_ns = header.start_ns;
    if (!run_open_writer(&merge->writer, output, &header, merge->count)) return false;
    for (uint32_t i = 0; i < merge->count; i++)
        if (!source_start(merge, &merge->sources[i], &inputs[i])) return false;
    for (uint32_t i = 0; i < merge->count; i++)
        source_open(&merge->sources[i]);
    return true;
}

void merge_run(struct merge_input *inputs, uint32_t count, struct output *output,
               void (*progress)(void *context, uint64_t bytes_in, uint64_t instructions),
               void *context, struct run_result *result)
{
    struct merge merge = {.count = count, .sources = calloc(count, sizeof *merge.sources)};
    *result = (struct run_result){.status = RUN_COMPLETE};
    qsort(inputs, count, sizeof *inputs, by_start);
    for (uint32_t i = 0; merge.sources != NULL && i < count; i++)
        merge.sources[i] = (struct source){.read_fd = -1, .input = &inputs[i]};
    bool good = merge.sources != NULL
                    ? merge_start(&merge, inputs, output) && merge_all(&merge, progress, context)
                    : no_memory(&merge);
    for (uint32_t i = 0; merge.sources != NULL && i < count; i++)
        source_close(&merge.sources[i]);
    if (good) {
        merge_results(&merge, result);
        result->totals = *instruction_writer_totals(&merge.writer);
        good = instruction_writer_finish(&merge.writer, end_status(result->status));
    }
    if (!good) {
        result->status = RUN_FAILED;
        result->error = error_is_set(&merge.error) ? merge.error : merge.writer.error;
    }
    result->bytes_out = output->offset;
    instruction_writer_close(&merge.writer);
    free(merge.sources);
}
