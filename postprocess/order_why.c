#include <stdlib.h>

#include "postprocess/order_state.h"

uint64_t order_why_instructions(const struct order *order)
{
    const struct instruction_writer *writer = order->writer;
    return writer->totals.instructions + writer->count;
}

void order_why_waits(struct order *order, struct order_lane *lane)
{
    if (lane->waits == NULL) lane->waits = calloc(1, sizeof *lane->waits);
    if (lane->waits == NULL) return;
    lane->waits->latest[lane->waits->count++ % ORDER_WAITS_MAX] = (struct order_wait){
        .record = lane_position(lane),
        .is_stamp = lane->wait_structure < STRUCTURES,
        .structure = structure_number(lane->wait_structure),
        .number = lane->wait_number,
        .from = order_why_instructions(order),
    };
}

void order_why_released(struct order *order, struct order_lane *lane, enum order_release release)
{
    if (lane->waits == NULL || lane->waits->count == 0) return;
    struct order_wait *wait = &lane->waits->latest[(lane->waits->count - 1) % ORDER_WAITS_MAX];
    const struct order_lane *by = order->running;
    wait->to = order_why_instructions(order);
    wait->release =
        order->ended && by == NULL && release == ORDER_CAME ? ORDER_DONE_WITHOUT : release;
    wait->has_releaser = release == ORDER_CAME && by != NULL;
    if (!wait->has_releaser) return;
    wait->lane = by->number;
    /* Births are told of at the end of a turn: the latest record is the nearest that is known. */
    wait->lane_record = lane_position(by) - (wait->is_stamp ? 0 : 1);
}

/* The record just taken is what is asked for. */
static void answer(struct order *order, const struct order_lane *lane)
{
    struct order_answer *to = &order->answer;
    const struct order_window *window = NULL;
    to->found = true;
    to->lane = lane->number;
    to->record = lane_position(lane) - 1;
    to->offset = lane_offset(lane);
    if (lane->marks_count > 0) {
        to->window = lane_mark_at(lane, 0)->window;
        window = order_window(order, to->window);
        to->admitted_at = window->admitted_at;
        to->overtook = window->overtook;
    }
    if (lane->waits == NULL) return;
    uint32_t count = lane->waits->count;
    uint32_t kept = count < ORDER_WAITS_MAX ? count : ORDER_WAITS_MAX;
    for (uint32_t i = 0; i < kept; i++)
        to->waits[i] = lane->waits->latest[(count - kept + i) % ORDER_WAITS_MAX];
    to->waits_count = kept;
}

void order_why_taken(struct order *order, struct order_lane *lane, const struct record *record,
                     uint64_t before)
{
    uint64_t now = order_why_instructions(order);
    if (order->why >= before && order->why < now && !order->answer.found) answer(order, lane);
    /* What comes now is another call, unless this was a stamp on behalf of it. */
    if (record->number != RAW_STAMP_BEFORE && lane->waits != NULL) lane->waits->count = 0;
}
