#include "replay/slots.h"

#include <errno.h>

#include "common/pages.h"

#define SLOTS_CAPACITY_FIRST (UINT64_C(1) << 20)

bool slots_open(struct slots *slots)
{
    *slots = (struct slots){.free = SLOT_NONE};
    return slots_reserve(slots, 1);
}

void slots_close(struct slots *slots)
{
    pages_unmap(slots->objects, slots->registers * sizeof *slots->objects);
    pages_unmap(slots->slots, slots->capacity * sizeof *slots->slots);
    *slots = (struct slots){.free = SLOT_NONE};
}

bool slots_reserve_registers(struct slots *slots, uint64_t registers)
{
    uint64_t count = slots->registers > 0 ? slots->registers : SLOTS_CAPACITY_FIRST;
    if (registers <= slots->registers) return true;
    while (count < registers)
        count *= 2;
    struct slots_object *objects =
        pages_grow(slots->objects, slots->registers * sizeof *objects, count * sizeof *objects);
    if (objects == NULL) return false;
    slots->objects = objects;
    slots->registers = count;
    return true;
}

bool slots_reserve(struct slots *slots, uint64_t allocations)
{
    struct slots wanted = *slots;
    if (wanted.capacity == 0) wanted.capacity = SLOTS_CAPACITY_FIRST;
    while (!slots_suffice(&wanted, allocations))
        wanted.capacity *= 2;
    if (wanted.capacity > SLOTS_MAX) {
        errno = ENOMEM;
        return false;
    }
    if (wanted.capacity == slots->capacity) return true;
    struct slot *grown =
        pages_grow(slots->slots, slots->capacity * sizeof *grown, wanted.capacity * sizeof *grown);
    if (grown == NULL) return false;
    slots->slots = grown;
    slots->capacity = wanted.capacity;
    return true;
}

uint32_t slots_take_line(struct slots *slots, struct slots_lane *lane)
{
    uint64_t line = slots->used;
    slots->used += SLOTS_PER_LINE;
    for (uint32_t i = SLOTS_PER_LINE - 1; i > 0; i--)
        slots_keep(slots, lane, (uint32_t)(line + i));
    return (uint32_t)line;
}
