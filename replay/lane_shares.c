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

/* From one lane instruction to the next. The few other instructions that are no calls count,
 * too. */
void lane_shares_add(struct lane_shares *shares, const struct instruction_batch *batch)
{
    const uint8_t *at = batch->opcodes, *const end = at + batch->count, *lane;
    const struct instruction *next = batch->at;
    for (; (lane = memchr(at, INSTRUCTION_LANE, (size_t)(end - at))) != NULL; at = lane + 1) {
        shares->calls[shares->lane] += (uint64_t)(lane - at);
        shares->all += (uint64_t)(lane - at);
        while (next->opcode != INSTRUCTION_LANE)
            next++;
        shares->lane = batch->operands[next++->operand_at];
        if (shares->lane >= shares->lanes) shares->lanes = shares->lane + 1;
    }
    shares->calls[shares->lane] += (uint64_t)(end - at);
    shares->all += (uint64_t)(end - at);
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
