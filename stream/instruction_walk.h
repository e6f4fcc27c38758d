/* instruction_walk - the instructions of a batch with indices, one after another, as what each does
 * to the row of live objects (INSTRUCTIONS.md 4.5). However the reader keeps an instruction, a step
 * looks the same.
 *
 *     struct instruction_walk walk = instruction_walk_over(&batch, batch.count);
 *     while (instruction_walk_next(&walk, live, &step))
 *         switch (step.does) {
 *         case STEP_BEGINS:  row[live++] = ...                       step.index is live
 *         case STEP_ENDS:    ... row[step.index] = row[--live]       the last one takes its index
 *         case STEP_RESIZES: ... row[step.index]
 *         ...
 *
 * The row is the caller's, with room for batch->count more objects. */
#ifndef MALLOCTAPE_INSTRUCTION_WALK_H
#define MALLOCTAPE_INSTRUCTION_WALK_H

#include "common/call_table.h"
#include "stream/instruction_reader.h"

enum instruction_does {
    STEP_BEGINS,  /* the call makes an object */
    STEP_ENDS,    /* it ends the object at the index */
    STEP_RESIZES, /* a realloc of the object at the index, which stays there */
    STEP_CALLS,   /* it does nothing to the row: it failed, its object is unknown, or has none */
    STEP_OTHER    /* an instruction that is no call: see `number` */
};

struct instruction_step {
    uint8_t does;    /* enum instruction_does */
    uint8_t number;  /* the kind of call, or INSTRUCTION_LANE and so on */
    bool is_failed;  /* the call */
    bool is_unknown; /* its object */
    uint64_t index;
    uint64_t size;            /* asked for, or given to a free */
    uint64_t alignment;       /* of SHAPE_ALLOCATION_ALIGNED; else 0 */
    const uint64_t *operands; /* of STEP_OTHER */
};

struct instruction_walk {
    const struct instruction_batch *batch;
    const struct instruction *next; /* that is not plain */
    size_t at, end;                 /* of the instruction behind the step */
};

/* The first `count` instructions. */
static inline struct instruction_walk instruction_walk_over(const struct instruction_batch *batch,
                                                            size_t count)
{
    return (struct instruction_walk){batch, batch->at, 0, count};
}

/* An instruction that is not plain. */
static inline void instruction_step_take(struct instruction_step *step,
                                         const struct instruction *one, const uint64_t *operands,
                                         uint64_t live)
{
    const unsigned number = instruction_number(one), shape = call_shapes[number];
    *step = (struct instruction_step){.does = STEP_OTHER, .number = (uint8_t)number};
    step->operands = operands;
    if (number >= CALL_KINDS) return;
    step->is_failed = one->opcode & INSTRUCTION_FAILED;
    step->is_unknown = one->opcode & INSTRUCTION_UNKNOWN;
    step->index = one->object;
    step->size = one->size;
    if (shape == SHAPE_ALLOCATION_ALIGNED) step->alignment = operands[0];
    if (one->object == INSTRUCTION_NO_REGISTER || step->is_failed)
        step->does = STEP_CALLS;
    else if (one->object == live)
        step->does = STEP_BEGINS;
    else
        step->does = shape == SHAPE_REALLOC ? STEP_RESIZES : STEP_ENDS;
}

/* The next one, with `live` objects in the row. False: there is none. */
static inline bool instruction_walk_next(struct instruction_walk *walk, uint64_t live,
                                         struct instruction_step *step)
{
    if (walk->at == walk->end) return false;
    const struct instruction_batch *const batch = walk->batch;
    const uint8_t opcode = batch->opcodes[walk->at];
    const uint64_t value = batch->values[walk->at++];
    switch (instruction_effects[opcode]) {
    case INSTRUCTION_PLAIN_ALLOCATION:
        *step = (struct instruction_step){
            .does = STEP_BEGINS, .number = opcode, .index = live, .size = value};
        break;
    case INSTRUCTION_PLAIN_FREE:
        *step = (struct instruction_step){
            .does = STEP_ENDS, .number = opcode, .index = live - 1 - value};
        break;
    default:
        instruction_step_take(step, walk->next, batch->operands + walk->next->operand_at, live);
        walk->next++;
    }
    return true;
}

/* The address that an object of the step before got in the original; 0: not known. */
static inline uint64_t instruction_walk_address(const struct instruction_walk *walk)
{
    return walk->batch->addresses != NULL ? walk->batch->addresses[walk->at - 1] : 0;
}

/* The index that is asked for so many instructions from now, up to INSTRUCTION_BATCH_SLACK, if the
 * row has `live` objects then, too: for prefetching. */
static inline uint64_t instruction_walk_ahead(const struct instruction_walk *walk, uint64_t live,
                                              unsigned instructions)
{
    const size_t at = walk->at + instructions;
    const int64_t effect = instruction_effects[walk->batch->opcodes[at]];
    return live - 1 - (walk->batch->values[at] & (uint64_t)(effect >> 1));
}

#endif
