#include "inspect/births.h"

#include <stdlib.h>
#include <string.h>

#include "tracing/raw_format.h"

static bool lanes_reach(struct births *births, uint32_t lane)
{
    if (lane < births->lanes_count) return true;
    uint32_t count = births->lanes_count == 0 ? 64 : births->lanes_count;
    while (count <= lane)
        count *= 2;
    struct births_lane *grown = realloc(births->lanes, count * sizeof *grown);
    if (grown == NULL) return false;
    memset(grown + births->lanes_count, 0, (count - births->lanes_count) * sizeof *grown);
    births->lanes = grown;
    births->lanes_count = count;
    return true;
}

static bool loss_add(struct births_lane *lane, uint64_t count)
{
    if (lane->losses_count == lane->losses_room) {
        uint32_t room = lane->losses_room == 0 ? 8 : lane->losses_room * 2;
        struct births_loss *grown = realloc(lane->losses, room * sizeof *grown);
        if (grown == NULL) return false;
        lane->losses = grown;
        lane->losses_room = room;
    }
    lane->losses[lane->losses_count++] = (struct births_loss){lane->known + 1, count};
    return true;
}

bool births_add(struct births *births, uint32_t lane, uint64_t count, bool lost)
{
    if (!lanes_reach(births, lane)) return false;
    if (lost && count > 0 && !loss_add(&births->lanes[lane], count)) return false;
    births->lanes[lane].known += count;
    return true;
}

uint64_t births_known(const struct births *births, uint32_t lane)
{
    return lane < births->lanes_count ? births->lanes[lane].known : 0;
}

/* The loss that has this birth, or NULL. */
static const struct births_loss *loss_of(const struct births_lane *lane, uint64_t birth)
{
    uint32_t low = 0, high = lane->losses_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct births_loss *loss = &lane->losses[middle];
        if (birth < loss->from)
            high = middle;
        else if (birth - loss->from >= loss->count)
            low = middle + 1;
        else
            return loss;
    }
    return NULL;
}

enum birth births_find(const struct births *births, uint64_t bound)
{
    uint32_t lane = raw_births_lane(bound);
    uint64_t birth = raw_births_count(bound);
    if (lane >= births->lanes_count || birth > births->lanes[lane].known) return BIRTH_NOT_SEEN;
    return loss_of(&births->lanes[lane], birth) != NULL ? BIRTH_LOST : BIRTH_RECORDED;
}

bool births_have_lost(const struct births *births, uint64_t bound)
{
    uint32_t number = raw_births_lane(bound);
    const struct births_lane *lane = &births->lanes[number];
    return number < births->lanes_count && lane->losses_count > 0 &&
           lane->losses[0].from <= raw_births_count(bound);
}

uint64_t births_last_recorded(const struct births *births, uint64_t bound)
{
    uint32_t lane = raw_births_lane(bound);
    const struct births_loss *loss;
    /* Losses may follow one another. */
    while (lane < births->lanes_count &&
           (loss = loss_of(&births->lanes[lane], raw_births_count(bound))) != NULL)
        bound = raw_births(lane, loss->from - 1);
    return bound;
}

void births_free(struct births *births)
{
    for (uint32_t lane = 0; lane < births->lanes_count; lane++)
        free(births->lanes[lane].losses);
    free(births->lanes);
    *births = (struct births){.lanes = NULL};
}
