#include "stream/instruction_reader.h"

#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/checksum.h"
#include "stream/instruction_reader_own.h"
#include "stream/magic.h"
#include "stream/varint.h"

/* ---- failing ---- */

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
    if (reader_read_header(reader)) {
        reader->in_base = (reader->header.features & INSTRUCTION_FEATURE_BASE) != 0;
        return true;
    }
    if (reader->header.metadata == NULL) reader->header.metadata_bytes = 0;
    return false;
}

void instruction_reader_close(struct instruction_reader *reader)
{
    pages_unmap(reader->own_room, sizeof *reader->own_room);
    pages_unmap(reader->metadata, INSTRUCTION_METADATA_MAX + 1);
    live_objects_free(&reader->objects);
    reader->room = reader->own_room = NULL;
    reader->metadata = NULL;
}

void instruction_reader_use_indices(struct instruction_reader *reader)
{
    reader->indices = true;
}

/* ---- blocks (4.2, 4.3) ---- */

/* Sets what kind of block comes next. False: none. */
static bool reader_find_kind(const struct instruction_reader *reader, struct block *block)
{
    static const struct {
        const char magic[5];
        uint64_t feature;
    } kinds[] = {
        [BLOCK_HAS_INSTRUCTIONS] = {INSTRUCTION_BLOCK_MAGIC, 0},
        [BLOCK_HAS_DEFINITIONS] = {INSTRUCTION_STACKS_MAGIC, INSTRUCTION_FEATURE_STACKS},
        [BLOCK_HAS_MAPPINGS] = {INSTRUCTION_MAPPINGS_MAGIC, INSTRUCTION_FEATURE_MAPPINGS},
        [BLOCK_HAS_RESIDENCY] = {INSTRUCTION_RESIDENCY_MAGIC, INSTRUCTION_FEATURE_MAPPINGS},
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        block->has = (enum block_has)i;
        if (memcmp(reader->input->next, kinds[i].magic, 4) == 0 &&
            (reader->header.features & kinds[i].feature) == kinds[i].feature)
            return true;
    }
    return false;
}

/* Makes the whole block contiguous and checks it. False: no block, or no good one. */
static bool reader_read_any(struct instruction_reader *reader, struct block *block,
                            const uint8_t **payload, size_t *payload_bytes)
{
    struct input *input = reader->input;
    block->offset = input_offset(input);
    if (input_peek(input, INSTRUCTION_BLOCK_HEADER_BYTES) < INSTRUCTION_BLOCK_HEADER_BYTES)
        return reader_input_ended(reader, block->offset);
    if (!reader_find_kind(reader, block))
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

/* The next block of instructions, or the end block. */
static bool reader_read_block(struct instruction_reader *reader, struct block *block,
                              const uint8_t **payload, size_t *payload_bytes)
{
    while (reader_read_any(reader, block, payload, payload_bytes)) {
        bool good = true;
        switch (block->has) {
        case BLOCK_HAS_INSTRUCTIONS: return true;
        case BLOCK_HAS_DEFINITIONS:
            good = block_define(reader, block, *payload, *payload_bytes);
            break;
        case BLOCK_HAS_MAPPINGS:
            good = block_give_mappings(reader, block, *payload, *payload_bytes);
            break;
        case BLOCK_HAS_RESIDENCY:
            good = block_give_residency(reader, block, *payload, *payload_bytes);
            break;
        }
        if (!good) return false;
    }
    return false;
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
    if (status >= INSTRUCTION_STATUSES)
        return reader_error(reader, INSTRUCTION_ERROR_OPERAND, offset);
    if (reader->in_base) return reader_error(reader, INSTRUCTION_ERROR_BASE, offset);
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
    const bool is_base = reader->in_base;
    if (!reader_read_block(reader, &block, &payload, &payload_bytes)) return false;
    if (block.count == 0) return reader_end(reader, block.offset, payload, payload_bytes);
    if (!block_split_columns(reader, &block, payload, payload_bytes)) return false;
    if (!block_take(reader, &block)) return false;
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
        .is_base = is_base,
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
