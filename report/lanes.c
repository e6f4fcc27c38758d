#include "report/lanes.h"

#include "common/pages.h"
#include "stream/instruction.h"

#define LANES_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct lane_counts))
#define PAIRS_BYTES (LANE_PAIRS_TABLE * sizeof(struct lane_pair))

bool lanes_open(struct lanes *lanes)
{
    *lanes = (struct lanes){.lanes = pages_map(LANES_BYTES), .pairs = pages_map(PAIRS_BYTES)};
    return lanes->lanes != NULL && lanes->pairs != NULL;
}

void lanes_close(struct lanes *lanes)
{
    pages_unmap(lanes->lanes, LANES_BYTES);
    pages_unmap(lanes->pairs, PAIRS_BYTES);
    *lanes = (struct lanes){.lanes = NULL};
}

static struct lane_pair *lanes_pair_find(struct lanes *lanes, uint64_t key)
{
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (lanes->pairs[at % LANE_PAIRS_TABLE].key != key &&
           lanes->pairs[at % LANE_PAIRS_TABLE].key != 0)
        at++;
    return &lanes->pairs[at % LANE_PAIRS_TABLE];
}

void lanes_add_remote_free(struct lanes *lanes, unsigned owner, unsigned ender, uint64_t bytes)
{
    const uint64_t key = 1 + ((uint64_t)owner << 16 | ender);
    struct lane_pair *pair = lanes_pair_find(lanes, key);
    if (pair->key == 0 && lanes->pairs_count == LANE_PAIRS_MAX) {
        pair = &lanes->other_pairs;
    } else if (pair->key == 0) {
        pair->key = key;
        lanes->pairs_count++;
    }
    pair->objects++;
    pair->bytes += bytes;
}

void lanes_add_turn(struct lane_counts *lane, uint64_t calls, uint64_t first_ms, uint64_t last_ms)
{
    if (calls == 0) return;
    if (lane->calls == 0) lane->first_ms = first_ms;
    lane->last_ms = last_ms;
    lane->calls += calls;
    lane->turns++;
    if (calls > lane->longest) lane->longest = calls;
}
