#include "replay/work.h"

#include <string.h>

#include "common/pages.h"
#include "replay/calls.h"
#include "replay/shared.h"

#define UNIT_INSTRUCTIONS (INSTRUCTION_BLOCK_MAX + INSTRUCTION_BATCH_SLACK)
#define UNIT_OPERANDS     (INSTRUCTION_BLOCK_MAX * INSTRUCTION_OPERANDS_MAX)

_Static_assert(INSTRUCTION_BLOCK_MAX <= UINT16_MAX + 1, "a position fits");
_Static_assert(INSTRUCTION_LANES_MAX <= UINT16_MAX + 1, "a maker fits");

bool work_open(struct work *work, struct error *error)
{
    *work = (struct work){0};
    work->lanes = pages_map(INSTRUCTION_LANES_MAX * sizeof *work->lanes);
    if (work->lanes != NULL && slots_open(&work->slots)) return true;
    return error_set_system(error, "no memory for lanes");
}

void work_close(struct work *work)
{
    slots_close(&work->slots);
    pages_unmap(work->lanes, INSTRUCTION_LANES_MAX * sizeof *work->lanes);
    work->lanes = NULL;
}

bool work_unit_open(struct work_unit *unit, struct error *error)
{
    *unit = (struct work_unit){
        .runs = pages_map(INSTRUCTION_BLOCK_MAX * sizeof *unit->runs),
        .at = pages_map(UNIT_INSTRUCTIONS * sizeof *unit->at),
        .operands = pages_map(UNIT_OPERANDS * sizeof *unit->operands),
        .positions = pages_map(UNIT_INSTRUCTIONS * sizeof *unit->positions),
        .makers = pages_map(UNIT_INSTRUCTIONS * sizeof *unit->makers),
        .released = pages_map(INSTRUCTION_BLOCK_MAX * sizeof *unit->released),
    };
    if (unit->runs != NULL && unit->at != NULL && unit->operands != NULL &&
        unit->positions != NULL && unit->makers != NULL && unit->released != NULL)
        return true;
    return error_set_system(error, "no memory for queues");
}

void work_unit_close(struct work_unit *unit)
{
    pages_unmap(unit->runs, INSTRUCTION_BLOCK_MAX * sizeof *unit->runs);
    pages_unmap(unit->at, UNIT_INSTRUCTIONS * sizeof *unit->at);
    pages_unmap(unit->operands, UNIT_OPERANDS * sizeof *unit->operands);
    pages_unmap(unit->positions, UNIT_INSTRUCTIONS * sizeof *unit->positions);
    pages_unmap(unit->makers, UNIT_INSTRUCTIONS * sizeof *unit->makers);
    pages_unmap(unit->released, INSTRUCTION_BLOCK_MAX * sizeof *unit->released);
}

struct instruction_batch work_run_batch(const struct work_run *run)
{
    const struct work_unit *unit = run->unit;
    return (struct instruction_batch){
        .at = unit->at + run->first,
        .count = run->count,
        .operands = unit->operands,
        .number = unit->number,
        .offset = unit->offset,
    };
}

/* Whether nobody carries an instruction out. */
static bool is_left_out(uint8_t opcode)
{
    return opcode == INSTRUCTION_LANE || opcode == INSTRUCTION_TICK || opcode == INSTRUCTION_LOST ||
           opcode == INSTRUCTION_FREED_TWICE;
}

static bool is_border(uint8_t opcode)
{
    return opcode == INSTRUCTION_THREAD_BEGIN || opcode == INSTRUCTION_THREAD_END;
}

/* ---- first pass: runs and their lengths ---- */

static struct work_run *work_run_of(struct work *work, struct work_unit *unit, uint32_t lane)
{
    struct work_lane *entry = &work->lanes[lane];
    if (entry->serial != work->serial) {
        entry->serial = work->serial;
        entry->run = unit->runs_count++;
        unit->runs[entry->run] = (struct work_run){.unit = unit, .lane = lane};
    }
    return &unit->runs[entry->run];
}

static void work_count(struct work *work, struct work_unit *unit,
                       const struct instruction_batch *batch, size_t from, size_t to)
{
    uint32_t lane = work->lane;
    struct work_run *run = NULL; /* of `lane`, once it is needed */
    for (size_t i = from; i < to; i++) {
        const struct instruction *one = &batch->at[i];
        if (one->opcode == INSTRUCTION_LANE) {
            lane = (uint32_t)batch->operands[one->operand_at];
            run = NULL;
        }
        if (is_left_out(one->opcode)) continue;
        if (run == NULL) run = work_run_of(work, unit, lane);
        run->count++;
        run->borders += is_border(one->opcode);
    }
    uint32_t first = 0;
    for (uint32_t i = 0; i < unit->runs_count; i++) {
        unit->runs[i].first = first;
        first += unit->runs[i].count;
    }
}

/* ---- second pass: instructions, with slots ---- */

/* An object ends in a lane, with the instruction at `index`. */
static inline void work_end(struct work *work, struct work_unit *unit, uint32_t lane,
                            uint32_t index, struct slots_object object, struct instruction *one)
{
    if (!slots_end(&work->slots, &work->lanes[lane].slots, object.slot))
        unit->released[unit->released_count++] = object.slot;
    unit->makers[index] = object.maker;
    one->object = object.slot;
    one->operands = object.generation;
}

static void work_copy_operands(struct work_unit *unit, const struct instruction_batch *batch,
                               struct instruction *one)
{
    const uint64_t *from = &batch->operands[one->operand_at];
    one->operand_at = (uint16_t)unit->operands_filled;
    for (unsigned i = 0; i < one->operands; i++)
        unit->operands[unit->operands_filled++] = from[i];
}

/* A realloc has no operands of its own. */
static void work_sort_realloc(struct work *work, struct work_unit *unit, uint32_t lane,
                              uint32_t index, struct instruction *one)
{
    struct slots_object *object = &work->slots.objects[one->object];
    const struct slots_object old = *object;
    /* In this order: the new slot must not be the old one. */
    *object = slots_take(&work->slots, &work->lanes[lane].slots, lane);
    work_end(work, unit, lane, index, old, one);
    one->operand_at = (uint16_t)unit->operands_filled;
    unit->operands[unit->operands_filled++] = shared_operand(object->slot, object->generation);
}

/* Gives an instruction the slots that it needs. */
static inline void work_sort_one(struct work *work, struct work_unit *unit,
                                 const struct instruction_batch *batch, uint32_t lane,
                                 uint32_t index, struct instruction *one)
{
    struct slots_object *const objects = work->slots.objects, *object;
    if (one->operands > 0) work_copy_operands(unit, batch, one);
    switch (call_actions[one->opcode]) {
    case ACTION_ALLOCATE:
        object = &objects[one->object];
        *object = slots_take(&work->slots, &work->lanes[lane].slots, lane);
        one->object = object->slot;
        one->operands = object->generation;
        break;
    case ACTION_FREE: work_end(work, unit, lane, index, objects[one->object], one); break;
    case ACTION_REALLOC: work_sort_realloc(work, unit, lane, index, one); break;
    default: break;
    }
}

static void work_sort(struct work *work, struct work_unit *unit,
                      const struct instruction_batch *batch, size_t from, size_t to)
{
    uint32_t lane = work->lane;
    struct work_run *run = NULL; /* of `lane`, once it is needed */
    uint32_t at = 0;             /* the run's next free entry */
    for (size_t i = from; i < to; i++) {
        struct instruction one = batch->at[i];
        if (__builtin_expect(is_left_out(one.opcode), 0)) {
            if (one.opcode != INSTRUCTION_LANE) continue;
            if (run != NULL) run->at = at;
            lane = (uint32_t)batch->operands[one.operand_at];
            run = NULL;
            continue;
        }
        if (run == NULL) {
            run = &unit->runs[work->lanes[lane].run];
            at = run->at;
        }
        uint32_t index = run->first + at++;
        work_sort_one(work, unit, batch, lane, index, &one);
        unit->at[index] = one;
        unit->positions[index] = (uint16_t)i;
    }
    if (run != NULL) run->at = at;
    work->lane = lane;
}

void work_fill(struct work *work, struct work_unit *unit, const struct instruction_batch *batch,
               size_t from, size_t to)
{
    for (uint32_t i = 0; i < unit->released_count; i++)
        slots_give_to_all(&work->slots, unit->released[i]);
    unit->released_count = 0;
    unit->runs_count = 0;
    unit->operands_filled = 0;
    unit->number = batch->number;
    unit->offset = batch->offset;
    work->serial++;
    work_count(work, unit, batch, from, to);
    work_sort(work, unit, batch, from, to);
    /* It served as the place to put the next instruction. */
    for (uint32_t i = 0; i < unit->runs_count; i++)
        unit->runs[i].at = 0;
    unit->unfinished = unit->runs_count;
}
