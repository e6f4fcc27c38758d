/* instruction_steps - decodes and checks the instructions of a block 32 at a time, nearly without a branch on what the
 * program did.
 *
 *   columns --values--> room->values --take--> checked; room->at, of those that are not plain
 *                ^ stops at what stands in `wide`    ^ stops at what is rare, and at what is wrong
 *
 * The reader does by itself what these functions stop at, and goes on with them behind it. It can do without them, and does so
 * on processors that have no AVX2, BMI1, BMI2 and POPCNT; then reading takes several times as long.
 *
 * Columns and rooms may be read, rooms also written, up to INSTRUCTION_STEP - 1 instructions behind their end. */
#ifndef MALLOCTAPE_INSTRUCTION_STEPS_H
#define MALLOCTAPE_INSTRUCTION_STEPS_H

#include <stdbool.h>

#include "postprocess/half_bytes.h"
#include "postprocess/instruction_block.h"
#include "postprocess/instruction_reader.h"

#ifdef __cplusplus
extern "C" {
#endif

#define INSTRUCTION_STEP 32u

bool instruction_steps_possible(void);

/* to[i] = table[half-byte i] for i < count. */
void instruction_steps_look_up(const uint8_t *from, size_t count,
                               const uint8_t table[HALF_BYTES_VALUES], uint8_t *to);

/* How many opcodes are `wanted`. */
size_t instruction_steps_count(const uint8_t *opcodes, size_t count, uint8_t wanted);

/* The columns `low` and `high` (INSTRUCTIONS.md 4.4). */
struct value_columns {
    const uint8_t *low, *high;
    unsigned high_bits; /* 8, 4 or 0 */
};

/* All bits of both. */
static inline uint16_t value_columns_escape(const struct value_columns *columns)
{
    return (uint16_t)((1u << (8 + columns->high_bits)) - 1);
}

/* Brings values to `to`, from index `from` on, which is a multiple of INSTRUCTION_STEP. Returns the index of the first step in
 * which there are escapes, and in *escaped where; or one that is not less than `count`. */
size_t instruction_steps_values(const struct value_columns *columns, size_t from, size_t count,
                                uint16_t *to, uint32_t *escaped);

/* Takes instructions from index `from` on. Returns the index of the first one that is not taken; block->count: all were. */
size_t instruction_steps_take(struct block *block, struct instruction_room *room, size_t from);

#ifdef __cplusplus
}
#endif
#endif
