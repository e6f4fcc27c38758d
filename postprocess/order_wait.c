#include <inttypes.h>
#include <stdlib.h>

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
static void order_wake(struct order *order, uint32_t number)
{
    struct order_lane *lane = order->lanes[number];
    if (order->admitted > order->oldest && lane_is_behind(order, lane))
        order_make_ready_first(order, lane);
    else
        order_make_ready(order, lane);
}

/* ---- waiting ---- */

/* Always false, for `return lane_waits_...`: the record at hand cannot be taken now. */
static bool lane_waits_for_sequence(struct order *order, struct order_lane *lane, uint32_t index,
                                    uint64_t number)
{
    if (!wait_heap_add(&order->structures[index].waiters, number, lane->number))
        return order_no_memory(order);
    lane->state = LANE_WAITS;
    lane->wait_structure = index;
    lane->wait_number = number;
    return false;
}

bool lane_waits_for_allocations(struct order *order, struct order_lane *lane, uint64_t bound)
{
    struct order_lane *other = order_lane(order, raw_allocations_lane(bound));
    if (other == NULL) return false;
    if (!wait_heap_add(&other->allocation_waiters, raw_allocations_count(bound), lane->number))
        return order_no_memory(order);
    lane->state = LANE_WAITS;
    lane->wait_structure = STRUCTURES;
    lane->wait_number = bound;
    return false;
}

void order_wake_for_allocations(struct order *order, struct order_lane *lane, uint64_t allocations)
{
    uint32_t number;
    while (wait_heap_take(&lane->allocation_waiters, allocations, &number))
        order_wake(order, number);
}

/* Whether the recording ended before the lane had so many allocations (FORMAT.md 4.4). */
static bool order_never_reaches(const struct order *order, uint64_t bound)
{
    uint32_t other = raw_allocations_lane(bound);
    if (!order->ended) return false;
    return other >= order->lanes_room || order->lanes[other] == NULL ||
           raw_allocations_count(bound) > order->lanes[other]->allocations_in_stream;
}

enum order_bound order_bound(struct order *order, const struct order_lane *lane, uint64_t bound)
{
    if (order_is_allocated(order, lane, bound)) return BOUND_REACHED;
    if (order_never_reaches(order, bound)) return BOUND_NEVER;
    if (order_lane(order, raw_allocations_lane(bound)) == NULL) return BOUND_AHEAD;
    return lane->given_up == bound ? BOUND_NEVER : BOUND_AHEAD;
}

/* ---- sequence numbers ---- */

/* Wakes whoever's turn it is. */
void structure_advance(struct order *order, struct order_structure *structure)
{
    uint32_t number;
    while (wait_heap_take(&structure->waiters, structure->next, &number))
        order_wake(order, number);
}

bool order_take_sequence(struct order *order, struct order_lane *lane, const struct record *record)
{
    uint32_t index = structure_index(record->structure);
    struct order_structure *structure = &order->structures[index];
    if (__builtin_expect(record->size != structure->next, 0)) {
        if (record->size > structure->next)
            return lane_waits_for_sequence(order, lane, index, record->size);
        if (structure->skipped) return true;
        return ORDER_DAMAGE(order, lane, ORDER_SEQUENCE_REPEATED,
                            ": number %" PRIu64 " of structure %" PRIu32 ", after %" PRIu64,
                            record->size, record->structure, structure->next - 1);
    }
    structure->next++;
    order->totals.sequences++;
    if (structure->waiters.lowest <= structure->next) structure_advance(order, structure);
    return true;
}

/* ---- units ---- */

/* Notes a lane that waits for a number in the middle of its unit: if nothing else goes on, it has
 * to enter what it can enter (order_step). */
bool order_list_steppable(struct order *order, struct order_lane *lane)
{
    if (lane->listed) return true;
    if (order->steppable == NULL) {
        order->steppable = malloc(RAW_LANES_MAX * sizeof *order->steppable);
        if (order->steppable == NULL) return order_no_memory(order);
    }
    order->steppable[(order->steppable_first + order->steppable_count++) % RAW_LANES_MAX] =
        lane->number;
    lane->listed = true;
    return true;
}

/* Whether it is the unit's turn at one of its sequence numbers, given that it takes those before it. */
static bool unit_may_take(struct order *order, const struct record *sequence, uint64_t unit)
{
    struct order_structure *structure = &order->structures[structure_index(sequence->structure)];
    if (structure->unit != unit) {
        structure->unit = unit;
        structure->unit_count = 0;
    }
    return sequence->size <= structure->next + structure->unit_count++;
}

/* Whether the unit that begins with the record at hand, a sequence number before a call or a call, can be
 * taken as a whole: its object is there, and it is its turn in every structure. The sequence numbers that are
 * not in sight do not count. False: the lane waits for what is not so. */
static bool order_unit_is_free(struct order *order, struct order_lane *lane,
                               const struct record *record)
{
    const struct record *end = lane->records + lane->filled, *call = record;
    uint64_t unit = ++order->units;
    bool first = true;
    while (call < end && call->number == RAW_SEQUENCE_BEFORE)
        call++;
    if (call < end && order_bound(order, lane, call->bound) == BOUND_AHEAD)
        return lane_waits_for_allocations(order, lane, call->bound);
    for (const struct record *at = record; at < end; at++) {
        if (at == call) continue;
        if (at > call && at->number != RAW_SEQUENCE_AFTER) break;
        if (!unit_may_take(order, at, unit)) {
            lane->in_unit = !first;
            if (!first && !order_list_steppable(order, lane)) return false;
            return lane_waits_for_sequence(order, lane, structure_index(at->structure), at->size);
        }
        first = false;
    }
    return true;
}

/* A sequence number that belongs to the next call. */
bool order_take_sequence_before(struct order *order, struct order_lane *lane,
                                const struct record *record)
{
    if (!lane->stepwise && !order_unit_is_free(order, lane, record)) return false;
    if (!order_take_sequence(order, lane, record)) return false;
    lane->loose = false;
    /* The unit's last sequence number: the next one is taken as a whole again. */
    if (record[1].number != RAW_SEQUENCE_BEFORE && record[2].number != RAW_SEQUENCE_AFTER)
        lane->stepwise = false;
    return true;
}

/* Whether a call with sequence numbers after it may be emitted: not before its turn, at least in the first
 * structure. */
bool order_may_enter(struct order *order, struct order_lane *lane, const struct record *call)
{
    if (!lane->stepwise) return order_unit_is_free(order, lane, call);
    uint32_t index = structure_index(call[1].structure);
    if (!lane->loose && call[1].size > order->structures[index].next)
        return lane_waits_for_sequence(order, lane, index, call[1].size);
    lane->stepwise = lane->loose = false;
    return true;
}
