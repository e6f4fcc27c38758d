/* instruction_block - the instructions of a block, and the objects that they make
 * (INSTRUCTIONS.md 4.3 to 5). */
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/instruction_reader_own.h"
#include "stream/varint.h"

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

/* ---- live objects (4.5) ---- */

void live_objects_free(struct live_objects *objects)
{
    pages_unmap(objects->sizes, objects->sizes_count * sizeof *objects->sizes);
    objects->sizes = NULL;
    objects->sizes_count = 0;
    register_order_free(&objects->registers);
}

/* Makes room for the allocations of a block. */
static bool instruction_block_objects_reserve(struct live_objects *objects, uint64_t allocations)
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

/* ---- columns (4.3) ---- */

static bool block_error(struct instruction_reader *reader, const struct block *block,
                        enum instruction_error code, const char *what, uint64_t value)
{
    error_set(&reader->error, &instruction_errors[code], block->offset,
              "instruction %" PRIu64 ": %s%" PRIu64, reader->totals.instructions + block->at, what,
              value);
    return reader_fail(reader);
}

bool block_split_columns(struct instruction_reader *reader, struct block *block,
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
    if (number == INSTRUCTION_BASE_END) {
        if (!reader->in_base || block->at + 1 != block->count)
            return block_error(reader, block, INSTRUCTION_ERROR_BASE, "of ", block->count);
        block->ends_base = true;
    }
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

/* What instructions further on will probably find there is fetched. Inline: instruction_walk_fetch(). */
static inline __attribute__((always_inline)) void objects_fetch(const struct live_objects *objects,
                                                                const struct instruction *one,
                                                                size_t left)
{
    enum { NEAR = 8, FAR = 24 };
    const struct register_order *registers = &objects->registers;
    if (left <= FAR) return;
    __builtin_prefetch(
        (const void *)((uintptr_t)registers->order + one[FAR].object * sizeof *registers->order),
        1);
    if (one[NEAR].object < registers->live)
        __builtin_prefetch(&objects->sizes[registers->order[one[NEAR].object]], 1);
}

/* Turns indices into registers, counts the bytes of live objects, and compares them with what the
 * block states. */
static bool block_compare_objects(struct instruction_reader *reader, struct block *block,
                                  struct live_objects *objects)
{
    const struct instruction_tick *tick = reader->room->ticks;
    for (block->at = 0; block->at < block->count; block->at++) {
        struct instruction *one = &reader->room->records[block->at];
        objects_fetch(objects, one, block->count - block->at);
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
    if (reader->indices ? most <= INSTRUCTION_REGISTERS_MAX
                        : instruction_block_objects_reserve(objects, allocations))
        return true;
    error_set_system(&reader->error, "no memory for %" PRIu64 " registers", most);
    return reader_fail(reader);
}

/* What came before does not count. */
static void block_end_base(struct instruction_reader *reader)
{
    struct live_objects *objects = &reader->objects;
    reader->in_base = false;
    objects->peak_bytes = objects->bytes;
    reader->totals.base_live = reader->totals.live;
    reader->totals.base_live_bytes = objects->bytes;
}

bool block_take(struct instruction_reader *reader, struct block *block)
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
    (reader->in_base ? instruction_totals_add_base
                     : instruction_totals_add)(&reader->totals, block->opcodes, block->count);
    reader->totals.live = objects->registers.live;
    reader->totals.registers = objects->registers.high;
    if (block->ends_base) block_end_base(reader);
    return true;
}
