#include "cli/births.h"

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

static bool loss_has(const struct births_lane *lane, uint64_t serial)
{
    uint32_t low = 0, high = lane->losses_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct births_loss *loss = &lane->losses[middle];
        if (serial < loss->from)
            high = middle;
        else if (serial - loss->from >= loss->count)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

enum birth births_find(const struct births *births, uint64_t token)
{
    uint32_t lane = raw_token_lane(token);
    uint64_t serial = raw_token_serial(token);
    if (serial > births_known(births, lane)) return BIRTH_NOT_SEEN;
    return loss_has(&births->lanes[lane], serial) ? BIRTH_LOST : BIRTH_RECORDED;
}

void births_free(struct births *births)
{
    for (uint32_t lane = 0; lane < births->lanes_count; lane++)
        free(births->lanes[lane].losses);
    free(births->lanes);
    *births = (struct births){.lanes = NULL};
}
