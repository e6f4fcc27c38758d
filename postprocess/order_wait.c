#include <inttypes.h>

#include "postprocess/order_state.h"

/* ---- the ready queue ---- */

void order_make_ready(struct order *order, struct order_lane *lane)
{
    lane->state = LANE_READY;
    lane->next = NULL;
    if (order->ready == NULL)
        order->ready = lane;
    else
        order->ready_last->next = lane;
    order->ready_last = lane;
}

static void order_make_ready_first(struct order *order, struct order_lane *lane)
{
    lane->state = LANE_READY;
    lane->next = order->ready;
    if (order->ready == NULL) order->ready_last = lane;
    order->ready = lane;
}

struct order_lane *order_next_ready(struct order *order)
{
    struct order_lane *lane = order->ready;
    if (lane != NULL) order->ready = lane->next;
    return lane;
}

/* Something it waited for has come. Lanes that hold up the oldest window go before those that
 * overtake it. */
static void order_wake(struct order *order, struct order_lane *lane)
{
    if (order->admitted > order->oldest && lane_is_behind(order, lane))
        order_make_ready_first(order, lane);
    else
        order_make_ready(order, lane);
}

/* ---- waiting ---- */

static bool lane_waits(struct order_lane *lane, struct order_lane **waiters, uint32_t structure,
                       uint64_t number)
{
    while (*waiters != NULL && (*waiters)->wait_number <= number)
        waiters = &(*waiters)->next;
    lane->next = *waiters;
    *waiters = lane;
    lane->state = LANE_WAITS;
    lane->wait_structure = structure;
    lane->wait_number = number;
    return false;
}

bool lane_waits_for_sequence(struct order *order, struct order_lane *lane,
                             const struct record *record)
{
    uint32_t index = structure_index(record->structure);
    return lane_waits(lane, &order->structures[index].waiters, index, record->size);
}

bool lane_waits_for_allocations(struct order *order, struct order_lane *lane, uint64_t bound)
{
    struct order_lane *other = order_lane(order, raw_allocations_lane(bound));
    return other != NULL && lane_waits(lane, &other->waiters, STRUCTURES, bound);
}

void order_wake_waiters(struct order *order, struct order_lane **waiters, uint64_t reached)
{
    while (*waiters != NULL && (*waiters)->wait_number <= reached) {
        struct order_lane *lane = *waiters;
        *waiters = lane->next;
        order_wake(order, lane);
    }
}

void order_stop_waiting(struct order *order, struct order_lane *lane)
{
    struct order_lane **waiters =
        lane->wait_structure < STRUCTURES
            ? &order->structures[lane->wait_structure].waiters
            : &order->lanes[raw_allocations_lane(lane->wait_number)]->waiters;
    while (*waiters != lane)
        waiters = &(*waiters)->next;
    *waiters = lane->next;
    order_make_ready(order, lane);
}

/* Whether the recording ended before the bound's lane had as many allocations (FORMAT.md 4.4). */
static bool order_never_reaches(const struct order *order, uint64_t bound)
{
    uint32_t other = raw_allocations_lane(bound);
    if (!order->ended) return false;
    return other >= order->lanes_room || order->lanes[other] == NULL ||
           raw_allocations_count(bound) > order->lanes[other]->allocations_in_stream;
}

uint64_t order_within_stream(const struct order *order, uint64_t bound)
{
    if (!order_never_reaches(order, bound)) return bound;
    uint32_t number = raw_allocations_lane(bound);
    const struct order_lane *lane = number < order->lanes_room ? order->lanes[number] : NULL;
    return raw_allocations(number, lane != NULL ? lane->allocations_in_stream : 0);
}

enum order_bound order_bound(struct order *order, const struct order_lane *lane, uint64_t bound)
{
    if (order_is_allocated(order, lane, bound)) return BOUND_REACHED;
    if (order_never_reaches(order, bound)) return BOUND_NEVER;
    if (order_lane(order, raw_allocations_lane(bound)) == NULL) return BOUND_AHEAD;
    return lane->given_up == bound ? BOUND_NEVER : BOUND_AHEAD;
}

/* ---- sequence numbers ---- */

void order_pass_sequence(struct order *order, uint32_t index)
{
    struct order_structure *structure = &order->structures[index];
    structure->next++;
    order->totals.sequences++;
    order_wake_waiters(order, &structure->waiters, structure->next);
}

bool order_take_sequence(struct order *order, struct order_lane *lane, const struct record *record)
{
    struct order_structure *structure = &order->structures[structure_index(record->structure)];
    if (__builtin_expect(record->size != structure->next, 0)) {
        if (record->size > structure->next) return lane_waits_for_sequence(order, lane, record);
        if (structure->skipped) return true;
        return ORDER_DAMAGE(order, lane, ORDER_SEQUENCE_REPEATED,
                            ": number %" PRIu64 " of structure %" PRIu32 ", after %" PRIu64,
                            record->size, record->structure, structure->next - 1);
    }
    order_pass_sequence(order, structure_index(record->structure));
    return true;
}
