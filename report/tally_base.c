#include <string.h>

#include "report/tally.h"

/* Of the objects of lanes and of sizes, only those that are alive stay. */
static void forget_lanes(struct lanes *lanes)
{
    for (uint32_t i = 0; i < INSTRUCTION_LANES_MAX; i++) {
        struct lane_counts *lane = &lanes->lanes[i];
        if (lane->made == 0 && lane->ended == 0 && lane->threads == 0) continue;
        *lane = (struct lane_counts){
            .threads = lane->threads, .thread = lane->thread, .live = lane->live};
    }
    memset(lanes->pairs, 0, LANE_PAIRS_TABLE * sizeof *lanes->pairs);
    lanes->pairs_count = 0;
    lanes->other_pairs = (struct lane_pair){.key = 0};
}

static void forget_sizes(struct sizes *sizes)
{
    for (uint32_t i = 0; i < sizes->count; i++) {
        struct size_entry *entry = &sizes->entries[i];
        entry->count = entry->bytes = entry->latest_call = entry->lifetime_calls = 0;
    }
}

void tally_end_base(struct tally *tally)
{
    forget_lanes(&tally->lanes);
    forget_sizes(&tally->sizes);
    tally->base_live = tally->live;
    tally->base_bytes = tally->live_bytes;
    tally->base_ns = tally->ns;
    tally->made = tally->bytes = tally->remote_frees = 0;
    tally->lifetimes = (struct tally_lifetimes){.calls = {0}};
    tally->realloc = (struct tally_reallocs){.moved = 0};
    for (uint64_t i = 0; i < tally->live; i++)
        tally->objects[i].bytes_before = 0;
    tally->epoch++;
    tally->most_live_bytes = tally->live_bytes;
    tally->peak = (struct tally_peak){tally->live_bytes, tally->live, 0, tally->ms};
    tally->timeline.begin_ns = tally->ns;
}
