#include "replay/lane_shares.h"

#include "common/call_table.h"
#include "common/pages.h"

#define CALLS_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint64_t))

bool lane_shares_open(struct lane_shares *shares, struct error *error)
{
    *shares = (struct lane_shares){.calls = pages_map(CALLS_BYTES)};
    return shares->calls != NULL || error_set_system(error, "no memory to count calls");
}

void lane_shares_close(struct lane_shares *shares)
{
    if (shares->calls != NULL) pages_unmap(shares->calls, CALLS_BYTES);
    shares->calls = NULL;
}

void lane_shares_add(struct lane_shares *shares, const struct instruction_batch *batch)
{
    const struct instruction *next = batch->at;
    for (size_t i = 0; i < batch->count; i++) {
        bool plain = instruction_effects[batch->opcodes[i]] != INSTRUCTION_NOT_PLAIN;
        const struct instruction *one = plain ? NULL : next++;
        bool call = plain || instruction_number(one) < CALL_KINDS;
        if (!plain && one->opcode == INSTRUCTION_LANE)
            shares->lane = batch->operands[one->operand_at];
        shares->calls[shares->lane] += call;
        shares->all += call;
    }
}

unsigned lane_shares_busy(const struct lane_shares *shares)
{
    unsigned busy = 0;
    for (unsigned lane = 0; shares->all > 0 && lane < INSTRUCTION_LANES_MAX; lane++)
        busy += shares->calls[lane] > 0 && shares->calls[lane] * LANE_SHARE >= shares->all;
    return busy;
}
