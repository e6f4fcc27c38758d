#include <inttypes.h>

#include "postprocess/order_state.h"

/* ---- windows ---- */

/* Gives lanes their turns until none can go on, or the oldest window has ended. */
bool order_run_ready(struct order *order)
{
    struct order_lane *lane;
    while ((lane = order_next_ready(order)) != NULL) {
        order_run_lane(order, lane);
        if (order_failed(order)) return false;
        if (order_window(order, order->oldest)->lanes_left == 0) break;
    }
    return true;
}

/* Lets lanes into the next window. */
void order_admit(struct order *order, uint64_t window)
{
    struct order_window *admitted = order_window(order, window);
    order->admitted = window;
    for (uint32_t i = 0; i < admitted->lanes_count; i++) {
        struct order_lane *lane = order->lanes[admitted->lanes[i]];
        uint64_t records = lane_records_left(lane) / TURNS_PER_WINDOW;
        lane->turn_records = records < TURN_RECORDS_MIN   ? TURN_RECORDS_MIN
                             : records > TURN_RECORDS_MAX ? TURN_RECORDS_MAX
                                                          : (uint32_t)records;
        if (lane->state == LANE_IDLE) order_make_ready(order, lane);
    }
}

/* Makes lanes of these windows, as far as they have been let in, ready that have gone far ahead and stopped. */
void order_unpark(struct order *order, uint64_t first, uint64_t last)
{
    for (uint64_t number = first; number <= last && number <= order->admitted; number++) {
        const struct order_window *window = order_window(order, number);
        for (uint32_t i = 0; i < window->lanes_count; i++) {
            struct order_lane *lane = order->lanes[window->lanes[i]];
            if (lane->state == LANE_IDLE) order_make_ready(order, lane);
        }
    }
}

void order_end_window(struct order *order)
{
    struct order_window *window = order_window(order, order->oldest);
    bool last = order->ended && order->oldest + 1 == order->open;
    if (!last) {
        uint64_t now = window->tick.since_start_ns;
        instruction_put_tick(order->writer, now - order->last_tick_ns, window->tick.rss_bytes,
                             window->tick.heap_bytes);
        order->last_tick_ns = now;
    }
    window->lanes_count = 0;
    order->totals.windows++;
    order->totals.windows_overtaken += order->admitted > order->oldest;
    order->oldest++;
}

/* ---- when nothing goes on ---- */

static void heap_empty(struct wait_heap *heap)
{
    heap->count = 0;
    heap->lowest = UINT64_MAX;
}

/* Lets every waiting lane look again. */
static void order_wake_all(struct order *order)
{
    for (uint32_t i = 0; i < STRUCTURES; i++)
        heap_empty(&order->structures[i].waiters);
    for (uint32_t i = 0; i < order->lanes_count; i++) {
        struct order_lane *lane = order->lanes[i];
        if (lane == NULL) continue;
        heap_empty(&lane->birth_waiters);
        if (lane->state == LANE_WAITS) order_make_ready(order, lane);
    }
}

/* Lets one lane that waits in the middle of its unit, and has at least so many records left in its window, enter what
 * it can enter: its thread has dropped one lock to take another, and others came between. False: there is none. */
bool order_step(struct order *order, uint64_t records_left)
{
    for (uint32_t count = order->steppable_count; count > 0; count--) {
        struct order_lane *lane = order->lanes[order->steppable[order->steppable_first]];
        order->steppable_first = (order->steppable_first + 1) % RAW_LANES_MAX;
        order->steppable_count--;
        lane->listed = false;
        if (lane->state != LANE_WAITS || !lane->in_unit) continue;
        if (lane_records_left(lane) < records_left) {
            order_list_steppable(order, lane);
            continue;
        }
        wait_heap_remove(&order->structures[lane->wait_structure].waiters, lane->number);
        lane->stepwise = true;
        order_make_ready(order, lane);
        order->totals.units_stepped++;
        return true;
    }
    return false;
}

/* Units are what is wanted, not what is known: let calls go without them. */
static bool order_relax(struct order *order)
{
    uint64_t records = order->totals.records;
    order->relaxed = true;
    order_wake_all(order);
    order_run_ready(order);
    order->relaxed = false;
    if (order->totals.records == records) return false;
    order->totals.relaxed++;
    return true;
}

/* Where numbers are missing and may be: goes on with the lowest that is there. */
static bool order_skip_missing(struct order *order)
{
    uint64_t lowest[STRUCTURES];
    bool skipped = false;
    for (uint32_t i = 0; i < STRUCTURES; i++)
        lowest[i] = UINT64_MAX;
    for (uint32_t i = 0; i < order->lanes_count; i++)
        if (order->lanes[i] != NULL && !lane_is_exhausted(order->lanes[i]))
            lane_look_ahead(order->lanes[i], lowest);
    for (uint32_t i = 0; i < STRUCTURES; i++) {
        struct order_structure *structure = &order->structures[i];
        if (lowest[i] == UINT64_MAX || lowest[i] <= structure->next) continue;
        order->totals.stamps_missing += lowest[i] - structure->next;
        structure->next = lowest[i];
        structure->skipped = skipped = true;
        structure_advance(order, structure);
    }
    return skipped;
}

bool order_report_stuck(struct order *order)
{
    const struct order_lane *stuck = NULL;
    for (uint32_t i = 0; i < order->lanes_count && stuck == NULL; i++)
        if (order->lanes[i] != NULL && order->lanes[i]->state == LANE_WAITS &&
            (lane_is_behind(order, order->lanes[i]) || order->ended))
            stuck = order->lanes[i];
    if (stuck == NULL)
        return error_set(&order->error, &order_errors[ORDER_STUCK], ERROR_NO_OFFSET, NULL);
    if (stuck->wait_structure == STRUCTURES)
        return ORDER_FAIL(order, stuck, ORDER_STUCK,
                          ": waits for object %" PRIu64 " of lane %" PRIu32,
                          raw_token_serial(stuck->wait_number), raw_token_lane(stuck->wait_number));
    return ORDER_FAIL(order, stuck, ORDER_STUCK,
                      ": waits for its turn with number %" PRIu64 " of structure %" PRIu32
                      ", which is at %" PRIu64,
                      stuck->wait_number, structure_number(stuck->wait_structure),
                      order->structures[stuck->wait_structure].next);
}

/* Whether numbers may be missing: at the end (FORMAT.md 4.4), or because records were lost. */
static bool order_may_skip(const struct order *order)
{
    return order->ended || order->totals.lost_events > 0;
}

/* Nothing goes on, though all there is has been let in. */
bool order_unstick(struct order *order)
{
    if (order_may_skip(order) && order_skip_missing(order)) return true;
    if (order_failed(order)) return false;
    return order_relax(order) || order_report_stuck(order);
}
