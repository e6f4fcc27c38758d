#include "postprocess/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "postprocess/order_state.h"
#include "stream/metadata.h"

const struct error_kind order_errors[] = {ORDER_ERROR_LIST(ERROR_LIST_KIND)};

const struct error *order_error(const struct order *order)
{
    return &order->error;
}

const struct error *order_damage(const struct order *order)
{
    return &order->damage;
}

const struct order_totals *order_totals_of(const struct order *order)
{
    return &order->totals;
}

bool order_no_memory(struct order *order)
{
    errno = ENOMEM;
    return error_set_system(&order->error, "no memory for ordering");
}

uint64_t lane_offset(const struct order_lane *lane)
{
    uint64_t position = lane_position(lane), offset = ERROR_NO_OFFSET;
    uint32_t count = lane->segments_count < SEGMENTS_MAX ? lane->segments_count : SEGMENTS_MAX;
    for (uint32_t i = 1; i <= count; i++) {
        const struct order_segment *segment =
            &lane->segments[(lane->segments_count - i) % SEGMENTS_MAX];
        offset = segment->offset;
        if (segment->first_record <= position) break;
    }
    return offset;
}

/* ---- making and freeing ---- */

struct order *order_new(struct raw_reader *reader, struct instruction_writer *writer,
                        const struct order_options *options)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL) return NULL;
    if (!object_table_init(&order->objects)) {
        free(order);
        return NULL;
    }
    order->reader = reader;
    order->writer = writer;
    order->queued_bytes_limit = WINDOW_BYTES_EASY;
    order->opaque = (order->reader->header.features & RAW_FEATURE_OPAQUE) != 0;
    order->attached = metadata_is_attached(reader->header.metadata, reader->header.metadata_bytes);
    order->salvage = options->salvage;
    order->touched = options->touched;
    order->patience_bytes =
        options->patience_bytes != 0 ? options->patience_bytes : WINDOW_BYTES_MAX;
    for (uint32_t i = 0; i < STRUCTURES; i++)
        order->structures[i].next = 1;
    return order;
}

static void lane_free(struct order_lane *lane)
{
    free(lane->open);
    while (lane->queue != NULL) {
        struct raw_chunk *chunk = lane->queue;
        lane->queue = chunk->next;
        free(chunk);
    }
    raw_decoder_free(&lane->decoder);
    free(lane);
}

void order_free(struct order *order)
{
    if (order == NULL) return;
    for (uint32_t i = 0; i < order->present_count; i++)
        lane_free(order->present[i]);
    free(order->present);
    free(order->lanes);
    for (uint32_t i = 0; i < STRUCTURES; i++)
        free(order->structures[i].coming);
    for (uint32_t i = 0; i < WINDOWS; i++) {
        free(order->windows[i].lanes);
        passed_free(&order->windows[i].passed);
    }
    object_table_free(&order->objects);
    overlaps_free(&order->overlaps);
    placement_free(&order->placement);
    stacks_free(&order->stacks);
    free(order);
}

/* ---- lanes ---- */

static bool order_make_room_for_lane(struct order *order, uint32_t number)
{
    if (number < order->lanes_room) return true;
    uint32_t room = order->lanes_room == 0 ? 16 : order->lanes_room;
    while (room <= number)
        room *= 2;
    struct order_lane **lanes = realloc(order->lanes, room * sizeof *lanes);
    if (lanes == NULL) return order_no_memory(order);
    order->lanes = lanes;
    struct order_lane **present = realloc(order->present, room * sizeof *present);
    if (present == NULL) return order_no_memory(order);
    order->present = present;
    memset(lanes + order->lanes_room, 0, (room - order->lanes_room) * sizeof *lanes);
    order->lanes_room = room;
    return true;
}

/* Definitions of call stacks are passed on as they come: the order of records does not matter to
 * them. */
static const char *order_define(void *context, const struct stack_definition *definition)
{
    struct order *order = context;
    const char *wrong = stacks_define(&order->stacks, definition);
    if (wrong == stacks_no_memory) order_no_memory(order);
    if (wrong == NULL) instruction_put_definition(order->writer, definition);
    return order->salvage && wrong != stacks_no_memory ? NULL : wrong;
}

static void order_note_page(void *context, uint32_t place, uint64_t address)
{
    placement_note_page(&((struct order *)context)->placement, place, address);
}

struct order_lane *order_lane(struct order *order, uint32_t number)
{
    if (!order_make_room_for_lane(order, number)) return NULL;
    struct order_lane *lane = order->lanes[number];
    if (lane != NULL) return lane;
    lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        order_no_memory(order);
        return NULL;
    }
    lane->number = number;
    lane->allocated = raw_allocations(number, 0) | LANE_NO_ALLOCATIONS;
    lane->turn_records = TURN_RECORDS_MIN;
    raw_decoder_init(&lane->decoder, number, (uint32_t)order->reader->header.features);
    lane->decoder.all_places_bytes = &order->places_bytes;
    lane->decoder.define = order_define;
    lane->decoder.define_context = order;
    lane->decoder.page = order_note_page;
    lane->decoder.page_context = order;
    order->lanes[number] = order->present[order->present_count++] = lane;
    return lane;
}

bool order_failed(struct order *order)
{
    if (order->objects.failed || order->overlaps.failed || order->placement.failed)
        order_no_memory(order);
    return error_is_set(&order->error) || instruction_writer_failed(order->writer);
}

/* ---- what the caller sees ---- */

/* The oldest window has ended: on to the next. */
static void order_go_on(struct order *order)
{
    order_end_window(order);
    if (order->oldest < order->open && order->admitted < order->oldest)
        order_admit(order, order->oldest);
}

/* Nothing goes on. A tick is not simultaneous in all lanes: what the oldest window lacks may be in
 * the next one, which is let in as soon as it has come. What is not there either is late, and so
 * are the lanes that wait for it: the window ends without them. False: everything is done that can
 * be; more input is needed, or ordering has failed. */
static bool order_go_round(struct order *order)
{
    bool closed = order->oldest < order->open, next_has_come = order->oldest + 1 < order->open;
    bool patient = order_is_patient(order);
    if (order->opaque ? order_break_circle(order) : order_split(order, TICK_SKEW_RECORDS))
        return true;
    if (closed && order_has_only_late(order) && order_leave_behind(order)) return true;
    if (next_has_come && order->admitted == order->oldest) {
        order_admit(order, order->oldest + 1);
        return true;
    }
    if (!next_has_come && patient && order->queued_bytes < WINDOW_BYTES_STUCK) return false;
    if (!order->opaque && (order_split(order, 0) || order_relax(order))) return true;
    if (order->ended && order_may_skip(order) && order_skip_missing(order)) return true;
    if (closed && (patient || order->ended) && order_leave_behind(order)) return true;
    return !patient && order_unstick(order);
}

/* Ends the windows that can be ended. */
static bool order_run(struct order *order)
{
    for (;;) {
        if (!order_run_ready(order) || order_failed(order)) return false;
        bool closed = order->oldest < order->open;
        if (closed && order_window(order, order->oldest)->lanes_left == 0) {
            order_go_on(order);
            continue;
        }
        if (order->ready != NULL) continue;
        if (!closed && order->queued_bytes < WINDOW_BYTES_STUCK) return true;
        if (!order_go_round(order)) return !order_failed(order);
    }
}

/* Begins a window before its end is known, because so much has been queued. */
static bool order_run_early(struct order *order)
{
    order_admit(order, order->open);
    if (!order_run(order)) return false;
    order->queued_bytes_limit = order->queued_bytes + WINDOW_BYTES_EASY;
    return true;
}

bool order_chunk(struct order *order, struct raw_chunk *chunk)
{
    struct order_lane *lane = order_lane(order, chunk->lane);
    if (lane == NULL || !lane_mark(order, lane, chunk)) {
        free(chunk);
        return false;
    }
    if (lane->segments_count == 0 && lane->queue == NULL) order->totals.lanes++;
    chunk->window = order->open;
    chunk->next = NULL;
    if (lane->queue == NULL)
        lane->queue = chunk;
    else
        lane->queue_last->next = chunk;
    lane->queue_last = chunk;
    order->queued_bytes += chunk->payload_bytes;
    order->bytes_in += chunk->payload_bytes;
    return order->queued_bytes <= order->queued_bytes_limit || order_run_early(order);
}

void order_pass(struct order *order, struct raw_chunk *chunk)
{
    if (order->writer->features & INSTRUCTION_FEATURE_MAPPINGS)
        passed_add(&order_window(order, order->open)->passed, chunk);
    else
        free(chunk);
}

/* Closes the open window and runs. */
static bool order_close_window(struct order *order, const struct raw_tick *tick)
{
    order_window(order, order->open)->tick = *tick;
    order->open++;
    order->queued_bytes_limit = order->queued_bytes + WINDOW_BYTES_EASY;
    if (order->admitted < order->oldest)
        order_admit(order, order->oldest);
    else if (order->admitted + 1 == order->open)
        order_admit(order, order->admitted);
    return order_run(order);
}

bool order_tick(struct order *order, const struct raw_tick *tick)
{
    return order_close_window(order, tick);
}

/* Reports lists from which more was taken than they had, unless an object was freed twice. */
static bool order_check_underruns(struct order *order)
{
    for (uint32_t i = 0; i < order->present_count && !order->freed_twice; i++) {
        const struct error *underrun = &order->present[i]->decoder.underrun;
        if (!error_is_set(underrun)) continue;
        struct error *place = order_error_place(order);
        if (!error_is_set(place)) *place = *underrun;
    }
    return !error_is_set(&order->error);
}

bool order_end(struct order *order)
{
    const struct raw_tick none = {0};
    if (!order_look_ahead(order)) return false;
    order->ended = true;
    for (uint32_t i = 0; i < order->present_count; i++)
        order_wake_waiters(order, &order->present[i]->waiters, UINT64_MAX);
    return order_close_window(order, &none) && order_check_underruns(order);
}

bool order_check_totals(struct order *order, const struct raw_end *end)
{
    const struct instruction_totals *totals = instruction_writer_totals(order->writer);
    uint64_t events = totals->calls - totals->missed_frees;
    if (events == end->events) return true;
    return error_set(&order->error, &order_errors[ORDER_TOTALS], ERROR_NO_OFFSET,
                     "%" PRIu64 " events, read %" PRIu64, end->events, events);
}
