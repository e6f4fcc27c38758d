#include <stdlib.h>

#include "postprocess/order_state.h"

/* ---- records that a lane has not decoded ---- */

bool chunk_needs_nothing(const struct raw_chunk *chunk, uint64_t births)
{
    return chunk->key && chunk->first_birth >= births;
}

void decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    raw_decoder_resume(decoder, chunk);
    decoder->records++;
}

/* Opens the next chunk, or behind damage the one that lane_resume() will find. False: there is none. */
static bool open_next(const struct order *order, struct raw_decoder *decoder,
                      const struct raw_chunk **next)
{
    const struct raw_chunk *chunk = *next;
    if (chunk == NULL) return false;
    if (error_is_set(&decoder->error) || chunk->gap) {
        while (chunk != NULL && !chunk_needs_nothing(chunk, decoder->births))
            chunk = chunk->next;
        if (chunk == NULL || !order->salvage) return false;
        decoder_resume(decoder, chunk);
    }
    *next = chunk->next;
    raw_decoder_open(decoder, chunk);
    return true;
}

/* The next records: of the chunk that the decoder has open, then of the chunks from *next on. 0: there are no more. */
static uint32_t decode_next(const struct order *order, struct raw_decoder *decoder,
                            const struct raw_chunk **next, struct record *records, uint32_t room)
{
    for (;;) {
        uint32_t count = raw_decoder_next(decoder, records, room);
        if (count > 0 || !open_next(order, decoder, next)) return count;
    }
}

static bool is_stamp(const struct record *record)
{
    return record->number == RAW_STAMP_BEFORE || record->number == RAW_STAMP_AFTER;
}

/* Records that were decoded and not taken; NULL when there is no batch. */
static const struct record *records_left(const struct order_lane *lane)
{
    return lane->records == NULL ? NULL : lane->records + lane->at;
}

/* ---- scouts ---- */

/* What the record says of numbers. */
static bool note_numbers(struct order *order, const struct order_lane *lane,
                         const struct record *record)
{
    if (!is_stamp(record)) return true;
    struct order_structure *structure = &order->structures[structure_index(record->structure)];
    if (record->size < structure->next) return true;
    return wait_heap_add(&structure->ahead, record->size, lane->number) || order_no_memory(order);
}

static uint64_t births_of(const struct record *record)
{
    if (record->number == RAW_LOST) return record->operand;
    return record->shape >= SHAPE_BIRTH && record->shape <= SHAPE_REALLOC;
}

/* Notes records, before which the lane has so many births, and after which it has so many. */
static bool note_records(struct order *order, const struct order_lane *lane,
                         const struct record *records, uint32_t count, uint64_t before,
                         uint64_t after)
{
    uint64_t births = after;
    for (uint32_t i = 0; i < count; i++)
        births -= births_of(&records[i]);
    /* Chunks are missing. */
    if (births > before) object_table_lose(&order->objects, lane->number, before, births - before);
    for (uint32_t i = 0; i < count; births += births_of(&records[i++])) {
        if (!note_numbers(order, lane, &records[i])) return false;
        if (records[i].number == RAW_LOST)
            object_table_lose(&order->objects, lane->number, births, records[i].operand);
    }
    return !order_failed(order);
}

/* The lane's scout stands at least where the lane does. */
static bool scout_begin(struct order *order, struct order_lane *lane)
{
    uint64_t position = lane_position(lane), noted = 0;
    if (lane->scout == NULL) {
        lane->scout = malloc(sizeof *lane->scout);
        if (lane->scout == NULL) return order_no_memory(order);
    } else if (lane->scout->units >= lane->decoder.units) {
        return true;
    } else if (lane->scout->records > position) {
        noted = lane->scout->records - position;
    }
    raw_decoder_scout(lane->scout, &lane->decoder);
    uint64_t births = lane_births(lane);
    const struct record *records = records_left(lane);
    uint32_t left = lane->filled - lane->at, i = 0;
    for (; i < noted && i < left; i++)
        births += births_of(&records[i]);
    return i == left ||
           note_records(order, lane, records + i, left - i, births, lane->decoder.births);
}

/* Sends the lane's scout on through what has come since. */
static bool scout_go_on(struct order *order, struct order_lane *lane)
{
    struct record records[64];
    const struct raw_chunk *next = lane->queue;
    uint32_t count;
    if (lane->scout != NULL && lane->scout->units >= lane->decoder.units &&
        (next == NULL || lane->queue_last->first_unit < lane->scout->units))
        return true;
    if (!scout_begin(order, lane)) return false;
    while (next != NULL && next->first_unit < lane->scout->units)
        next = next->next;
    for (;;) {
        uint64_t births = lane->scout->births;
        count = decode_next(order, lane->scout, &next, records, 64);
        if (count == 0) return true;
        if (!note_records(order, lane, records, count, births, lane->scout->births)) return false;
    }
}

uint64_t lane_births_ahead(struct order *order, struct order_lane *lane)
{
    return scout_go_on(order, lane) ? lane->scout->births : 0;
}

/* The lowest number ahead that has not been passed. */
static uint64_t lowest_ahead(struct order_structure *structure)
{
    uint32_t lane;
    while (wait_heap_take(&structure->ahead, structure->next - 1, &lane)) {}
    return structure->ahead.lowest;
}

bool order_look_ahead(struct order *order, uint64_t *lowest)
{
    for (uint32_t i = 0; i < order->present_count; i++)
        if (!scout_go_on(order, order->present[i])) return false;
    for (uint32_t i = 0; i < STRUCTURES; i++)
        lowest[i] = lowest_ahead(&order->structures[i]);
    return true;
}

/* ---- a number ---- */

/* Looks for the number among these records; *at is where it is. Returns whether to look no further: it is there, or a
 * greater one. */
static bool find_number(const struct record *records, uint32_t count, uint32_t structure,
                        uint64_t number, uint32_t *at, bool *found)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!is_stamp(&records[i]) || records[i].size < number ||
            structure_index(records[i].structure) != structure)
            continue;
        *at = i;
        *found = records[i].size == number;
        return true;
    }
    return false;
}

static bool lane_has_at_hand(const struct order_lane *lane, uint32_t structure, uint64_t number)
{
    uint32_t at;
    bool found = false;
    find_number(records_left(lane), lane->filled - lane->at, structure, number, &at, &found);
    return found;
}

bool lane_find_number(const struct order *order, const struct order_lane *lane, uint32_t structure,
                      uint64_t number, uint64_t *record, uint64_t *window)
{
    struct record records[64];
    struct raw_decoder decoder;
    const struct raw_chunk *next = lane->queue, *first = next;
    uint32_t count = lane->filled - lane->at, at = 0;
    bool found = false;
    raw_decoder_scout(&decoder, &lane->decoder);
    *window = lane->decoded_window;
    if (find_number(records_left(lane), count, structure, number, &at, &found)) {
        *record = lane_position(lane) + at;
        return found;
    }
    while ((count = decode_next(order, &decoder, &next, records, 64)) > 0) {
        for (; first != next; first = first->next)
            *window = first->window;
        if (!find_number(records, count, structure, number, &at, &found)) continue;
        *record = decoder.records - count + at;
        return found;
    }
    return false;
}

struct order_lane *order_find_number(struct order *order, uint32_t index)
{
    struct order_structure *structure = &order->structures[index];
    uint64_t number = structure->next;
    if (lowest_ahead(structure) != number)
        for (uint32_t i = 0; i < order->present_count; i++)
            if (lane_has_at_hand(order->present[i], index, number)) return order->present[i];
    for (uint32_t i = 0; i < order->present_count && structure->ahead.lowest != number; i++)
        if (!scout_go_on(order, order->present[i])) return NULL;
    return structure->ahead.lowest == number ? order->lanes[structure->ahead.entries[0].waiter]
                                             : NULL;
}
