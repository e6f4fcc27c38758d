#include "stream/raw_decoder.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/pages.h"
#include "stream/raw_calls.h"
#include "stream/varint.h"

/* ---- errors ---- */

/* Packed units have no offsets of their own in the stream. */
static uint64_t decoder_offset(const struct raw_decoder *decoder, const uint8_t *at)
{
    return decoder->payload_offset + (decoder->packed ? 0 : (uint64_t)(at - decoder->payload));
}

/* The record that is being decoded is the one after decoder->records; decoder->at is where it
 * begins. */
#define DECODER_FAIL(decoder, which, format, ...)                                              \
    error_set(&(decoder)->error, &raw_errors[which], decoder_offset(decoder, (decoder)->at),   \
              "lane %" PRIu32 ", record %" PRIu64 format, (decoder)->lane, (decoder)->records, \
              __VA_ARGS__)

/* ---- opening ---- */

void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, uint32_t features)
{
    *decoder = (struct raw_decoder){.lane = lane, .features = features};
}

void raw_decoder_free(struct raw_decoder *decoder)
{
    raw_cache_free(&decoder->cache);
    pages_unmap(decoder->places, sizeof *decoder->places);
    decoder->places = NULL;
}

static bool is_opaque(const struct raw_decoder *decoder)
{
    return decoder->features & RAW_FEATURE_OPAQUE;
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
    if (range == RAW_PROFILE_ROUNDING && is_opaque(decoder)) return kind < RAW_ROUNDING_LIMIT;
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

/* Each object touches, in the lane's places, a page of sizes and one of lists; a few pages are
 * touched anyway. With PLACES_OBJECTS objects, all may be. */
enum { PAGE_BYTES = 4096, PLACES_PAGES = 3 };
#define PLACES_OBJECTS (sizeof(struct raw_places) / (2 * PAGE_BYTES))

/* Forgets them; untouched memory stays untouched. */
static bool clear_places(struct raw_decoder *decoder)
{
    if (decoder->places->objects >= PLACES_OBJECTS) {
        memset(decoder->places, 0, sizeof *decoder->places);
        return true;
    }
    pages_unmap(decoder->places, sizeof *decoder->places);
    decoder->places = pages_map(sizeof *decoder->places);
    return decoder->places != NULL;
}

/* Whether all lanes' places stay within their limit, with those that this lane has touched. */
static bool count_places(struct raw_decoder *decoder)
{
    uint64_t *all = decoder->all_places_bytes;
    const uint64_t objects = decoder->places->objects;
    const uint64_t bytes = objects < PLACES_OBJECTS ? (PLACES_PAGES + 2 * objects) * PAGE_BYTES
                                                    : sizeof *decoder->places;
    if (all == NULL || bytes <= decoder->places_bytes) return true;
    *all += bytes - decoder->places_bytes;
    decoder->places_bytes = bytes;
    return *all <= RAW_PLACES_BYTES_MAX ||
           error_set(&decoder->error, &raw_errors[RAW_PLACES_MEMORY], decoder->payload_offset,
                     "lane %" PRIu32, decoder->lane);
}

/* What a packed chunk of an opaque stream leaves out is known from the chunks before it, back to
 * one that is key, or not packed. */
static bool prepare_places(struct raw_decoder *decoder, const struct raw_chunk *chunk,
                           bool was_packed)
{
    if (!is_opaque(decoder) || !chunk->packed || decoder->lookahead) return true;
    bool made = decoder->places != NULL;
    if (!made) decoder->places = pages_map(sizeof *decoder->places);
    if (decoder->places == NULL || (made && (!was_packed || chunk->key) && !clear_places(decoder)))
        return error_set_system(&decoder->error, "no memory for the places of a thread");
    decoder->places->rounding = decoder->profile[RAW_PROFILE_ROUNDING];
    return count_places(decoder);
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
    if (!prepare_places(decoder, chunk, was_packed)) return false;
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
    uint32_t place = RAW_PLACE_NONE;
    if (decoder->lookahead) {
        record->bound = raw_allocations(decoder->lane, decoder->allocations);
        return true;
    }
    if (is_opaque(decoder))
        place = raw_places_of_age(decoder->places, age);
    else if (age <= decoder->allocations)
        place = raw_cache_recent(&decoder->cache, decoder->allocations + 1 - age);
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

/* The place that a packed chunk of an opaque stream leaves out. A lookahead does not know. */
static bool find_place(struct raw_decoder *decoder, const struct units_record *coded,
                       struct record *record)
{
    struct raw_places *places = decoder->places;
    if (decoder->lookahead) return true;
    uint64_t place = coded->place_form == UNITS_PLACE_NEARBY
                         ? places->last + (uint64_t)unzigzag(coded->place_code)
                         : raw_places_take(places, coded->size, (uint32_t)coded->place_code);
    if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
        return DECODER_FAIL(decoder, RAW_PLACE, ": %" PRIu64, place);
    record->place = (uint32_t)place;
    return true;
}

static bool begin_object(struct raw_decoder *decoder, const struct units_record *coded,
                         struct record *record)
{
    record->place = coded->number == CALL_REALLOC_IN_PLACE ? record->ends : coded->place;
    if (coded->place_form != UNITS_PLACE_ITSELF && !find_place(decoder, coded, record))
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
static void add_stack(struct raw_decoder *decoder, struct record *record)
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
    if (is_opaque(decoder) && shape_is_free(coded->shape))
        return name_object(decoder, coded, record) && count_allocations(decoder, 1);
    return name_object(decoder, coded, record) &&
           (!coded->begins || begin_object(decoder, coded, record));
}

/* ---- what records do to the cache ---- */

static bool no_memory(struct raw_decoder *decoder)
{
    errno = ENOMEM;
    return error_set_system(&decoder->error, "no memory for a thread's cache");
}

/* The number of the list of a class that a record names. */
static bool find_list(struct raw_decoder *decoder, uint64_t size_class, uint32_t *list)
{
    struct raw_cache *cache = &decoder->cache;
    if (!raw_cache_prepare(cache)) return no_memory(decoder);
    *list = cache->list_of_class[size_class];
    if (*list != RAW_LIST_UNKNOWN) return true;
    if (!cache->gap)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, ": class %" PRIu64 " was not announced",
                            size_class);
    if (!raw_cache_announce(cache, (uint32_t)size_class, 0)) return no_memory(decoder);
    *list = cache->list_of_class[size_class];
    return true;
}

/* Notes a place of a class, whose list is given. */
static bool note_in_list(struct raw_decoder *decoder, uint32_t place, uint64_t size_class,
                         uint32_t list)
{
    uint32_t before = raw_cache_list_of_place(&decoder->cache, place);
    if (before == list) return true;
    if (before != RAW_LIST_UNKNOWN)
        return DECODER_FAIL(decoder, RAW_PLACE_CLASS,
                            ": place %" PRIu32 " is of class %" PRIu64 " now", place, size_class);
    return raw_cache_note_place(&decoder->cache, place, list) || no_memory(decoder);
}

/* The same for a class that a record names, whose list is looked up. */
static bool note_place(struct raw_decoder *decoder, uint32_t place, uint64_t size_class,
                       uint32_t *list)
{
    return find_list(decoder, size_class, list) && note_in_list(decoder, place, size_class, *list);
}

/* The list of a place that the lane has. */
static bool find_own_list(struct raw_decoder *decoder, uint32_t place, uint32_t *list)
{
    *list = raw_cache_list_of_place(&decoder->cache, place);
    if (*list != RAW_LIST_UNKNOWN) return true;
    if (!decoder->cache.gap)
        return DECODER_FAIL(decoder, RAW_OBJECT, ": place %" PRIu32 " is not one that the lane has",
                            place);
    /* It goes to the front of one of the lists, but nobody knows which. */
    raw_cache_empty(&decoder->cache);
    return true;
}

/* Notes that more is taken from a list than it has. */
static void note_underrun(struct raw_decoder *decoder, enum raw_error which, uint64_t number)
{
    if (error_is_set(&decoder->underrun)) return;
    const struct error before = decoder->error;
    DECODER_FAIL(decoder, which, ": %" PRIu64, number);
    decoder->underrun = decoder->error;
    decoder->error = before;
}

/* An object that begins without a place in its record has the first one of its list. */
static bool begin_from_cache(struct raw_decoder *decoder, struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    if (!cache->known)
        return DECODER_FAIL(decoder, RAW_CACHE_UNKNOWN, ": %" PRIu64 " bytes", record->size);
    uint32_t list = raw_cache_list_of_size(cache, record->size);
    if (list == RAW_LIST_UNKNOWN && !cache->gap)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS,
                            ": no class of %" PRIu64 " bytes was announced", record->size);
    /* It took the first place of a list, but nobody knows of which. */
    if (list == RAW_LIST_UNKNOWN || !raw_cache_is_certain(cache, list)) {
        raw_cache_empty(cache);
        return true;
    }
    record->place = raw_list_first(&cache->lists[list]);
    if (record->place != RAW_PLACE_NONE) cache->lists[list].top--;
    if (record->place != RAW_PLACE_NONE || cache->gap) return true;
    note_underrun(decoder, RAW_CACHE_EMPTY, record->size);
    if (decoder->unplaced == 0) decoder->unplaced = record->serial;
    return true;
}

static bool begin_at_place(struct raw_decoder *decoder, const struct record *record,
                           const struct units_record *coded)
{
    uint32_t number;
    if (!note_place(decoder, record->place, coded->place_class, &number)) return false;
    struct raw_list *list = &decoder->cache.lists[number];
    if (decoder->cache.known && raw_list_first(list) == record->place) list->top--;
    return true;
}

/* Puts the place of the object that ends into the cache, unless another object begins there or the
 * call failed. */
static bool end_object(struct raw_decoder *decoder, const struct record *record,
                       const struct units_record *coded)
{
    uint32_t list = RAW_LIST_UNKNOWN;
    bool is_own =
        coded->object_form == UNITS_OBJECT_OWN || coded->object_form == UNITS_OBJECT_BY_AGE;
    bool stays = coded->number == CALL_REALLOC_IN_PLACE || coded->number == RAW_FAILED;
    if (!(is_own ? find_own_list(decoder, record->ends, &list)
                 : note_place(decoder, record->ends, coded->ends_class, &list)))
        return false;
    if (stays || !decoder->cache.known || list == RAW_LIST_UNKNOWN) return true;
    return raw_list_push(&decoder->cache.lists[list], record->ends) || no_memory(decoder);
}

/* What a call does to the cache of its lane. A moved realloc takes its place before it gives one
 * back. */
static bool follow_call(struct raw_decoder *decoder, struct record *record,
                        const struct units_record *coded)
{
    if (coded->begins) {
        if (coded->number != CALL_REALLOC_IN_PLACE &&
            !(record->place == RAW_PLACE_NONE ? begin_from_cache(decoder, record)
                                              : begin_at_place(decoder, record, coded)))
            return false;
        if (!raw_cache_prepare(&decoder->cache)) return no_memory(decoder);
        raw_cache_set_recent(&decoder->cache, record->serial, record->place);
    }
    return record->ends == RAW_PLACE_NONE || end_object(decoder, record, coded);
}

static bool follow_class(struct raw_decoder *decoder, const struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    uint32_t list = cache->list_of_class[record->structure];
    uint32_t before = list == RAW_LIST_UNKNOWN ? 0 : cache->lists[list].bytes;
    if (before != 0 && before != record->size)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, ": class %" PRIu32 " had %" PRIu32 " bytes",
                            record->structure, before);
    if (before == 0 && raw_cache_has_bytes(cache, (uint32_t)record->size))
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS,
                            ": %" PRIu32 ", another one has %" PRIu64 " bytes", record->structure,
                            record->size);
    return before != 0 || raw_cache_announce(cache, record->structure, (uint32_t)record->size) ||
           no_memory(decoder);
}

static bool follow_cached(struct raw_decoder *decoder, const struct units_record *coded)
{
    uint32_t list;
    if (!find_list(decoder, coded->structure, &list)) return false;
    for (uint32_t i = 0; i < coded->count; i++) {
        if (!note_in_list(decoder, coded->cached[i], coded->structure, list)) return false;
        if (decoder->cache.known && !raw_list_append(&decoder->cache.lists[list], coded->cached[i]))
            return no_memory(decoder);
    }
    return true;
}

static bool follow_uncached(struct raw_decoder *decoder, const struct record *record)
{
    uint32_t number;
    if (!find_list(decoder, record->structure, &number)) return false;
    struct raw_list *list = &decoder->cache.lists[number];
    uint32_t count = raw_list_count(list);
    if (!decoder->cache.known) return true;
    if (record->operand > count && !decoder->cache.gap)
        note_underrun(decoder, RAW_CACHE_SHORT, record->operand);
    list->top -= record->operand < count ? (uint32_t)record->operand : count;
    return true;
}

static void set_known(struct raw_decoder *decoder, bool known)
{
    decoder->cache.known = known;
    raw_cache_empty(&decoder->cache);
}

/* What a record does to the places of its lane. */
static void follow_opaque(struct raw_decoder *decoder, const struct record *record,
                          const struct units_record *coded)
{
    struct raw_places *places = decoder->places;
    bool is_own =
        coded->object_form == UNITS_OBJECT_OWN || coded->object_form == UNITS_OBJECT_BY_AGE;
    if (!decoder->packed || coded->number == RAW_FAILED) return;
    if (coded->begins && record->place) raw_places_began(places, record->place, record->size);
    if (is_own && coded->number != CALL_REALLOC_IN_PLACE) raw_places_ended(places, record->ends);
}

/* What a record does to the cache of its lane. */
static bool follow_record(struct raw_decoder *decoder, struct record *record,
                          const struct units_record *coded)
{
    if (is_opaque(decoder)) {
        follow_opaque(decoder, record, coded);
        return true;
    }
    switch (record->number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED: set_known(decoder, false); return true;
    case RAW_LOST:
        set_known(decoder, false);
        raw_cache_forget_recent(&decoder->cache, decoder->allocations, record->operand);
        return true;
    case RAW_CACHE_BEGIN: set_known(decoder, true); return true;
    case RAW_CLASS: return follow_class(decoder, record);
    case RAW_CACHED: return follow_cached(decoder, coded);
    case RAW_UNCACHED: return follow_uncached(decoder, record);
    default: return follow_call(decoder, record, coded);
    }
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
                                  .features = decoder->features,
                                  .packed = decoder->packed};
    uint64_t allocations = decoder->allocations;
    struct units_record coded;
    struct record record; /* there need not be room for one that is not handed out */
    if (!units_read(&reader, &coded)) return fail_coded(decoder, &coded);
    if (!make_record(decoder, &coded, &record) ||
        (!decoder->lookahead && !follow_record(decoder, &record, &coded))) {
        decoder->allocations = allocations;
        return false;
    }
    if (decoder->features & RAW_FEATURE_STACKS) add_stack(decoder, &record);
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

/* ---- what nearly all records are ---- */

static void make_call_record(const struct raw_decoder *decoder, const struct raw_call *call,
                             uint64_t allocations, struct record *record)
{
    *record = (struct record){.number = call->kind,
                              .shape = call_shapes[call->kind],
                              .kind = call->kind,
                              .size = call->size};
    if (call->is_allocation) {
        record->place = call->place;
        record->serial = allocations + 1;
    } else {
        record->ends = call->place;
        record->bound = raw_allocations(decoder->lane, allocations);
    }
}

static uint32_t decode_calls(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    struct raw_calls calls;
    struct raw_call call;
    uint32_t done = 0;
    if (!raw_calls_begin(&calls, decoder)) return 0;
    for (; done < room && raw_calls_look(&calls, &call); done++) {
        make_call_record(decoder, &call, calls.allocations, &records[done]);
        raw_calls_take(&calls, &call);
    }
    raw_calls_end(&calls, decoder);
    return done;
}

static uint32_t decode_opaque_calls(struct raw_decoder *decoder, struct record *records,
                                    uint32_t room)
{
    struct raw_call call;
    uint32_t done = 0;
    if (!raw_opaque_calls_begin(decoder)) return 0;
    for (; done < room && raw_opaque_calls_look(decoder, &call); done++) {
        make_call_record(decoder, &call, decoder->allocations, &records[done]);
        raw_opaque_calls_take(decoder, &call);
    }
    return done;
}

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
            some = (is_opaque(decoder) ? decode_opaque_calls : decode_calls)(
                decoder, records + done, special ? 1 : room - done);
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
