#include "tracing/raw_decoder.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/varint.h"

/* ---- what a unit means ---- */

/* Births and deaths of one or two units are nearly everything: they are decoded without a branch on what they are.
 * Everything else goes the long way. */

/* The table of FORMAT.md 5.2, as far as a range has its upper five bits for itself: units base + least .. base + limit
 * - 1. */
static const struct {
    uint16_t base, limit;
    uint8_t least, range;
} code_rows[] = {
    {RAW_UNIT_DEATH_1, RAW_DEATH_1_LIMIT, 1, RAW_DEATH_1},
    {RAW_UNIT_BIRTH_1, RAW_BIRTH_1_LIMIT, 0, RAW_BIRTH_1},
    {RAW_UNIT_DEATH_2, RAW_DEATH_2_LIMIT, 1, RAW_DEATH_2},
    {RAW_UNIT_BIRTH_2, RAW_BIRTH_2_LIMIT, 0, RAW_BIRTH_2},
    {RAW_UNIT_BIRTH_3, RAW_BIRTH_3_LIMIT, 0, RAW_BIRTH_3},
    {RAW_UNIT_DEATH_3, RAW_DEATH_3_LIMIT, 1, RAW_DEATH_3},
};

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
                       offsetof(struct record, token) == 8,
                   "number, shape, kind, then zeros up to the token");
    return kind | (uint32_t)call_shapes[kind] << 8 | kind << 16;
}

/* A code of the kind's shape. Left as it is, for the long way, if records have more than two units. */
static void fill_code(struct raw_decoder *decoder, unsigned code, unsigned kind, uint32_t base)
{
    unsigned shape = call_shapes[kind];
    bool birth = shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED;
    if (kind == 0 || shape == SHAPE_DEATH_SIZED_ALIGNED || (birth && decoder->addresses)) return;
    decoder->codes[code] = (struct raw_code){.base = base,
                                             .head = record_head(kind),
                                             .birth = birth ? UINT64_MAX : 0,
                                             .death = birth ? 0 : UINT64_MAX};
    if (shape == SHAPE_DEATH_SIZED) decoder->more[code].size = UINT16_MAX;
    if (shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_ALIGNED)
        decoder->more[code].operand = UINT16_MAX;
}

static void fill_codes(struct raw_decoder *decoder)
{
    const unsigned far = RAW_UNIT_DEATH_FAR >> RAW_CODE_SHIFT;
    const unsigned death_1 = decoder->profile[RAW_DEATH_1];
    memset(decoder->more, 0, sizeof decoder->more);
    for (unsigned code = 0; code < RAW_CODES; code++)
        decoder->codes[code] = (struct raw_code){.base = RAW_BASE_NONE, .death = UINT64_MAX};
    for (unsigned row = 0; row < sizeof code_rows / sizeof *code_rows; row++) {
        uint32_t base = code_rows[row].base;
        uint32_t first = (base + code_rows[row].least) >> RAW_CODE_SHIFT;
        uint32_t last = (base + code_rows[row].limit - 1) >> RAW_CODE_SHIFT;
        for (uint32_t code = first; code <= last; code++)
            fill_code(decoder, code, decoder->profile[code_rows[row].range], base);
    }
    if (call_shapes[death_1] == SHAPE_DEATH) {
        fill_code(decoder, far, death_1, RAW_UNIT_DEATH_FAR);
        decoder->more[far].main = UINT16_MAX;
    }
    decoder->two_units = 0;
    for (unsigned code = 0; code < RAW_CODES; code++)
        if (decoder->more[code].main | decoder->more[code].size | decoder->more[code].operand)
            decoder->two_units |= UINT32_C(1) << code;
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
    fill_codes(decoder);
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
    decoder->units += chunk->units;
    decoder->end += 2 * (size_t)chunk->units;
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

/* ---- objects ---- */

static bool take_own(struct raw_decoder *decoder, uint64_t distance, struct record *record)
{
    if (distance - 1 >= decoder->births)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": distance %" PRIu64 " after %" PRIu64 " births", distance,
                            decoder->births);
    record->token = raw_token(decoder->lane, decoder->births + 1 - distance);
    return true;
}

/* An object of any lane, to be remembered in the way of its lane (FORMAT.md 5.2, "Foreign"). */
static bool take_foreign(struct raw_decoder *decoder, uint64_t lane, uint64_t serial,
                         struct record *record)
{
    if (lane >= RAW_LANES_MAX || serial == 0 || serial > RAW_SERIAL_MAX ||
        (lane == decoder->lane && serial > decoder->births))
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": serial %" PRIu64 " of lane %" PRIu64, serial, lane);
    record->token = raw_token((uint32_t)lane, serial);
    decoder->foreign[lane % RAW_FOREIGN_WAYS] = record->token;
    return true;
}

static bool take_object(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    switch (unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) {
    case 0: return take_own(decoder, take_number(decoder), record);
    case RAW_GENERAL_FOREIGN: {
        uint64_t lane = take_number(decoder);
        return take_foreign(decoder, lane, take_number(decoder), record);
    }
    case RAW_GENERAL_UNKNOWN: record->token = RAW_TOKEN_UNKNOWN; return true;
    default: return DECODER_FAIL(decoder, RAW_UNIT_FLAG, decoder->at, ": unit 0x%04x", unit);
    }
}

static bool has_no_object(struct raw_decoder *decoder, unsigned unit)
{
    if ((unit & (RAW_GENERAL_FOREIGN | RAW_GENERAL_UNKNOWN)) == 0) return true;
    return DECODER_FAIL(decoder, RAW_UNIT_FLAG, decoder->at, ": unit 0x%04x", unit);
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

/* What follows the object or the size of a call, and what a birth brings with it. */
static bool take_call_rest(struct raw_decoder *decoder, struct record *record)
{
    unsigned shape = record->shape;
    if (shape_has_object(shape) && shape_has_size(shape)) record->size = take_number(decoder);
    if (shape_has_alignment(shape)) record->operand = take_number(decoder);
    if (!shape_is_birth(shape)) return true;
    if (decoder->addresses) {
        decoder->last_address += (uint64_t)unzigzag(take_number(decoder)) * 8;
        record->address = decoder->last_address;
    }
    if (!decoder_count_births(decoder, 1)) return false;
    record->serial = decoder->births;
    return true;
}

/* A call that has a range: its main operand has been read. */
static bool decode_in_range(struct raw_decoder *decoder, enum raw_range range, uint64_t operand,
                            struct record *record)
{
    if (decoder->profile[range] == 0)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": of a range that is not used, %d",
                            (int)range);
    record_begin(record, decoder->profile[range]);
    if (!shape_has_object(record->shape))
        record->size = operand;
    else if (!take_own(decoder, operand, record))
        return false;
    return take_call_rest(decoder, record);
}

static bool decode_foreign_death(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    uint64_t latest = decoder->foreign[unit >> RAW_FOREIGN_WAY_SHIFT & (RAW_FOREIGN_WAYS - 1)];
    uint64_t coded = (uint64_t)(unit & RAW_FOREIGN_HIGH) << 16 | take_unit(decoder);
    if (decoder->profile[RAW_DEATH_1] == 0 || latest == 0)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x before a foreign object",
                            unit);
    record_begin(record, decoder->profile[RAW_DEATH_1]);
    uint64_t serial = raw_token_serial(latest) + (uint64_t)unzigzag(coded);
    return take_foreign(decoder, raw_token_lane(latest), serial, record) &&
           take_call_rest(decoder, record);
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

static bool decode_call(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    if (shape_has_object(record->shape))
        return take_object(decoder, unit, record) && take_call_rest(decoder, record);
    if (!has_no_object(decoder, unit)) return false;
    if (record->shape == SHAPE_HEAP) return decode_heap(decoder, record);
    record->size = take_number(decoder);
    return take_call_rest(decoder, record);
}

static bool decode_failed(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    uint64_t kind = take_number(decoder);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": a failed call of kind %" PRIu64,
                            kind);
    record->kind = (uint8_t)kind;
    if (shape == SHAPE_REALLOC ? !take_object(decoder, unit, record)
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

/* Lost numbers leave the latest one as it is: they are not given as differences. */
static bool decode_lost_stamps(struct raw_decoder *decoder, struct record *record)
{
    uint64_t structure = take_number(decoder);
    uint64_t first = take_number(decoder);
    uint64_t count = take_number(decoder);
    if (latest_stamp(decoder, structure) == NULL) return false;
    if (first == 0 || first >= RAW_STAMP_LIMIT || count > RAW_STAMP_LIMIT - first)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at,
                            ": stamps from %" PRIu64 ", %" PRIu64, first, count);
    record->structure = (uint32_t)structure;
    record->size = first;
    record->operand = count;
    return true;
}

/* A record that is no call, by its number. */
static bool decode_other(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    if (record->number == RAW_FAILED) return decode_failed(decoder, unit, record);
    if (!has_no_object(decoder, unit)) return false;
    switch (record->number) {
    case RAW_THREAD_BEGIN: record->operand = take_number(decoder); return true;
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED: return true;
    case RAW_LOST: return decode_lost(decoder, record);
    case RAW_LOST_STAMPS: return decode_lost_stamps(decoder, record);
    default: return DECODER_FAIL(decoder, RAW_NUMBER, decoder->at, ": unit 0x%04x", unit);
    }
}

static bool decode_general(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    if (unit >= RAW_UNIT_UNDEFINED)
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x", unit);
    if (unit >= RAW_UNIT_STAMP_AFTER)
        return decode_stamp(decoder, RAW_STAMP_AFTER, unit - RAW_UNIT_STAMP_AFTER, record);
    if (unit >= RAW_UNIT_STAMP_BEFORE)
        return decode_stamp(decoder, RAW_STAMP_BEFORE, unit - RAW_UNIT_STAMP_BEFORE, record);
    record_begin(record, unit & RAW_GENERAL_NUMBER);
    return record->shape != SHAPE_UNDEFINED ? decode_call(decoder, unit, record)
                                            : decode_other(decoder, unit, record);
}

static bool decode_by_unit(struct raw_decoder *decoder, unsigned unit, struct record *record)
{
    for (unsigned row = 0; row < sizeof code_rows / sizeof *code_rows; row++) {
        unsigned operand = unit - code_rows[row].base;
        if (operand >= code_rows[row].least && operand < code_rows[row].limit)
            return decode_in_range(decoder, (enum raw_range)code_rows[row].range, operand, record);
    }
    if (unit >= RAW_UNIT_GENERAL) return decode_general(decoder, unit, record);
    if (unit >= RAW_UNIT_FOREIGN) return decode_foreign_death(decoder, unit, record);
    if (unit > RAW_UNIT_REALLOC)
        return decode_in_range(decoder, RAW_REALLOC, unit - RAW_UNIT_REALLOC, record);
    if (unit < RAW_UNIT_DEATH_FAR) /* 0 */
        return DECODER_FAIL(decoder, RAW_UNIT, decoder->at, ": 0x%04x", unit);
    uint64_t distance = (uint64_t)(unit - RAW_UNIT_DEATH_FAR) << 16;
    return decode_in_range(decoder, RAW_DEATH_1, distance | take_unit(decoder), record);
}

/* One record of any kind. Reading may pass the end of the units, by less than the slack behind a payload: what was read
 * there is not used. */
static bool decode_long(struct raw_decoder *decoder, struct record *record)
{
    const uint8_t *begin = decoder->at;
    uint64_t births = decoder->births;
    decoder->number_too_large = false;
    bool good = decode_by_unit(decoder, take_unit(decoder), record);
    if (decoder->at > decoder->end) {
        decoder->error.kind = NULL; /* of what was read behind the end */
        good = DECODER_FAIL(decoder, RAW_UNITS_SHORT, begin, "%s", "");
    } else if (good && decoder->number_too_large) {
        good = DECODER_FAIL(decoder, RAW_OPERAND, begin, ": a number of more than %d bits", 64);
    }
    decoder->records += good;
    if (good) return true;
    decoder->births = births;
    decoder->error.offset = decoder_offset(decoder, begin);
    return false;
}

/* ---- records, the short way ---- */

/* Decodes records until one has another form or `count` are done, without a branch on what they are. Whatever is wrong,
 * the long way finds it again and says what it is. The positions live in registers meanwhile. With `two`, records of two
 * units are among them, else all have one. Returns how many. */
static inline __attribute__((always_inline)) uint32_t decode_short(struct raw_decoder *decoder,
                                                                   struct record *records,
                                                                   uint32_t count, bool two)
{
    const struct raw_code *codes = decoder->codes;
    const uint8_t *at = decoder->at;
    const uint8_t *end = decoder->end - 2; /* where a record of two units still fits */
    const uint32_t two_units = decoder->two_units;
    const uint64_t next_token = raw_token(decoder->lane, 0) + 1;
    uint64_t births = decoder->births;
    uint32_t left = raw_decoder_units_left(decoder);
    struct record *record = records, *records_end = records + (count < left ? count : left);

    if (births > RAW_SERIAL_MAX - count) return 0;
    for (; record < records_end && (!two || at < end); record++) {
        uint64_t unit = bytes_get16(at);
        uint32_t number = (uint32_t)unit >> RAW_CODE_SHIFT;
        const struct raw_code *code = &codes[number];
        uint64_t operand = unit - code->base, size = 0, other = 0;
        uint64_t births_after = births - code->birth;
        if (two) {
            const struct raw_code_more *more = &decoder->more[number];
            uint32_t next = bytes_get16(at + 2);
            operand = operand * (more->main + UINT64_C(1)) + (next & more->main);
            size = next & more->size;
            other = next & more->operand;
            /* Numbers of one unit. */
            if (__builtin_expect((size | other) >= RAW_NUMBER_MORE, 0)) break;
        } else if (__builtin_expect(two_units >> number & 1, 0)) {
            break;
        }
        /* Of a birth any operand will do, of a death one from 1 to the births so far. */
        if (__builtin_expect(((operand - 1) & code->death) >= births_after, 0)) break;
        births = births_after;
        memcpy(record, &code->head, sizeof code->head);
        record->token = (next_token + births - operand) & code->death;
        record->size = (operand & code->birth) | size;
        record->serial = births & code->birth;
        record->operand = other;
        record->address = 0;
        at += two ? 2 + 2 * (two_units >> number & 1) : 2;
    }
    uint32_t done = (uint32_t)(record - records);
    decoder->at = at;
    decoder->births = births;
    decoder->records += done;
    return done;
}

/* Each with registers of its own. */
static __attribute__((noinline)) uint32_t decode_ones(struct raw_decoder *decoder,
                                                      struct record *records, uint32_t count)
{
    return decode_short(decoder, records, count, false);
}

static __attribute__((noinline)) uint32_t decode_twos(struct raw_decoder *decoder,
                                                      struct record *records, uint32_t count)
{
    return decode_short(decoder, records, count, true);
}

/* So many records are decoded with `two` after one of two units: the more, the sooner the next one came before. */
#define TWOS_MIN 2u
#define TWOS_MAX 64u
#define SOON     16u

static uint32_t decode_shorts(struct raw_decoder *decoder, struct record *records, uint32_t count)
{
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

uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    uint32_t done = 0;
    if (error_is_set(&decoder->error)) return 0;
    while (done < room && decoder->at < decoder->end) {
        uint32_t some = decode_shorts(decoder, records + done, room - done);
        done += some;
        if (some > 0) continue;
        if (decoder_ends(decoder) || !decode_long(decoder, &records[done])) break;
        done++;
    }
    return done;
}
