#include "tracing/raw_decoder.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/varint.h"

/* ---- what a unit means ---- */

/* Births and deaths of one or two units are nearly everything: they are decoded without a branch on what they are.
 * Everything else goes the long way. */

/* What the main operand is: of the first unit, of the first two, or an age (FORMAT.md 5.5, in packed chunks only). */
enum row_form { ROW_NEAR, ROW_FAR, ROW_AGED };

/* The tables of FORMAT.md 5.2 and 5.5, as far as the main operand is in the first unit or the first two: units base +
 * least .. base + limit - 1. */
static const struct {
    uint16_t base, limit;
    uint8_t least, range, form;
} code_rows[] = {
    {RAW_UNIT_DEATH_1, RAW_DEATH_1_LIMIT, 1, RAW_DEATH_1, ROW_NEAR},
    {RAW_UNIT_BIRTH_1, RAW_BIRTH_1_LIMIT, 0, RAW_BIRTH_1, ROW_NEAR},
    {RAW_UNIT_DEATH_2, RAW_DEATH_2_LIMIT, 1, RAW_DEATH_2, ROW_NEAR},
    {RAW_UNIT_BIRTH_2, RAW_BIRTH_2_LIMIT, 0, RAW_BIRTH_2, ROW_NEAR},
    {RAW_UNIT_BIRTH_3, RAW_BIRTH_3_LIMIT, 0, RAW_BIRTH_3, ROW_NEAR},
    {RAW_UNIT_DEATH_1_FAR, RAW_DEATH_1_FAR_LIMIT >> 16, 0, RAW_DEATH_1, ROW_FAR},
    {RAW_UNIT_DEATH_2_FAR, RAW_DEATH_2_FAR_LIMIT >> 16, 0, RAW_DEATH_2, ROW_FAR},
    {RAW_UNIT_DEATH_3_FAR, RAW_DEATH_3_FAR_LIMIT >> 16, 0, RAW_DEATH_3, ROW_FAR},
    {RAW_UNIT_REALLOC_FAR, RAW_REALLOC_FAR_LIMIT >> 16, 0, RAW_REALLOC, ROW_FAR},
    {RAW_UNIT_DEATH_1_AGED, RAW_DEATH_1_AGES, 1, RAW_DEATH_1, ROW_AGED},
    {RAW_UNIT_DEATH_2_AGED, RAW_DEATH_2_AGES, 1, RAW_DEATH_2, ROW_AGED},
    {RAW_UNIT_DEATH_3_AGED, RAW_DEATH_3_AGES, 1, RAW_DEATH_3, ROW_AGED},
    {RAW_UNIT_REALLOC_AGED, RAW_REALLOC_AGES, 1, RAW_REALLOC, ROW_AGED},
};

#define CODE_ROWS (sizeof code_rows / sizeof *code_rows)
_Static_assert(CODE_ROWS + 1 == RAW_CODES, "a code for each row, and that of the long way");

static bool shape_is_birth(unsigned shape)
{
    return shape >= SHAPE_BIRTH && shape <= SHAPE_REALLOC;
}

static bool shape_is_death(unsigned shape)
{
    return shape >= SHAPE_DEATH && shape <= SHAPE_DEATH_SIZED_ALIGNED;
}

static bool shape_has_object(unsigned shape)
{
    return shape >= SHAPE_REALLOC && shape <= SHAPE_DEATH_SIZED_ALIGNED;
}

static bool shape_has_size(unsigned shape)
{
    return shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_REALLOC ||
           shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_SIZED_ALIGNED;
}

static bool shape_has_alignment(unsigned shape)
{
    return shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_ALIGNED ||
           shape == SHAPE_DEATH_SIZED_ALIGNED;
}

/* What the record of a call begins with, as a little-endian number: number, shape and kind. */
static uint32_t record_head(unsigned kind)
{
    _Static_assert(offsetof(struct record, shape) == 1 && offsetof(struct record, kind) == 2 &&
                       offsetof(struct record, bound) == 8,
                   "number, shape, kind, then zeros up to the bound");
    return kind | (uint32_t)call_shapes[kind] << 8 | kind << 16;
}

/* The code of a row, if its kind's records have one unit or two; and which units begin with it. */
static void fill_row(struct raw_decoder *decoder, unsigned row)
{
    struct raw_code *code = &decoder->codes[row + 1];
    uint32_t base = code_rows[row].base, end = base + code_rows[row].limit;
    unsigned form = code_rows[row].form, kind = decoder->profile[code_rows[row].range];
    unsigned shape = call_shapes[kind];
    bool birth = shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
    if (kind == 0 || shape == SHAPE_REALLOC || shape == SHAPE_DEATH_SIZED_ALIGNED) return;
    if ((birth && decoder->addresses) || (form == ROW_FAR && shape != SHAPE_DEATH)) return;
    if (end % (1u << RAW_CODE_SHIFT) != 0 || (form == ROW_AGED && !decoder->packed)) return;
    *code = (struct raw_code){.head = record_head(kind), .base = (uint16_t)base};
    code->birth = birth ? UINT64_MAX : 0;
    code->scale = birth ? 64 / 8 : 64 / RAW_PLACE_BLOCK;
    code->offset = birth ? 64 * RAW_NUMBERS_SIZES + 64 - 64 / 8 : 64 * RAW_NUMBERS_BLOCKS;
    if (form == ROW_FAR) code->main = UINT16_MAX;
    if (form == ROW_AGED) code->aged = UINT32_MAX;
    if (shape == SHAPE_DEATH_SIZED) code->size = UINT16_MAX;
    if (shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_ALIGNED) code->alignment = UINT16_MAX;
    code->more_units = code->main | code->size | code->alignment ? 2 : 0;
    uint32_t first = (base + code_rows[row].least) >> RAW_CODE_SHIFT;
    memset(decoder->code_of + first, (int)row + 1, (end >> RAW_CODE_SHIFT) - first);
}

static void fill_codes(struct raw_decoder *decoder)
{
    memset(decoder->code_of, 0, sizeof decoder->code_of);
    decoder->codes[0] = (struct raw_code){.birth = UINT64_MAX}; /* of no place */
    for (unsigned row = 0; row < CODE_ROWS; row++)
        fill_row(decoder, row);
}

/* ---- errors ---- */

/* Packed units have no places of their own in the stream. */
static uint64_t decoder_offset(const struct raw_decoder *decoder, const uint8_t *at)
{
    return decoder->payload_offset + (decoder->packed ? 0 : (uint64_t)(at - decoder->payload));
}

/* The record that is being decoded is the one after decoder->records. */
#define DECODER_FAIL(decoder, which, at, format, ...)                                          \
    error_set(&(decoder)->error, &raw_errors[which], decoder_offset(decoder, at),              \
              "lane %" PRIu32 ", record %" PRIu64 format, (decoder)->lane, (decoder)->records, \
              __VA_ARGS__)

/* ---- opening ---- */

void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, bool addresses)
{
    *decoder = (struct raw_decoder){.lane = lane, .addresses = addresses};
}

void raw_decoder_free(struct raw_decoder *decoder)
{
    raw_cache_free(&decoder->cache);
}

void raw_decoder_scout(struct raw_decoder *scout, const struct raw_decoder *decoder)
{
    *scout = *decoder;
    scout->scout = true;
    scout->cache = (struct raw_cache){.known = false};
}

void raw_decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    struct raw_cache cache = decoder->cache;
    *decoder = (struct raw_decoder){.lane = decoder->lane,
                                    .addresses = decoder->addresses,
                                    .records = decoder->records,
                                    .births = chunk->first_birth,
                                    .tells_caches = decoder->tells_caches,
                                    .scout = decoder->scout,
                                    .units = chunk->first_unit};
    raw_cache_gap(&cache);
    decoder->cache = cache;
}

static bool profile_fits(unsigned range, unsigned kind)
{
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (kind == 0) return true;
    if (range <= RAW_DEATH_3) return shape_is_death(shape);
    if (range == RAW_REALLOC) return shape == SHAPE_REALLOC;
    return range < RAW_RANGES && shape_is_birth(shape) && shape != SHAPE_REALLOC;
}

static bool decoder_begin_run(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    if (chunk->first_birth != decoder->births)
        return DECODER_FAIL(decoder, RAW_SEQUENCE, decoder->at,
                            ": the lane had %" PRIu64 " births, the chunk says %" PRIu64,
                            decoder->births, chunk->first_birth);
    for (unsigned i = 0; i < RAW_PROFILE_BYTES; i++)
        if (!profile_fits(i, chunk->profile[i]))
            return DECODER_FAIL(decoder, RAW_PROFILE, decoder->at, ": kind %u in place %u",
                                chunk->profile[i], i);
    memcpy(decoder->profile, chunk->profile, RAW_PROFILE_BYTES);
    memset(decoder->foreign, 0, sizeof decoder->foreign);
    if (chunk->key) memset(decoder->latest_stamp, 0, sizeof decoder->latest_stamp);
    decoder->run_birth = chunk->first_birth;
    decoder->begun = true;
    decoder->last_address = 0;
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
        (!chunk->begin && (!decoder->begun || chunk->first_birth != decoder->run_birth)))
        return DECODER_FAIL(decoder, RAW_SEQUENCE, decoder->at,
                            ": the lane had %" PRIu64 " units, the chunk begins with %" PRIu64,
                            decoder->units, chunk->first_unit);
    if (chunk->begin && !decoder_begin_run(decoder, chunk)) return false;
    if (chunk->begin || was_packed != chunk->packed) fill_codes(decoder);
    decoder->units += chunk->units;
    decoder->end += chunk->packed ? chunk->payload_bytes : 2 * (size_t)chunk->units;
    return true;
}

/* ---- operands ---- */

static uint16_t take_unit(struct raw_decoder *decoder)
{
    uint16_t unit = bytes_get16(decoder->at);
    decoder->at += 2;
    return unit;
}

static uint64_t take_long_number(struct raw_decoder *decoder, uint64_t value)
{
    for (unsigned bits = RAW_NUMBER_BITS;; bits += RAW_NUMBER_BITS) {
        uint64_t unit = take_unit(decoder);
        uint64_t part = unit & (RAW_NUMBER_MORE - 1);
        bool last = bits == RAW_NUMBER_BITS * (RAW_NUMBER_UNITS_MAX - 1);
        if (last && part >> (64 - bits) != 0) decoder->number_too_large = true;
        value |= part << bits;
        if (unit < RAW_NUMBER_MORE) return value;
        if (!last) continue;
        decoder->number_too_large = true;
        return value;
    }
}

/* A number that is too large is found at the end of the record. */
static inline uint64_t take_number(struct raw_decoder *decoder)
{
    uint64_t unit = take_unit(decoder);
    if (unit < RAW_NUMBER_MORE) return unit;
    return take_long_number(decoder, unit & (RAW_NUMBER_MORE - 1));
}

/* What a record says of places, which is believed once the whole of it has been read. */
struct places {
    bool ends, begins; /* it says so of an object */
    bool own;          /* of the object that ends no class is said: the lane has the place */
    bool stays; /* the object that ends gives its place to the one that begins, or did not end */
    uint64_t ends_class, begins_class;
    uint32_t cached[RAW_CACHED_MAX], cached_count;
};

static bool take_place(struct raw_decoder *decoder, uint32_t *place)
{
    uint64_t number = take_number(decoder);
    if (number >= RAW_PLACE_LIMIT)
        return DECODER_FAIL(decoder, RAW_PLACE, decoder->at, ": %" PRIu64, number);
    *place = (uint32_t)number;
    return true;
}

static bool take_class(struct raw_decoder *decoder, uint64_t *size_class)
{
    *size_class = take_number(decoder);
    if (*size_class < RAW_SIZE_CLASSES_MAX) return true;
    return DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at, ": %" PRIu64, *size_class);
}

/* ---- objects ---- */

/* An object that this lane has. */
static bool have_own(struct raw_decoder *decoder, uint32_t place, struct record *record,
                     struct places *places)
{
    if (place == RAW_PLACE_NONE)
        return DECODER_FAIL(decoder, RAW_PLACE, decoder->at, ": %u", RAW_PLACE_NONE);
    if (decoder->births == 0)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": place %" PRIu32 " before any birth", place);
    places->ends = places->own = true;
    record->ends = place;
    record->bound = raw_births(decoder->lane, decoder->births);
    return true;
}

/* An object that this lane has, by its age. Nobody knows of one that was born behind a gap at an unknown place; a scout
 * of none. */
static bool have_aged(struct raw_decoder *decoder, uint32_t age, struct record *record,
                      struct places *places)
{
    uint32_t place = RAW_PLACE_NONE;
    if (decoder->scout) {
        record->bound = raw_births(decoder->lane, decoder->births);
        return true;
    }
    if (age <= decoder->births)
        place = raw_cache_recent(&decoder->cache, decoder->births + 1 - age);
    if (place != RAW_PLACE_NONE) return have_own(decoder, place, record, places);
    return decoder->cache.gap ||
           DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                        ": of age %" PRIu32 ", after %" PRIu64 " births", age, decoder->births);
}

/* An object of another lane, to be remembered in the way of its lane (FORMAT.md 5.2, "Foreign"). */
static bool have_foreign(struct raw_decoder *decoder, uint64_t lane, uint64_t bound, uint32_t place,
                         struct record *record, struct places *places)
{
    if (place == RAW_PLACE_NONE)
        return DECODER_FAIL(decoder, RAW_PLACE, decoder->at, ": %u", RAW_PLACE_NONE);
    if (lane >= RAW_LANES_MAX || lane == decoder->lane || bound == 0 || bound > RAW_SERIAL_MAX)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": %" PRIu64 " births of lane %" PRIu64, bound, lane);
    places->ends = true;
    record->ends = place;
    record->bound = raw_births((uint32_t)lane, bound);
    decoder->foreign[lane % RAW_FOREIGN_WAYS] =
        (struct raw_way){.lane = (uint32_t)lane, .bound = bound};
    return true;
}

static bool take_foreign(struct raw_decoder *decoder, struct record *record, struct places *places)
{
    uint32_t place;
    uint64_t lane = take_number(decoder), bound = take_number(decoder);
    return take_place(decoder, &place) && take_class(decoder, &places->ends_class) &&
           have_foreign(decoder, lane, bound, place, record, places);
}

static bool take_unknown(struct raw_decoder *decoder, struct record *record, struct places *places)
{
    if (!take_place(decoder, &record->ends) || !take_class(decoder, &places->ends_class))
        return false;
    places->ends = record->ends != RAW_PLACE_NONE;
    if (places->ends || places->ends_class == 0) return true;
    return DECODER_FAIL(decoder, RAW_PLACE, decoder->at, ": none, of class %" PRIu64,
                        places->ends_class);
}

static bool take_object(struct raw_decoder *decoder, unsigned unit, struct record *record,
                        struct places *places)
{
    uint32_t place;
    switch (unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) {
    case 0: return take_place(decoder, &place) && have_own(decoder, place, record, places);
    case RAW_GENERAL_FOREIGN: return take_foreign(decoder, record, places);
    case RAW_GENERAL_UNKNOWN: return take_unknown(decoder, record, places);
    default: return DECODER_FAIL(decoder, RAW_UNIT_FLAG, decoder->at, ": unit 0x%04x", unit);
    }
}

static bool has_no_object(struct raw_decoder *decoder, unsigned unit)
{
    if ((unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) == 0) return true;
    return DECODER_FAIL(decoder, RAW_UNIT_FLAG, decoder->at, ": unit 0x%04x", unit);
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
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at,
                            ": nothing was told of class %" PRIu64, size_class);
    if (!raw_cache_tell(cache, (uint32_t)size_class, 0)) return no_memory(decoder);
    *list = cache->list_of_class[size_class];
    return true;
}

/* A place of which the class was said. */
static bool note_place(struct raw_decoder *decoder, uint32_t place, uint64_t size_class,
                       uint32_t *list)
{
    if (!find_list(decoder, size_class, list)) return false;
    uint32_t before = raw_cache_list_of_place(&decoder->cache, place);
    if (before == *list) return true;
    if (before != RAW_LIST_UNKNOWN)
        return DECODER_FAIL(decoder, RAW_PLACE_CLASS, decoder->at,
                            ": place %" PRIu32 " is of class %" PRIu64 " now", place, size_class);
    return raw_cache_note_place(&decoder->cache, place, *list) || no_memory(decoder);
}

/* The list of a place that the lane has. */
static bool find_own_list(struct raw_decoder *decoder, uint32_t place, uint32_t *list)
{
    *list = raw_cache_list_of_place(&decoder->cache, place);
    if (*list != RAW_LIST_UNKNOWN) return true;
    if (!decoder->cache.gap)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": place %" PRIu32 " is not one that the lane has", place);
    /* It comes first in one of the lists. */
    raw_cache_empty(&decoder->cache);
    return true;
}

/* Without a place said, the object that begins has the first one of its list. */
static bool begin_from_cache(struct raw_decoder *decoder, struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    if (!cache->known)
        return DECODER_FAIL(decoder, RAW_CACHE_UNKNOWN, decoder->at, ": %" PRIu64 " bytes",
                            record->size);
    uint32_t list = raw_cache_list_of_size(cache, record->size);
    if (list == RAW_LIST_UNKNOWN && !cache->gap)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at,
                            ": nothing was told of a class of %" PRIu64 " bytes", record->size);
    /* Of which list the first one is gone nobody knows. */
    if (list == RAW_LIST_UNKNOWN || !raw_cache_is_certain(cache, list)) {
        raw_cache_empty(cache);
        return true;
    }
    record->place = raw_list_first(&cache->lists[list]);
    if (record->place != RAW_PLACE_NONE)
        cache->lists[list].top--;
    else if (!cache->gap)
        return DECODER_FAIL(decoder, RAW_CACHE_EMPTY, decoder->at, ": %" PRIu64 " bytes",
                            record->size);
    return true;
}

static bool begin_at_place(struct raw_decoder *decoder, const struct record *record,
                           const struct places *places)
{
    uint32_t number;
    if (!note_place(decoder, record->place, places->begins_class, &number)) return false;
    struct raw_list *list = &decoder->cache.lists[number];
    if (decoder->cache.known && raw_list_first(list) == record->place) list->top--;
    return true;
}

/* What a call does to the cache of its lane. A moved realloc takes its place before it gives one back. */
static bool follow_call(struct raw_decoder *decoder, struct record *record,
                        const struct places *places)
{
    uint32_t list = RAW_LIST_UNKNOWN;
    if (places->begins && !places->stays &&
        !(record->place == RAW_PLACE_NONE ? begin_from_cache(decoder, record)
                                          : begin_at_place(decoder, record, places)))
        return false;
    if (places->begins) {
        if (!raw_cache_prepare(&decoder->cache)) return no_memory(decoder);
        raw_cache_set_recent(&decoder->cache, record->serial, record->place);
    }
    if (!places->ends) return true;
    if (!(places->own ? find_own_list(decoder, record->ends, &list)
                      : note_place(decoder, record->ends, places->ends_class, &list)))
        return false;
    if (places->stays || !decoder->cache.known || list == RAW_LIST_UNKNOWN) return true;
    return raw_list_push(&decoder->cache.lists[list], record->ends) || no_memory(decoder);
}

static bool follow_class(struct raw_decoder *decoder, const struct record *record)
{
    struct raw_cache *cache = &decoder->cache;
    uint32_t list = cache->list_of_class[record->structure];
    uint32_t before = list == RAW_LIST_UNKNOWN ? 0 : cache->lists[list].bytes;
    if (before != 0 && before != record->size)
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at,
                            ": class %" PRIu32 " had %" PRIu32 " bytes", record->structure, before);
    if (before == 0 && raw_cache_has_bytes(cache, (uint32_t)record->size))
        return DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at,
                            ": %" PRIu32 ", another one has %" PRIu64 " bytes", record->structure,
                            record->size);
    return before != 0 || raw_cache_tell(cache, record->structure, (uint32_t)record->size) ||
           no_memory(decoder);
}

static bool follow_cached(struct raw_decoder *decoder, const struct record *record,
                          const struct places *places)
{
    for (uint32_t i = 0; i < places->cached_count; i++) {
        uint32_t list;
        if (!note_place(decoder, places->cached[i], record->structure, &list)) return false;
        if (decoder->cache.known &&
            !raw_list_append(&decoder->cache.lists[list], places->cached[i]))
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
        return DECODER_FAIL(decoder, RAW_CACHE_SHORT, decoder->at,
                            ": %" PRIu64 " of %" PRIu32 ", class %" PRIu32, record->operand, count,
                            record->structure);
    list->top -= record->operand < count ? (uint32_t)record->operand : count;
    return true;
}

static void set_known(struct raw_decoder *decoder, bool known)
{
    decoder->cache.known = known;
    raw_cache_empty(&decoder->cache);
}

/* What a record does to the cache of its lane. */
static bool follow_record(struct raw_decoder *decoder, struct record *record,
                          const struct places *places)
{
    switch (record->number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_CACHE_DELETED: set_known(decoder, false); return true;
    case RAW_LOST:
        set_known(decoder, false);
        raw_cache_forget_recent(&decoder->cache, decoder->births, record->operand);
        return true;
    case RAW_CACHE_BEGIN: set_known(decoder, true); return true;
    case RAW_CLASS: return follow_class(decoder, record);
    case RAW_CACHED: return follow_cached(decoder, record, places);
    case RAW_UNCACHED: return follow_uncached(decoder, record);
    default: return follow_call(decoder, record, places);
    }
}

/* ---- records, the long way ---- */

static void record_begin(struct record *record, unsigned number)
{
    *record = (struct record){
        .number = (uint8_t)number, .shape = call_shapes[number], .kind = (uint8_t)number};
}

static bool decoder_count_births(struct raw_decoder *decoder, uint64_t births)
{
    if (births > RAW_SERIAL_MAX - decoder->births)
        return DECODER_FAIL(decoder, RAW_BIRTHS, decoder->at, "%s", "");
    decoder->births += births;
    return true;
}

/* What a birth brings with it; with `tells_place`, the place it has if it is not from the cache. */
static bool take_birth(struct raw_decoder *decoder, bool tells_place, struct record *record,
                       struct places *places)
{
    places->begins = true;
    places->stays = record->number == CALL_REALLOC_IN_PLACE;
    if (places->stays) {
        record->place = record->ends;
    } else if (tells_place) {
        if (!take_place(decoder, &record->place)) return false;
        if (record->place != RAW_PLACE_NONE && !take_class(decoder, &places->begins_class))
            return false;
    }
    if (decoder->addresses) {
        decoder->last_address += (uint64_t)unzigzag(take_number(decoder)) * 8;
        record->address = decoder->last_address;
    }
    if (!decoder_count_births(decoder, 1)) return false;
    record->serial = decoder->births;
    return true;
}

/* What follows the object or the size of a call. */
static bool take_call_rest(struct raw_decoder *decoder, bool tells_place, struct record *record,
                           struct places *places)
{
    unsigned shape = record->shape;
    if (shape_has_object(shape) && shape_has_size(shape)) record->size = take_number(decoder);
    if (shape_has_alignment(shape)) record->operand = take_number(decoder);
    return !shape_is_birth(shape) || take_birth(decoder, tells_place, record, places);
}

/* A call that has a range: its main operand has been read. */
static bool decode_in_range(struct raw_decoder *decoder, unsigned row, uint32_t operand,
                            struct record *record, struct places *places)
{
    unsigned range = code_rows[row].range;
    if (decoder->profile[range] == 0)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": of a range that is not used, %u",
                            range);
    record_begin(record, decoder->profile[range]);
    bool has_object = shape_has_object(record->shape);
    if (!has_object)
        record->size = operand;
    else if (!(code_rows[row].form == ROW_AGED ? have_aged(decoder, operand, record, places)
                                               : have_own(decoder, operand, record, places)))
        return false;
    return take_call_rest(decoder, has_object, record, places);
}

static bool decode_foreign_death(struct raw_decoder *decoder, unsigned unit, struct record *record,
                                 struct places *places)
{
    struct raw_way way = decoder->foreign[unit >> RAW_FOREIGN_WAY_SHIFT & (RAW_FOREIGN_WAYS - 1)];
    uint32_t place = (unit & RAW_FOREIGN_HIGH) << 16 | take_unit(decoder);
    uint64_t more = take_number(decoder);
    if (decoder->profile[RAW_DEATH_1] == 0 || way.bound == 0)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x before a foreign object",
                            unit);
    record_begin(record, decoder->profile[RAW_DEATH_1]);
    places->ends_class = more % RAW_FOREIGN_CLASSES;
    return have_foreign(decoder, way.lane, way.bound + more / RAW_FOREIGN_CLASSES, place, record,
                        places) &&
           take_call_rest(decoder, false, record, places);
}

static uint64_t *latest_stamp(struct raw_decoder *decoder, uint64_t structure)
{
    if (structure < RAW_SIZE_CLASSES_MAX) return &decoder->latest_stamp[structure];
    if (structure == RAW_STRUCTURE_PAGE_HEAP) return &decoder->latest_stamp[RAW_STAMP_ENTRIES - 1];
    DECODER_FAIL(decoder, RAW_STRUCTURE, decoder->at, ": structure %" PRIu64, structure);
    return NULL;
}

static bool decode_stamp(struct raw_decoder *decoder, unsigned number, unsigned structure,
                         struct record *record)
{
    uint64_t difference = take_number(decoder);
    uint64_t *latest = latest_stamp(decoder, structure);
    if (latest == NULL) return false;
    if (difference == 0 || difference >= RAW_STAMP_LIMIT - *latest)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at,
                            ": stamp %" PRIu64 " and %" PRIu64 " more", *latest, difference);
    record_begin(record, number);
    *latest += difference;
    record->structure = structure;
    record->size = *latest;
    return true;
}

static bool decode_heap(struct raw_decoder *decoder, struct record *record)
{
    uint64_t count = take_number(decoder);
    if (count > RAW_HEAP_NUMBERS_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": %" PRIu64 " numbers", count);
    record->count = (uint8_t)count;
    if (count > 0) record->size = take_number(decoder);
    if (count > 1) record->operand = take_number(decoder);
    return true;
}

static bool decode_call(struct raw_decoder *decoder, unsigned unit, struct record *record,
                        struct places *places)
{
    if (shape_has_object(record->shape))
        return take_object(decoder, unit, record, places) &&
               take_call_rest(decoder, true, record, places);
    if (!has_no_object(decoder, unit)) return false;
    if (record->shape == SHAPE_HEAP) return decode_heap(decoder, record);
    record->size = take_number(decoder);
    return take_call_rest(decoder, true, record, places);
}

static bool decode_failed(struct raw_decoder *decoder, unsigned unit, struct record *record,
                          struct places *places)
{
    uint64_t kind = take_number(decoder);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": a failed call of kind %" PRIu64,
                            kind);
    record->kind = (uint8_t)kind;
    places->stays = true;
    if (shape == SHAPE_REALLOC ? !take_object(decoder, unit, record, places)
                               : !has_no_object(decoder, unit))
        return false;
    record->size = take_number(decoder);
    if (shape == SHAPE_BIRTH_ALIGNED) record->operand = take_number(decoder);
    return true;
}

static bool decode_lost(struct raw_decoder *decoder, struct record *record)
{
    record->size = take_number(decoder);
    record->operand = take_number(decoder);
    return decoder_count_births(decoder, record->operand);
}

/* The class of a record that is about one: not 0, whose objects no cache has. */
static bool take_cached_class(struct raw_decoder *decoder, struct record *record)
{
    uint64_t size_class;
    if (!take_class(decoder, &size_class)) return false;
    record->structure = (uint32_t)size_class;
    return size_class != 0 || DECODER_FAIL(decoder, RAW_SIZE_CLASS, decoder->at, ": %u", 0);
}

static bool decode_class(struct raw_decoder *decoder, struct record *record)
{
    if (!take_cached_class(decoder, record)) return false;
    record->size = take_number(decoder);
    if (record->size != 0 && record->size <= UINT32_MAX) return true;
    return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": a class of %" PRIu64 " bytes",
                        record->size);
}

static bool decode_cached(struct raw_decoder *decoder, struct record *record, struct places *places)
{
    if (!take_cached_class(decoder, record)) return false;
    uint64_t count = take_number(decoder);
    if (count == 0 || count > RAW_CACHED_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": %" PRIu64 " places", count);
    for (uint64_t place = 0; places->cached_count < count; places->cached_count++) {
        uint64_t number = take_number(decoder);
        place += places->cached_count == 0 ? number : (uint64_t)unzigzag(number);
        if (place == RAW_PLACE_NONE || place >= RAW_PLACE_LIMIT)
            return DECODER_FAIL(decoder, RAW_PLACE, decoder->at, ": %" PRIu64, place);
        places->cached[places->cached_count] = (uint32_t)place;
    }
    return true;
}

static bool decode_uncached(struct raw_decoder *decoder, struct record *record)
{
    if (!take_cached_class(decoder, record)) return false;
    record->operand = take_number(decoder);
    return record->operand != 0 ||
           DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": %u places", 0);
}

/* A record that is no call, by its number. */
static bool decode_other(struct raw_decoder *decoder, unsigned unit, struct record *record,
                         struct places *places)
{
    if (record->number == RAW_FAILED) return decode_failed(decoder, unit, record, places);
    if (!has_no_object(decoder, unit)) return false;
    switch (record->number) {
    case RAW_THREAD_BEGIN: record->operand = take_number(decoder); return true;
    case RAW_THREAD_END:
    case RAW_CACHE_BEGIN:
    case RAW_THREAD_CACHE_DELETED: return true;
    case RAW_LOST: return decode_lost(decoder, record);
    case RAW_CLASS: return decode_class(decoder, record);
    case RAW_CACHED: return decode_cached(decoder, record, places);
    case RAW_UNCACHED: return decode_uncached(decoder, record);
    default: return DECODER_FAIL(decoder, RAW_NUMBER, decoder->at, ": unit 0x%04x", unit);
    }
}

static bool decode_general(struct raw_decoder *decoder, unsigned unit, struct record *record,
                           struct places *places)
{
    if (unit >= RAW_UNIT_UNDEFINED)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x", unit);
    if (unit >= RAW_UNIT_STAMP_AFTER)
        return decode_stamp(decoder, RAW_STAMP_AFTER, unit - RAW_UNIT_STAMP_AFTER, record);
    if (unit >= RAW_UNIT_STAMP_BEFORE)
        return decode_stamp(decoder, RAW_STAMP_BEFORE, unit - RAW_UNIT_STAMP_BEFORE, record);
    record_begin(record, unit & RAW_GENERAL_NUMBER);
    return record->shape != SHAPE_UNDEFINED ? decode_call(decoder, unit, record, places)
                                            : decode_other(decoder, unit, record, places);
}

static bool decode_by_unit(struct raw_decoder *decoder, unsigned unit, struct record *record,
                           struct places *places)
{
    for (unsigned row = 0; row < CODE_ROWS; row++) {
        uint32_t operand = unit - code_rows[row].base;
        if (operand < code_rows[row].least || operand >= code_rows[row].limit) continue;
        if (code_rows[row].form == ROW_AGED && !decoder->packed) continue;
        if (code_rows[row].form == ROW_FAR) operand = operand << 16 | take_unit(decoder);
        return decode_in_range(decoder, row, operand, record, places);
    }
    if (unit >= RAW_UNIT_GENERAL) return decode_general(decoder, unit, record, places);
    if (unit >= RAW_UNIT_FOREIGN) return decode_foreign_death(decoder, unit, record, places);
    /* The first unit of a row that has no place 0. */
    return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x", unit);
}

/* The records that stand for a record that concerns the cache only: one for each place. */
static uint32_t tell_cache(const struct raw_decoder *decoder, struct record *records,
                           const struct places *places)
{
    if (!decoder->tells_caches) return 0;
    if (records[0].number != RAW_CACHED) return 1;
    for (uint32_t i = 0; i < places->cached_count; i++) {
        records[i] = records[0];
        records[i].place = places->cached[i];
    }
    return places->cached_count;
}

/* One record of any kind; returns as how many it was told. Reading may pass the end of the units, by less than the slack
 * behind a payload: what was read there is not used. */
static bool decode_long(struct raw_decoder *decoder, struct record *records, uint32_t *told)
{
    const uint8_t *begin = decoder->at;
    uint64_t births = decoder->births;
    struct places places = {.ends = false};
    struct record record; /* there need not be room for one that is not told */
    decoder->number_too_large = false;
    bool good = decode_by_unit(decoder, take_unit(decoder), &record, &places);
    if (decoder->at > decoder->end) {
        decoder->error.kind = NULL; /* of what was read behind the end */
        good = DECODER_FAIL(decoder, RAW_UNITS_SHORT, begin, "%s", "");
    } else if (good && decoder->number_too_large) {
        good = DECODER_FAIL(decoder, RAW_OPERAND, begin, ": a number of more than %d bits", 64);
    }
    if (good && !decoder->scout) good = follow_record(decoder, &record, &places);
    if (!good) {
        decoder->births = births;
        if (decoder->error.kind != &error_system)
            decoder->error.offset = decoder_offset(decoder, begin);
        return false;
    }
    *told = 0;
    if (raw_record_is_of_cache(&record)) {
        if (!decoder->tells_caches) return true;
        records[0] = record;
        *told = tell_cache(decoder, records, &places);
        return true;
    }
    records[0] = record;
    decoder->records++;
    *told = 1;
    return true;
}

/* ---- records, the short way ---- */

enum { SHORT_TWO = 1, SHORT_SCOUT = 2 };

/* Decodes records until one has another form or `count` are done, without a branch on what they are. Whatever is wrong,
 * or not as it nearly always is, the long way finds again. The positions live in registers meanwhile. With SHORT_TWO,
 * records of two units are among them, else all have one. Returns how many. */
static inline __attribute__((always_inline)) uint32_t decode_short(struct raw_decoder *decoder,
                                                                   struct record *records,
                                                                   uint32_t count, unsigned how)
{
    const bool two = how & SHORT_TWO, scout = how & SHORT_SCOUT;
    const struct raw_code *codes = decoder->codes;
    const uint8_t *code_of = decoder->code_of, *numbers = decoder->cache.numbers;
    uint32_t *recent = decoder->cache.recent;
    const uint32_t *leaves = decoder->cache.leaves, leaves_count = decoder->cache.leaves_count;
    struct raw_list *lists = decoder->cache.lists;
    const uint8_t *at = decoder->at;
    const uint8_t *end = decoder->end - 2; /* where a record of two units still fits */
    uint64_t births = raw_births(decoder->lane, decoder->births);
    uint32_t left = raw_decoder_units_left(decoder);
    struct record *record = records, *records_end = records + (count < left ? count : left);

    for (; record < records_end && (!two || at < end); record++) {
        uint32_t unit = bytes_get16(at), more = 0, alignment = 0;
        const struct raw_code *code = &codes[code_of[unit >> RAW_CODE_SHIFT]];
        const uint64_t birth = code->birth;
        uint32_t operand = unit - code->base;
        if (two) {
            uint32_t next = bytes_get16(at + 2);
            operand = operand * (code->main + 1u) + (next & code->main);
            more = next & code->size;
            alignment = next & code->alignment;
            /* Numbers of one unit. */
            if (__builtin_expect((more | alignment) >= RAW_NUMBER_MORE, 0)) break;
        } else if (__builtin_expect(code->more_units, 0)) {
            break;
        }
        if (scout)
            operand &= ~code->aged;
        else
            operand ^=
                (operand ^ recent[raw_recent_entry((uint32_t)births + 1 - operand)]) & code->aged;
        uint32_t size = operand & (uint32_t)birth, ends = operand ^ size, place = RAW_PLACE_NONE;
        if (scout) {
            if (__builtin_expect(code->scale == 0 || (ends | birth | code->aged) == 0, 0)) break;
        } else {
            /* An object by its age may be far, but the leaf is there. */
            uint32_t entry = (operand * code->scale + code->offset) / 64,
                     leaf = ends >> RAW_LEAF_BITS;
            if (two && __builtin_expect(leaf >= leaves_count, 0)) break;
            struct raw_list *list = &lists[numbers[entry + leaves[leaf]]];
            uint32_t top = list->top + (uint32_t)birth;
            /* A birth takes what is there, a death puts what has room. */
            if (__builtin_expect(top - list->bottom > list->mask, 0)) break;
            uint32_t *first = &list->places[top & list->mask];
            place = *first & (uint32_t)birth;
            *first = place | ends;
            list->top = top + 1 + (uint32_t)birth;
        }
        births -= birth;
        uint64_t born = births & birth;
        /* The entry of a death is one that nobody looks at. */
        if (!scout) recent[raw_recent_entry((uint32_t)births) & (uint32_t)birth] = place;
        memcpy(record, &code->head, sizeof code->head);
        record->bound = births ^ born;
        record->size = two ? size | more : size;
        record->serial = born & RAW_SERIAL_MAX;
        record->operand = alignment;
        record->address = 0;
        record->ends = ends;
        record->place = place;
        at += two ? 2 + code->more_units : 2;
    }
    uint32_t done = (uint32_t)(record - records);
    decoder->at = at;
    decoder->births = raw_births_count(births);
    decoder->records += done;
    return done;
}

/* Each with registers of its own. */
static __attribute__((noinline)) uint32_t decode_ones(struct raw_decoder *decoder,
                                                      struct record *records, uint32_t count)
{
    return decode_short(decoder, records, count, 0);
}

static __attribute__((noinline)) uint32_t decode_twos(struct raw_decoder *decoder,
                                                      struct record *records, uint32_t count)
{
    return decode_short(decoder, records, count, SHORT_TWO);
}

static __attribute__((noinline)) uint32_t scout_shorts(struct raw_decoder *decoder,
                                                       struct record *records, uint32_t count)
{
    return decode_short(decoder, records, count, SHORT_TWO | SHORT_SCOUT);
}

/* So many records are decoded with `two` after one of two units: the more, the sooner the next one came before. */
#define TWOS_MIN 2u
#define TWOS_MAX 64u
#define SOON     16u

static uint32_t decode_shorts(struct raw_decoder *decoder, struct record *records, uint32_t count)
{
    /* Own objects need births before them; and no lane may have too many. */
    if (decoder->births == 0 || decoder->births > RAW_SERIAL_MAX - count) return 0;
    if (decoder->scout) return scout_shorts(decoder, records, count);
    if (!decoder->cache.known || decoder->cache.lists_count == 0) return 0;
    uint32_t done = decode_ones(decoder, records, count);
    if (done == count) return done;
    uint32_t twos = done >= SOON || decoder->twos == 0 ? TWOS_MIN : 2 * decoder->twos;
    decoder->twos = (uint8_t)(twos > TWOS_MAX ? TWOS_MAX : twos);
    uint32_t left = count - done;
    return done + decode_twos(decoder, records + done, left < decoder->twos ? left : decoder->twos);
}

/* Whether an open-ended chunk ends here. */
static bool decoder_ends(struct raw_decoder *decoder)
{
    if (!decoder->open_ended || bytes_get16(decoder->at) != 0) return false;
    decoder->end = decoder->at;
    return true;
}

/* Whether the next record may be told as more than there is room for. */
static bool lacks_room(const struct raw_decoder *decoder, uint32_t room)
{
    return decoder->tells_caches && room < RAW_CACHED_MAX &&
           bytes_get16(decoder->at) == RAW_UNIT_GENERAL + RAW_CACHED;
}

uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    uint32_t done = 0, told;
    if (error_is_set(&decoder->error)) return 0;
    while (done < room && decoder->at < decoder->end) {
        uint32_t some = decode_shorts(decoder, records + done, room - done);
        done += some;
        if (some > 0) continue;
        if (lacks_room(decoder, room - done) || decoder_ends(decoder) ||
            !decode_long(decoder, &records[done], &told))
            break;
        done += told;
    }
    return done;
}
