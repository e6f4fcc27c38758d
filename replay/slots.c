#include "replay/slots.h"

#include <errno.h>

#include "common/pages.h"

#define SLOTS_CAPACITY_FIRST (UINT64_C(1) << 20)

bool slots_open(struct slots *slots)
{
    *slots = (struct slots){.free = SLOT_NONE};
    return slots_reserve(slots, 1, 1);
}

void slots_close(struct slots *slots)
{
    pages_unmap(slots->objects, slots->registers * sizeof *slots->objects);
    pages_unmap(slots->slots, slots->capacity * sizeof *slots->slots);
    *slots = (struct slots){.free = SLOT_NONE};
}

bool slots_reserve(struct slots *slots, uint64_t registers, uint64_t allocations)
{
    const uint64_t count = slots->used + allocations * SLOTS_PER_LINE;
    errno = ENOMEM;
    return count <= SLOTS_MAX &&
           pages_reserve(&slots->slots, &slots->capacity, count, SLOTS_CAPACITY_FIRST,
                         sizeof *slots->slots) &&
           pages_reserve(&slots->objects, &slots->registers, registers, SLOTS_CAPACITY_FIRST,
                         sizeof *slots->objects);
}

uint32_t slots_take_line(struct slots *slots, struct slots_lane *lane)
{
    uint64_t line = slots->used;
    slots->used += SLOTS_PER_LINE;
    for (uint32_t i = SLOTS_PER_LINE - 1; i > 0; i--)
        slots_keep(slots, lane, (uint32_t)(line + i));
    return (uint32_t)line;
}
