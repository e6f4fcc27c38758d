#include "replay/lane_shares.h"

#include <string.h>

#include "common/pages.h"

#define CALLS_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint64_t))

bool lane_shares_open(struct lane_shares *shares, struct error *error)
{
    *shares = (struct lane_shares){.calls = pages_map(CALLS_BYTES), .lanes = 1};
    return shares->calls != NULL || error_set_system(error, "no memory to count calls");
}

void lane_shares_close(struct lane_shares *shares)
{
    if (shares->calls != NULL) pages_unmap(shares->calls, CALLS_BYTES);
    shares->calls = NULL;
}

static void add_calls(struct lane_shares *shares, uint64_t calls)
{
    shares->calls[shares->lane] += calls;
    shares->all += calls;
}

/* Adds up the instructions between turns. The few that are not calls count, too. */
void lane_shares_add(struct lane_shares *shares, const struct instruction_batch *batch)
{
    const struct instruction_turn *turn = batch->turns, *const end = turn + batch->turns_count;
    size_t from = 0;
    for (; turn < end; from = turn++->at + 1) {
        add_calls(shares, turn->at - from);
        shares->lane = turn->lane;
        if (shares->lane >= shares->lanes) shares->lanes = shares->lane + 1;
    }
    add_calls(shares, batch->count - from);
}

unsigned lane_shares_busy(const struct lane_shares *shares)
{
    unsigned busy = 0;
    for (unsigned lane = 0; shares->all > 0 && lane < shares->lanes; lane++)
        busy += shares->calls[lane] > 0 && shares->calls[lane] * LANE_SHARE >= shares->all;
    return busy;
}

const struct engine *lane_shares_engine(const struct lane_shares *shares)
{
    return lane_shares_busy(shares) > 1 ? &engine_threads : &engine_switch;
}
