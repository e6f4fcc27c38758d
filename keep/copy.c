#include "keep/copy.h"

#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/pages.h"
#include "stream/residency.h"

/* How many instructions ahead entries are fetched into the cache. */
enum { COPY_NAME_AHEAD = 24, COPY_OBJECT_AHEAD = 16, COPY_ORDER_AHEAD = 8 };

/* A call, and what goes with it. */
struct copy_call {
    const struct instruction *one;
    const uint64_t *operands;
    uint64_t address;
    uint32_t stack;
    unsigned kind;
};

static uint64_t copy_alignment(const struct copy_call *call)
{
    return shape_has_alignment(call_shapes[call->kind]) ? call->operands[0] : 0;
}

/* Before a call of the current lane is put. */
static void copy_put_before(struct copy *copy, uint32_t stack)
{
    instruction_put_lane(copy->writer, copy->lane);
    if (copy->has_ways) instruction_put_path(copy->writer, copy->ways);
    if (copy->freed_twice) instruction_put_freed_twice(copy->writer);
    copy->has_ways = copy->freed_twice = false;
    instruction_put_stack(copy->writer, stack);
}

static uint32_t copy_put_object(struct copy *copy, const struct copy_call *call)
{
    if (copy->writer == NULL) return 0;
    copy_put_before(copy, call->stack);
    if (call->one->opcode & INSTRUCTION_UNKNOWN)
        return instruction_put_realloc_unknown(copy->writer, call->kind, call->one->size,
                                               call->address);
    return instruction_put_allocation_with(copy->writer, call->kind, call->one->size,
                                           copy_alignment(call), call->address);
}

static void copy_resize_object(struct copy *copy, const struct copy_call *call)
{
    if (copy->writer == NULL) return;
    copy_put_before(copy, call->stack);
    instruction_put_realloc(copy->writer, call->kind, copy->names[call->one->object],
                            call->one->size, call->address);
}

static void copy_end_object(struct copy *copy, const struct copy_call *call)
{
    const uint32_t name = copy->names[call->one->object];
    const bool missed = copy->free_missed;
    copy->names[call->one->object] = copy->names[--copy->live];
    copy->free_missed = false;
    if (copy->writer == NULL) return;
    copy_put_before(copy, call->stack);
    if (missed)
        instruction_put_missed_free(copy->writer, name);
    else
        instruction_put_free_with(copy->writer, call->kind, name, call->one->size,
                                  copy_alignment(call));
}

static void copy_pass_failed(struct copy *copy, const struct copy_call *call)
{
    const struct instruction *one = call->one;
    if (shape_is_allocation(call_shapes[call->kind]))
        instruction_put_allocation_failed(copy->writer, call->kind, one->size,
                                          copy_alignment(call));
    else if (one->opcode & INSTRUCTION_UNKNOWN)
        instruction_put_realloc_unknown_failed(copy->writer, one->size);
    else
        instruction_put_realloc_failed(copy->writer, copy->names[one->object], one->size);
}

/* A call that neither makes an object nor changes or ends one. */
static void copy_pass_call(struct copy *copy, const struct copy_call *call)
{
    if (copy->writer == NULL) return;
    copy_put_before(copy, call->stack);
    if (call->one->opcode & INSTRUCTION_FAILED)
        copy_pass_failed(copy, call);
    else if (call_shapes[call->kind] == SHAPE_HEAP)
        instruction_put_heap(copy->writer, call->kind, call->one->operands, call->operands);
    else
        instruction_put_free_unknown(copy->writer, call->kind, call->one->size,
                                     copy_alignment(call));
}

static void copy_take_call(struct copy *copy, const struct copy_call *call, unsigned does)
{
    switch (does) {
    case INSTRUCTION_BEGINS: copy->names[copy->live++] = copy_put_object(copy, call); break;
    case INSTRUCTION_RESIZES: copy_resize_object(copy, call); break;
    case INSTRUCTION_ENDS: copy_end_object(copy, call); break;
    default: copy_pass_call(copy, call); break;
    }
}

/* ---- other instructions ---- */

static void copy_take_tick(struct copy *copy, const struct instruction_batch *batch,
                           const struct instruction_tick *tick, const uint64_t *operands)
{
    struct original_usage usage;
    const bool has_usage = instruction_batch_usage(batch, tick, &usage);
    instruction_batch_statistics(batch, tick, &copy->statistics);
    copy->ns += operands[0];
    copy->rss_bytes = operands[1];
    copy->heap_bytes = operands[2];
    if (copy->writer == NULL) return;
    if (has_usage)
        instruction_put_tick_with_usage(copy->writer, operands[0], operands[1], operands[2], &usage,
                                        &copy->statistics);
    else
        instruction_put_tick(copy->writer, operands[0], operands[1], operands[2]);
}

/* What is said of the next call. */
static void copy_note(struct copy *copy, unsigned number, const uint64_t *operands)
{
    switch (number) {
    case INSTRUCTION_LANE: copy->lane = (uint32_t)operands[0]; break;
    case INSTRUCTION_FREE_MISSED: copy->free_missed = true; break;
    case INSTRUCTION_FREED_TWICE: copy->freed_twice = true; break;
    case INSTRUCTION_PATH:
        copy->ways = operands[0];
        copy->has_ways = true;
        break;
    default: break;
    }
}

/* All but ticks, usage and statistics. */
static void copy_take_other(struct copy *copy, unsigned number, const uint64_t *operands)
{
    struct instruction_writer *writer = copy->writer;
    copy_note(copy, number, operands);
    if (writer == NULL) return;
    switch (number) {
    case INSTRUCTION_THREAD_BEGIN:
        instruction_put_lane(writer, copy->lane);
        instruction_put_thread_begin(writer, operands[0]);
        break;
    case INSTRUCTION_THREAD_END:
        instruction_put_lane(writer, copy->lane);
        instruction_put_thread_end(writer);
        break;
    case INSTRUCTION_THREAD_CACHE_DELETED:
        instruction_put_lane(writer, copy->lane);
        instruction_put_thread_cache_deleted(writer);
        break;
    case INSTRUCTION_LOST: instruction_put_lost(writer, operands[0], operands[1]); break;
    case INSTRUCTION_BASE_END: instruction_put_base_end(writer); break;
    default: break;
    }
}

/* ---- all of it ---- */

bool copy_reserve(struct copy *copy, uint64_t live)
{
    return pages_reserve(&copy->names, &copy->capacity, live, INSTRUCTION_BLOCK_MAX,
                         sizeof *copy->names);
}

/* Of the objects that calls a little further on will end. */
static inline __attribute__((always_inline)) void copy_look_ahead(
    const struct copy *copy, const struct instruction_walk *walk)
{
    const uint64_t far = instruction_walk_record_ahead(walk, COPY_NAME_AHEAD);
    const uint64_t near = instruction_walk_record_ahead(walk, COPY_OBJECT_AHEAD);
    const uint64_t next = instruction_walk_record_ahead(walk, COPY_ORDER_AHEAD);
    if (far < copy->live) __builtin_prefetch(&copy->names[far]);
    if (copy->writer == NULL || near >= copy->live || next >= copy->live) return;
    __builtin_prefetch(&copy->writer->objects[copy->names[near]]);
    const uint32_t index = copy->writer->objects[copy->names[next]].index;
    __builtin_prefetch(&copy->writer->registers.order[index]);
}

bool copy_take(struct copy *copy, const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    const struct instruction_tick *tick = batch->ticks;
    const uint64_t *addresses = batch->addresses;
    const struct instruction *record = walk.record;
    struct instruction one;
    if (!copy_reserve(copy, copy->live + batch->count)) return false;
    while (instruction_walk_next(&walk, &one)) {
        if (walk.record != record) copy_look_ahead(copy, &walk);
        record = walk.record;
        const unsigned number = instruction_number(&one), does = instruction_does[one.opcode];
        const struct copy_call call = {&one, batch->operands + one.operand_at,
                                       addresses != NULL ? addresses[walk.at - 1] : 0,
                                       instruction_walk_stack(&walk), number};
        if (does != INSTRUCTION_OTHER) {
            copy_take_call(copy, &call, does);
            copy->all_calls += !batch->is_base;
            copy->calls[number] += !batch->is_base;
        } else if (number == INSTRUCTION_TICK) {
            copy_take_tick(copy, batch, tick++, call.operands);
        } else {
            copy_take_other(copy, number, call.operands);
        }
    }
    return true;
}

/* ---- what comes between batches ---- */

void copy_take_definition(struct copy *copy, const struct stack_definition *definition)
{
    if (copy->writer != NULL) instruction_put_definition(copy->writer, definition);
}

void copy_take_mapping(struct copy *copy, const struct mapping_record *record)
{
    if (copy->writer != NULL) instruction_put_mappings(copy->writer, record, 1);
}

void copy_take_residency(struct copy *copy, const struct residency *residency, const uint8_t *at,
                         const uint8_t *end)
{
    const size_t areas = (size_t)(end - at);
    uint8_t *payload = copy->writer != NULL ? malloc(RESIDENCY_BYTES_MAX + areas) : NULL;
    if (payload == NULL) return;
    uint8_t *behind = residency_put(payload, residency);
    memcpy(behind, at, areas);
    instruction_put_residency(copy->writer, payload, (size_t)(behind - payload) + areas);
    free(payload);
}

void copy_free(struct copy *copy)
{
    pages_unmap(copy->names, copy->capacity * sizeof *copy->names);
    copy->names = NULL;
    copy->capacity = copy->live = 0;
}
