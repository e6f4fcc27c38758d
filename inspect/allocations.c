#include "inspect/allocations.h"

#include <stdlib.h>
#include <string.h>

#include "tracing/raw_format.h"

static bool lanes_reach(struct allocations *allocations, uint32_t lane)
{
    if (lane < allocations->lanes_count) return true;
    uint32_t count = allocations->lanes_count == 0 ? 64 : allocations->lanes_count;
    while (count <= lane)
        count *= 2;
    struct allocations_lane *grown = realloc(allocations->lanes, count * sizeof *grown);
    if (grown == NULL) return false;
    memset(grown + allocations->lanes_count, 0, (count - allocations->lanes_count) * sizeof *grown);
    allocations->lanes = grown;
    allocations->lanes_count = count;
    return true;
}

static bool loss_add(struct allocations_lane *lane, uint64_t count)
{
    if (lane->losses_count == lane->losses_room) {
        uint32_t room = lane->losses_room == 0 ? 8 : lane->losses_room * 2;
        struct allocations_loss *grown = realloc(lane->losses, room * sizeof *grown);
        if (grown == NULL) return false;
        lane->losses = grown;
        lane->losses_room = room;
    }
    lane->losses[lane->losses_count++] = (struct allocations_loss){lane->known + 1, count};
    return true;
}

bool allocations_add(struct allocations *allocations, uint32_t lane, uint64_t count, bool lost)
{
    if (!lanes_reach(allocations, lane)) return false;
    if (lost && count > 0 && !loss_add(&allocations->lanes[lane], count)) return false;
    allocations->lanes[lane].known += count;
    return true;
}

/* The loss that has this allocation, or NULL. */
static const struct allocations_loss *loss_of(const struct allocations_lane *lane,
                                              uint64_t allocation)
{
    uint32_t low = 0, high = lane->losses_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct allocations_loss *loss = &lane->losses[middle];
        if (allocation < loss->from)
            high = middle;
        else if (allocation - loss->from >= loss->count)
            low = middle + 1;
        else
            return loss;
    }
    return NULL;
}

enum allocation allocations_find(const struct allocations *allocations, uint64_t bound)
{
    uint32_t lane = raw_allocations_lane(bound);
    uint64_t allocation = raw_allocations_count(bound);
    if (lane >= allocations->lanes_count || allocation > allocations->lanes[lane].known)
        return ALLOCATION_NOT_SEEN;
    return loss_of(&allocations->lanes[lane], allocation) != NULL ? ALLOCATION_LOST
                                                                  : ALLOCATION_RECORDED;
}

bool allocations_have_lost(const struct allocations *allocations, uint64_t bound)
{
    uint32_t number = raw_allocations_lane(bound);
    const struct allocations_lane *lane = &allocations->lanes[number];
    return number < allocations->lanes_count && lane->losses_count > 0 &&
           lane->losses[0].from <= raw_allocations_count(bound);
}

uint64_t allocations_last_recorded(const struct allocations *allocations, uint64_t bound)
{
    uint32_t lane = raw_allocations_lane(bound);
    const struct allocations_loss *loss;
    /* Losses may follow one another. */
    while (lane < allocations->lanes_count &&
           (loss = loss_of(&allocations->lanes[lane], raw_allocations_count(bound))) != NULL)
        bound = raw_allocations(lane, loss->from - 1);
    return bound;
}

void allocations_free(struct allocations *allocations)
{
    for (uint32_t lane = 0; lane < allocations->lanes_count; lane++)
        free(allocations->lanes[lane].losses);
    free(allocations->lanes);
    *allocations = (struct allocations){.lanes = NULL};
}
