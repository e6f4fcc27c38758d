#include "postprocess/instruction.h"

#include <emmintrin.h>
#include <string.h>

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

/* Opcodes are counted sixteen at a time, by comparing with the few that make up nearly all of a stream: a histogram alone would
 * take several times as long. */
#define FREQUENT 4
typedef uint8_t opcode_vector __attribute__((vector_size(16)));

/* Additions of 0 or 1 to a byte before it must be emptied. */
#define VECTORS_MAX 255

/* The plain calls that occurred most often so far. */
static void totals_find_frequent(const struct instruction_totals *totals, uint8_t *frequent)
{
    uint64_t counts[FREQUENT] = {0};
    memset(frequent, 0, FREQUENT); /* no opcode is 0: how many of these there are nobody asks */
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        uint64_t count = totals->by_kind[kind];
        uint8_t candidate = (uint8_t)kind;
        for (unsigned place = 0; place < FREQUENT; place++) {
            if (count <= counts[place]) continue;
            uint64_t smaller_count = counts[place];
            uint8_t smaller = frequent[place];
            counts[place] = count;
            frequent[place] = candidate;
            count = smaller_count;
            candidate = smaller;
        }
    }
}

/* Counts opcodes[0 .. 16 * vectors - 1] into `seen`. At most VECTORS_MAX vectors. */
static void totals_count_vectors(const uint8_t *opcodes, size_t vectors, const uint8_t *frequent,
                                 uint64_t *seen)
{
    opcode_vector wanted[FREQUENT], counts[FREQUENT] = {{0}};
    for (unsigned place = 0; place < FREQUENT; place++)
        wanted[place] = frequent[place] - (opcode_vector){0};
    for (size_t i = 0; i < vectors; i++) {
        opcode_vector these, found = {0};
        memcpy(&these, opcodes + i * sizeof these, sizeof these);
#pragma GCC unroll 4
        for (unsigned place = 0; place < FREQUENT; place++) {
            opcode_vector equal = (opcode_vector)(these == wanted[place]);
            counts[place] -= equal; /* 255 is -1 */
            found |= equal;
        }
        unsigned others = ~(unsigned)_mm_movemask_epi8((__m128i)found) & 0xffff;
        for (; others != 0; others &= others - 1)
            seen[opcodes[i * sizeof these + (unsigned)__builtin_ctz(others)]]++;
    }
    for (unsigned place = 0; place < FREQUENT; place++)
        for (unsigned byte = 0; byte < sizeof counts[place]; byte++)
            seen[frequent[place]] += counts[place][byte];
}

void instruction_count_opcodes(const struct instruction_totals *totals, const uint8_t *opcodes,
                               size_t count, uint64_t seen[256])
{
    uint8_t frequent[FREQUENT];
    size_t done = 0;
    memset(seen, 0, 256 * sizeof *seen);
    totals_find_frequent(totals, frequent);
    while (count - done >= sizeof(opcode_vector)) {
        size_t vectors = (count - done) / sizeof(opcode_vector);
        if (vectors > VECTORS_MAX) vectors = VECTORS_MAX;
        totals_count_vectors(opcodes + done, vectors, frequent, seen);
        done += vectors * sizeof(opcode_vector);
    }
    for (; done < count; done++)
        seen[opcodes[done]]++;
}

void instruction_totals_add(struct instruction_totals *totals, const uint64_t seen[256])
{
    uint64_t by_number[INSTRUCTION_NUMBER_MASK + 1] = {0};
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        by_number[opcode & INSTRUCTION_NUMBER_MASK] += seen[opcode];
        totals->instructions += seen[opcode];
    }
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        totals->by_kind[kind] += by_number[kind];
        totals->calls += by_number[kind];
    }
    totals->lane_changes += by_number[INSTRUCTION_LANE];
    totals->threads += by_number[INSTRUCTION_THREAD_BEGIN];
    totals->ticks += by_number[INSTRUCTION_TICK];
    totals->freed_twice += by_number[INSTRUCTION_FREED_TWICE];
}

/* ---- registers ---- */

bool register_order_reserve(struct register_order *registers, uint64_t more)
{
    uint64_t wanted = registers->live + more;
    if (wanted <= registers->capacity) return true;
    if (wanted > INSTRUCTION_REGISTERS_MAX) return false;
    uint64_t capacity = registers->capacity == 0 ? 2 * INSTRUCTION_BLOCK_MAX : registers->capacity;
    while (capacity < wanted)
        capacity *= 2;
    uint32_t *order = (uint32_t *)pages_grow(registers->order, registers->capacity * sizeof *order,
                                             capacity * sizeof *order);
    if (order == NULL) return false;
    for (uint64_t i = registers->capacity; i < capacity; i++)
        order[i] = (uint32_t)i;
    registers->order = order;
    registers->capacity = capacity;
    return true;
}

void register_order_free(struct register_order *registers)
{
    pages_unmap(registers->order, registers->capacity * sizeof *registers->order);
    *registers = (struct register_order){0};
}
