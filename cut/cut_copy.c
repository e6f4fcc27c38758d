#include "cut/cut_copy.h"

#include <string.h>

#include "common/call_table.h"
#include "common/pages.h"

/* A call of the trace. */
struct cut_call {
    const struct instruction *one;
    enum call_kind kind;
    uint64_t alignment, address;
    uint32_t stack;
    const uint64_t *touched; /* runs of pages, */
    size_t touched_count;
};

bool cut_copy_reserve(struct cut_copy *copy, uint64_t more)
{
    return pages_reserve(&copy->names, &copy->capacity, copy->live + more, INSTRUCTION_BLOCK_MAX,
                         sizeof *copy->names);
}

void cut_copy_close(struct cut_copy *copy)
{
    pages_unmap(copy->names, copy->capacity * sizeof *copy->names);
    pages_unmap(copy->residency, INSTRUCTION_BLOCK_PAYLOAD_MAX);
    copy->names = NULL;
    copy->residency = NULL;
}

/* ---- calls ---- */

/* Before a call is put: what belongs in front of it. */
static void cut_put_before(struct cut_copy *copy, const struct cut_call *call)
{
    struct instruction_writer *writer = &copy->writer;
    instruction_put_lane(writer, copy->lane);
    if (copy->freed_twice) instruction_put_freed_twice(writer);
    if (copy->has_ways) instruction_put_path(writer, copy->ways);
    instruction_put_stack(writer, call->stack);
    instruction_put_touched_runs(writer, call->touched, call->touched_count);
    copy->counts->calls++;
}

static void cut_begin(struct cut_copy *copy, const struct cut_call *call)
{
    const struct instruction *one = call->one;
    uint32_t *name = &copy->names[copy->live++];
    *name = INSTRUCTION_NO_REGISTER;
    if (!cut_is_chosen(copy->plan, copy->lane, one->size, call->stack)) return;
    cut_put_before(copy, call);
    if (one->opcode & INSTRUCTION_UNKNOWN)
        *name =
            instruction_put_realloc_unknown(&copy->writer, call->kind, one->size, call->address);
    else
        *name = instruction_put_allocation_with(&copy->writer, call->kind, one->size,
                                                call->alignment, call->address);
}

static void cut_resize(struct cut_copy *copy, const struct cut_call *call)
{
    const uint32_t name = copy->names[call->one->object];
    if (name == INSTRUCTION_NO_REGISTER) return;
    cut_put_before(copy, call);
    instruction_put_realloc(&copy->writer, call->kind, name, call->one->size, call->address);
}

static void cut_end(struct cut_copy *copy, const struct cut_call *call)
{
    const uint32_t name = copy->names[call->one->object];
    copy->names[call->one->object] = copy->names[--copy->live];
    if (name == INSTRUCTION_NO_REGISTER) return;
    cut_put_before(copy, call);
    if (copy->free_missed)
        instruction_put_missed_free(&copy->writer, name);
    else
        instruction_put_free_with(&copy->writer, call->kind, name, call->one->size,
                                  call->alignment);
}

/* A call that makes and ends nothing. */
static void cut_pass(struct cut_copy *copy, const struct cut_call *call, const uint64_t *operands)
{
    struct instruction_writer *writer = &copy->writer;
    const struct instruction *one = call->one;
    const unsigned shape = call_shapes[call->kind];
    const bool failed = one->opcode & INSTRUCTION_FAILED;
    const bool names = one->object != INSTRUCTION_NO_REGISTER; /* a realloc that failed */
    if (names ? copy->names[one->object] == INSTRUCTION_NO_REGISTER
              : !cut_is_chosen(copy->plan, copy->lane, one->size, call->stack))
        return;
    cut_put_before(copy, call);
    if (shape == SHAPE_HEAP)
        instruction_put_heap(writer, call->kind, one->operands, operands);
    else if (shape_is_allocation(shape))
        instruction_put_allocation_failed(writer, call->kind, one->size, call->alignment);
    else if (shape_is_free(shape))
        instruction_put_free_unknown(writer, call->kind, one->size, call->alignment);
    else if (names)
        instruction_put_realloc_failed(writer, copy->names[one->object], one->size);
    else if (failed)
        instruction_put_realloc_unknown_failed(writer, one->size);
}

static void cut_take_call(struct cut_copy *copy, const struct instruction_walk *walk,
                          const struct instruction *one, unsigned does)
{
    const struct instruction_batch *batch = walk->batch;
    const uint64_t *operands = batch->operands + one->operand_at;
    const unsigned number = instruction_number(one);
    const uint64_t before = copy->counts->calls;
    struct cut_call call = {.one = one,
                            .kind = (enum call_kind)number,
                            .alignment = shape_has_alignment(call_shapes[number]) ? operands[0] : 0,
                            .address =
                                batch->addresses != NULL ? batch->addresses[walk->at - 1] : 0,
                            .stack = instruction_walk_stack(walk)};
    if (does == INSTRUCTION_BEGINS || does == INSTRUCTION_RESIZES)
        call.touched_count = instruction_walk_touched(walk, one, &call.touched);
    switch (does) {
    case INSTRUCTION_BEGINS: cut_begin(copy, &call); break;
    case INSTRUCTION_RESIZES: cut_resize(copy, &call); break;
    case INSTRUCTION_ENDS: cut_end(copy, &call); break;
    default: cut_pass(copy, &call, operands); break;
    }
    copy->counts->left_out += copy->counts->calls == before;
    copy->has_ways = copy->free_missed = copy->freed_twice = false;
}

/* ---- what is no call ---- */

static void cut_tick(struct cut_copy *copy, const struct instruction_batch *batch)
{
    const struct instruction_tick *tick = copy->tick++;
    const uint64_t *operands = batch->operands + tick->operand_at;
    struct original_usage usage;
    instruction_batch_statistics(batch, tick, &copy->statistics);
    if (instruction_batch_usage(batch, tick, &usage))
        instruction_put_tick_with_usage(&copy->writer, operands[0], operands[1], operands[2],
                                        &usage,
                                        copy->plan->drops_statistics ? NULL : &copy->statistics);
    else
        instruction_put_tick(&copy->writer, operands[0], operands[1], operands[2]);
}

static void cut_take_other(struct cut_copy *copy, const struct instruction_batch *batch,
                           const struct instruction *one)
{
    struct instruction_writer *writer = &copy->writer;
    const uint64_t *operands = batch->operands + one->operand_at;
    const bool is_here = cut_ranges_have(&copy->plan->lanes, copy->lane);
    switch (one->opcode) {
    case INSTRUCTION_LANE: copy->lane = (uint32_t)operands[0]; return;
    case INSTRUCTION_TICK: cut_tick(copy, batch); return;
    case INSTRUCTION_LOST: instruction_put_lost(writer, operands[0], operands[1]); return;
    case INSTRUCTION_FREED_TWICE: copy->freed_twice = true; return;
    case INSTRUCTION_FREE_MISSED: copy->free_missed = true; return;
    case INSTRUCTION_PATH:
        copy->has_ways = true;
        copy->ways = operands[0];
        return;
    default: break;
    }
    if (!is_here) return;
    if (one->opcode == INSTRUCTION_THREAD_BEGIN || one->opcode == INSTRUCTION_THREAD_END ||
        one->opcode == INSTRUCTION_THREAD_CACHE_DELETED)
        instruction_put_lane(writer, copy->lane);
    if (one->opcode == INSTRUCTION_THREAD_BEGIN) instruction_put_thread_begin(writer, operands[0]);
    if (one->opcode == INSTRUCTION_THREAD_END) instruction_put_thread_end(writer);
    if (one->opcode == INSTRUCTION_THREAD_CACHE_DELETED)
        instruction_put_thread_cache_deleted(writer);
}

void cut_copy_instruction(struct cut_copy *copy, const struct instruction_walk *walk,
                          const struct instruction *one)
{
    const unsigned does = instruction_does[one->opcode];
    if (does == INSTRUCTION_OTHER)
        cut_take_other(copy, walk->batch, one);
    else
        cut_take_call(copy, walk, one, does);
}

/* ---- the address space ---- */

void cut_copy_mapping(struct cut_copy *copy, const struct mapping_record *record)
{
    struct mapping_record one = *record;
    one.has_lane = false; /* calls of the thread are counted from the beginning of the trace */
    one.calls = 0;
    if (copy->mappings_count == CUT_MAPPINGS ||
        copy->paths_bytes + one.name_bytes > sizeof copy->paths)
        cut_copy_put_mappings(copy);
    if (one.name_bytes > 0) {
        one.name = memcpy(copy->paths + copy->paths_bytes, record->name, one.name_bytes);
        copy->paths_bytes += one.name_bytes;
    }
    copy->mappings[copy->mappings_count++] = one;
}

void cut_copy_put_mappings(struct cut_copy *copy)
{
    if (copy->mappings_count > 0)
        instruction_put_mappings(&copy->writer, copy->mappings, copy->mappings_count);
    copy->mappings_count = copy->paths_bytes = 0;
}

void cut_copy_residency(struct cut_copy *copy, const struct residency *residency, const uint8_t *at,
                        const uint8_t *end)
{
    if (copy->residency == NULL) copy->residency = pages_map(INSTRUCTION_BLOCK_PAYLOAD_MAX);
    if (copy->residency == NULL ||
        (size_t)(end - at) > INSTRUCTION_BLOCK_PAYLOAD_MAX - RESIDENCY_BYTES_MAX)
        return;
    cut_copy_put_mappings(copy);
    uint8_t *to = residency_put(copy->residency, residency);
    memcpy(to, at, (size_t)(end - at));
    instruction_put_residency(&copy->writer, copy->residency,
                              (size_t)(to - copy->residency) + (size_t)(end - at));
}
