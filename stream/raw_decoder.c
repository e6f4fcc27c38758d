#include "stream/raw_decoder.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/raw_decoder_own.h"
#include "stream/varint.h"

/* ---- opening ---- */

void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, uint32_t features)
{
    *decoder = (struct raw_decoder){.lane = lane,
                                    .features = features,
                                    .dialect = features & RAW_FEATURE_OPAQUE ? &raw_opaque
                                                                             : &raw_tcmalloc};
}

void raw_decoder_free(struct raw_decoder *decoder)
{
    raw_cache_free(&decoder->cache);
    pages_unmap(decoder->places, sizeof *decoder->places);
    decoder->places = NULL;
}

void raw_decoder_lookahead(struct raw_decoder *lookahead, const struct raw_decoder *decoder)
{
    *lookahead = *decoder;
    lookahead->lookahead = true;
    lookahead->cache = (struct raw_cache){.known = false};
    lookahead->places = NULL;
    lookahead->define = NULL;
}

bool raw_decoder_copy(struct raw_decoder *copy, const struct raw_decoder *decoder)
{
    raw_decoder_lookahead(copy, decoder);
    copy->lookahead = false;
    copy->all_places_bytes = NULL;
    if (decoder->places == NULL) return true;
    copy->places = pages_map(sizeof *copy->places);
    if (copy->places == NULL) return false;
    *copy->places = *decoder->places;
    return true;
}

void raw_decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    struct raw_cache cache = decoder->cache;
    struct raw_places *places = decoder->places;
    const uint64_t places_bytes = decoder->places_bytes;
    uint64_t *all_places_bytes = decoder->all_places_bytes;
    *decoder = (struct raw_decoder){.lane = decoder->lane,
                                    .features = decoder->features,
                                    .dialect = decoder->dialect,
                                    .records = decoder->records,
                                    .allocations = chunk->first_allocation,
                                    .cache_records = decoder->cache_records,
                                    .define = decoder->define,
                                    .define_context = decoder->define_context,
                                    .lookahead = decoder->lookahead,
                                    .units = chunk->first_unit};
    raw_cache_gap(&cache);
    decoder->cache = cache;
    decoder->places = places;
    decoder->places_bytes = places_bytes;
    decoder->all_places_bytes = all_places_bytes;
}

static bool profile_fits(const struct raw_decoder *decoder, unsigned range, unsigned kind)
{
    if (range == RAW_PROFILE_ROUNDING) return kind < decoder->dialect->roundings;
    unsigned shape = kind < CALL_TABLE_SIZE ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (kind == 0) return true;
    if (range <= RAW_FREE_3) return shape_is_free(shape);
    if (range == RAW_REALLOC) return shape == SHAPE_REALLOC;
    return range < RAW_RANGES && shape_is_allocation(shape);
}

static bool decoder_begin_segment(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    if (chunk->first_allocation != decoder->allocations)
        return DECODER_FAIL(decoder, RAW_SEQUENCE,
                            ": the lane had %" PRIu64 " allocations, the chunk says %" PRIu64,
                            decoder->allocations, chunk->first_allocation);
    for (unsigned i = 0; i < RAW_PROFILE_BYTES; i++)
        if (!profile_fits(decoder, i, chunk->profile[i]))
            return DECODER_FAIL(decoder, RAW_PROFILE, ": kind %u in place %u", chunk->profile[i],
                                i);
    memcpy(decoder->profile, chunk->profile, RAW_PROFILE_BYTES);
    memset(decoder->remote, 0, sizeof decoder->remote);
    if (chunk->key) memset(decoder->latest_sequence, 0, sizeof decoder->latest_sequence);
    decoder->segment_allocation = chunk->first_allocation;
    decoder->begun = true;
    decoder->last_address = decoder->page_place = decoder->page_address = 0;
    decoder->next_code = decoder->next_node = 0;
    return true;
}

bool raw_decoder_open(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    if (error_is_set(&decoder->error)) return false;
    bool was_packed = decoder->packed;
    decoder->payload_offset = chunk->payload_offset;
    decoder->packed = chunk->packed;
    decoder->open_ended = chunk->open_ended;
    decoder->payload = decoder->at = decoder->end = chunk->payload;
    if (chunk->first_unit != decoder->units ||
        (!chunk->begin &&
         (!decoder->begun || chunk->first_allocation != decoder->segment_allocation)))
        return DECODER_FAIL(decoder, RAW_SEQUENCE,
                            ": the lane had %" PRIu64 " units, the chunk begins with %" PRIu64,
                            decoder->units, chunk->first_unit);
    if (chunk->begin && !decoder_begin_segment(decoder, chunk)) return false;
    if (decoder->dialect->prepare != NULL && !decoder->dialect->prepare(decoder, chunk, was_packed))
        return false;
    if (chunk->begin || was_packed != chunk->packed)
        units_fill_calls(decoder->codes, decoder->profile, decoder->features, chunk->packed);
    decoder->units += chunk->units;
    decoder->end += chunk->packed ? chunk->payload_bytes : 2 * (size_t)chunk->units;
    return true;
}

/* ---- what a record says, in its lane ---- */

/* What is wrong with the record at hand, which begins at decoder->at. */
static bool fail_coded(struct raw_decoder *decoder, const struct units_record *coded)
{
    switch (coded->wrong) {
    case RAW_UNITS_SHORT: return DECODER_FAIL(decoder, RAW_UNITS_SHORT, "%s", "");
    case RAW_UNIT:
    case RAW_UNIT_FLAG:
    case RAW_NUMBER:
        return DECODER_FAIL(decoder, coded->wrong, ": unit 0x%04" PRIx64, coded->wrong_value);
    default: return DECODER_FAIL(decoder, coded->wrong, ": %" PRIu64, coded->wrong_value);
    }
}

static bool count_allocations(struct raw_decoder *decoder, uint64_t allocations)
{
    if (allocations > RAW_SERIAL_MAX - decoder->allocations)
        return DECODER_FAIL(decoder, RAW_ALLOCATIONS, "%s", "");
    decoder->allocations += allocations;
    return true;
}

/* An object that this lane has. */
static bool name_own(struct raw_decoder *decoder, uint32_t place, struct record *record)
{
    record->ends = place;
    record->bound = raw_allocations(decoder->lane, decoder->allocations);
    return true;
}

/* An object that this lane has, by its age. Its place is unknown if that of its allocation was; a
 * lookahead knows no places. */
static bool name_by_age(struct raw_decoder *decoder, uint32_t age, struct record *record)
{
    if (decoder->lookahead) {
        record->bound = raw_allocations(decoder->lane, decoder->allocations);
        return true;
    }
    const uint32_t place = decoder->dialect->place_of_age(decoder, age);
    if (place != RAW_PLACE_NONE) return name_own(decoder, place, record);
    return decoder->cache.gap || error_is_set(&decoder->underrun) ||
           DECODER_FAIL(decoder, RAW_OBJECT, ": of age %" PRIu32 ", after %" PRIu64 " allocations",
                        age, decoder->allocations);
}

/* How far another lane had got: by lane and bound, or by an entry that the segment remembers
 * (FORMAT.md 5.2, "Remote"). */
static bool name_bound(struct raw_decoder *decoder, bool by_entry, uint64_t lane, uint64_t bound,
                       uint64_t *named)
{
    if (by_entry) {
        const struct raw_remote_entry *entry = &decoder->remote[lane];
        if (entry->bound == 0 && entry->lane == 0)
            return DECODER_FAIL(decoder, RAW_UNIT, ": before a remote object, %" PRIu64, lane);
        lane = entry->lane;
        bound += entry->bound;
    }
    if (lane >= RAW_LANES_MAX || lane == decoder->lane || bound > RAW_SERIAL_MAX)
        return DECODER_FAIL(decoder, RAW_OBJECT, ": %" PRIu64 " allocations of lane %" PRIu64,
                            bound, lane);
    decoder->remote[lane % RAW_REMOTE_ENTRIES] =
        (struct raw_remote_entry){.lane = (uint32_t)lane, .bound = bound};
    *named = raw_allocations((uint32_t)lane, bound);
    return true;
}

static bool name_object(struct raw_decoder *decoder, const struct units_record *coded,
                        struct record *record)
{
    switch (coded->object_form) {
    case UNITS_OBJECT_OWN: return name_own(decoder, coded->ends, record);
    case UNITS_OBJECT_BY_AGE: return name_by_age(decoder, coded->ends, record);
    case UNITS_OBJECT_REMOTE:
    case UNITS_OBJECT_BY_ENTRY:
        record->ends = coded->ends;
        return name_bound(decoder, coded->object_form == UNITS_OBJECT_BY_ENTRY, coded->lane,
                          coded->bound, &record->bound);
    default: record->ends = coded->ends; return true;
    }
}

static bool raw_decoder_begin_object(struct raw_decoder *decoder, const struct units_record *coded,
                                     struct record *record)
{
    record->place = coded->number == CALL_REALLOC_IN_PLACE ? record->ends : coded->place;
    if (coded->place_form != UNITS_PLACE_ITSELF && !raw_decoder_find_place(decoder, coded, record))
        return false;
    if (decoder->features & RAW_FEATURE_ADDRESSES) {
        decoder->last_address += (uint64_t)unzigzag(coded->address) * 8;
        record->address = decoder->last_address;
    }
    if (!count_allocations(decoder, 1)) return false;
    record->serial = decoder->allocations;
    return true;
}

static bool add_sequence_number(struct raw_decoder *decoder, const struct units_record *coded,
                                struct record *record)
{
    bool is_page_heap = coded->structure == RAW_STRUCTURE_PAGE_HEAP;
    uint64_t *latest =
        &decoder->latest_sequence[is_page_heap ? RAW_SEQUENCE_ENTRIES - 1 : coded->structure];
    if (coded->size == 0 || coded->size >= RAW_SEQUENCE_LIMIT - *latest)
        return DECODER_FAIL(decoder, RAW_OPERAND,
                            ": sequence number %" PRIu64 " and %" PRIu64 " more", *latest,
                            coded->size);
    *latest += coded->size;
    record->size = *latest;
    return true;
}

static bool add_page(struct raw_decoder *decoder, const struct units_record *coded,
                     struct record *record)
{
    decoder->page_place += (uint64_t)unzigzag(coded->operand);
    decoder->page_address += (uint64_t)unzigzag(coded->address) * 8;
    record->operand = 0;
    record->address = decoder->page_address;
    record->place = (uint32_t)decoder->page_place;
    if (decoder->page_place == RAW_PLACE_NONE ||
        decoder->page_place > RAW_PLACE_LIMIT - RAW_PAGE_PLACES)
        return DECODER_FAIL(decoder, RAW_PLACE, ": %" PRIu64, decoder->page_place);
    if (decoder->page != NULL) decoder->page(decoder->page_context, record->place, record->address);
    return true;
}

/* The number of the first of some codes or nodes; 0: it is out of range. */
static uint32_t add_first(uint32_t *next, const struct units_record *coded)
{
    uint64_t first = *next + (uint64_t)unzigzag(coded->operand);
    if (first >= STACK_NUMBERS_LIMIT) return 0;
    *next = (uint32_t)first + coded->definition.count;
    return (uint32_t)first;
}

static bool add_definition(struct raw_decoder *decoder, const struct units_record *coded,
                           struct record *record)
{
    struct stack_definition *definition = &decoder->definition;
    const char *wrong = "outside of its limits";
    *definition = coded->definition;
    if (definition->what == STACK_CODES) definition->number = add_first(&decoder->next_code, coded);
    if (definition->what == STACK_NODES) {
        definition->number = add_first(&decoder->next_node, coded);
        definition->of = definition->number - (uint32_t)coded->size;
        if (coded->size > definition->number) definition->of = UINT32_MAX;
    }
    record->size = 0;
    record->operand = definition->what;
    if (stack_definition_is_valid(definition))
        wrong =
            decoder->define == NULL ? NULL : decoder->define(decoder->define_context, definition);
    return wrong == NULL || DECODER_FAIL(decoder, RAW_DEFINITION, ": %s, number %" PRIu32, wrong,
                                         definition->number);
}

/* Keeps the node of a `stack` record for the next call that can have one. */
static void raw_decoder_add_stack(struct raw_decoder *decoder, struct record *record)
{
    const bool has = shape_begins(record->shape) || record->number == RAW_FAILED ||
                     (shape_is_free(record->shape) && decoder->features & RAW_FEATURE_FREE_STACKS);
    if (record->number == RAW_STACK) decoder->stack = (uint32_t)record->size;
    if (has) record->stack = decoder->stack;
    if (has || record->number == RAW_THREAD_BEGIN || record->number == RAW_LOST) decoder->stack = 0;
}

/* The record, but for what is left to the cache. */
static bool make_record(struct raw_decoder *decoder, const struct units_record *coded,
                        struct record *record)
{
    *record = (struct record){.number = coded->number,
                              .shape = coded->shape,
                              .kind = coded->kind,
                              .structure = coded->structure,
                              .size = coded->size,
                              .operand = coded->operand};
    if (coded->shape == SHAPE_HEAP) record->count = (uint8_t)coded->count;
    if (coded->number == RAW_SEQUENCE_BEFORE || coded->number == RAW_SEQUENCE_AFTER)
        return add_sequence_number(decoder, coded, record);
    if (coded->number == RAW_PAGE) return add_page(decoder, coded, record);
    if (coded->number == RAW_DEFINE) return add_definition(decoder, coded, record);
    if (coded->number == RAW_LOST) return count_allocations(decoder, coded->operand);
    if (decoder->dialect->units->counts_frees && shape_is_free(coded->shape))
        return name_object(decoder, coded, record) && count_allocations(decoder, 1);
    return name_object(decoder, coded, record) &&
           (!coded->begins || raw_decoder_begin_object(decoder, coded, record));
}

/* ---- any record ---- */

/* The records that stand for a record that concerns the cache only: one for each place. */
static uint32_t return_cache_record(const struct raw_decoder *decoder,
                                    const struct units_record *coded, const struct record *record,
                                    struct record *records)
{
    if (!decoder->cache_records) return 0;
    records[0] = *record;
    if (coded->number != RAW_CACHED) return 1;
    for (uint32_t i = 0; i < coded->count; i++) {
        records[i] = *record;
        records[i].place = coded->cached[i];
    }
    return coded->count;
}

/* One record of any kind, handed out as *returned records. False: it is damaged. */
static bool decode_any(struct raw_decoder *decoder, struct record *records, uint32_t *returned)
{
    struct units_reader reader = {.at = decoder->at,
                                  .end = decoder->end,
                                  .profile = decoder->profile,
                                  .dialect = decoder->dialect->units,
                                  .features = decoder->features,
                                  .packed = decoder->packed};
    uint64_t allocations = decoder->allocations;
    struct units_record coded;
    struct record record; /* there need not be room for one that is not handed out */
    if (!units_read(&reader, &coded)) return fail_coded(decoder, &coded);
    if (!make_record(decoder, &coded, &record) ||
        (!decoder->lookahead && !decoder->dialect->follow(decoder, &record, &coded))) {
        decoder->allocations = allocations;
        return false;
    }
    if (decoder->features & RAW_FEATURE_STACKS) raw_decoder_add_stack(decoder, &record);
    decoder->at = reader.at;
    *returned = 1;
    if (raw_record_is_of_cache(&record)) {
        *returned = return_cache_record(decoder, &coded, &record, records);
        return true;
    }
    records[0] = record;
    decoder->records++;
    return true;
}

/* ---- what threads share ---- */

/* A free of another lane's object, or a sequence number. */
static bool decode_shared(struct raw_decoder *decoder, struct record *record)
{
    struct raw_remote_free call;
    struct raw_sequence sequence;
    if (decoder->end - decoder->at < RAW_REMOTE_BYTES_MAX || decoder->stack != 0) return false;
    if (raw_sequence_look(decoder, decoder->at, &sequence)) {
        const uint8_t number = sequence.after ? RAW_SEQUENCE_AFTER : RAW_SEQUENCE_BEFORE;
        *record = (struct record){.number = number,
                                  .kind = number,
                                  .structure = sequence.structure,
                                  .size = sequence.number};
        raw_sequence_take(decoder, &sequence);
        return true;
    }
    if (!raw_remote_look(decoder, &call)) return false;
    *record = (struct record){.number = call.kind,
                              .shape = call_shapes[call.kind],
                              .kind = call.kind,
                              .size = call.size,
                              .ends = call.place,
                              .bound = call.bound};
    raw_remote_take(decoder, &call);
    return true;
}

/* ---- a chunk ---- */

/* Whether an open-ended chunk ends here. */
static bool decoder_ends(struct raw_decoder *decoder)
{
    if (!decoder->open_ended || bytes_get16(decoder->at) != 0) return false;
    decoder->end = decoder->at;
    return true;
}

/* Whether the next record may be handed out as more than there is room for. */
static bool lacks_room(const struct raw_decoder *decoder, uint32_t room)
{
    return decoder->cache_records && room < RAW_CACHED_MAX &&
           bytes_get16(decoder->at) == RAW_UNIT_GENERAL + RAW_CACHED;
}

/* Whether the caller of raw_decoder_next_special() gets the next call from raw_calls.h. */
static bool leaves_call(const struct raw_decoder *decoder, const struct record *records,
                        uint32_t done)
{
    return done > 0 && records[done - 1].number != RAW_SEQUENCE_BEFORE && decoder->stack == 0 &&
           raw_decoder_is_at_call(decoder);
}

static inline __attribute__((always_inline)) uint32_t decode_records(struct raw_decoder *decoder,
                                                                     struct record *records,
                                                                     uint32_t room, bool special)
{
    uint32_t done = 0, returned = 0;
    if (error_is_set(&decoder->error)) return 0;
    while (done < room && decoder->at < decoder->end) {
        if (special && leaves_call(decoder, records, done)) break;
        uint32_t some = decode_shared(decoder, &records[done]);
        if (some == 0)
            some =
                decoder->dialect->decode_calls(decoder, records + done, special ? 1 : room - done);
        done += some;
        if (some > 0) continue;
        if (lacks_room(decoder, room - done) || decoder_ends(decoder) ||
            !decode_any(decoder, &records[done], &returned))
            break;
        done += returned;
        if (returned > 0 && records[done - 1].number == RAW_DEFINE) break;
    }
    return done;
}

uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    return decode_records(decoder, records, room, false);
}

uint32_t raw_decoder_next_special(struct raw_decoder *decoder, struct record *records,
                                  uint32_t room)
{
    return decode_records(decoder, records, room, true);
}
