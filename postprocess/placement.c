#include "postprocess/placement.h"

#include <stdlib.h>

#include "common/array.h"
#include "stream/raw_format.h"

/* 512 places that follow each other in memory. */
struct placement_run {
    uint32_t first; /* 0: the entry is not used */
    uint64_t address;
};

void placement_free(struct placement *placement)
{
    free(placement->runs);
    free(placement->bytes);
    *placement = (struct placement){0};
}

void placement_note_page(struct placement *placement, uint32_t place, uint64_t address)
{
    const size_t index = place / RAW_PAGE_PLACES;
    if (!array_reserve(&placement->runs, &placement->runs_room, index + 1,
                       sizeof *placement->runs)) {
        placement->failed = true;
        return;
    }
    placement->runs[index] = (struct placement_run){place, address};
}

uint64_t placement_address(const struct placement *placement, uint32_t place)
{
    for (size_t i = 0; i < 2; i++) {
        const size_t index = place / RAW_PAGE_PLACES - i;
        if (index >= placement->runs_room) continue;
        const struct placement_run *run = &placement->runs[index];
        if (run->first != 0 && run->first <= place && place - run->first < RAW_PAGE_PLACES)
            return run->address + (uint64_t)(place - run->first) * RAW_GRANULE_BYTES;
    }
    return 0;
}

bool placement_meet(const struct placement *placement, uint32_t place, uint64_t bytes,
                    uint32_t other, uint64_t other_bytes)
{
    uint64_t at = placement_address(placement, place);
    uint64_t there = placement_address(placement, other);
    if (at == 0 || there == 0) {
        at = (uint64_t)place * RAW_GRANULE_BYTES;
        there = (uint64_t)other * RAW_GRANULE_BYTES;
    }
    return at < there + (other_bytes != 0 ? other_bytes : 1) &&
           there < at + (bytes != 0 ? bytes : 1);
}

void placement_make_room(struct placement *placement, uint32_t register_number)
{
    if (!array_reserve(&placement->bytes, &placement->bytes_room, register_number + (size_t)1,
                       sizeof *placement->bytes))
        placement->failed = true;
}
