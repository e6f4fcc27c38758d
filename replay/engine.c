#include "replay/engine.h"

#include <inttypes.h>
#include <string.h>

#include "common/call_table.h"

static const struct error_kind failed_allocation = {
    "replay_allocation", "an allocation failed that succeeded when it was recorded"};

void engine_take_back(struct instruction_totals *totals, unsigned opcode)
{
    const unsigned number = opcode & INSTRUCTION_NUMBER_MASK, shape = call_shapes[number];
    const bool failed = opcode & INSTRUCTION_FAILED, unknown = opcode & INSTRUCTION_UNKNOWN;
    totals->instructions--;
    if (number < CALL_KINDS) {
        totals->calls--;
        totals->by_kind[number]--;
    }
    if (!failed && (shape_is_allocation(shape) || (shape == SHAPE_REALLOC && unknown)))
        totals->live--;
    else if (shape_is_free(shape) && !unknown)
        totals->live++;
    totals->lane_changes -= number == INSTRUCTION_LANE;
    totals->threads -= number == INSTRUCTION_THREAD_BEGIN;
    totals->ticks -= number == INSTRUCTION_TICK;
    totals->unknown -= unknown;
    totals->freed_twice -= number == INSTRUCTION_FREED_TWICE;
    totals->missed_frees -= number == INSTRUCTION_FREE_MISSED;
}

void engine_set_allocation_error(struct error *error, struct promises *promises, unsigned opcode,
                                 uint64_t size, uint64_t number, uint64_t offset)
{
    if (promises_set_error(promises, error, opcode, size, number, offset)) return;
    error_set(error, &failed_allocation, offset, "instruction %" PRIu64 ": %s of %" PRIu64 " bytes",
              number, call_names[opcode & INSTRUCTION_NUMBER_MASK], size);
}

const struct engine *engine_find(const char *name)
{
    static const struct engine *const engines[] = {&engine_switch, &engine_threads, &engine_null};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (strcmp(engines[i]->name, name) == 0) return engines[i];
    return NULL;
}
