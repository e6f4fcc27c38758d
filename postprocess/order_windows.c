#include <inttypes.h>
#include <stdlib.h>

#include "common/check.h"
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

static void order_windows_put_tick(struct order *order, const struct raw_tick *tick)
{
    uint64_t elapsed_ns = tick->since_start_ns - order->last_tick_ns;
    if (tick->has_usage)
        instruction_put_tick_with_usage(order->writer, elapsed_ns, tick->rss_bytes,
                                        tick->heap_bytes, &tick->usage, &tick->statistics);
    else
        instruction_put_tick(order->writer, elapsed_ns, tick->rss_bytes, tick->heap_bytes);
    order->last_tick_ns = tick->since_start_ns;
}

void order_end_window(struct order *order)
{
    struct order_window *window = order_window(order, order->oldest);
    bool last = order->ended && order->oldest + 1 == order->open;
    MUST_HOLD(window->lanes_left == 0);
    MUST_HOLD(order->oldest <= order->admitted && order->admitted <= order->oldest + 1);
    MUST_HOLD(order->oldest <= order->open && order->open <= order->oldest + 2);
    for (uint32_t i = 0; i < window->lanes_count; i++)
        MUST_HOLD(!lane_is_behind(order, order->lanes[window->lanes[i]]));
    if (window->passed.first != NULL && !passed_put(&window->passed, order->writer))
        order_no_memory(order);
    if (!last) order_windows_put_tick(order, &window->tick);
    window->lanes_count = 0;
    order->totals.windows++;
    order->totals.windows_overtaken += order->admitted > order->oldest;
    order->oldest++;
}

/* ---- when nothing goes on ---- */

bool order_is_patient(const struct order *order)
{
    uint64_t bytes = order->patience_bytes;
    if (order->totals.lost_events > 0 && bytes > WINDOW_BYTES_STUCK) bytes = WINDOW_BYTES_STUCK;
    return !order->ended && !order->overdue && order->queued_bytes < bytes;
}

/* Lets one lane that has at least `records_left` in its window enter the first structure of its
 * step, though it waits for another: its thread has dropped one lock to take another, and others
 * came between. False: there is none. */
bool order_split(struct order *order, uint64_t records_left)
{
    for (uint32_t i = 0; i < order->present_count; i++) {
        struct order_lane *lane = order->present[i];
        if (lane->state != LANE_WAITS || lane->step != STEP_SPLITTABLE ||
            lane_records_left(lane) < records_left)
            continue;
        lane->step = STEP_SPLIT;
        order_stop_waiting(order, lane);
        order->totals.steps_split++;
        return true;
    }
    return false;
}

/* What is gained if the lane takes the record that it waits with, whatever its step waits for: most
 * by a sequence number whose turn it is, less by a call that begins an object. 0: nothing, since
 * the record itself has to wait, or nobody waits for it. */
static int lane_relax_gain(struct order *order, const struct order_lane *lane)
{
    const struct record *record = &lane->records[lane->at];
    int behind = lane_is_behind(order, lane);
    if (record->number == RAW_SEQUENCE_BEFORE)
        return record->size <= order->structures[structure_index(record->structure)].next
                   ? 3 + behind
                   : 0;
    if (record->shape < SHAPE_ALLOCATION || record->shape > SHAPE_REALLOC) return 0;
    return order_bound(order, lane, record->bound) != BOUND_AHEAD ? 1 + behind : 0;
}

/* The lane's next record does not wait for the rest of its step. False: there is no lane. */
static bool lane_relax(struct order *order, struct order_lane *lane)
{
    if (lane == NULL) return false;
    lane->step = STEP_RELAXED;
    order_stop_waiting(order, lane);
    order->totals.steps_relaxed++;
    return true;
}

/* Nothing requires that steps are taken whole: takes one record that waits only for the sake of its
 * step. False: there is none. */
bool order_relax(struct order *order)
{
    struct order_lane *found = NULL;
    int most = 0;
    for (uint32_t i = 0; i < order->present_count; i++) {
        struct order_lane *lane = order->present[i];
        if (lane->state != LANE_WAITS) continue;
        int gain = lane_relax_gain(order, lane);
        if (gain <= most) continue;
        most = gain;
        found = lane;
    }
    return lane_relax(order, found);
}

/* Whether the lane of an opaque stream waits, through others, for itself. Lanes there wait only for
 * calls of others: there are no sequence numbers. */
static bool lane_waits_for_itself(const struct order *order, const struct order_lane *lane)
{
    const struct order_lane *other = lane;
    for (uint32_t i = 0; i < order->present_count && other->state == LANE_WAITS; i++) {
        other = order->lanes[raw_allocations_lane(other->wait_number)];
        if (other == lane) return true;
    }
    return false;
}

/* How good it is that the lane no longer waits with its realloc. 0: it may have to. 1: what it waits
 * for has nothing to do with the bytes to which the realloc moves its object, which is there already.
 * 2: and the realloc waits for nothing else. */
static int lane_waits_in_vain(struct order *order, const struct order_lane *lane)
{
    struct record realloc;
    bool waits;
    if (!order_next_call(order, lane, &realloc, &waits) ||
        !order_is_allocated(order, lane, realloc.bound) ||
        order_touches(order, lane, lane->wait_number, &realloc))
        return 0;
    return waits ? 1 : 2;
}

/* The lane, of those that wait with a realloc for themselves, or of the others, that is the best to
 * wait no longer; *gain: lane_waits_in_vain(). NULL: there is none. */
static struct order_lane *order_find_vain(struct order *order, bool for_itself, int *gain)
{
    struct order_lane *found = NULL;
    *gain = -1;
    for (uint32_t i = 0; i < order->present_count && *gain < 2; i++) {
        struct order_lane *lane = order->present[i];
        const struct record *record = &lane->records[lane->at];
        if (lane->state != LANE_WAITS || record->number != RAW_AFTER || !record->operand ||
            lane_waits_for_itself(order, lane) != for_itself)
            continue;
        const int its_gain = lane_waits_in_vain(order, lane);
        if (its_gain <= *gain) continue;
        *gain = its_gain;
        found = lane;
    }
    return found;
}

/* In an opaque stream a moved realloc, and nothing else, may wait for more than has to precede it
 * (docs/ordering.md). So where lanes wait for each other in a circle, one such realloc no longer
 * waits, if possible one that does so in vain. If none in the circle does, one does in a circle that
 * is not seen yet, because each lane waits for one other at a time. False: there is no circle. */
bool order_break_circle(struct order *order)
{
    int gain, gain_outside;
    struct order_lane *found = order_find_vain(order, true, &gain);
    if (found != NULL && gain == 0) {
        struct order_lane *outside = order_find_vain(order, false, &gain_outside);
        if (gain_outside > 0) found = outside;
    }
    return lane_relax(order, found);
}

bool order_has_only_late(const struct order *order)
{
    const struct order_window *window = &order->windows[order->oldest & (WINDOWS - 1)];
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        const struct order_lane *lane = order->lanes[window->lanes[i]];
        if (lane_is_behind(order, lane) && lane->late_since == 0) return false;
    }
    return true;
}

bool order_leave_behind(struct order *order)
{
    const struct order_window *window = order_window(order, order->oldest);
    if (order->ended && order->oldest + 1 == order->open) return false;
    for (uint32_t i = 0; i < window->lanes_count; i++) {
        struct order_lane *lane = order->lanes[window->lanes[i]];
        if (!lane_is_behind(order, lane)) continue;
        order->overdue |=
            lane->late_since != 0 && order->oldest - lane->late_since > WINDOWS_LATE_MAX;
        if (lane->late_since == 0) lane->late_since = order->oldest + 1;
        if (order->overdue || !lane_leave_window(order, lane)) return false;
    }
    return true;
}

/* The lowest number that has come and was not taken, or UINT64_MAX. */
static uint64_t structure_lowest(struct order_structure *structure)
{
    while (structure->coming_at < structure->coming_count &&
           structure->coming[structure->coming_at] < structure->next)
        structure->coming_at++;
    return structure->coming_at < structure->coming_count ? structure->coming[structure->coming_at]
                                                          : UINT64_MAX;
}

/* Where numbers may be missing: goes on with the lowest that has come. What has come is looked
 * through again only when a good deal has been added. */
bool order_skip_missing(struct order *order)
{
    bool skipped = false;
    if (order->bytes_in - order->looked_bytes > order->queued_bytes / 4 && !order_look_ahead(order))
        return false;
    for (uint32_t i = 0; i < STRUCTURES; i++) {
        struct order_structure *structure = &order->structures[i];
        uint64_t lowest = structure_lowest(structure);
        if (lowest == UINT64_MAX || lowest <= structure->next) continue;
        order->totals.sequences_missing += lowest - structure->next;
        structure->next = lowest;
        structure->skipped = skipped = true;
        order_wake_waiters(order, &structure->waiters, structure->next);
    }
    return skipped || order->ready != NULL;
}

/* The numbers that the lane waits for have come, but in lanes that wait for this one: skips
 * them. */
static bool order_skip_to(struct order *order, const struct order_lane *lane)
{
    struct order_structure *structure = &order->structures[lane->wait_structure];
    structure->next = lane->wait_number;
    structure->skipped = true;
    order_wake_waiters(order, &structure->waiters, structure->next);
    return !order_failed(order);
}

static struct order_lane *order_find_stuck(const struct order *order)
{
    for (uint32_t i = 0; i < order->present_count; i++)
        if (order->present[i]->state == LANE_WAITS &&
            (lane_is_behind(order, order->present[i]) || order->ended))
            return order->present[i];
    return NULL;
}

/* What a lane waits for never comes: that is damage. True: it goes on without. */
static bool order_give_up(struct order *order)
{
    struct order_lane *stuck = order_find_stuck(order);
    if (stuck == NULL)
        return error_set(&order->error, &order_errors[ORDER_STUCK], ERROR_NO_OFFSET, NULL);
    if (stuck->wait_structure < STRUCTURES)
        return ORDER_DAMAGE(order, stuck, ORDER_STUCK,
                            ": waits for its turn, number %" PRIu64 " of structure %" PRIu32
                            ", whose next number is %" PRIu64,
                            stuck->wait_number, structure_number(stuck->wait_structure),
                            order->structures[stuck->wait_structure].next) &&
               (order_skip_missing(order) || order_skip_to(order, stuck));
    if (!ORDER_DAMAGE(
            order, stuck, ORDER_STUCK, ": waits for allocation %" PRIu64 " of lane %" PRIu32,
            raw_allocations_count(stuck->wait_number), raw_allocations_lane(stuck->wait_number)))
        return false;
    stuck->given_up = stuck->wait_number;
    order_stop_waiting(order, stuck);
    return true;
}

/* Whether numbers may be missing: at the end (FORMAT.md 4.4), or because records were lost. */
bool order_may_skip(const struct order *order)
{
    if (order->totals.lost_events > 0) return true;
    if (!order->ended) return false;
    for (uint32_t i = 0; i < order->present_count; i++) {
        const struct order_lane *lane = order->present[i];
        if (lane->state == LANE_WAITS && lane->late_since != 0 &&
            order->open - lane->late_since > WINDOWS_EXCUSED)
            return false;
    }
    return true;
}

/* Nothing goes on, though all there is has been let in. */
bool order_unstick(struct order *order)
{
    order->overdue = false;
    if (order_may_skip(order) && order_skip_missing(order)) return true;
    return !order_failed(order) && order_give_up(order);
}
