#include "stream/instruction_writer.h"

#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/checksum.h"
#include "stream/mapping.h"
#include "stream/touched.h"

/* The most that one instruction can put into a column (5): the operands of a tick, and one address.
 */
#define OPERANDS_BYTES_MAX (INSTRUCTION_OPERANDS_MAX * VARINT_BYTES_MAX)
#define ADDRESS_BYTES_MAX  VARINT_BYTES_MAX
#define STACK_BYTES_MAX    5

/* What precedes the columns: three numbers, and in a stream with stacks another one. */
#define PAYLOAD_HEAD_BYTES (4 * VARINT_BYTES_MAX + VARINT_SLACK)

/* The mapping: what precedes the columns, and the columns, with the most that each can take.
 */
#define OPERANDS_ROOM  (INSTRUCTION_BLOCK_MAX * OPERANDS_BYTES_MAX + VARINT_SLACK)
#define ADDRESSES_ROOM (INSTRUCTION_BLOCK_MAX * ADDRESS_BYTES_MAX + VARINT_SLACK)
#define STACKS_ROOM    (INSTRUCTION_BLOCK_MAX * STACK_BYTES_MAX + VARINT_SLACK)
/* A definition is the longer of a piece of text and the most codes, with some numbers. */
#define DEFINITION_BYTES_MAX \
    ((8 + STACK_CODES_MAX) * VARINT_BYTES_MAX + STACK_PIECE_BYTES + VARINT_SLACK)
#define DEFINITIONS_ROOM (UINT32_C(1) << 18)
#define MAPPING_BYTES                                                                  \
    (PAYLOAD_HEAD_BYTES + INSTRUCTION_BLOCK_MAX * 3 + OPERANDS_ROOM + ADDRESSES_ROOM + \
     STACKS_ROOM + DEFINITIONS_ROOM)

/* Ensure that a reader need not refuse a block that the writer can fill. An allocation or a realloc
 * with an address and a stack has two operands besides. */
_Static_assert(OPERANDS_BYTES_MAX >= 2 * VARINT_BYTES_MAX + ADDRESS_BYTES_MAX + STACK_BYTES_MAX,
               "a tick is longest");
_Static_assert(STACK_NODES_MAX *STACK_BYTES_MAX <
                   STACK_CODES_MAX * VARINT_BYTES_MAX + STACK_PIECE_BYTES,
               "nodes are not the longest definition");
_Static_assert(INSTRUCTION_BLOCK_MAX *(3 + OPERANDS_BYTES_MAX) + PAYLOAD_HEAD_BYTES <=
                   INSTRUCTION_BLOCK_PAYLOAD_MAX,
               "a full block of the longest instructions fits into a payload");

/* Makes room for the allocations of a block. `objects` comes last: it is never the larger one. */
static bool writer_reserve(struct instruction_writer *writer)
{
    struct register_order *registers = &writer->registers;
    return register_order_reserve(registers, INSTRUCTION_BLOCK_MAX) &&
           pages_reserve(&writer->large_sizes, &writer->large_sizes_count, registers->capacity,
                         registers->capacity, sizeof *writer->large_sizes) &&
           pages_reserve(&writer->objects, &writer->objects_count, registers->capacity,
                         registers->capacity, sizeof *writer->objects);
}

static void writer_start_block(struct instruction_writer *writer)
{
    writer->count = 0;
    writer->operands_end = writer->operands_start;
    writer->addresses_end = writer->addresses_start;
    writer->stacks_end = writer->stacks_start;
    writer->last_address = 0;
    writer->peak_bytes = 0;
    if (!writer_reserve(writer)) error_set_system(&writer->error, "no memory for registers");
    /* After a failure registers mean nothing, but they must stay inside the tables whatever comes:
     * a block takes or releases at most half of the smallest ones. */
    if (error_is_set(&writer->error)) writer->registers.live = writer->objects_count / 2;
}

static bool writer_write(struct instruction_writer *writer, const void *data, size_t bytes)
{
    if (error_is_set(&writer->error)) return false;
    if (!output_write(writer->output, data, bytes)) writer->error = writer->output->error;
    return !error_is_set(&writer->error);
}

/* A block header and its payload (4.2). */
static void writer_write_block(struct instruction_writer *writer, const char *magic, uint32_t count,
                               const uint8_t *payload, size_t bytes)
{
    uint8_t header[INSTRUCTION_BLOCK_HEADER_BYTES];
    memcpy(header, magic, 4);
    bytes_put32(header + 4, (uint32_t)bytes);
    bytes_put32(header + 8, count);
    bytes_put32(header + 12, checksum_of_two(header, 12, payload, bytes));
    writer_write(writer, header, sizeof header);
    writer_write(writer, payload, bytes);
}

/* ---- blocks ---- */

/* Moves a column to where the one before it ends. Returns its own end. */
static uint8_t *writer_join(uint8_t *to, const uint8_t *column, size_t bytes)
{
    if (to != column) memmove(to, column, bytes);
    return to + bytes;
}

/* Joins the columns, after the numbers that precede them (4.3). The first column has room before it
 * for these, and no column moves over one that has not moved yet. Returns the payload, whose end is
 * *end. */
static uint8_t *writer_join_columns(struct instruction_writer *writer, uint8_t **end)
{
    const size_t count = writer->count;
    const size_t operands = (size_t)(writer->operands_end - writer->operands_start);
    const size_t addresses = (size_t)(writer->addresses_end - writer->addresses_start);
    const size_t stacks = (size_t)(writer->stacks_end - writer->stacks_start);
    uint8_t head[PAYLOAD_HEAD_BYTES];
    uint8_t *head_end = varint_put(head, writer->live_bytes);
    head_end = varint_put(head_end, writer->peak_bytes);
    head_end = varint_put(head_end, operands);
    if (writer->features & INSTRUCTION_FEATURE_STACKS) head_end = varint_put(head_end, addresses);
    size_t head_bytes = (size_t)(head_end - head);
    uint8_t *payload = writer->opcodes - head_bytes;
    memcpy(payload, head, head_bytes);
    uint8_t *to = writer_join(writer->opcodes + count, writer->low, count);
    to = writer_join(to, writer->high, count);
    to = writer_join(to, writer->operands_start, operands);
    to = writer_join(to, writer->addresses_start, addresses);
    *end = writer_join(to, writer->stacks_start, stacks);
    return payload;
}

/* The definitions so far (4.6). */
static void writer_end_definitions(struct instruction_writer *writer)
{
    if (writer->definitions == 0) return;
    writer_write_block(writer, INSTRUCTION_STACKS_MAGIC, writer->definitions,
                       writer->definitions_start,
                       (size_t)(writer->definitions_end - writer->definitions_start));
    writer->definitions_end = writer->definitions_start;
    writer->definitions = 0;
}

void instruction_writer_end_block(struct instruction_writer *writer)
{
    const size_t count = writer->count;
    writer_end_definitions(writer);
    if (count > 0) {
        uint8_t *end;
        (writer->in_base ? instruction_totals_add_base
                         : instruction_totals_add)(&writer->totals, writer->opcodes, count);
        uint8_t *payload = writer_join_columns(writer, &end);
        writer_write_block(writer, INSTRUCTION_BLOCK_MAGIC, (uint32_t)count, payload,
                           (size_t)(end - payload));
    }
    writer->totals.live = writer->registers.live;
    writer->totals.registers = writer->registers.high;
    writer_start_block(writer);
}

/* ---- mappings and residency (4.7, 4.8) ---- */

/* A block of mappings is encoded where the columns would be, which are empty then. */
#define MAPPINGS_ROOM (UINT32_C(1) << 19)
_Static_assert(MAPPINGS_ROOM <= INSTRUCTION_BLOCK_MAX * 3 + OPERANDS_ROOM &&
                   MAPPINGS_ROOM <= INSTRUCTION_BLOCK_PAYLOAD_MAX,
               "the columns have room for a block of mappings");

void instruction_put_mappings(struct instruction_writer *writer,
                              const struct mapping_record *records, size_t count)
{
    size_t done = 0;
    instruction_writer_end_block(writer);
    while (done < count) {
        uint8_t *const from = writer->opcodes, *to = from;
        uint64_t latest = 0;
        uint32_t some = 0;
        while (done + some < count && some < INSTRUCTION_BLOCK_MAX &&
               to + MAPPING_BYTES_MAX <= from + MAPPINGS_ROOM)
            to = mapping_record_put(to, &records[done + some++], &latest);
        writer_write_block(writer, INSTRUCTION_MAPPINGS_MAGIC, some, from, (size_t)(to - from));
        writer->totals.mappings += some;
        done += some;
    }
}

void instruction_put_residency(struct instruction_writer *writer, const uint8_t *payload,
                               size_t bytes)
{
    instruction_writer_end_block(writer);
    writer_write_block(writer, INSTRUCTION_RESIDENCY_MAGIC, 1, payload, bytes);
    writer->totals.residencies++;
}

static void writer_write_header(struct instruction_writer *writer,
                                const struct instruction_header *header)
{
    uint8_t fixed[INSTRUCTION_HEADER_BYTES] = {0};
    size_t metadata = header->metadata_bytes;
    if (metadata > INSTRUCTION_METADATA_MAX) {
        metadata = INSTRUCTION_METADATA_MAX;
        while (metadata > 0 && header->metadata[metadata - 1] != '\n')
            metadata--;
    }
    memcpy(fixed, INSTRUCTION_MAGIC, 8);
    bytes_put16(fixed + 8, INSTRUCTION_VERSION_MAJOR);
    bytes_put16(fixed + 10, INSTRUCTION_VERSION_MINOR);
    bytes_put32(fixed + 12, (uint32_t)metadata);
    bytes_put64(fixed + 16, header->features);
    bytes_put64(fixed + 24, header->info);
    bytes_put32(fixed + 32,
                checksum_of_two(fixed, 32, (const uint8_t *)header->metadata, metadata));
    writer_write(writer, fixed, sizeof fixed);
    writer_write(writer, header->metadata, metadata);
}

bool instruction_writer_open(struct instruction_writer *writer, struct output *output,
                             const struct instruction_header *header)
{
    *writer = (struct instruction_writer){.output = output};
    writer->features =
        header->features & INSTRUCTION_FEATURES_KNOWN & ~(uint64_t)INSTRUCTION_FEATURE_BASE;
    writer->in_base = (header->features & INSTRUCTION_FEATURE_BASE) != 0;
    writer->block = (uint8_t *)pages_map(MAPPING_BYTES);
    if (writer->block == NULL) return error_set_system(&writer->error, "no memory for a block");
    writer->opcodes = writer->block + PAYLOAD_HEAD_BYTES;
    writer->low = writer->opcodes + INSTRUCTION_BLOCK_MAX;
    writer->high = writer->low + INSTRUCTION_BLOCK_MAX;
    writer->operands_start = writer->high + INSTRUCTION_BLOCK_MAX;
    writer->addresses_start = writer->operands_start + OPERANDS_ROOM;
    writer->stacks_start = writer->addresses_start + ADDRESSES_ROOM;
    writer->definitions_end = writer->definitions_start = writer->stacks_start + STACKS_ROOM;
    writer_start_block(writer);
    if (writer->objects_count == 0) return false; /* nothing could be put at all */
    writer_write_header(writer, header);
    return !error_is_set(&writer->error);
}

bool instruction_writer_flush(struct instruction_writer *writer)
{
    instruction_writer_end_block(writer);
    if (!error_is_set(&writer->error) && !output_flush(writer->output))
        writer->error = writer->output->error;
    return !error_is_set(&writer->error);
}

const struct instruction_totals *instruction_writer_totals(struct instruction_writer *writer)
{
    instruction_writer_end_block(writer);
    return &writer->totals;
}

bool instruction_writer_finish(struct instruction_writer *writer, enum instruction_status status)
{
    instruction_writer_end_block(writer);
    const struct instruction_totals *totals = &writer->totals;
    uint8_t payload[(7 + 2 * CALL_KINDS) * VARINT_BYTES_MAX + VARINT_SLACK];
    uint64_t kinds = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        kinds += totals->by_kind[kind] != 0;

    uint8_t *end = varint_put(payload, status);
    end = varint_put(end, totals->live);
    end = varint_put(end, totals->registers);
    end = varint_put(end, totals->threads);
    end = varint_put(end, totals->lost_events);
    end = varint_put(end, totals->freed_twice);
    end = varint_put(end, kinds);
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (totals->by_kind[kind] == 0) continue;
        end = varint_put(end, kind);
        end = varint_put(end, totals->by_kind[kind]);
    }
    writer_write_block(writer, INSTRUCTION_BLOCK_MAGIC, 0, payload, (size_t)(end - payload));
    return instruction_writer_flush(writer);
}

void instruction_writer_close(struct instruction_writer *writer)
{
    pages_unmap(writer->objects, writer->objects_count * sizeof *writer->objects);
    pages_unmap(writer->large_sizes, writer->large_sizes_count * sizeof *writer->large_sizes);
    register_order_free(&writer->registers);
    pages_unmap(writer->block, MAPPING_BYTES);
    writer->block = NULL;
}

/* ---- what is rare ---- */

/* An opcode without a value. */
static void writer_put_numbers(struct instruction_writer *writer, unsigned opcode, unsigned count,
                               const uint64_t *numbers)
{
    instruction_put_opcode(writer, opcode, 0);
    for (unsigned i = 0; i < count; i++)
        instruction_put_operand(writer, numbers[i]);
    instruction_put_end(writer);
}

uint32_t instruction_put_allocation_with(struct instruction_writer *writer, enum call_kind kind,
                                         uint64_t size, uint64_t alignment, uint64_t address)
{
    instruction_put_opcode(writer, kind, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) instruction_put_operand(writer, alignment);
    return instruction_end_allocation(writer, size, address);
}

void instruction_put_allocation_failed(struct instruction_writer *writer, enum call_kind kind,
                                       uint64_t size, uint64_t alignment)
{
    instruction_put_opcode(writer, kind | INSTRUCTION_FAILED, size);
    if (call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED) instruction_put_operand(writer, alignment);
    instruction_put_end(writer);
}

void instruction_put_realloc_failed(struct instruction_writer *writer, uint32_t object,
                                    uint64_t size)
{
    instruction_put_opcode(writer, CALL_REALLOC_MOVED | INSTRUCTION_FAILED,
                           instruction_position(writer, object));
    instruction_put_operand(writer, size);
    instruction_put_end(writer);
}

uint32_t instruction_put_realloc_unknown(struct instruction_writer *writer, enum call_kind kind,
                                         uint64_t size, uint64_t address)
{
    instruction_put_opcode(writer, kind | INSTRUCTION_UNKNOWN, 0);
    instruction_put_operand(writer, size);
    instruction_put_address(writer, address);
    uint32_t taken = instruction_take_register(writer, size);
    instruction_put_end(writer);
    return taken;
}

void instruction_put_realloc_unknown_failed(struct instruction_writer *writer, uint64_t size)
{
    instruction_put_opcode(writer, CALL_REALLOC_MOVED | INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN,
                           0);
    instruction_put_operand(writer, size);
    instruction_put_end(writer);
}

/* The size and the alignment, as far as a free of this kind has them. */
static void put_given(struct instruction_writer *writer, enum call_kind kind, uint64_t size,
                      uint64_t alignment)
{
    if (shape_has_size(call_shapes[kind])) instruction_put_operand(writer, size);
    if (shape_has_alignment(call_shapes[kind])) instruction_put_operand(writer, alignment);
}

void instruction_put_free_with(struct instruction_writer *writer, enum call_kind kind,
                               uint32_t object, uint64_t size, uint64_t alignment)
{
    instruction_put_opcode(writer, kind, instruction_position(writer, object));
    put_given(writer, kind, size, alignment);
    instruction_end_free(writer, object);
}

void instruction_put_free_unknown(struct instruction_writer *writer, enum call_kind kind,
                                  uint64_t size, uint64_t alignment)
{
    instruction_put_opcode(writer, kind | INSTRUCTION_UNKNOWN, 0);
    put_given(writer, kind, size, alignment);
    instruction_put_free_stack(writer);
    instruction_put_end(writer);
}

/* ---- what was resident of an object (5.3) ---- */

void instruction_put_touched_runs(struct instruction_writer *writer, const uint64_t *runs,
                                  size_t count)
{
    if (writer->count + count >= INSTRUCTION_BLOCK_MAX) instruction_writer_end_block(writer);
    for (size_t i = 0; i < count; i++)
        writer_put_numbers(writer, INSTRUCTION_TOUCHED, 2, &runs[2 * i]);
}

void instruction_put_touched(struct instruction_writer *writer, const struct touched *touched)
{
    uint64_t runs[2 * TOUCHED_RUNS_MAX] = {0};
    for (uint32_t i = 0; i < touched->count; i++) {
        runs[2 * i] = touched->runs[i].skipped;
        runs[2 * i + 1] = touched->runs[i].resident;
    }
    instruction_put_touched_runs(writer, runs, touched->count > 0 ? touched->count : 1);
}

/* ---- call stacks (4.6) ---- */

static uint8_t *instruction_writer_put_codes(uint8_t *to, const struct stack_definition *codes)
{
    uint64_t before = 0;
    to = varint_put(varint_put(to, codes->number), codes->of);
    for (uint32_t i = 0; i < codes->count; i++) {
        to = varint_put(to, zigzag((int64_t)(codes->offsets[i] - before)));
        before = codes->offsets[i];
    }
    return to;
}

static uint8_t *instruction_writer_put_nodes(uint8_t *to, const struct stack_definition *nodes)
{
    to = varint_put(varint_put(to, nodes->number), nodes->of);
    for (uint32_t i = 0; i < nodes->count; i++)
        to = varint_put(to, nodes->codes[i]);
    return to;
}

static uint8_t *instruction_writer_put_piece(uint8_t *to, const struct stack_definition *text)
{
    const uint32_t bytes = stack_piece_bytes(text);
    to = varint_put(varint_put(varint_put(to, text->number), text->length), text->offset);
    memcpy(to, text->piece, bytes);
    return to + bytes;
}

static uint8_t *instruction_writer_put_module(uint8_t *to, const struct stack_definition *module)
{
    to = varint_put(varint_put(to, module->number), module->start);
    return varint_put(varint_put(to, module->end - module->start), module->bias);
}

void instruction_put_definition(struct instruction_writer *writer,
                                const struct stack_definition *definition)
{
    uint8_t *to = varint_put(writer->definitions_end, stack_definition_head(definition));
    switch (definition->what) {
    case STACK_MODULE: to = instruction_writer_put_module(to, definition); break;
    case STACK_TEXT: to = instruction_writer_put_piece(to, definition); break;
    case STACK_CODES: to = instruction_writer_put_codes(to, definition); break;
    case STACK_NODES: to = instruction_writer_put_nodes(to, definition); break;
    default: to = varint_put(to, definition->number);
    }
    writer->definitions_end = to;
    writer->definitions++;
    if (writer->definitions == INSTRUCTION_DEFINITIONS_MAX ||
        to + DEFINITION_BYTES_MAX > writer->definitions_start + DEFINITIONS_ROOM)
        writer_end_definitions(writer);
}

/* ---- other instructions ---- */

void instruction_put_heap(struct instruction_writer *writer, enum call_kind kind, unsigned count,
                          const uint64_t *numbers)
{
    const uint64_t second = count > 1 ? numbers[1] : 0;
    writer_put_numbers(writer, kind, 1 + count,
                       (uint64_t[]){count, count > 0 ? numbers[0] : 0, second});
}

void instruction_put_lane_change(struct instruction_writer *writer, uint64_t lane)
{
    writer->lane = lane;
    writer_put_numbers(writer, INSTRUCTION_LANE, 1, &lane);
}

void instruction_put_base_end(struct instruction_writer *writer)
{
    writer_put_numbers(writer, INSTRUCTION_BASE_END, 0, NULL);
    instruction_writer_end_block(writer);
    writer->totals.base_live = writer->totals.live;
    writer->totals.base_live_bytes = writer->live_bytes;
    writer->in_base = false;
}

void instruction_put_thread_begin(struct instruction_writer *writer, uint64_t thread)
{
    writer_put_numbers(writer, INSTRUCTION_THREAD_BEGIN, 1, &thread);
}

void instruction_put_thread_end(struct instruction_writer *writer)
{
    writer_put_numbers(writer, INSTRUCTION_THREAD_END, 0, NULL);
}

void instruction_put_thread_cache_deleted(struct instruction_writer *writer)
{
    writer_put_numbers(writer, INSTRUCTION_THREAD_CACHE_DELETED, 0, NULL);
}

void instruction_put_tick(struct instruction_writer *writer, uint64_t elapsed_ns,
                          uint64_t rss_bytes, uint64_t heap_bytes)
{
    writer_put_numbers(writer, INSTRUCTION_TICK, 4,
                       (uint64_t[]){elapsed_ns, rss_bytes, heap_bytes, writer->live_bytes});
}

static void instruction_writer_put_statistics(struct instruction_writer *writer,
                                              const struct original_statistics *statistics)
{
    struct original_statistics *before = &writer->statistics;
    for (unsigned i = 0; i < statistics->count; i++) {
        if (i < before->count && before->values[i] == statistics->values[i]) continue;
        writer_put_numbers(writer, INSTRUCTION_STATISTIC, 2,
                           (uint64_t[]){i, statistics->values[i]});
    }
    if (statistics->count > 0) *before = *statistics;
}

/* All in one block: a reader looks no further. */
void instruction_put_tick_with_usage(struct instruction_writer *writer, uint64_t elapsed_ns,
                                     uint64_t rss_bytes, uint64_t heap_bytes,
                                     const struct original_usage *usage,
                                     const struct original_statistics *statistics)
{
    if (writer->count + 2 + ORIGINAL_STATISTICS_MAX > INSTRUCTION_BLOCK_MAX)
        instruction_writer_end_block(writer);
    if (statistics != NULL) instruction_writer_put_statistics(writer, statistics);
    writer_put_numbers(writer, INSTRUCTION_USAGE, 4,
                       (uint64_t[]){usage->recorder_bytes, usage->user_ns, usage->system_ns,
                                    usage->peak_rss_bytes});
    instruction_put_tick(writer, elapsed_ns, rss_bytes, heap_bytes);
}

void instruction_put_path(struct instruction_writer *writer, uint64_t ways)
{
    writer_put_numbers(writer, INSTRUCTION_PATH, 1, &ways);
}

void instruction_put_lost(struct instruction_writer *writer, uint64_t lane, uint64_t events)
{
    writer->totals.lost_events += events;
    writer_put_numbers(writer, INSTRUCTION_LOST, 2, (uint64_t[]){lane, events});
}

void instruction_put_freed_twice(struct instruction_writer *writer)
{
    writer_put_numbers(writer, INSTRUCTION_FREED_TWICE, 0, NULL);
}

void instruction_put_missed_free(struct instruction_writer *writer, uint32_t object)
{
    writer_put_numbers(writer, INSTRUCTION_FREE_MISSED, 0, NULL);
    instruction_put_free(writer, CALL_FREE, object);
}
