#include "inspect/verify_raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/program.h"

static bool verify_raw_no_memory(struct verify_raw *raw)
{
    errno = ENOMEM;
    return error_set_system(&raw->error, "no memory for records");
}

bool verify_raw_open(struct verify_raw *raw, int fd, const char *path)
{
    *raw = (struct verify_raw){.lanes = calloc(RAW_LANES_MAX, sizeof *raw->lanes)};
    if (raw->lanes == NULL) return verify_raw_no_memory(raw);
    raw_source_open(&raw->source, fd, path);
    if (raw->source.reader.state != RAW_STREAM_FAILED) return true;
    raw->error = raw->source.reader.error;
    return false;
}

struct verify_lane *verify_raw_lane(struct verify_raw *raw, uint32_t number)
{
    struct verify_lane *lane = raw->lanes[number];
    if (lane != NULL) return lane;
    lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        verify_raw_no_memory(raw);
        return NULL;
    }
    lane->number = number;
    lane->blocked_on = VERIFY_NOT_BLOCKED;
    raw->lanes[number] = lane;
    if (number >= raw->lanes_count) raw->lanes_count = number + 1;
    return lane;
}

/* ---- blocks ---- */

static void block_append(struct verify_lane *lane, struct verify_block *block)
{
    if (lane->first == NULL)
        lane->first = block;
    else
        lane->last->next = block;
    lane->last = block;
}

void verify_lane_take(struct verify_lane *lane)
{
    struct verify_block *block = lane->first;
    if (++block->taken < block->count) return;
    lane->first = block->next;
    free(block);
}

/* ---- reading ---- */

static bool note_loss(struct verify_lane *lane, uint64_t count)
{
    if (!array_reserve(&lane->losses, &lane->losses_room, lane->losses_count + 1,
                       sizeof *lane->losses))
        return false;
    lane->losses[lane->losses_count++] = (struct verify_loss){lane->known + 1, count};
    return true;
}

static bool note_page(struct verify_raw *raw, const struct record *record)
{
    size_t index = record->place / RAW_PAGE_PLACES;
    if (!array_reserve(&raw->pages, &raw->pages_room, index + 1, sizeof *raw->pages))
        return verify_raw_no_memory(raw);
    raw->pages[index] = (struct verify_places){record->place, record->address};
    return true;
}

uint64_t verify_raw_address(const struct verify_raw *raw, uint32_t place)
{
    for (size_t i = 0; i < 2; i++) {
        const size_t index = place / RAW_PAGE_PLACES - i;
        if (index >= raw->pages_room) continue;
        const struct verify_places *places = &raw->pages[index];
        if (places->first != 0 && places->first <= place && place - places->first < RAW_PAGE_PLACES)
            return places->address + (uint64_t)(place - places->first) * RAW_GRANULE_BYTES;
    }
    return 0;
}

/* Removes records that are no part of the lane's order (addresses of places, definitions of call
 * stacks ...), and takes the addresses. */
static bool verify_raw_take_pages(struct verify_raw *raw, struct verify_block *block)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        if (!raw_record_is_of_cache(&block->records[i]))
            block->records[kept++] = block->records[i];
        else if (block->records[i].number == RAW_PAGE && !note_page(raw, &block->records[i]))
            return false;
    }
    block->count = kept;
    return true;
}

static bool note_allocations(struct verify_raw *raw, struct verify_lane *lane,
                             const struct verify_block *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const struct record *record = &block->records[i];
        bool lost = record->number == RAW_LOST;
        raw->lost |= lost;
        bool counts = raw_record_counts(record, raw_source_is_opaque(&raw->source));
        uint64_t count = lost ? record->operand : counts;
        if (lost && count > 0 && !note_loss(lane, count)) return verify_raw_no_memory(raw);
        lane->known += count;
    }
    return true;
}

static struct verify_lane *verify_raw_take_records(struct verify_raw *raw,
                                                   const struct raw_chunk *chunk)
{
    struct raw_decoder *decoder = raw_source_lane(&raw->source, chunk->lane);
    struct verify_lane *lane = verify_raw_lane(raw, chunk->lane);
    struct verify_block *block = malloc(sizeof *block + chunk->units * sizeof *block->records);
    uint32_t count;
    if (decoder == NULL || lane == NULL || block == NULL) {
        free(block);
        verify_raw_no_memory(raw);
        return NULL;
    }
    *block = (struct verify_block){.offset = chunk->offset,
                                   .first_record = decoder->records,
                                   .window = (uint32_t)raw->ticks_count};
    decoder->cache_records = raw_source_is_opaque(&raw->source);
    raw_decoder_open(decoder, chunk);
    while ((count = raw_decoder_next(decoder, block->records + block->count,
                                     chunk->units - block->count)) > 0)
        block->count += count;
    raw->error = decoder->error;
    bool some =
        verify_raw_take_pages(raw, block) && block->count > 0 && note_allocations(raw, lane, block);
    if (some)
        block_append(lane, block);
    else
        free(block);
    return error_is_set(&raw->error) || !some ? NULL : lane;
}

uint64_t verify_lane_last_recorded(const struct verify_lane *lane, uint64_t count)
{
    for (size_t i = lane->losses_count; i-- > 0;) {
        const struct verify_loss *loss = &lane->losses[i];
        if (count >= loss->from && count < loss->from + loss->count) count = loss->from - 1;
    }
    return count;
}

bool verify_raw_has_unplaced(const struct verify_raw *raw, uint64_t bound)
{
    uint32_t lane = raw_allocations_lane(bound);
    const struct raw_source *source = &raw->source;
    return lane < source->decoders_count && source->decoders[lane] != NULL &&
           source->decoders[lane]->unplaced - 1 < raw_allocations_count(bound);
}

const struct error *verify_raw_underrun(const struct verify_raw *raw)
{
    const struct raw_source *source = &raw->source;
    for (uint32_t i = 0; i < source->decoders_count; i++)
        if (source->decoders[i] != NULL && error_is_set(&source->decoders[i]->underrun))
            return &source->decoders[i]->underrun;
    return NULL;
}

static void verify_raw_take_tick(struct verify_raw *raw)
{
    if (array_reserve(&raw->ticks, &raw->ticks_room, raw->ticks_count + 1, sizeof *raw->ticks))
        raw->ticks[raw->ticks_count++] = raw->source.reader.tick;
    else
        verify_raw_no_memory(raw);
}

struct verify_lane *verify_raw_read(struct verify_raw *raw)
{
    struct verify_lane *lane = NULL;
    struct raw_chunk *chunk = raw->ended ? NULL : raw_source_next(&raw->source);
    if (chunk == NULL) {
        struct error error = {0};
        raw->ended = true;
        if (raw_source_state(&raw->source, &error) == PROGRAM_FAILED) raw->error = error;
        return NULL;
    }
    if (chunk->type == RAW_CHUNK_TICK)
        verify_raw_take_tick(raw);
    else if (chunk->type == RAW_CHUNK_UNITS)
        lane = verify_raw_take_records(raw, chunk);
    free(chunk);
    raw->ended |= error_is_set(&raw->error);
    return lane;
}

/* ---- searching ---- */

static uint64_t block_next_number(const struct verify_block *block, uint32_t structure,
                                  uint64_t from)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = block->taken; i < block->count; i++) {
        const struct record *record = &block->records[i];
        if ((record->number == RAW_SEQUENCE_BEFORE || record->number == RAW_SEQUENCE_AFTER) &&
            record->structure == structure && record->size >= from && record->size < lowest)
            lowest = record->size;
    }
    return lowest;
}

uint64_t verify_raw_next_number(const struct verify_raw *raw, uint32_t structure, uint64_t from)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < raw->lanes_count; i++) {
        const struct verify_block *block = raw->lanes[i] != NULL ? raw->lanes[i]->first : NULL;
        for (; block != NULL; block = block->next) {
            uint64_t number = block_next_number(block, structure, from);
            if (number < lowest) lowest = number;
        }
    }
    return lowest;
}

/* ---- closing ---- */

static void blocks_free(struct verify_block *block)
{
    while (block != NULL) {
        struct verify_block *next = block->next;
        free(block);
        block = next;
    }
}

void verify_raw_close(struct verify_raw *raw)
{
    for (uint32_t i = 0; i < raw->lanes_count; i++) {
        if (raw->lanes[i] == NULL) continue;
        blocks_free(raw->lanes[i]->first);
        free(raw->lanes[i]->floors);
        free(raw->lanes[i]->losses);
        free(raw->lanes[i]);
    }
    free(raw->lanes);
    free(raw->ticks);
    free(raw->pages);
    raw_source_close(&raw->source);
}
