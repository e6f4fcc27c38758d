#include <stdlib.h>
#include <string.h>

#include "postprocess/order_state.h"
#include "stream/raw_calls.h"

/* ---- the records at hand ---- */

/* Notes that the lane's records cannot be decoded any further. */
static void lane_note_error(struct order *order, struct order_lane *lane)
{
    if (lane->damaged) return;
    lane->damaged = true;
    struct error *place = order_error_place(order);
    if (!error_is_set(place)) *place = lane->decoder.error;
}

/* The chunk will not be decoded any further. Its window has a mark, because it has not been passed.
 */
static void lane_finish_chunk(struct order *order, struct order_lane *lane, struct raw_chunk *chunk)
{
    uint32_t index = 0;
    struct order_mark *mark = lane_mark_at(lane, 0);
    while (mark->window < chunk->window)
        mark = lane_mark_at(lane, ++index);
    mark->end_record = lane->decoder.records;
    mark->bytes_left -= chunk->payload_bytes;
    mark->chunks_left--;
    order->queued_bytes -= chunk->payload_bytes;
    free(chunk);
}

static void lane_close_chunk(struct order *order, struct order_lane *lane)
{
    if (lane->open->spool)
        order->totals.spool_records += lane->decoder.records - lane->opened_record;
    lane_finish_chunk(order, lane, lane->open);
    lane->open = NULL;
}

/* Whether there is a chunk that may be opened. */
static bool lane_has_chunk(const struct order *order, const struct order_lane *lane)
{
    return lane->queue != NULL && lane->queue->window <= order->admitted;
}

/* Goes on after damage, with a chunk that needs nothing of those before it. What lies between is
 * lost, as a record says. False: there is no such chunk yet. */
static bool lane_resume(struct order *order, struct order_lane *lane)
{
    if (!order->salvage) return false;
    if (error_is_set(&lane->decoder.error)) lane_note_error(order, lane);
    while (lane_has_chunk(order, lane)) {
        struct raw_chunk *chunk = lane->queue;
        uint64_t allocations = lane->decoder.allocations;
        if (chunk_needs_nothing(chunk, allocations)) {
            uint64_t lost = chunk->first_allocation - allocations;
            lane->records[lane->filled++] = (struct record){
                .number = RAW_LOST, .kind = RAW_LOST, .size = lost > 0 ? lost : 1, .operand = lost};
            decoder_resume(&lane->decoder, chunk);
            lane->damaged = false;
            return true;
        }
        lane->queue = chunk->next;
        lane_finish_chunk(order, lane, chunk);
    }
    return false;
}

/* Makes the next chunk the open one, if there is one and its window has been admitted. */
static bool lane_open_chunk(struct order *order, struct order_lane *lane)
{
    if (!lane_has_chunk(order, lane)) return false;
    bool gap = error_is_set(&lane->decoder.error) || lane->queue->gap;
    if (gap && !lane_resume(order, lane)) return false;
    struct raw_chunk *chunk = lane->queue;
    lane->queue = chunk->next;
    lane->open = chunk;
    if (gap) lane->decoded_window = chunk->window; /* of the record that stands for the gap */
    lane->segments[lane->segments_count++ % SEGMENTS_MAX] =
        (struct order_segment){lane->decoder.records, chunk->offset};
    lane->opened_record = lane->decoder.records;
    raw_decoder_open(&lane->decoder, chunk);
    return true;
}

/* The records from `record` on are in the window of the open chunk. */
static void lane_note_window(struct order_lane *lane, uint64_t record)
{
    if (lane->decoded_window == lane->open->window) return;
    lane->decoded_window = lane->open->window;
    lane->window_record = record;
}

/* Decodes more records after those at hand. False: there are none now. */
static bool lane_decode(struct order *order, struct order_lane *lane)
{
    uint32_t left = lane->filled - lane->at;
    if (left > 0) memmove(lane->records, lane->records + lane->at, left * sizeof *lane->records);
    lane->at = lane->step_end = 0;
    lane->filled = left;
    while (lane->filled == left && (lane->open != NULL || lane_open_chunk(order, lane))) {
        uint64_t record = lane->decoder.records;
        uint32_t count =
            raw_decoder_next_special(&lane->decoder, lane->records + lane->filled, RECORDS_AT_ONCE);
        /* A chunk that only concerns the cache has none. */
        if (count > 0) lane_note_window(lane, record);
        lane->filled += count;
        if (!raw_decoder_has_more(&lane->decoder)) lane_close_chunk(order, lane);
    }
    lane->records[lane->filled].number = 0;
    return lane->filled > left;
}

/* Whether the records at hand are a step that may go on in the next window: the tick came while the
 * lane's thread was in the middle of a call. The step waits only until that window has been let in,
 * even if that has just a part of the rest: the thread need not do anything more. */
static bool lane_may_be_cut(const struct order *order, const struct order_lane *lane)
{
    const struct record *last = &lane->records[lane->filled - 1];
    if (order->ended && lane->queue == NULL) return false;
    if (lane->decoded_window < order->admitted || error_is_set(&lane->decoder.error)) return false;
    if (lane_position(lane) < lane->window_record) return false;
    return last->number == RAW_SEQUENCE_BEFORE || last->number == RAW_THREAD_CACHE_DELETED ||
           last->shape >= SHAPE_REALLOC;
}

/* False: the lane has no step now. What it has at hand is part of one. */
static bool lane_next_step(struct order *order, struct order_lane *lane)
{
    if (lane->at < lane->step_end) return true;
    while (lane->at == lane->filled || !lane_find_step(lane, false))
        if (!lane_decode(order, lane))
            return lane->at < lane->filled && !lane_may_be_cut(order, lane) &&
                   lane_find_step(lane, true);
    return true;
}

/* Records up to the end of the window that the lane is in, or as good as infinite while that is not
 * known. */
static uint64_t lane_window_left(const struct order_lane *lane)
{
    if (lane->marks_count == 0 || lane_first_mark(lane)->chunks_left > 0) return UINT64_MAX;
    uint64_t end = lane_first_mark(lane)->end_record, position = lane_position(lane);
    return end > position ? end - position : 0;
}

/* Takes what can be taken without decoding it into records. Returns how many that would have been.
 */
static uint64_t lane_run_calls(struct order *order, struct order_lane *lane, uint64_t turn)
{
    if (lane->at < lane->filled || lane->open == NULL) return 0;
    uint64_t window_left = lane_window_left(lane), record = lane->decoder.records;
    uint64_t taken = order_take_calls(order, lane, window_left < turn ? window_left : turn);
    if (taken > 0) lane_note_window(lane, record);
    return taken;
}

/* Lets the lane go on for at most `turn` records, and to the end of the step it is then in. While
 * lanes overtake the oldest window, a turn ends with the window it began in. False: the lane waits,
 * or has no more steps now. */
static bool lane_run(struct order *order, struct order_lane *lane, uint64_t turn)
{
    bool overtaking = order->admitted > order->oldest;
    while (turn > 0) {
        turn -= lane_run_calls(order, lane, turn);
        if (turn == 0) break;
        if (!lane_next_step(order, lane)) return false;
        if (overtaking && lane_window_left(lane) == 0) break;
        uint32_t records = lane->step_end - lane->at;
        if (!order_take_step(order, lane)) return false;
        turn -= records < turn ? records : turn;
    }
    return true;
}

static void lane_pass_mark(struct order *order, struct order_lane *lane)
{
    order_window(order, lane_first_mark(lane)->window)->lanes_left--;
    lane->marks_first = (lane->marks_first + 1) & (WINDOWS - 1);
    lane->marks_count--;
}

static void lane_pass_marks(struct order *order, struct order_lane *lane)
{
    uint64_t position = lane_position(lane);
    while (lane->marks_count > 0 && lane_first_mark(lane)->chunks_left == 0 &&
           position >= lane_first_mark(lane)->end_record)
        lane_pass_mark(order, lane);
}

/* Adds the lane to those that have records in the window. */
static bool window_add_lane(struct order *order, uint64_t number, uint32_t lane)
{
    struct order_window *window = order_window(order, number);
    if (window->lanes_count == window->lanes_room) {
        uint32_t room = window->lanes_room == 0 ? 16 : window->lanes_room * 2;
        uint32_t *lanes = realloc(window->lanes, room * sizeof *lanes);
        if (lanes == NULL) return order_no_memory(order);
        window->lanes = lanes;
        window->lanes_room = room;
    }
    window->lanes[window->lanes_count++] = lane;
    window->lanes_left++;
    return true;
}

uint64_t lane_records_left(const struct order_lane *lane)
{
    if (lane->marks_count == 0) return 0;
    const struct order_mark *mark = lane_first_mark(lane);
    return mark->chunks_left > 0 ? lane->filled - lane->at + mark->bytes_left / RECORD_BYTES
                                 : mark->end_record - lane_position(lane);
}

static uint64_t lane_turn(const struct order *order, const struct order_lane *lane)
{
    bool ahead = lane->marks_count > 0 && lane_first_mark(lane)->window > order->oldest;
    return ahead ? TURN_RECORDS_AHEAD : lane->turn_records;
}

bool lane_mark(struct order *order, struct order_lane *lane, const struct raw_chunk *chunk)
{
    bool has_mark =
        lane->marks_count > 0 && lane_mark_at(lane, lane->marks_count - 1)->window == order->open;
    if (!has_mark) {
        if (!window_add_lane(order, order->open, lane->number)) return false;
        *lane_mark_at(lane, lane->marks_count++) = (struct order_mark){.window = order->open};
    }
    struct order_mark *mark = lane_mark_at(lane, lane->marks_count - 1);
    mark->bytes_left += chunk->payload_bytes;
    mark->chunks_left++;
    return true;
}

bool lane_leave_window(struct order *order, struct order_lane *lane)
{
    struct order_mark left = *lane_first_mark(lane);
    uint64_t next = left.window + 1;
    lane_pass_mark(order, lane);
    if (lane->marks_count > 0 && lane_first_mark(lane)->window == next) {
        struct order_mark *mark = lane_mark_at(lane, 0);
        mark->bytes_left += left.bytes_left;
        mark->chunks_left += left.chunks_left;
        return true;
    }
    left.window = next;
    lane->marks_first = (lane->marks_first - 1) & (WINDOWS - 1);
    lane->marks_count++;
    *lane_mark_at(lane, 0) = left;
    return window_add_lane(order, next, lane->number);
}

/* Moves the step that may be cut to the window after that of its records, once that is open: the
 * lane will be run when it is let in. */
static bool lane_leave_cut(struct order *order, struct order_lane *lane)
{
    while (lane->decoded_window < order->open && lane->marks_count > 0 &&
           lane_first_mark(lane)->window <= lane->decoded_window)
        if (!lane_leave_window(order, lane)) return false;
    return true;
}

static bool lane_has_more(const struct order *order, const struct order_lane *lane)
{
    return lane->at < lane->filled || lane->open != NULL || lane_has_chunk(order, lane);
}

void order_run_lane(struct order *order, struct order_lane *lane)
{
    uint64_t position = lane_position(lane);
    lane->state = LANE_IDLE;
    bool turn_is_over = lane_run(order, lane, lane_turn(order, lane));
    order->totals.records += lane_position(lane) - position;
    order->totals.displaced = order->objects.displacements;
    if (lane_position(lane) > position) lane->late_since = 0;
    lane_pass_marks(order, lane);
    order_wake_waiters(order, &lane->waiters,
                       raw_allocations(lane->number, lane_allocations(lane)));
    if (lane->state == LANE_WAITS) return;
    if (turn_is_over) {
        if (lane_has_more(order, lane)) order_make_ready(order, lane);
    } else if (lane->at < lane->filled) {
        lane_leave_cut(order, lane);
    } else if (error_is_set(&lane->decoder.error)) {
        lane_note_error(order, lane);
    }
}
