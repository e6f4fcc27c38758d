/* instruction_block - a block of the instruction stream while it is decoded: for the reader, and for who takes steps. */
#ifndef MALLOCTAPE_INSTRUCTION_BLOCK_H
#define MALLOCTAPE_INSTRUCTION_BLOCK_H

#include "postprocess/instruction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No object has this size (INSTRUCTIONS.md 3). */
#define SIZE_NEVER UINT64_MAX

/* A block that is refused has not been counted. */
struct block {
    uint64_t offset;              /* in the stream */
    size_t count;                 /* instructions */
    const uint8_t *next[COLUMNS]; /* not yet decoded */
    const uint8_t *end[COLUMNS];
    bool indexed;          /* `opcodes` has indices */
    size_t at;             /* index of the instruction being decoded */
    size_t at_count;       /* instructions in room->at */
    size_t operand_at;     /* next free place in room->operands */
    const uint64_t *large; /* values (4.4) that room->values has no room for: the next */
    size_t others;         /* instructions of 5.3 so far */
    size_t ticks;
    uint64_t lost_events;
    uint64_t live, high;             /* objects now, and the most there ever were */
    uint64_t live_bytes, peak_bytes; /* what the block states (4.3) */
};

/* The value of an instruction, of which room->values has this. */
static inline uint64_t block_take_value(struct block *block, uint16_t value)
{
    return value == INSTRUCTION_ESCAPE ? *block->large++ : value;
}

#ifdef __cplusplus
}
#endif
#endif
