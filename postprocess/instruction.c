#include "postprocess/instruction.h"

#include "common/call_table.h"
#include "common/pages.h"

/* A block is histogrammed in four tables, so that equal opcodes in a row do not wait for one another. */
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
    uint32_t seen[HISTOGRAMS][INSTRUCTION_NUMBER_MASK + 1] = {{0}};
    size_t i = 0;
    for (; i + HISTOGRAMS <= count; i += HISTOGRAMS)
        for (size_t table = 0; table < HISTOGRAMS; table++)
            seen[table][opcodes[i + table] & INSTRUCTION_NUMBER_MASK]++;
    for (; i < count; i++)
        seen[0][opcodes[i] & INSTRUCTION_NUMBER_MASK]++;

    for (unsigned number = 0; number <= INSTRUCTION_NUMBER_MASK; number++) {
        for (size_t table = 1; table < HISTOGRAMS; table++)
            seen[0][number] += seen[table][number];
        if (number < CALL_KINDS) {
            totals->by_kind[number] += seen[0][number];
            totals->calls += seen[0][number];
        }
    }
    totals->instructions += count;
    totals->lane_changes += seen[0][INSTRUCTION_LANE];
    totals->threads += seen[0][INSTRUCTION_THREAD_BEGIN];
    totals->ticks += seen[0][INSTRUCTION_TICK];
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
