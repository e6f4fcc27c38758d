#include "tracing/raw_decoder.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/varint.h"
#include "tracing/record_words.h"

/* ---- what the first byte of a code means ---- */

/* Births and deaths without further operands are nearly everything: they are decoded without a branch on what they are.
 * Everything else goes the long way. */
enum {
    PLAN_UNDEFINED = 0,
    PLAN_DEATH = 1, /* of an object of this lane, nothing follows */
    PLAN_BIRTH = 2, /* nothing follows */
    PLAN_SLOT,      /* has a slot and further operands */
    PLAN_FOREIGN,   /* RAW_CODE_FOREIGN */
    PLAN_GENERAL    /* RAW_CODE_GENERAL */
};

/* The table of FORMAT.md 5.2, row by row. */
static const struct {
    uint8_t first, last, slot, bytes;
    uint32_t base,
        step; /* the main operand of the first byte, and how much more each next one has */
} code_rows[] = {
    {0, 47, RAW_SLOT_DEATH_1, 1, 0, 1},
    {48, 119, RAW_SLOT_DEATH_1, 2, 48, 256},
    {120, 121, RAW_SLOT_DEATH_1, 3, 18480, 65536},
    {122, 137, RAW_SLOT_DEATH_2, 1, 0, 1},
    {138, 149, RAW_SLOT_DEATH_2, 2, 16, 256},
    {150, 150, RAW_SLOT_DEATH_2, 3, 3088, 0},
    {151, 194, RAW_SLOT_BIRTH_1, 1, 0, 8},
    {195, 206, RAW_SLOT_BIRTH_1, 2, 0, 256},
    {207, 207, RAW_SLOT_BIRTH_1, 3, 0, 0},
    {208, 231, RAW_SLOT_BIRTH_2, 1, 0, 8},
    {232, 239, RAW_SLOT_BIRTH_2, 2, 0, 256},
    {240, 240, RAW_SLOT_BIRTH_2, 3, 0, 0},
};

/* What the bytes behind the first one add to the base, of a little-endian word that begins with the first. */
static const uint16_t code_masks[4] = {0, 0, 0xff, 0xffff};

static unsigned slot_plan(unsigned kind)
{
    if (kind == 0) return PLAN_UNDEFINED;
    if (call_shapes[kind] == SHAPE_BIRTH) return PLAN_BIRTH;
    return call_shapes[kind] == SHAPE_DEATH ? PLAN_DEATH : PLAN_SLOT;
}

/* What the record of a call begins with, as a little-endian number: number, shape and kind. */
static uint32_t record_head(unsigned kind)
{
    _Static_assert(offsetof(struct record, shape) == 1 && offsetof(struct record, kind) == 2 &&
                       offsetof(struct record, token) == 8,
                   "number, shape, kind, then zeros up to the token");
    return kind | (uint32_t)call_shapes[kind] << 8 | kind << 16;
}

static void fill_codes(struct raw_code *codes, const uint8_t *slots)
{
    memset(codes, 0, 256 * sizeof *codes);
    for (unsigned row = 0; row < sizeof code_rows / sizeof *code_rows; row++) {
        unsigned kind = slots[code_rows[row].slot];
        uint32_t base = code_rows[row].base;
        for (unsigned first = code_rows[row].first; first <= code_rows[row].last; first++) {
            codes[first] = (struct raw_code){.head = record_head(kind),
                                             .base = base,
                                             .mask = code_masks[code_rows[row].bytes],
                                             .plan = (uint8_t)slot_plan(kind),
                                             .bytes = code_rows[row].bytes};
            base += code_rows[row].step;
        }
    }
    codes[RAW_CODE_FOREIGN].plan = slots[RAW_SLOT_DEATH_1] ? PLAN_FOREIGN : PLAN_UNDEFINED;
    codes[RAW_CODE_GENERAL].plan = PLAN_GENERAL;
}

/* ---- errors ---- */

static uint64_t decoder_offset(const struct raw_decoder *decoder, const uint8_t *at)
{
    return decoder->payload_offset + (uint64_t)(at - decoder->payload);
}

/* The record that is being decoded is the one after decoder->records. */
#define DECODER_FAIL(decoder, which, at, format, ...)                                          \
    error_set(&(decoder)->error, &raw_errors[which], decoder_offset(decoder, at),              \
              "lane %" PRIu32 ", record %" PRIu64 format, (decoder)->lane, (decoder)->records, \
              __VA_ARGS__)

/* ---- opening ---- */

struct raw_foreign {
    uint32_t lane;
    uint32_t generation;
    uint64_t serial;
};

void raw_decoder_init(struct raw_decoder *decoder, uint32_t lane, bool addresses)
{
    *decoder = (struct raw_decoder){.lane = lane, .addresses = addresses};
}

void raw_decoder_free(struct raw_decoder *decoder)
{
    free(decoder->foreign);
    decoder->foreign = NULL;
}

bool raw_decoder_copy(struct raw_decoder *copy, const struct raw_decoder *decoder)
{
    *copy = *decoder;
    if (decoder->foreign == NULL) return true;
    copy->foreign = malloc(decoder->foreign_room * sizeof *copy->foreign);
    if (copy->foreign == NULL) return false;
    memcpy(copy->foreign, decoder->foreign, decoder->foreign_room * sizeof *copy->foreign);
    return true;
}

static bool shape_is_birth(unsigned shape)
{
    return shape >= SHAPE_BIRTH && shape <= SHAPE_REALLOC;
}

static bool shape_is_death(unsigned shape)
{
    return shape >= SHAPE_DEATH && shape <= SHAPE_DEATH_SIZED_ALIGNED;
}

/* The slots of a chunk (FORMAT.md 5.1). The table is kept while they stay the same. */
static bool decoder_open_slots(struct raw_decoder *decoder, const uint8_t *slots)
{
    if (memcmp(slots, decoder->slots, RAW_SLOTS) == 0 && decoder->codes[RAW_CODE_GENERAL].plan != 0)
        return true;
    for (unsigned slot = 0; slot < RAW_SLOTS; slot++) {
        unsigned kind = slots[slot];
        unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
        bool fits = slot < RAW_SLOT_BIRTH_1 ? shape_is_death(shape)
                                            : shape_is_birth(shape) && shape != SHAPE_REALLOC;
        if (kind != 0 && !fits)
            return DECODER_FAIL(decoder, RAW_SLOT, slots + slot, ": kind %u", kind);
    }
    memcpy(decoder->slots, slots, RAW_SLOTS);
    fill_codes(decoder->codes, slots);
    return true;
}

static bool decoder_open_codes(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    const uint8_t *payload = chunk->payload;
    uint32_t room =
        chunk->payload_bytes < RAW_PAYLOAD_CODES ? 0 : chunk->payload_bytes - RAW_PAYLOAD_CODES;
    uint32_t bytes = room == 0 ? 0 : bytes_get32(payload + RAW_SLOTS);
    if (bytes == 0 || bytes > room)
        return DECODER_FAIL(decoder, RAW_PAYLOAD, payload, ": %" PRIu32 " bytes of codes", bytes);
    if (bytes < room && !decoder->addresses)
        return DECODER_FAIL(decoder, RAW_PAYLOAD, payload,
                            ": addresses in a stream without feature bit %d", 0);
    decoder->at = payload + RAW_PAYLOAD_CODES;
    decoder->codes_end = decoder->address_column = decoder->at + bytes;
    return decoder_open_slots(decoder, payload);
}

bool raw_decoder_open(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    decoder->payload = chunk->payload;
    decoder->payload_offset = chunk->offset;
    decoder->words = chunk->words;
    decoder->left = 0;
    decoder->last_address = 0;
    decoder->foreign_used = 0;
    decoder->generation++;
    if (error_is_set(&decoder->error)) return false;
    if (chunk->first_birth != decoder->births || chunk->first_record != decoder->records)
        return DECODER_FAIL(decoder, RAW_SEQUENCE, chunk->payload,
                            ": the lane had %" PRIu64 " births, the chunk says %" PRIu64,
                            decoder->births, chunk->first_birth);
    if (chunk->key) memset(decoder->latest_stamp, 0, sizeof decoder->latest_stamp);
    decoder->foreign_lane = RAW_LANES_MAX;
    decoder->at = chunk->payload;
    decoder->payload_end = chunk->payload + chunk->payload_bytes;
    if (!chunk->words && !decoder_open_codes(decoder, chunk)) return false;
    decoder->left = chunk->records;
    return true;
}

/* ---- objects of other lanes ---- */

static struct raw_foreign *foreign_slot(struct raw_foreign *table, uint32_t room,
                                        uint32_t generation, uint32_t lane)
{
    uint32_t at = (lane * 0x9e3779b1u) >> 16;
    for (;; at++) {
        struct raw_foreign *slot = &table[at & (room - 1)];
        if (slot->generation != generation || slot->lane == lane) return slot;
    }
}

static bool foreign_grow(struct raw_decoder *decoder)
{
    uint32_t room = decoder->foreign_room == 0 ? 16 : decoder->foreign_room * 2;
    struct raw_foreign *table = calloc(room, sizeof *table);
    if (table == NULL) {
        errno = ENOMEM;
        return error_set_system(&decoder->error, "no memory for the objects of other lanes");
    }
    for (uint32_t i = 0; i < decoder->foreign_room; i++) {
        const struct raw_foreign *old = &decoder->foreign[i];
        if (old->generation != decoder->generation) continue;
        *foreign_slot(table, room, decoder->generation, old->lane) = *old;
    }
    free(decoder->foreign);
    decoder->foreign = table;
    decoder->foreign_room = room;
    return true;
}

/* Reads the serial of a foreign object whose lane has been read (FORMAT.md 5.2, "Object"). */
static bool decode_foreign_serial(struct raw_decoder *decoder, uint64_t lane, struct record *record)
{
    uint64_t serial = varint_get(&decoder->at);
    if (lane >= RAW_LANES_MAX)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at, ": lane %" PRIu64, lane);
    if (decoder->foreign_used * 2 >= decoder->foreign_room && !foreign_grow(decoder)) return false;
    struct raw_foreign *slot =
        foreign_slot(decoder->foreign, decoder->foreign_room, decoder->generation, (uint32_t)lane);
    if (slot->generation == decoder->generation) {
        serial = slot->serial + (uint64_t)unzigzag(serial);
    } else {
        slot->generation = decoder->generation;
        slot->lane = (uint32_t)lane;
        decoder->foreign_used++;
    }
    slot->serial = serial;
    decoder->foreign_lane = (uint32_t)lane;
    if (serial == 0 || serial > RAW_SERIAL_MAX ||
        (lane == decoder->lane && serial > decoder->births))
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": serial %" PRIu64 " of lane %" PRIu64, serial, lane);
    record->token = raw_token((uint32_t)lane, serial);
    return true;
}

/* ---- records, the long way ---- */

static bool decode_own(struct raw_decoder *decoder, uint64_t distance, struct record *record)
{
    if (distance >= decoder->births)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": %" PRIu64 " births ago, of %" PRIu64, distance, decoder->births);
    record->token = raw_token(decoder->lane, decoder->births - distance);
    return true;
}

static bool decode_object(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    switch (opcode & (RAW_OPCODE_FOREIGN | RAW_OPCODE_UNKNOWN)) {
    case 0: return decode_own(decoder, varint_get(&decoder->at), record);
    case RAW_OPCODE_FOREIGN:
        return decode_foreign_serial(decoder, varint_get(&decoder->at), record);
    case RAW_OPCODE_UNKNOWN: record->token = RAW_TOKEN_UNKNOWN; return true;
    default: return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->at, ": opcode 0x%02x", opcode);
    }
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

/* Numbers the object that begins. */
static bool decoder_count_birth(struct raw_decoder *decoder, struct record *record, uint64_t births,
                                const uint8_t *at)
{
    if (births > RAW_SERIAL_MAX - decoder->births)
        return DECODER_FAIL(decoder, RAW_BIRTHS, at, "%s", "");
    decoder->births += births;
    record->serial = decoder->births;
    return true;
}

static bool decode_heap(struct raw_decoder *decoder, struct record *record)
{
    uint64_t count = varint_get(&decoder->at);
    if (count > RAW_HEAP_NUMBERS_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": %" PRIu64 " numbers", count);
    record->count = (uint8_t)count;
    if (count > 0) record->size = varint_get(&decoder->at);
    if (count > 1) record->operand = varint_get(&decoder->at);
    return true;
}

/* What follows the object or the size of a call, and what a birth brings with it. */
static bool decode_call_rest(struct raw_decoder *decoder, struct record *record)
{
    unsigned shape = record->shape;
    if (shape_has_object(shape) && shape_has_size(shape)) record->size = varint_get(&decoder->at);
    if (shape_has_alignment(shape)) record->operand = varint_get(&decoder->at);
    if (!shape_is_birth(shape)) return true;
    if (decoder->addresses) {
        decoder->last_address += (uint64_t)unzigzag(varint_get(&decoder->address_column)) * 8;
        record->address = decoder->last_address;
    }
    return decoder_count_birth(decoder, record, 1, decoder->at);
}

static bool decode_call(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    if (shape_has_object(record->shape)) {
        if (!decode_object(decoder, opcode, record)) return false;
    } else if (opcode >= RAW_NUMBERS) {
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->at, ": opcode 0x%02x", opcode);
    }
    if (record->shape == SHAPE_HEAP) return decode_heap(decoder, record);
    if (!shape_has_object(record->shape)) record->size = varint_get(&decoder->at);
    return decode_call_rest(decoder, record);
}

static bool structure_is_defined(uint64_t structure)
{
    return structure < RAW_SIZE_CLASSES_MAX || structure == RAW_STRUCTURE_PAGE_HEAP;
}

/* Checks that the numbers of a structure ascend within the lane, and remembers the latest. */
static bool decoder_take_stamp(struct raw_decoder *decoder, struct record *record,
                               uint64_t structure, uint64_t number, const uint8_t *at)
{
    if (!structure_is_defined(structure))
        return DECODER_FAIL(decoder, RAW_STRUCTURE, at, ": structure %" PRIu64, structure);
    uint64_t *latest = structure == RAW_STRUCTURE_PAGE_HEAP
                           ? &decoder->latest_stamp[RAW_STAMP_ENTRIES - 1]
                           : &decoder->latest_stamp[structure];
    if (number <= *latest || number > RAW_WORD_VALUE_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, at, ": stamp %" PRIu64 " after %" PRIu64, number,
                            *latest);
    *latest = number;
    record->structure = (uint32_t)structure;
    record->size = number;
    return true;
}

static bool decode_stamp(struct raw_decoder *decoder, struct record *record)
{
    uint64_t structure = varint_get(&decoder->at);
    uint64_t difference = varint_get(&decoder->at);
    if (!structure_is_defined(structure))
        return DECODER_FAIL(decoder, RAW_STRUCTURE, decoder->at, ": structure %" PRIu64, structure);
    uint64_t latest =
        decoder->latest_stamp[structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_STAMP_ENTRIES - 1
                                                                   : structure];
    if (difference > RAW_WORD_VALUE_MAX) difference = 0; /* refused below */
    return decoder_take_stamp(decoder, record, structure, latest + difference, decoder->at);
}

/* Lost numbers leave the latest one as it is: they are not given as differences. */
static bool decoder_take_lost_stamps(struct raw_decoder *decoder, struct record *record,
                                     uint64_t structure, uint64_t first, uint64_t count,
                                     const uint8_t *at)
{
    if (!structure_is_defined(structure))
        return DECODER_FAIL(decoder, RAW_STRUCTURE, at, ": structure %" PRIu64, structure);
    if (first == 0 || first > RAW_WORD_VALUE_MAX || count > RAW_WORD_VALUE_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, at, ": stamps from %" PRIu64 ", %" PRIu64, first,
                            count);
    record->structure = (uint32_t)structure;
    record->size = first;
    record->operand = count;
    return true;
}

static bool decode_failed(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    uint64_t kind = varint_get(&decoder->at);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": a failed call of kind %" PRIu64,
                            kind);
    record->kind = (uint8_t)kind;
    if (shape == SHAPE_REALLOC) {
        if (!decode_object(decoder, opcode, record)) return false;
    } else if (opcode >= RAW_NUMBERS) {
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->at, ": opcode 0x%02x", opcode);
    }
    record->size = varint_get(&decoder->at);
    if (shape == SHAPE_BIRTH_ALIGNED) record->operand = varint_get(&decoder->at);
    return true;
}

static bool decode_other(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    if (record->number == RAW_FAILED) return decode_failed(decoder, opcode, record);
    if (opcode >= RAW_NUMBERS)
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->at, ": opcode 0x%02x", opcode);
    switch (record->number) {
    case RAW_THREAD_BEGIN: record->operand = varint_get(&decoder->at); return true;
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED: return true;
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER: return decode_stamp(decoder, record);
    case RAW_LOST:
        record->size = varint_get(&decoder->at);
        record->operand = varint_get(&decoder->at);
        if (!decoder_count_birth(decoder, record, record->operand, decoder->at)) return false;
        record->serial = 0;
        return true;
    case RAW_LOST_STAMPS: {
        uint64_t structure = varint_get(&decoder->at);
        uint64_t first = varint_get(&decoder->at);
        uint64_t count = varint_get(&decoder->at);
        return decoder_take_lost_stamps(decoder, record, structure, first, count, decoder->at);
    }
    default:
        return DECODER_FAIL(decoder, RAW_NUMBER, decoder->at, ": number 0x%02x", record->number);
    }
}

static void record_begin(struct record *record, unsigned number)
{
    *record = (struct record){
        .number = (uint8_t)number, .shape = call_shapes[number], .kind = (uint8_t)number};
}

/* A code with a slot: the main operand is in the code. */
static bool decode_slot(struct raw_decoder *decoder, const struct raw_code *code,
                        struct record *record)
{
    uint32_t word;
    memcpy(&word, decoder->at, sizeof word);
    uint64_t operand = (uint64_t)code->base + (word >> 8 & code->mask);
    decoder->at += code->bytes;
    record_begin(record, code->head & RAW_OPCODE_NUMBER);
    if (!shape_has_object(record->shape))
        record->size = operand;
    else if (!decode_own(decoder, operand, record))
        return false;
    return decode_call_rest(decoder, record);
}

static bool decode_foreign_death(struct raw_decoder *decoder, struct record *record)
{
    const uint8_t *code = decoder->at++;
    if (decoder->foreign_lane == RAW_LANES_MAX)
        return DECODER_FAIL(decoder, RAW_CODE, code, ": code %d before a foreign object",
                            RAW_CODE_FOREIGN);
    record_begin(record, decoder->slots[RAW_SLOT_DEATH_1]);
    return decode_foreign_serial(decoder, decoder->foreign_lane, record) &&
           decode_call_rest(decoder, record);
}

static bool decode_general(struct raw_decoder *decoder, struct record *record)
{
    unsigned opcode = decoder->at[1];
    decoder->at += 2;
    record_begin(record, opcode & RAW_OPCODE_NUMBER);
    return record->shape != SHAPE_UNDEFINED ? decode_call(decoder, opcode, record)
                                            : decode_other(decoder, opcode, record);
}

static bool decode_by_plan(struct raw_decoder *decoder, struct record *record)
{
    const struct raw_code *code = &decoder->codes[*decoder->at];
    switch (code->plan) {
    case PLAN_FOREIGN: return decode_foreign_death(decoder, record);
    case PLAN_GENERAL: return decode_general(decoder, record);
    case PLAN_UNDEFINED:
        return DECODER_FAIL(decoder, RAW_CODE, decoder->at, ": code 0x%02x", *decoder->at);
    default: return decode_slot(decoder, code, record);
    }
}

/* One record of any kind. Reading may pass the end of the codes, by less than the slack behind a payload: what was read
 * there is not used. */
static bool decode_long(struct raw_decoder *decoder, struct record *record)
{
    if (decoder->at >= decoder->codes_end)
        return DECODER_FAIL(decoder, RAW_CODES_SHORT, decoder->at, "%s", "");
    if (!decode_by_plan(decoder, record)) return false;
    if (decoder->at > decoder->codes_end || decoder->address_column > decoder->payload_end)
        return DECODER_FAIL(decoder, RAW_CODES_SHORT, decoder->codes_end, "%s", "");
    decoder->records++;
    return true;
}

/* ---- records, the short way ---- */

/* Decodes records until one needs the long way or `count` are done, without a branch on whether it is a birth or a
 * death. Whatever is wrong, the long way finds it again and says what it is. The positions live in registers
 * meanwhile. Returns how many. */
static __attribute__((noinline)) uint32_t decode_short_run(struct raw_decoder *decoder,
                                                           struct record *records, uint32_t count)
{
    const struct raw_code *codes = decoder->codes;
    const uint8_t *at = decoder->at;
    /* Where a code of three bytes still fits. */
    const uint8_t *end = decoder->codes_end - 2;
    const uint64_t lane = raw_token(decoder->lane, 0);
    /* With addresses a birth has one more operand. */
    const unsigned plan_max = decoder->addresses ? PLAN_DEATH : PLAN_BIRTH;
    uint64_t births = decoder->births;
    struct record *record = records, *records_end = records + count;

    if (births > RAW_SERIAL_MAX - count) return 0;
    for (; record < records_end && at < end; record++) {
        const struct raw_code *code = &codes[*at];
        uint32_t word;
        memcpy(&word, at, sizeof word);
        if (__builtin_expect(code->plan - 1u >= plan_max, 0)) break;
        uint64_t operand = code->base + (uint64_t)(word >> 8 & code->mask);
        /* All ones for a birth, 0 for a death. */
        uint64_t birth = -(uint64_t)(code->plan >> 1);
        if (__builtin_expect((int64_t)((operand - births) | birth) >= 0, 0)) break;
        uint64_t head = code->head;
        memcpy(record, &head, sizeof head);
        births -= birth;
        record->token = (lane + births - operand) & ~birth;
        record->size = operand & birth;
        record->serial = births & birth;
        record->operand = 0;
        record->address = 0;
        at += code->bytes;
    }
    uint32_t done = (uint32_t)(record - records);
    decoder->at = at;
    decoder->births = births;
    decoder->records += done;
    return done;
}

static bool decoder_check_used_up(struct raw_decoder *decoder)
{
    if (decoder->at != decoder->codes_end)
        return DECODER_FAIL(decoder, RAW_CODES_LONG, decoder->at, "%s", "");
    if (decoder->address_column != decoder->payload_end)
        return DECODER_FAIL(decoder, RAW_CODES_LONG, decoder->address_column, "%s", "");
    return true;
}

static uint32_t decode_codes(struct raw_decoder *decoder, struct record *records, uint32_t count)
{
    uint32_t done = 0;
    while (done < count) {
        done += decode_short_run(decoder, records + done, count - done);
        if (done == count || !decode_long(decoder, &records[done])) break;
        done++;
    }
    return done;
}

/* ---- event words (FORMAT.md 7) ---- */

uint32_t raw_record_words(uint64_t word)
{
    unsigned number = raw_word_number(word);
    return record_words(number, call_shapes[number]);
}

uint64_t raw_record_births(const uint64_t *words)
{
    unsigned number = raw_word_number(words[0]);
    if (number == RAW_LOST) return words[1];
    return shape_is_birth(call_shapes[number]);
}

static bool words_take_object(struct raw_decoder *decoder, struct record *record, uint64_t token)
{
    uint64_t lane = token >> RAW_SERIAL_BITS, serial = raw_token_serial(token);
    bool exists = token == RAW_TOKEN_UNKNOWN || (lane < RAW_LANES_MAX && serial != 0);
    if (!exists ||
        (token != RAW_TOKEN_UNKNOWN && lane == decoder->lane && serial > decoder->births))
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->at,
                            ": serial %" PRIu64 " of lane %" PRIu64, serial, lane);
    record->token = token;
    return true;
}

static bool words_take_call(struct raw_decoder *decoder, struct record *record,
                            const uint64_t *words)
{
    unsigned shape = record->shape;
    uint64_t value = raw_word_value(words[0]);
    if (shape == SHAPE_HEAP) {
        if (value > RAW_HEAP_NUMBERS_MAX)
            return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": %" PRIu64 " numbers", value);
        record->count = (uint8_t)value;
        record->size = value > 0 ? words[1] : 0;
        record->operand = value > 1 ? words[2] : 0;
        return true;
    }
    const uint64_t *next = words + 1;
    if (shape_has_object(shape)) {
        if (!words_take_object(decoder, record, value)) return false;
        if (shape_has_size(shape)) record->size = *next++;
    } else {
        record->size = value;
    }
    if (shape_has_alignment(shape)) record->operand = *next;
    return !shape_is_birth(shape) || decoder_count_birth(decoder, record, 1, decoder->at);
}

static bool words_take_failed(struct raw_decoder *decoder, struct record *record,
                              const uint64_t *words)
{
    uint64_t kind = raw_word_value(words[0]);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->at, ": a failed call of kind %" PRIu64,
                            kind);
    record->kind = (uint8_t)kind;
    record->size = words[1];
    if (shape == SHAPE_BIRTH_ALIGNED) record->operand = words[2];
    return shape != SHAPE_REALLOC || words_take_object(decoder, record, words[3]);
}

static bool words_take_other(struct raw_decoder *decoder, struct record *record,
                             const uint64_t *words)
{
    uint64_t value = raw_word_value(words[0]);
    switch (record->number) {
    case RAW_THREAD_BEGIN: record->operand = value; return true;
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER:
        return decoder_take_stamp(decoder, record, raw_stamp_structure(value),
                                  raw_stamp_number(value), decoder->at);
    case RAW_LOST:
        record->size = value;
        record->operand = words[1];
        if (!decoder_count_birth(decoder, record, record->operand, decoder->at)) return false;
        record->serial = 0;
        return true;
    case RAW_FAILED: return words_take_failed(decoder, record, words);
    case RAW_LOST_STAMPS:
        return decoder_take_lost_stamps(decoder, record, raw_stamp_structure(value), words[1],
                                        raw_stamp_number(value), decoder->at);
    default: return true;
    }
}

static bool decode_word_record(struct raw_decoder *decoder, struct record *record)
{
    size_t bytes = (size_t)(decoder->payload_end - decoder->at);
    uint64_t words[RAW_WORDS_PER_RECORD_MAX] = {0};
    memcpy(words, decoder->at, bytes < sizeof words ? bytes : sizeof words);
    unsigned number = raw_word_number(words[0]);
    uint32_t length = raw_record_words(words[0]);
    if (length == 0)
        return DECODER_FAIL(decoder, RAW_NUMBER, decoder->at, ": number 0x%02x", number);
    if (length * sizeof *words > bytes)
        return DECODER_FAIL(decoder, RAW_CODES_SHORT, decoder->at, "%s", "");
    *record = (struct record){
        .number = (uint8_t)number, .shape = call_shapes[number], .kind = (uint8_t)number};
    if (record->shape != SHAPE_UNDEFINED ? !words_take_call(decoder, record, words)
                                         : !words_take_other(decoder, record, words))
        return false;
    decoder->at += length * sizeof *words;
    decoder->records++;
    return true;
}

static uint32_t decode_words(struct raw_decoder *decoder, struct record *records, uint32_t count)
{
    uint32_t done = 0;
    while (done < count && decode_word_record(decoder, &records[done]))
        done++;
    return done;
}

/* ---- both ---- */

uint32_t raw_decoder_next(struct raw_decoder *decoder, struct record *records, uint32_t room)
{
    if (!raw_decoder_has_more(decoder)) return 0;
    uint32_t count = room < decoder->left ? room : decoder->left;
    uint32_t done = decoder->words ? decode_words(decoder, records, count)
                                   : decode_codes(decoder, records, count);
    decoder->left -= done;
    if (decoder->left == 0 && !decoder->words) decoder_check_used_up(decoder);
    return done;
}
