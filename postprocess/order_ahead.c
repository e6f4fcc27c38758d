#include <stdlib.h>

#include "postprocess/order_state.h"

/* A bound before which more records than that are to come is taken to be right. */
#define TOUCH_RECORDS_MAX (1u << 18)

/* ---- records that a lane has not decoded ---- */

bool chunk_needs_nothing(const struct raw_chunk *chunk, uint64_t allocations)
{
    return chunk->key && chunk->first_allocation >= allocations;
}

void decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    raw_decoder_resume(decoder, chunk);
    decoder->records++;
}

/* Opens the next chunk, or after damage the one that lane_resume() will find. False: there is
 * none. */
static bool open_next(const struct order *order, struct raw_decoder *decoder,
                      const struct raw_chunk **next)
{
    const struct raw_chunk *chunk = *next;
    if (chunk == NULL) return false;
    if (error_is_set(&decoder->error) || chunk->gap) {
        while (chunk != NULL && !chunk_needs_nothing(chunk, decoder->allocations))
            chunk = chunk->next;
        if (chunk == NULL || !order->salvage) return false;
        decoder_resume(decoder, chunk);
    }
    *next = chunk->next;
    raw_decoder_open(decoder, chunk);
    return true;
}

/* The next records: of the chunk that the decoder has open, then of the chunks from *next on. 0:
 * there are no more. */
static uint32_t decode_next(const struct order *order, struct raw_decoder *decoder,
                            const struct raw_chunk **next, struct record *records, uint32_t room)
{
    for (;;) {
        uint32_t count = raw_decoder_next(decoder, records, room);
        if (count > 0 || !open_next(order, decoder, next)) return count;
    }
}

/* ---- calls that a lane of an opaque stream has yet to make ---- */

/* What is found in the records up to the lane's next call. */
struct next_call {
    struct record *call;
    uint64_t afters;
    bool found, waits; /* for an `after` behind the first */
};

static void look_for_call(const struct order *order, const struct order_lane *lane,
                          const struct record *records, uint32_t count, struct next_call *next)
{
    for (uint32_t i = 0; i < count && !next->found; i++) {
        if (records[i].number == RAW_AFTER) {
            next->waits |= next->afters++ > 0 && !order_is_allocated(order, lane, records[i].bound);
            continue;
        }
        *next->call = records[i];
        next->found = true;
    }
}

bool order_next_call(const struct order *order, const struct order_lane *lane, struct record *call,
                     bool *waits)
{
    struct next_call looked = {.call = call};
    const struct raw_chunk *next = lane->queue;
    struct record records[8];
    struct raw_decoder ahead;
    uint32_t count;
    look_for_call(order, lane, lane->records + lane->at, lane->filled - lane->at, &looked);
    if (!looked.found && raw_decoder_copy(&ahead, &lane->decoder)) {
        while (!looked.found && (count = decode_next(order, &ahead, &next, records, 8)) > 0)
            look_for_call(order, lane, records, count, &looked);
        raw_decoder_free(&ahead);
    }
    *waits = looked.waits;
    return looked.found;
}

/* Looks for the page of a place in what has come and was not taken: its address is known then. Once
 * that has been looked through in vain, only when more has come. */
static void find_page(struct order *order, uint32_t place)
{
    if (order->bytes_in == order->pages_looked_bytes) return;
    for (uint32_t i = 0; i < order->present_count; i++) {
        const struct order_lane *lane = order->present[i];
        const struct raw_chunk *next = lane->queue;
        struct record records[64];
        struct raw_decoder lookahead;
        raw_decoder_lookahead(&lookahead, &lane->decoder);
        while (placement_address(&order->placement, place) == 0 &&
               decode_next(order, &lookahead, &next, records, 64) > 0) {}
    }
    if (placement_address(&order->placement, place) == 0)
        order->pages_looked_bytes = order->bytes_in;
}

/* The search through what has to precede a call, as far as it has not been taken: of each lane up to
 * lane->touch_calls, for what `after` and remote objects there name comes before it as well. */
struct touch {
    struct order *order;
    const struct order_lane *lane; /* of the call */
    const struct record *call;     /* begins the object of which bytes are looked for */
    uint64_t calls;                /* of the lane that is looked through, so far */
    uint32_t records;              /* of all lanes that have been looked through */
    bool has_more, touches;
};

static bool meets(const struct touch *touch, uint32_t place, uint64_t bytes)
{
    return place != 0 && placement_meet(&touch->order->placement, place, bytes, touch->call->place,
                                        touch->call->size);
}

static void want_calls(struct touch *touch, uint64_t bound)
{
    const uint32_t number = raw_allocations_lane(bound);
    if (number >= touch->order->lanes_room || touch->order->lanes[number] == NULL) return;
    struct order_lane *lane = touch->order->lanes[number];
    const uint64_t calls = raw_allocations_count(bound);
    if (lane == touch->lane || calls <= lane_allocations(lane) || calls <= lane->touch_calls)
        return;
    lane->touch_calls = calls;
    touch->has_more = true;
}

static void records_touch(struct touch *touch, const struct record *records, uint32_t count,
                          uint64_t calls_max)
{
    for (uint32_t i = 0; i < count && touch->calls < calls_max; i++) {
        const struct record *record = &records[i];
        touch->calls += raw_record_counts(record, true);
        touch->touches |= ++touch->records > TOUCH_RECORDS_MAX ||
                          meets(touch, record->place, record->size) ||
                          meets(touch, record->ends, order_bytes_at(touch->order, record->ends));
        if (record->bound != 0) want_calls(touch, record->bound);
    }
}

static void lane_touches(struct touch *touch, const struct order_lane *lane)
{
    const uint64_t calls_max = lane->touch_calls;
    const struct raw_chunk *next = lane->queue;
    struct record records[64];
    struct raw_decoder ahead;
    uint32_t count;
    touch->calls = lane_allocations(lane);
    records_touch(touch, lane->records + lane->at, lane->filled - lane->at, calls_max);
    if (touch->touches || touch->calls >= calls_max) return;
    touch->touches = !raw_decoder_copy(&ahead, &lane->decoder);
    while (!touch->touches && touch->calls < calls_max &&
           (count = decode_next(touch->order, &ahead, &next, records, 64)) > 0)
        records_touch(touch, records, count, calls_max);
    raw_decoder_free(&ahead);
}

bool order_touches(struct order *order, const struct order_lane *lane, uint64_t bound,
                   const struct record *call)
{
    struct touch touch = {.order = order, .lane = lane, .call = call};
    if (placement_address(&order->placement, call->place) == 0) find_page(order, call->place);
    for (uint32_t i = 0; i < order->present_count; i++)
        order->present[i]->touch_calls = 0;
    want_calls(&touch, bound);
    while (touch.has_more && !touch.touches) {
        touch.has_more = false;
        for (uint32_t i = 0; i < order->present_count && !touch.touches; i++)
            if (order->present[i]->touch_calls > 0) lane_touches(&touch, order->present[i]);
    }
    return touch.touches;
}

/* ---- numbers ---- */

static bool note_number(struct order *order, const struct record *record)
{
    if (record->number != RAW_SEQUENCE_BEFORE && record->number != RAW_SEQUENCE_AFTER) return true;
    struct order_structure *structure = &order->structures[structure_index(record->structure)];
    if (structure->coming_count == structure->coming_room) {
        uint32_t room = structure->coming_room == 0 ? 64 : structure->coming_room * 2;
        uint64_t *coming = realloc(structure->coming, room * sizeof *coming);
        if (coming == NULL) return order_no_memory(order);
        structure->coming = coming;
        structure->coming_room = room;
    }
    structure->coming[structure->coming_count++] = record->size;
    return true;
}

static bool note_numbers(struct order *order, const struct record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!note_number(order, &records[i])) return false;
    return true;
}

static int order_ahead_by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* ---- a lane ---- */

static bool lane_look_ahead(struct order *order, struct order_lane *lane)
{
    struct record records[64];
    struct raw_decoder lookahead;
    const struct raw_chunk *next = lane->queue;
    uint32_t count = lane->filled - lane->at;
    if (count > 0 && !note_numbers(order, lane->records + lane->at, count)) return false;
    raw_decoder_lookahead(&lookahead, &lane->decoder);
    while ((count = decode_next(order, &lookahead, &next, records, 64)) > 0)
        if (!note_numbers(order, records, count)) return false;
    lane->allocations_in_stream = lookahead.allocations;
    return true;
}

bool order_look_ahead(struct order *order)
{
    for (uint32_t i = 0; i < STRUCTURES; i++)
        order->structures[i].coming_count = order->structures[i].coming_at = 0;
    for (uint32_t i = 0; i < order->present_count; i++)
        if (!lane_look_ahead(order, order->present[i])) return false;
    for (uint32_t i = 0; i < STRUCTURES; i++)
        if (order->structures[i].coming_count > 0)
            qsort(order->structures[i].coming, order->structures[i].coming_count, sizeof(uint64_t),
                  order_ahead_by_number);
    order->looked_bytes = order->bytes_in;
    return true;
}
