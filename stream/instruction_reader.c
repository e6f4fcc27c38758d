#include "stream/instruction_reader.h"

#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/checksum.h"
#include "stream/magic.h"
#include "stream/varint.h"

const struct error_kind instruction_errors[] = {INSTRUCTION_ERROR_LIST(ERROR_LIST_KIND)};

#define DOES_SHAPE_ALLOCATION                       INSTRUCTION_BEGINS
#define DOES_SHAPE_ALLOCATION_ALIGNED               INSTRUCTION_BEGINS
#define DOES_SHAPE_REALLOC                          INSTRUCTION_RESIZES
#define DOES_SHAPE_FREE                             INSTRUCTION_ENDS
#define DOES_SHAPE_FREE_SIZED                       INSTRUCTION_ENDS
#define DOES_SHAPE_FREE_ALIGNED                     INSTRUCTION_ENDS
#define DOES_SHAPE_FREE_SIZED_ALIGNED               INSTRUCTION_ENDS
#define DOES_SHAPE_HEAP                             INSTRUCTION_CALLS
#define DOES_CALL(number, identifier, name, shape)  [(number)] = DOES_SHAPE_##shape,
#define DOES_OTHER(number, identifier, name, count) [(number)] = INSTRUCTION_OTHER,
const uint8_t instruction_does[256] = {
    CALL_KIND_LIST(DOES_CALL) INSTRUCTION_LIST(DOES_OTHER)
        /* The rest, failed calls and frees of unknown objects, are INSTRUCTION_CALLS. */
        [CALL_REALLOC_MOVED | INSTRUCTION_UNKNOWN] = INSTRUCTION_BEGINS,
    [CALL_REALLOC_IN_PLACE | INSTRUCTION_UNKNOWN] = INSTRUCTION_BEGINS,
};

_Static_assert(INSTRUCTION_BLOCK_MAX *INSTRUCTION_OPERANDS_MAX <= UINT16_MAX + 1,
               "operand_at reaches every operand of a block");

/* No object has this size (INSTRUCTIONS.md 3). */
#define SIZE_NEVER UINT64_MAX

/* Instructions that are looked at together. */
#define GROUP 16u

/* Values in groups are below this: their upper byte is not all ones. */
#define VALUES_OF_GROUPS (INSTRUCTION_ESCAPE & 0xff00u)

_Static_assert(INSTRUCTION_BLOCK_MAX % GROUP == 0, "a full block has no more than whole groups");
_Static_assert(INSTRUCTION_BATCH_SLACK >= GROUP && INPUT_SLACK >= GROUP + VARINT_SLACK,
               "the columns of a block may be copied in whole groups");

/* A column of integers: what is left of it. */
struct column {
    const uint8_t *next, *end;
};

/* A block while it is decoded. One that is refused has not been counted. */
struct block {
    uint64_t offset;                     /* in the stream */
    bool defines;                        /* it has definitions (4.6), no instructions */
    size_t count;                        /* instructions, or definitions */
    const uint8_t *opcodes, *low, *high; /* `count` bytes each */
    struct column operands, addresses, stacks;
    size_t at;         /* index of the instruction being decoded */
    size_t records;    /* in room->records */
    size_t operand_at; /* next free entry of room->operands */
    size_t others;     /* instructions of 5.3 so far */
    size_t ticks, turns;
    size_t usage_at, usage_behind; /* the latest usage: its operands; the index after it */
    size_t changed_at, changed;    /* the latest statistics: operands of the first; how many */
    size_t changed_behind;         /* the index after them */
    uint64_t lost_events;
    uint64_t live, high_live;        /* objects now, and the most there ever were */
    uint64_t live_bytes, peak_bytes; /* what the block states (4.3) */
};

/* ---- failing ---- */

static bool reader_fail(struct instruction_reader *reader)
{
    reader->state = INSTRUCTIONS_FAILED;
    return false;
}

static bool reader_error(struct instruction_reader *reader, enum instruction_error code,
                         uint64_t offset)
{
    error_set(&reader->error, &instruction_errors[code], offset, NULL);
    return reader_fail(reader);
}

/* The input has fewer bytes than something that begins at `offset` needs. */
static bool reader_input_ended(struct instruction_reader *reader, uint64_t offset)
{
    if (reader->input->state == INPUT_FAILED) {
        reader->error = reader->input->error;
        return reader_fail(reader);
    }
    if (error_is_set(&reader->input->error))
        reader->error = reader->input->error;
    else
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_CUT], offset,
                  "after %" PRIu64 " instructions", reader->totals.instructions);
    reader->state = INSTRUCTIONS_CUT;
    return false;
}

/* Whether batches have stacks. */
static bool reader_has_stacks(const struct instruction_reader *reader)
{
    return reader->define != NULL && (reader->header.features & INSTRUCTION_FEATURE_STACKS) != 0;
}

/* ---- live objects (4.5) ---- */

static void objects_free(struct live_objects *objects)
{
    pages_unmap(objects->sizes, objects->sizes_count * sizeof *objects->sizes);
    objects->sizes = NULL;
    objects->sizes_count = 0;
    register_order_free(&objects->registers);
}

/* Makes room for the allocations of a block. */
static bool objects_reserve(struct live_objects *objects, uint64_t allocations)
{
    struct register_order *registers = &objects->registers;
    return register_order_reserve(registers, allocations) &&
           pages_reserve(&objects->sizes, &objects->sizes_count, registers->capacity,
                         registers->capacity, sizeof *objects->sizes);
}

/* The register of an object that begins or gets another size. */
static uint32_t objects_set_size(struct live_objects *objects, uint32_t object, uint64_t size)
{
    objects->sizes[object] = size;
    objects->bytes += size;
    if (objects->bytes > objects->peak_bytes) objects->peak_bytes = objects->bytes;
    return object;
}

static uint32_t objects_begin(struct live_objects *objects, uint64_t size)
{
    return objects_set_size(objects, register_order_take(&objects->registers), size);
}

static uint32_t objects_resize(struct live_objects *objects, uint64_t position, uint64_t size)
{
    uint32_t object = register_order_at(&objects->registers, position);
    objects->bytes -= objects->sizes[object];
    return objects_set_size(objects, object, size);
}

static uint32_t objects_end(struct live_objects *objects, uint64_t position)
{
    uint32_t object = register_order_release(&objects->registers, position);
    objects->bytes -= objects->sizes[object];
    return object;
}

/* ---- header (4.1) ---- */

static bool reader_check_fixed(struct instruction_reader *reader, const uint8_t *at)
{
    struct instruction_header *header = &reader->header;
    header->version_major = bytes_get16(at + 8);
    header->version_minor = bytes_get16(at + 10);
    header->metadata_bytes = bytes_get32(at + 12);
    header->features = bytes_get64(at + 16);
    header->info = bytes_get64(at + 24);
    if (header->version_major != INSTRUCTION_VERSION_MAJOR) {
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_VERSION], 8, "%u.%u",
                  header->version_major, header->version_minor);
        return reader_fail(reader);
    }
    if (header->metadata_bytes > INSTRUCTION_METADATA_MAX)
        return reader_error(reader, INSTRUCTION_ERROR_LIMIT, 12);
    uint64_t unknown = header->features & ~INSTRUCTION_FEATURES_KNOWN;
    if (unknown != 0) {
        error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_FEATURE], 16, "bit %d",
                  __builtin_ctzll(unknown));
        return reader_fail(reader);
    }
    return true;
}

/* Fails, as the input is something else. */
static bool reader_other(struct instruction_reader *reader)
{
    const size_t there = input_peek(reader->input, MAGIC_TEXT_BYTES);
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_MAGIC], 0, "%s",
              magic_text(reader->input->next, there));
    return reader_fail(reader);
}

static bool reader_read_header(struct instruction_reader *reader)
{
    struct input *input = reader->input;
    size_t there = input_peek(input, INSTRUCTION_HEADER_BYTES);
    size_t magic = there < 8 ? there : 8;
    bool ended_badly = input->state == INPUT_FAILED || input->state == INPUT_CUT;
    if (there == 0 && ended_badly) return reader_input_ended(reader, 0);
    if (there == 0 || memcmp(input->next, INSTRUCTION_MAGIC, magic) != 0)
        return reader_other(reader);
    if (there < INSTRUCTION_HEADER_BYTES) return reader_input_ended(reader, 0);
    if (!reader_check_fixed(reader, input->next)) return false;

    size_t bytes = INSTRUCTION_HEADER_BYTES + reader->header.metadata_bytes;
    if (input_peek(input, bytes) < bytes) return reader_input_ended(reader, 0);
    const uint8_t *at = input->next;
    if (checksum_of_two(at, 32, at + INSTRUCTION_HEADER_BYTES, reader->header.metadata_bytes) !=
        bytes_get32(at + 32))
        return reader_error(reader, INSTRUCTION_ERROR_CHECKSUM, 0);
    memcpy(reader->metadata, at + INSTRUCTION_HEADER_BYTES, reader->header.metadata_bytes);
    reader->metadata[reader->header.metadata_bytes] = '\0';
    reader->header.metadata = reader->metadata;
    input_skip(input, bytes);
    return true;
}

bool instruction_reader_open(struct instruction_reader *reader, struct input *input)
{
    *reader = (struct instruction_reader){.input = input};
    input->has_checksums = true;
    reader->own_room = (struct instruction_room *)pages_map(sizeof *reader->own_room);
    reader->room = reader->own_room;
    reader->metadata = (char *)pages_map(INSTRUCTION_METADATA_MAX + 1);
    if (reader->own_room == NULL || reader->metadata == NULL) {
        error_set_system(&reader->error, "no memory for a block");
        return reader_fail(reader);
    }
    if (reader_read_header(reader)) return true;
    if (reader->header.metadata == NULL) reader->header.metadata_bytes = 0;
    return false;
}

void instruction_reader_close(struct instruction_reader *reader)
{
    pages_unmap(reader->own_room, sizeof *reader->own_room);
    pages_unmap(reader->metadata, INSTRUCTION_METADATA_MAX + 1);
    objects_free(&reader->objects);
    reader->room = reader->own_room = NULL;
    reader->metadata = NULL;
}

void instruction_reader_use_indices(struct instruction_reader *reader)
{
    reader->indices = true;
}

/* ---- blocks (4.2, 4.3) ---- */

static bool block_column_error(struct instruction_reader *reader, const struct block *block)
{
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_COLUMNS], block->offset,
              "instruction %" PRIu64, reader->totals.instructions + block->at);
    return reader_fail(reader);
}

static bool block_error(struct instruction_reader *reader, const struct block *block,
                        enum instruction_error code, const char *what, uint64_t value)
{
    error_set(&reader->error, &instruction_errors[code], block->offset,
              "instruction %" PRIu64 ": %s%" PRIu64, reader->totals.instructions + block->at, what,
              value);
    return reader_fail(reader);
}

/* Whether definitions come next, and not instructions. */
static bool reader_is_at_definitions(const struct instruction_reader *reader)
{
    return (reader->header.features & INSTRUCTION_FEATURE_STACKS) != 0 &&
           memcmp(reader->input->next, INSTRUCTION_STACKS_MAGIC, 4) == 0;
}

/* Makes the whole block contiguous and checks it. False: no block, or no good one. */
static bool reader_read_any(struct instruction_reader *reader, struct block *block,
                            const uint8_t **payload, size_t *payload_bytes)
{
    struct input *input = reader->input;
    block->offset = input_offset(input);
    if (input_peek(input, INSTRUCTION_BLOCK_HEADER_BYTES) < INSTRUCTION_BLOCK_HEADER_BYTES)
        return reader_input_ended(reader, block->offset);
    block->defines = reader_is_at_definitions(reader);
    if (!block->defines && memcmp(input->next, INSTRUCTION_BLOCK_MAGIC, 4) != 0)
        return reader_error(reader, INSTRUCTION_ERROR_BLOCK_MAGIC, block->offset);
    *payload_bytes = bytes_get32(input->next + 4);
    block->count = bytes_get32(input->next + 8);
    if (*payload_bytes > INSTRUCTION_BLOCK_PAYLOAD_MAX || block->count > INSTRUCTION_BLOCK_MAX)
        return reader_error(reader, INSTRUCTION_ERROR_LIMIT, block->offset);
    size_t bytes = INSTRUCTION_BLOCK_HEADER_BYTES + *payload_bytes;
    if (input_peek(input, bytes) < bytes) return reader_input_ended(reader, block->offset);
    *payload = input->next + INSTRUCTION_BLOCK_HEADER_BYTES;
    if (checksum_of_two(input->next, 12, *payload, *payload_bytes) != bytes_get32(input->next + 12))
        return reader_error(reader, INSTRUCTION_ERROR_CHECKSUM, block->offset);
    input_skip(input, bytes);
    return true;
}

/* ---- definitions (4.6) ---- */

/* The next number. Where there is none, `next` passes the end, which is checked afterwards. */
static uint64_t take_number(struct column *column)
{
    if (column->next < column->end) return varint_get(&column->next);
    column->next = column->end + 1;
    return 0;
}

/* The same; UINT32_MAX, which is never valid, if it does not fit into 32 bits. */
static uint32_t take_short(struct column *column)
{
    uint64_t value = take_number(column);
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void take_module(struct column *column, struct stack_definition *module)
{
    module->start = take_number(column);
    module->end = module->start + take_number(column);
    module->bias = take_number(column);
}

static bool take_piece(struct column *column, struct stack_definition *text)
{
    text->length = take_short(column);
    text->offset = take_short(column);
    if (text->offset >= text->length) return false;
    const uint32_t bytes = stack_piece_bytes(text);
    if (column->next > column->end || (size_t)(column->end - column->next) < bytes) return false;
    memcpy(text->piece, column->next, bytes);
    column->next += bytes;
    return true;
}

static bool take_codes(struct column *column, struct stack_definition *codes)
{
    uint64_t offset = 0;
    if (codes->count > STACK_CODES_MAX) return false;
    codes->of = take_short(column);
    for (uint32_t i = 0; i < codes->count; i++)
        codes->offsets[i] = offset += (uint64_t)unzigzag(take_number(column));
    return true;
}

static bool take_nodes(struct column *column, struct stack_definition *nodes)
{
    if (nodes->count > STACK_NODES_MAX) return false;
    nodes->of = take_short(column);
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->codes[i] = take_short(column);
    return true;
}

static bool take_definition(struct column *column, struct stack_definition *definition)
{
    const uint32_t head = take_short(column), more = head >> STACK_WHAT_BITS;
    bool good = true;
    *definition =
        (struct stack_definition){.what = head & STACK_WHAT_MASK, .number = take_short(column)};
    *(definition->what == STACK_TEXT ? &definition->of : &definition->count) = more;
    switch (definition->what) {
    case STACK_MODULE: take_module(column, definition); break;
    case STACK_TEXT: good = take_piece(column, definition); break;
    case STACK_CODES: good = take_codes(column, definition); break;
    case STACK_NODES: good = take_nodes(column, definition); break;
    default: break;
    }
    return good && column->next <= column->end && stack_definition_is_valid(definition);
}

/* Hands out the definitions of a block to whoever wants them. */
static bool reader_define(struct instruction_reader *reader, const struct block *block,
                          const uint8_t *payload, size_t payload_bytes)
{
    struct column column = {payload, payload + payload_bytes};
    struct stack_definition definition;
    const char *wrong = NULL;
    size_t at = 0;
    if (reader->define == NULL) return true;
    reader->definitions_offset = block->offset;
    for (; at < block->count && wrong == NULL; at++)
        wrong = take_definition(&column, &definition)
                    ? reader->define(reader->define_context, &definition)
                    : "outside of its limits";
    if (wrong == NULL && (column.next != column.end || at == 0)) wrong = "the count is wrong";
    if (wrong == NULL) return true;
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_DEFINITION], block->offset,
              "definition %zu: %s", at, wrong);
    return reader_fail(reader);
}

/* The next block of instructions, or the end block. */
static bool reader_read_block(struct instruction_reader *reader, struct block *block,
                              const uint8_t **payload, size_t *payload_bytes)
{
    do {
        if (!reader_read_any(reader, block, payload, payload_bytes) ||
            (block->defines && !reader_define(reader, block, *payload, *payload_bytes)))
            return false;
    } while (block->defines);
    return true;
}

/* Finds the columns (4.3). */
static bool block_split_columns(struct instruction_reader *reader, struct block *block,
                                const uint8_t *payload, size_t payload_bytes)
{
    struct column head = {payload, payload + payload_bytes};
    const bool has_stacks = (reader->header.features & INSTRUCTION_FEATURE_STACKS) != 0;
    uint64_t numbers[4] = {0};
    for (unsigned i = 0; i < (has_stacks ? 4u : 3u); i++) {
        if (head.next >= head.end) return block_column_error(reader, block);
        numbers[i] = varint_get(&head.next);
    }
    if (head.next > head.end) return block_column_error(reader, block);
    const uint64_t left = (uint64_t)(head.end - head.next), bytes = 3 * (uint64_t)block->count;
    if (bytes > left || numbers[2] > left - bytes) return block_column_error(reader, block);
    block->live_bytes = numbers[0];
    block->peak_bytes = numbers[1];
    block->opcodes = head.next;
    block->low = block->opcodes + block->count;
    block->high = block->low + block->count;
    block->operands.next = block->high + block->count;
    block->operands.end = block->operands.next + numbers[2];
    block->addresses = block->stacks = (struct column){block->operands.end, head.end};
    if (!has_stacks) {
        block->stacks.next = head.end;
        return true;
    }
    if (numbers[3] > (uint64_t)(head.end - block->operands.end))
        return block_column_error(reader, block);
    block->stacks.next = block->addresses.end = block->operands.end + numbers[3];
    return true;
}

static unsigned block_value(const struct block *block, size_t at)
{
    return block->low[at] | (unsigned)block->high[at] << 8;
}

static bool block_get(struct instruction_reader *reader, struct block *block, struct column *column,
                      uint64_t *value)
{
    if (column->next >= column->end) return block_column_error(reader, block);
    *value = varint_get(&column->next);
    return column->next <= column->end || block_column_error(reader, block);
}

static bool block_get_operand(struct instruction_reader *reader, struct block *block,
                              uint64_t *value)
{
    return block_get(reader, block, &block->operands, value);
}

/* ---- instructions that are rare (5) ---- */

/* The flags that the table in 5.1 allows. */
static unsigned opcode_flags_allowed(unsigned number, uint8_t shape)
{
    if (shape_is_allocation(shape)) return INSTRUCTION_FAILED;
    if (shape_is_free(shape)) return INSTRUCTION_UNKNOWN;
    if (number == CALL_REALLOC_MOVED) return INSTRUCTION_FAILED | INSTRUCTION_UNKNOWN;
    if (shape == SHAPE_REALLOC) return INSTRUCTION_UNKNOWN;
    return 0;
}

/* The next `count` operands of the block are those of `to`. */
static bool block_get_operands(struct instruction_reader *reader, struct block *block,
                               unsigned count, struct instruction *to)
{
    to->operands = (uint8_t)count;
    to->operand_at = (uint16_t)block->operand_at;
    for (unsigned i = 0; i < count; i++)
        if (!block_get_operand(reader, block, &reader->room->operands[block->operand_at++]))
            return false;
    return true;
}

static void block_add_tick(struct instruction_reader *reader, struct block *block,
                           const struct instruction *tick)
{
    bool has_usage = block->usage_behind == block->at && block->at > 0;
    /* A usage may stand in between. */
    bool has_changed = block->changed_behind == block->at - has_usage;
    reader->room->ticks[block->ticks++] =
        (struct instruction_tick){.at = block->at,
                                  .operand_at = tick->operand_at,
                                  .usage_at = has_usage ? block->usage_at : INSTRUCTION_NO_USAGE,
                                  .changed_at = block->changed_at,
                                  .changed = has_changed ? block->changed : 0,
                                  .calls = block->at - block->others,
                                  .live_bytes = reader->room->operands[tick->operand_at + 3]};
}

static void block_note_statistic(struct block *block, const struct instruction *statistic)
{
    if (block->changed_behind != block->at) block->changed = 0;
    if (block->changed == 0) block->changed_at = statistic->operand_at;
    block->changed++;
    block->changed_behind = block->at + 1;
}

/* Instructions of 5.3. */
static bool block_decode_other(struct instruction_reader *reader, struct block *block,
                               unsigned number, struct instruction *to)
{
#define OTHER_OPERANDS(number, identifier, name, operands) [(number)-CALL_KINDS] = (operands),
    static const uint8_t operands[] = {INSTRUCTION_LIST(OTHER_OPERANDS)};
#undef OTHER_OPERANDS
    if (!block_get_operands(reader, block, operands[number - CALL_KINDS], to)) return false;
    uint64_t first = to->operands > 0 ? reader->room->operands[to->operand_at] : 0;
    if ((number == INSTRUCTION_LANE || number == INSTRUCTION_LOST) &&
        first >= INSTRUCTION_LANES_MAX)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "lane ", first);
    if (number == INSTRUCTION_LANE)
        reader->room->turns[block->turns++] =
            (struct instruction_turn){(uint32_t)block->at, (uint32_t)first};
    if (number == INSTRUCTION_LOST)
        block->lost_events += reader->room->operands[to->operand_at + 1];
    if (number == INSTRUCTION_TICK) block_add_tick(reader, block, to);
    if (number == INSTRUCTION_STATISTIC && first >= ORIGINAL_STATISTICS_MAX)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "statistic ", first);
    if (number == INSTRUCTION_USAGE) {
        block->usage_at = to->operand_at;
        block->usage_behind = block->at + 1;
    }
    if (number == INSTRUCTION_STATISTIC) block_note_statistic(block, to);
    block->others++;
    return true;
}

static bool block_decode_heap(struct instruction_reader *reader, struct block *block,
                              struct instruction *to)
{
    uint64_t count;
    if (!block_get_operand(reader, block, &count)) return false;
    if (count > 2) return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "count ", count);
    return block_get_operands(reader, block, (unsigned)count, to);
}

/* A call that begins, changes or ends an object, with any flags. */
static bool block_decode_call(struct instruction_reader *reader, struct block *block, uint8_t shape,
                              uint64_t value, struct instruction *to)
{
    bool failed = to->opcode & INSTRUCTION_FAILED, unknown = to->opcode & INSTRUCTION_UNKNOWN;
    bool allocation = shape_is_allocation(shape), freeing = shape_is_free(shape);
    bool names = !allocation && !unknown;

    if (allocation)
        to->size = value;
    else if (shape_has_size(shape) && !block_get_operand(reader, block, &to->size))
        return false;
    if (shape_has_alignment(shape) && !block_get_operands(reader, block, 1, to)) return false;
    if (names && value >= block->live)
        return block_error(reader, block, INSTRUCTION_ERROR_POSITION, "position ", value);
    if (!failed && !freeing && to->size == SIZE_NEVER)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "size ", to->size);

    if (names) {
        to->object = (uint32_t)(block->live - 1 - value);
        if (freeing) block->live--;
    } else if (!failed && !freeing) {
        to->object = (uint32_t)block->live++;
        if (block->live > block->high_live) block->high_live = block->live;
    }
    return true;
}

/* Decodes an instruction that is not plain, or refuses one that is wrong. */
static __attribute__((noinline)) bool block_decode_rare(struct instruction_reader *reader,
                                                        struct block *block, struct instruction *to)
{
    unsigned opcode = block->opcodes[block->at], number = opcode & INSTRUCTION_NUMBER_MASK;
    uint8_t shape = call_shapes[number];
    bool other = number >= INSTRUCTION_LANE && number <= INSTRUCTION_LAST;
    *to = (struct instruction){.opcode = (uint8_t)opcode, .object = INSTRUCTION_NO_REGISTER};
    if ((shape == SHAPE_UNDEFINED && !other) ||
        (opcode & ~INSTRUCTION_NUMBER_MASK & ~opcode_flags_allowed(number, shape)) != 0)
        return block_error(reader, block, INSTRUCTION_ERROR_OPCODE, "opcode ", opcode);
    uint64_t value = block_value(block, block->at);
    if (value == INSTRUCTION_ESCAPE && !block_get_operand(reader, block, &value)) return false;
    bool has_value = !other && shape != SHAPE_HEAP && !(opcode & INSTRUCTION_UNKNOWN);
    if (!has_value && value != 0)
        return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "value ", value);
    if (other) return block_decode_other(reader, block, number, to);
    if (shape == SHAPE_HEAP) return block_decode_heap(reader, block, to);
    return block_decode_call(reader, block, shape, value, to);
}

/* ---- plain instructions ---- */

/* What an opcode, flags included, does to the number of live objects if the instruction is plain:
 * if nothing belongs to it but its value, and that is small (4.4). */
enum { NOT_PLAIN = 0, PLAIN_ALLOCATION = 1, PLAIN_FREE = -1 };

#define EFFECT_SHAPE_ALLOCATION                       PLAIN_ALLOCATION
#define EFFECT_SHAPE_FREE                             PLAIN_FREE
#define EFFECT_SHAPE_REALLOC                          NOT_PLAIN
#define EFFECT_SHAPE_ALLOCATION_ALIGNED               NOT_PLAIN
#define EFFECT_SHAPE_FREE_SIZED                       NOT_PLAIN
#define EFFECT_SHAPE_FREE_ALIGNED                     NOT_PLAIN
#define EFFECT_SHAPE_FREE_SIZED_ALIGNED               NOT_PLAIN
#define EFFECT_SHAPE_HEAP                             NOT_PLAIN
#define EFFECT_ENTRY(number, identifier, name, shape) [(number)] = EFFECT_SHAPE_##shape,
static const int8_t effects[256] = {CALL_KIND_LIST(EFFECT_ENTRY)};

/* Copies opcodes and values to the room, in whole groups, which the compiler can vectorize. */
static void block_copy_columns(const struct block *block, uint8_t *restrict opcodes,
                               uint16_t *restrict values)
{
    memcpy(opcodes, block->opcodes, block->count);
    for (size_t i = 0; i < block->count; i += GROUP)
        for (unsigned k = 0; k < GROUP; k++)
            values[i + k] = (uint16_t)(block->low[i + k] | block->high[i + k] << 8);
}

/* Whether the instructions of a group, from index `from` on, are plain, and valid in whatever order
 * objects begin and end there: then *allocations of them are allocations, and the others frees.
 * Written for the compiler to vectorize by bytes: calls are recognized by two ranges of numbers,
 * which have nearly all that are plain. */
static bool group_is_plain(const struct block *block, size_t from, unsigned *allocations)
{
    const uint8_t *const opcodes = block->opcodes + from;
    const uint8_t *const low = block->low + from, *const high = block->high + from;
    /* At least this many objects are alive at each instruction of the group. A group with a larger
     * position is decoded one by one. */
    uint64_t fewest = block->live > GROUP ? block->live - GROUP : 0;
    if (fewest > VALUES_OF_GROUPS) fewest = VALUES_OF_GROUPS;
    const uint8_t most_low = (uint8_t)fewest, most_high = (uint8_t)(fewest >> 8);
    uint8_t wrong = 0, allocated = 0;
    for (unsigned i = 0; i < GROUP; i++) {
        const uint8_t first = (uint8_t)(opcodes[i] - CALL_MALLOC);
        const uint8_t second = (uint8_t)(opcodes[i] - CALL_REALLOC_ZERO);
        const uint8_t allocation = first <= CALL_MALLOC_SKIP_NEW_HANDLER - CALL_MALLOC;
        const uint8_t freeing = second <= CALL_DELETE_ARRAY_NOTHROW - CALL_REALLOC_ZERO;
        const uint8_t small = high[i] < VALUES_OF_GROUPS >> 8;
        const uint8_t less = (high[i] < most_high) | ((high[i] == most_high) & (low[i] < most_low));
        wrong |= !((allocation & small) | (freeing & less));
        allocated += allocation;
    }
    *allocations = allocated;
    return wrong == 0;
}

/* Takes a group as a whole. False: it has to be decoded one by one. */
static bool block_take_group(struct block *block, size_t from)
{
    unsigned allocations;
    if (!group_is_plain(block, from, &allocations)) return false;
    /* As if all allocations came first. */
    if (block->live + allocations > block->high_live) block->high_live = block->live + allocations;
    block->live += 2 * (uint64_t)allocations - GROUP;
    return true;
}

/* Decodes the instructions `from` to `to` - 1 one by one. Those that are not plain get a record;
 * with registers, all. */
static bool block_decode_each(struct instruction_reader *reader, struct block *block, size_t from,
                              size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct instruction *one = &reader->room->records[block->records];
        const uint64_t value = block_value(block, i);
        const int64_t effect = effects[block->opcodes[i]];
        const uint64_t needed = (value + 1) & (uint64_t)(effect >> 1); /* of an allocation 0 */
        if (__builtin_expect(
                effect == NOT_PLAIN || value == INSTRUCTION_ESCAPE || needed > block->live, 0)) {
            block->at = i;
            if (!block_decode_rare(reader, block, one)) return false;
            reader->room->values[i] = INSTRUCTION_ESCAPE;
            block->records++;
            continue;
        }
        if (!reader->indices) {
            *one = (struct instruction){.opcode = block->opcodes[i],
                                        .object = (uint32_t)(block->live - needed),
                                        .size = effect == PLAIN_ALLOCATION ? value : 0};
            reader->room->values[i] = INSTRUCTION_ESCAPE;
            block->records++;
        }
        block->live += (uint64_t)effect;
        if (block->live > block->high_live) block->high_live = block->live;
    }
    return true;
}

/* Checks all instructions of a block and writes the records of those that need one. */
static bool block_decode(struct instruction_reader *reader, struct block *block)
{
    for (size_t i = 0; i < block->count; i += GROUP) {
        const size_t end = block->count - i < GROUP ? block->count : i + GROUP;
        if (reader->indices && end == i + GROUP && block_take_group(block, i)) continue;
        if (!block_decode_each(reader, block, i, end)) return false;
    }
    return true;
}

/* ---- registers ---- */

static bool block_compare_bytes(struct instruction_reader *reader, const struct block *block,
                                const char *what, uint64_t said, uint64_t counted)
{
    if (said == counted) return true;
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_TOTALS], block->offset,
              "instruction %" PRIu64 ": %s: %" PRIu64 " stated, %" PRIu64 " counted",
              reader->totals.instructions + block->at, what, said, counted);
    return reader_fail(reader);
}

/* Does to the objects what an instruction does. Its index becomes a register. */
static void objects_follow(struct live_objects *objects, struct instruction *one)
{
    uint8_t shape = call_shapes[instruction_number(one)];
    uint64_t index = one->object, live = objects->registers.live, position = live - 1 - index;
    if (index == live)
        one->object = objects_begin(objects, one->size);
    else if (shape_is_free(shape))
        one->object = objects_end(objects, position);
    else if (!(one->opcode & INSTRUCTION_FAILED))
        one->object = objects_resize(objects, position, one->size);
    else
        one->object = register_order_at(&objects->registers, position);
}

/* Turns indices into registers, counts the bytes of live objects, and compares them with what the
 * block states. */
static bool block_compare_objects(struct instruction_reader *reader, struct block *block,
                                  struct live_objects *objects)
{
    const struct instruction_tick *tick = reader->room->ticks;
    for (block->at = 0; block->at < block->count; block->at++) {
        struct instruction *one = &reader->room->records[block->at];
        if (one->object != INSTRUCTION_NO_REGISTER) {
            objects_follow(objects, one);
        } else if (one->opcode == INSTRUCTION_TICK) {
            if (!block_compare_bytes(reader, block, "live bytes", tick++->live_bytes,
                                     objects->bytes))
                return false;
        }
    }
    return block_compare_bytes(reader, block, "live bytes", block->live_bytes, objects->bytes) &&
           block_compare_bytes(reader, block, "peak bytes", block->peak_bytes, objects->peak_bytes);
}

/* The bytes of a block that is refused do not count. */
static bool block_follow_objects(struct instruction_reader *reader, struct block *block,
                                 struct live_objects *objects)
{
    const uint64_t bytes = objects->bytes, peak_bytes = objects->peak_bytes;
    objects->peak_bytes = 0;
    bool good = block_compare_objects(reader, block, objects);
    if (!good) objects->bytes = bytes;
    if (!good || peak_bytes > objects->peak_bytes) objects->peak_bytes = peak_bytes;
    return good;
}

/* Without registers: takes what the block states, unchecked. */
static void block_believe(const struct block *block, struct live_objects *objects)
{
    objects->registers.live = block->live;
    objects->bytes = block->live_bytes;
    if (block->peak_bytes > objects->peak_bytes) objects->peak_bytes = block->peak_bytes;
}

/* The column `addresses` (4.3), spread to one entry per instruction. */
static bool block_decode_addresses(struct instruction_reader *reader, struct block *block)
{
    uint64_t address = 0;
    for (size_t i = 0; i < block->count; i++) {
        uint8_t opcode = block->opcodes[i];
        bool brings = shape_begins(call_shapes[opcode & INSTRUCTION_NUMBER_MASK]);
        reader->room->addresses[i] = 0;
        if (!brings || (opcode & INSTRUCTION_FAILED)) continue;
        uint64_t difference;
        block->at = i;
        if (!block_get(reader, block, &block->addresses, &difference)) return false;
        address += (uint64_t)unzigzag(difference) * 8;
        reader->room->addresses[i] = address;
    }
    return true;
}

/* The same for the column `stacks` (4.6). */
static bool block_decode_stacks(struct instruction_reader *reader, struct block *block)
{
    const bool frees = reader->header.features & INSTRUCTION_FEATURE_FREE_STACKS;
    for (size_t i = 0; i < block->count; i++) {
        uint8_t opcode = block->opcodes[i];
        const unsigned shape = call_shapes[opcode & INSTRUCTION_NUMBER_MASK];
        const bool has = shape_is_free(shape) ? frees : shape_begins(shape);
        uint64_t node = STACK_END;
        block->at = i;
        if (has && !(opcode & INSTRUCTION_FAILED) &&
            !block_get(reader, block, &block->stacks, &node))
            return false;
        if (node >= STACK_NUMBERS_LIMIT)
            return block_error(reader, block, INSTRUCTION_ERROR_OPERAND, "stack ", node);
        reader->room->stacks[i] = (uint32_t)node;
    }
    return true;
}

static bool reader_reserve(struct instruction_reader *reader, uint64_t allocations)
{
    struct live_objects *objects = &reader->objects;
    uint64_t most = objects->registers.live + allocations;
    if (reader->indices ? most <= INSTRUCTION_REGISTERS_MAX : objects_reserve(objects, allocations))
        return true;
    error_set_system(&reader->error, "no memory for %" PRIu64 " registers", most);
    return reader_fail(reader);
}

/* Decodes a whole block and takes it into the totals, or refuses it. */
static bool reader_decode(struct instruction_reader *reader, struct block *block)
{
    bool addresses = (reader->header.features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    struct live_objects *objects = &reader->objects;
    if (!reader_reserve(reader, block->count)) return false;
    block->live = objects->registers.live;
    block->high_live = objects->registers.high;
    block_copy_columns(block, reader->room->opcodes, reader->room->values);
    if (addresses && !block_decode_addresses(reader, block)) return false;
    if (!reader_has_stacks(reader))
        block->stacks.next = block->stacks.end;
    else if (!block_decode_stacks(reader, block))
        return false;
    if (!block_decode(reader, block)) return false;
    block->at = block->count;
    if (block->operands.next != block->operands.end ||
        block->addresses.next != block->addresses.end || block->stacks.next != block->stacks.end)
        return block_column_error(reader, block);
    if (reader->indices)
        block_believe(block, objects);
    else if (!block_follow_objects(reader, block, objects))
        return false;

    objects->registers.high = block->high_live;
    reader->totals.lost_events += block->lost_events;
    instruction_totals_add(&reader->totals, block->opcodes, block->count);
    reader->totals.live = objects->registers.live;
    reader->totals.registers = objects->registers.high;
    return true;
}

/* ---- end block (6) ---- */

static bool end_get(struct instruction_reader *reader, uint64_t offset, const uint8_t **next,
                    const uint8_t *end, uint64_t *value)
{
    if (*next >= end) return reader_error(reader, INSTRUCTION_ERROR_COLUMNS, offset);
    *value = varint_get(next);
    return true;
}

static bool end_compare(struct instruction_reader *reader, uint64_t offset, const char *what,
                        uint64_t said, uint64_t counted)
{
    if (said == counted) return true;
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_TOTALS], offset,
              "%s: %" PRIu64 " in the end block, %" PRIu64 " read", what, said, counted);
    return reader_fail(reader);
}

static bool end_check_kinds(struct instruction_reader *reader, uint64_t offset,
                            const uint8_t **next, const uint8_t *end)
{
    uint64_t said[CALL_KINDS] = {0};
    uint64_t kinds, kind, count;
    if (!end_get(reader, offset, next, end, &kinds)) return false;
    for (uint64_t i = 0; i < kinds; i++) {
        if (!end_get(reader, offset, next, end, &kind)) return false;
        if (!end_get(reader, offset, next, end, &count)) return false;
        if (kind >= CALL_KINDS || call_shapes[kind] == SHAPE_UNDEFINED)
            return reader_error(reader, INSTRUCTION_ERROR_OPERAND, offset);
        said[kind] = count;
    }
    for (unsigned i = 0; i < CALL_KINDS; i++)
        if (!end_compare(reader, offset, call_names[i], said[i], reader->totals.by_kind[i]))
            return false;
    return true;
}

static bool reader_end(struct instruction_reader *reader, uint64_t offset, const uint8_t *payload,
                       size_t payload_bytes)
{
    const uint8_t *next = payload, *end = payload + payload_bytes;
    const struct instruction_totals *totals = &reader->totals;
    uint64_t status, live, registers, threads, lost, freed_twice;
    if (!end_get(reader, offset, &next, end, &status) ||
        !end_get(reader, offset, &next, end, &live) ||
        !end_get(reader, offset, &next, end, &registers) ||
        !end_get(reader, offset, &next, end, &threads) ||
        !end_get(reader, offset, &next, end, &lost) ||
        !end_get(reader, offset, &next, end, &freed_twice))
        return false;
    if (status > INSTRUCTION_STATUS_DAMAGED)
        return reader_error(reader, INSTRUCTION_ERROR_OPERAND, offset);
    if (!end_compare(reader, offset, "live objects", live, totals->live) ||
        (!reader->indices &&
         !end_compare(reader, offset, "registers", registers, totals->registers)) ||
        !end_compare(reader, offset, "threads", threads, totals->threads) ||
        !end_compare(reader, offset, "lost events", lost, totals->lost_events) ||
        !end_compare(reader, offset, "freed twice", freed_twice, totals->freed_twice) ||
        !end_check_kinds(reader, offset, &next, end))
        return false;
    if (next != end) return reader_error(reader, INSTRUCTION_ERROR_COLUMNS, offset);

    if (input_peek(reader->input, 1) > 0)
        return reader_error(reader, INSTRUCTION_ERROR_TRAILING, input_offset(reader->input));
    if (reader->input->state == INPUT_FAILED) return reader_input_ended(reader, offset);
    reader->end_status = (enum instruction_status)status;
    reader->state = INSTRUCTIONS_END;
    return false;
}

bool instruction_reader_next(struct instruction_reader *reader, struct instruction_batch *batch)
{
    struct block block = {0};
    const uint8_t *payload = NULL;
    size_t payload_bytes = 0;
    if (reader->state != INSTRUCTIONS_MORE) return false;
    const uint64_t number = reader->totals.instructions, live = reader->totals.live;
    if (!reader_read_block(reader, &block, &payload, &payload_bytes)) return false;
    if (block.count == 0) return reader_end(reader, block.offset, payload, payload_bytes);
    if (!block_split_columns(reader, &block, payload, payload_bytes)) return false;
    if (!reader_decode(reader, &block)) return false;
    bool addresses = (reader->header.features & INSTRUCTION_FEATURE_ADDRESSES) != 0;
    *batch = (struct instruction_batch){
        .count = block.count,
        .opcodes = reader->room->opcodes,
        .values = reader->room->values,
        .records = reader->room->records,
        .live = live,
        .operands = reader->room->operands,
        .addresses = addresses ? reader->room->addresses : NULL,
        .stacks = reader_has_stacks(reader) ? reader->room->stacks : NULL,
        .ticks = reader->room->ticks,
        .ticks_count = block.ticks,
        .turns = reader->room->turns,
        .turns_count = block.turns,
        .number = number,
        .offset = block.offset,
        .registers = reader->totals.registers,
    };
    return true;
}

size_t instruction_batch_after_call(const struct instruction_batch *batch, uint64_t calls)
{
    size_t at = 0;
    while (at < batch->count && calls > 0)
        calls -= (batch->opcodes[at++] & INSTRUCTION_NUMBER_MASK) < CALL_KINDS;
    return at;
}

bool instruction_batch_usage(const struct instruction_batch *batch,
                             const struct instruction_tick *tick, struct original_usage *usage)
{
    if (tick->usage_at == INSTRUCTION_NO_USAGE) return false;
    const uint64_t *numbers = &batch->operands[tick->usage_at];
    *usage = (struct original_usage){numbers[0], numbers[1], numbers[2], numbers[3]};
    return true;
}

void instruction_batch_statistics(const struct instruction_batch *batch,
                                  const struct instruction_tick *tick,
                                  struct original_statistics *statistics)
{
    const uint64_t *numbers = &batch->operands[tick->changed_at];
    for (size_t i = 0; i < tick->changed; i++, numbers += 2) {
        const unsigned index = (unsigned)numbers[0];
        statistics->values[index] = numbers[1];
        if (statistics->count <= index) statistics->count = index + 1;
    }
}
