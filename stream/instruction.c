#include "stream/instruction.h"

#include <stddef.h>

#include "common/call_table.h"
#include "common/pages.h"

const char *instruction_name(unsigned number)
{
#define INSTRUCTION_NAME(number, identifier, name, operands) \
    case number: return name;
    switch (number) {
        INSTRUCTION_LIST(INSTRUCTION_NAME)
    default: return number < CALL_TABLE_SIZE ? call_names[number] : NULL;
    }
#undef INSTRUCTION_NAME
}

/* ---- totals ---- */

void instruction_totals_add(struct instruction_totals *totals, const uint8_t *opcodes, size_t count)
{
    /* Four counts for each opcode: an increment has to wait for the latest one of the same
     * count. */
    uint32_t seen[4][256] = {{0}};
    uint64_t by_number[INSTRUCTION_NUMBER_MASK + 1] = {0};
    size_t i = 0;
    for (; count - i >= 4; i += 4) {
        seen[0][opcodes[i]]++;
        seen[1][opcodes[i + 1]]++;
        seen[2][opcodes[i + 2]]++;
        seen[3][opcodes[i + 3]]++;
    }
    for (; i < count; i++)
        seen[0][opcodes[i]]++;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        uint64_t all =
            (uint64_t)seen[0][opcode] + seen[1][opcode] + seen[2][opcode] + seen[3][opcode];
        by_number[opcode & INSTRUCTION_NUMBER_MASK] += all;
        if (opcode & INSTRUCTION_UNKNOWN) totals->unknown += all;
    }
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        totals->by_kind[kind] += by_number[kind];
        totals->calls += by_number[kind];
    }
    totals->instructions += count;
    totals->lane_changes += by_number[INSTRUCTION_LANE];
    totals->threads += by_number[INSTRUCTION_THREAD_BEGIN];
    totals->ticks += by_number[INSTRUCTION_TICK];
    totals->freed_twice += by_number[INSTRUCTION_FREED_TWICE];
    totals->missed_frees += by_number[INSTRUCTION_FREE_MISSED];
}

void instruction_totals_add_base(struct instruction_totals *totals, const uint8_t *opcodes,
                                 size_t count)
{
    struct instruction_totals of_block = {.instructions = 0};
    instruction_totals_add(&of_block, opcodes, count);
    totals->instructions += of_block.instructions;
    totals->threads += of_block.threads;
    totals->base_calls += of_block.calls;
}

/* ---- registers ---- */

bool register_order_reserve(struct register_order *registers, uint64_t more)
{
    const uint64_t wanted = registers->live + more;
    uint64_t i = registers->capacity;
    if (wanted > INSTRUCTION_REGISTERS_MAX ||
        !pages_reserve(&registers->order, &registers->capacity, wanted, 2 * INSTRUCTION_BLOCK_MAX,
                       sizeof *registers->order))
        return false;
    for (; i < registers->capacity; i++)
        registers->order[i] = (uint32_t)i;
    return true;
}

void register_order_free(struct register_order *registers)
{
    pages_unmap(registers->order, registers->capacity * sizeof *registers->order);
    *registers = (struct register_order){0};
}
