/* instruction_reader_own - what the files of the reader share (instruction_reader.h).
 *
 *   instruction_reader.c        the header, blocks, the end
 *   instruction_block.c         the instructions of a block, and the objects that they make
 *   instruction_definitions.c   blocks of definitions
 *   instruction_mappings.c      blocks of mappings and of residency
 */
#ifndef MALLOCTAPE_INSTRUCTION_READER_OWN_H
#define MALLOCTAPE_INSTRUCTION_READER_OWN_H

#include <inttypes.h>

#include "stream/instruction_reader.h"

/* A column of integers: what is left of it. */
struct column {
    const uint8_t *next, *end;
};

/* A block while it is decoded. One that is refused has not been counted. */
struct block {
    uint64_t offset; /* in the stream */
    enum block_has {
        BLOCK_HAS_INSTRUCTIONS,
        BLOCK_HAS_DEFINITIONS,
        BLOCK_HAS_MAPPINGS,
        BLOCK_HAS_RESIDENCY
    } has;
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
    bool ends_base;
    uint64_t lost_events;
    uint64_t live, high_live;        /* objects now, and the most there ever were */
    uint64_t live_bytes, peak_bytes; /* what the block states (4.3) */
};

static inline bool reader_fail(struct instruction_reader *reader)
{
    reader->state = INSTRUCTIONS_FAILED;
    return false;
}

static inline bool reader_error(struct instruction_reader *reader, enum instruction_error code,
                                uint64_t offset)
{
    error_set(&reader->error, &instruction_errors[code], offset, NULL);
    return reader_fail(reader);
}

/* Whether batches have stacks. */
static inline bool reader_has_stacks(const struct instruction_reader *reader)
{
    return reader->define != NULL && (reader->header.features & INSTRUCTION_FEATURE_STACKS) != 0;
}

static inline bool block_column_error(struct instruction_reader *reader, const struct block *block)
{
    error_set(&reader->error, &instruction_errors[INSTRUCTION_ERROR_COLUMNS], block->offset,
              "instruction %" PRIu64, reader->totals.instructions + block->at);
    return reader_fail(reader);
}

/* Finds the columns of a block of instructions. */
bool block_split_columns(struct instruction_reader *reader, struct block *block,
                         const uint8_t *payload, size_t payload_bytes);

/* Decodes a whole block and takes it into the totals, or refuses it. */
bool block_take(struct instruction_reader *reader, struct block *block);

/* Hands out the definitions of a block to whoever wants them. */
bool block_define(struct instruction_reader *reader, const struct block *block,
                  const uint8_t *payload, size_t payload_bytes);

/* The same of a block of mappings, or of residency. */
bool block_give_mappings(struct instruction_reader *reader, const struct block *block,
                         const uint8_t *payload, size_t payload_bytes);
bool block_give_residency(struct instruction_reader *reader, const struct block *block,
                          const uint8_t *payload, size_t payload_bytes);

void live_objects_free(struct live_objects *objects);

#endif
