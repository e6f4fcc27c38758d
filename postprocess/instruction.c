#include "postprocess/instruction.h"

#include "common/call_table.h"
#include "common/pages.h"

/* A block is histogrammed in four tables, so that equal opcodes in a row do not wait for one another, and by whole
 * bytes, flags included: masking would cost as much as counting. */
#define HISTOGRAMS 4

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

void instruction_totals_add(struct instruction_totals *totals, const uint8_t *opcodes, size_t count)
{
    uint32_t seen[HISTOGRAMS][256] = {{0}};
    size_t i = 0;
    for (; i + HISTOGRAMS <= count; i += HISTOGRAMS) {
        seen[0][opcodes[i]]++;
        seen[1][opcodes[i + 1]]++;
        seen[2][opcodes[i + 2]]++;
        seen[3][opcodes[i + 3]]++;
    }
    for (; i < count; i++)
        seen[0][opcodes[i]]++;

    uint64_t numbers[INSTRUCTION_NUMBER_MASK + 1] = {0};
    for (unsigned opcode = 0; opcode < 256; opcode++)
        numbers[opcode & INSTRUCTION_NUMBER_MASK] +=
            seen[0][opcode] + seen[1][opcode] + seen[2][opcode] + seen[3][opcode];
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        totals->by_kind[kind] += numbers[kind];
        totals->calls += numbers[kind];
    }
    totals->instructions += count;
    totals->lane_changes += numbers[INSTRUCTION_LANE];
    totals->threads += numbers[INSTRUCTION_THREAD_BEGIN];
    totals->ticks += numbers[INSTRUCTION_TICK];
}

bool register_stack_reserve(struct register_stack *stack, uint64_t more)
{
    uint64_t wanted = stack->live + more;
    if (wanted <= stack->capacity) return true;
    if (wanted > INSTRUCTION_REGISTERS_MAX) return false;
    uint64_t capacity = stack->capacity == 0 ? 2 * INSTRUCTION_BLOCK_MAX : stack->capacity;
    while (capacity < wanted)
        capacity *= 2;
    uint32_t *order = (uint32_t *)pages_grow(stack->order, stack->capacity * sizeof *order,
                                             capacity * sizeof *order);
    if (order == NULL) return false;
    for (uint64_t i = stack->capacity; i < capacity; i++)
        order[i] = (uint32_t)i;
    stack->order = order;
    stack->capacity = capacity;
    return true;
}

void register_stack_free(struct register_stack *stack)
{
    pages_unmap(stack->order, stack->capacity * sizeof *stack->order);
    *stack = (struct register_stack){0};
}
