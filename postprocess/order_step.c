#include "postprocess/order_state.h"
#include "stream/raw_calls.h"

/* ---- where it ends ---- */

/* Whether the decoder has read the last record at hand and its sequence numbers, of which an opaque
 * stream has none: what comes next is of another step. */
static bool lane_is_behind_call(const struct order_lane *lane)
{
    if (lane->decoder.features & RAW_FEATURE_OPAQUE) return true;
    return lane->open != NULL && lane->records[lane->filled - 1].number != RAW_SEQUENCE_BEFORE &&
           raw_decoder_is_behind_call(&lane->decoder);
}

bool lane_find_step(struct order_lane *lane, bool last)
{
    const struct record *first = lane->records + lane->at, *filled = lane->records + lane->filled;
    const struct record *end = first, *most = first + STEP_RECORDS_MAX;
    bool lost = false; /* numbers after that are of a call that was lost */
    while (end->number == RAW_SEQUENCE_BEFORE)
        end++;
    if (end < filled && end->number != RAW_SEQUENCE_AFTER) lost = end++->number == RAW_LOST;
    while (end->number == RAW_SEQUENCE_AFTER && !lost)
        end++;
    if (end > most) end = most;
    if (end == filled && end < most && !last && !lost && !lane_is_behind_call(lane)) return false;
    lane->step_end = (uint32_t)(end - lane->records);
    /* After its call, a number is taken when its turn comes. */
    lane->step = first->number == RAW_SEQUENCE_AFTER ? STEP_SPLIT : STEP_WHOLE;
    return true;
}

/* ---- whether it can be taken ---- */

/* Whether it is the step's turn at one of its numbers, given that it takes those before it. */
static inline bool step_may_enter(const struct order *order, const struct record *first,
                                  const struct record *sequence)
{
    uint64_t next = order->structures[structure_index(sequence->structure)].next;
    for (const struct record *at = first; sequence->size > next && at < sequence; at++)
        next += record_is_sequence(at) && at->structure == sequence->structure;
    return sequence->size <= next;
}

/* Whether the step at hand can be taken as a whole: its object is there, and it is its turn in
 * every structure. False: the lane waits for what is not so. */
static bool step_is_ready(struct order *order, struct order_lane *lane)
{
    const struct record *first = lane->records + lane->at, *end = lane->records + lane->step_end;
    const struct record *call = first;
    lane->step = STEP_WHOLE;
    while (call < end && call->number == RAW_SEQUENCE_BEFORE)
        call++;
    if (call < end && !order_is_allocated(order, lane, call->bound) &&
        order_bound(order, lane, call->bound) == BOUND_AHEAD)
        return lane_waits_for_allocations(order, lane, call->bound);
    for (const struct record *at = first; at < end; at++) {
        if (at == call) continue;
        if (!step_may_enter(order, first, at)) return lane_waits_for_sequence(order, lane, at);
        lane->step = STEP_SPLITTABLE;
    }
    return true;
}

/* ---- taking it ---- */

/* A call that is taken without the rest of its step: not before its turn in the structure that it
 * enters next. */
static bool step_take_call(struct order *order, struct order_lane *lane, const struct record *call)
{
    if (lane->step == STEP_SPLIT && lane->at + 1 < lane->step_end &&
        call[1].size > order->structures[structure_index(call[1].structure)].next)
        return lane_waits_for_sequence(order, lane, &call[1]);
    return order_take_call(order, lane, call);
}

bool order_take_step(struct order *order, struct order_lane *lane)
{
    const struct record *record = lane->records + lane->at, *end = lane->records + lane->step_end;
    if (lane->step <= STEP_SPLITTABLE && end - record > 1 && !step_is_ready(order, lane))
        return false;
    for (; record < end; record++, lane->at++) {
        if (!(record_is_sequence(record) ? order_take_sequence(order, lane, record)
                                         : step_take_call(order, lane, record)))
            return false;
        if (lane->step == STEP_RELAXED) lane->step = STEP_SPLIT;
    }
    return true;
}
