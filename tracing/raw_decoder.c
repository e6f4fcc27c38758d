#include "tracing/raw_decoder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/call_table.h"
#include "common/varint.h"

/* ---- what an opcode byte means ---- */

/* Calls on sizes and objects of this lane are nearly everything: their records are decoded without a branch on the
 * opcode, by masks. Everything else goes the long way. */
enum {
    PLAN_SIZE = 1,  /* has an operand in `sizes` */
    PLAN_OWN = 2,   /* ends an object of this lane */
    PLAN_BIRTH = 4, /* begins one */
    PLAN_LONG = 8   /* not decoded by masks */
};

#define PLAN_BIRTH_SHAPE               (PLAN_SIZE | PLAN_BIRTH)
#define PLAN_BIRTH_ALIGNED_SHAPE       PLAN_LONG
#define PLAN_REALLOC_SHAPE             (PLAN_SIZE | PLAN_OWN | PLAN_BIRTH)
#define PLAN_DEATH_SHAPE               PLAN_OWN
#define PLAN_DEATH_SIZED_SHAPE         (PLAN_SIZE | PLAN_OWN)
#define PLAN_DEATH_ALIGNED_SHAPE       PLAN_LONG
#define PLAN_DEATH_SIZED_ALIGNED_SHAPE PLAN_LONG
#define PLAN_HEAP_SHAPE                PLAN_LONG

/* A table over numbers; entry 0 of a number that is no call stands for PLAN_LONG as well. */
static const uint8_t call_plans[RAW_NUMBERS] = {
#define PLAN_ENTRY(number, identifier, name, shape) [(number)] = PLAN_##shape##_SHAPE,
    CALL_KIND_LIST(PLAN_ENTRY)
#undef PLAN_ENTRY
};

static inline unsigned opcode_plan(unsigned opcode)
{
    if (__builtin_expect(opcode >= RAW_NUMBERS, 0)) return PLAN_LONG;
    return call_plans[opcode];
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

static bool decoder_open_columns(struct raw_decoder *decoder, const struct raw_chunk *chunk)
{
    const uint8_t *at = chunk->payload;
    const uint8_t *end = at + chunk->payload_bytes;
    uint64_t lengths[5], total = 0;
    for (unsigned column = 0; column < 5; column++) {
        lengths[column] = varint_get(&at);
        if (lengths[column] > chunk->payload_bytes || at > end)
            return DECODER_FAIL(decoder, RAW_COLUMNS, chunk->payload, ": column %u", column);
        total += lengths[column];
    }
    if (total != (uint64_t)(end - at) || lengths[0] != chunk->records)
        return DECODER_FAIL(decoder, RAW_COLUMNS, chunk->payload,
                            ": %" PRIu64 " bytes of columns, %" PRIu64 " opcodes", total,
                            lengths[0]);
    if (lengths[4] > 0 && !decoder->addresses)
        return DECODER_FAIL(decoder, RAW_COLUMNS, chunk->payload,
                            ": addresses in a stream without feature bit %d", 0);
    decoder->opcodes = at;
    decoder->sizes = at + lengths[0];
    decoder->objects = decoder->sizes_end = decoder->sizes + lengths[1];
    decoder->misc = decoder->objects_end = decoder->objects + lengths[2];
    decoder->address_column = decoder->misc_end = decoder->misc + lengths[3];
    decoder->address_end = end;
    return true;
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
    if (chunk->words) {
        decoder->opcodes = chunk->payload;
        decoder->address_end = chunk->payload + chunk->payload_bytes;
    } else if (!decoder_open_columns(decoder, chunk)) {
        return false;
    }
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

/* The operands lane and serial of a foreign object (FORMAT.md 5.2). */
static bool decode_foreign(struct raw_decoder *decoder, struct record *record)
{
    uint64_t lane = varint_get(&decoder->objects);
    uint64_t serial = varint_get(&decoder->objects);
    if (lane >= RAW_LANES_MAX)
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->opcodes, ": lane %" PRIu64, lane);
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
    if (serial == 0 || serial > RAW_SERIAL_MAX ||
        (lane == decoder->lane && serial > decoder->births))
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->opcodes,
                            ": serial %" PRIu64 " of lane %" PRIu64, serial, lane);
    record->token = raw_token((uint32_t)lane, serial);
    return true;
}

/* ---- records, the long way ---- */

static bool decode_object(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    switch (opcode & (RAW_OPCODE_FOREIGN | RAW_OPCODE_UNKNOWN)) {
    case 0: {
        uint64_t distance = varint_get(&decoder->objects);
        if (distance >= decoder->births)
            return DECODER_FAIL(decoder, RAW_OBJECT, decoder->opcodes,
                                ": %" PRIu64 " births ago, of %" PRIu64, distance, decoder->births);
        record->token = raw_token(decoder->lane, decoder->births - distance);
        return true;
    }
    case RAW_OPCODE_FOREIGN: return decode_foreign(decoder, record);
    case RAW_OPCODE_UNKNOWN: record->token = RAW_TOKEN_UNKNOWN; return true;
    default:
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->opcodes, ": opcode 0x%02x", opcode);
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

static bool shape_is_birth(unsigned shape)
{
    return shape >= SHAPE_BIRTH && shape <= SHAPE_REALLOC;
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
    uint64_t count = varint_get(&decoder->misc);
    if (count > RAW_HEAP_NUMBERS_MAX)
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->opcodes, ": %" PRIu64 " numbers", count);
    record->count = (uint8_t)count;
    if (count > 0) record->size = varint_get(&decoder->misc);
    if (count > 1) record->operand = varint_get(&decoder->misc);
    return true;
}

static bool decode_call(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    unsigned shape = record->shape;
    if (shape_has_object(shape)) {
        if (!decode_object(decoder, opcode, record)) return false;
    } else if (opcode >= RAW_NUMBERS) {
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->opcodes, ": opcode 0x%02x", opcode);
    }
    if (shape == SHAPE_HEAP) return decode_heap(decoder, record);
    if (shape_has_size(shape)) record->size = varint_get(&decoder->sizes);
    if (shape_has_alignment(shape)) record->operand = varint_get(&decoder->misc);
    if (!shape_is_birth(shape)) return true;
    if (decoder->addresses) {
        decoder->last_address += (uint64_t)unzigzag(varint_get(&decoder->address_column)) * 8;
        record->address = decoder->last_address;
    }
    return decoder_count_birth(decoder, record, 1, decoder->opcodes);
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
    uint64_t structure = varint_get(&decoder->misc);
    uint64_t difference = varint_get(&decoder->misc);
    if (!structure_is_defined(structure))
        return DECODER_FAIL(decoder, RAW_STRUCTURE, decoder->opcodes, ": structure %" PRIu64,
                            structure);
    uint64_t latest =
        decoder->latest_stamp[structure == RAW_STRUCTURE_PAGE_HEAP ? RAW_STAMP_ENTRIES - 1
                                                                   : structure];
    if (difference > RAW_WORD_VALUE_MAX) difference = 0; /* refused below */
    return decoder_take_stamp(decoder, record, structure, latest + difference, decoder->opcodes);
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
    uint64_t kind = varint_get(&decoder->misc);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->opcodes,
                            ": a failed call of kind %" PRIu64, kind);
    record->kind = (uint8_t)kind;
    record->size = varint_get(&decoder->sizes);
    if (shape == SHAPE_BIRTH_ALIGNED) record->operand = varint_get(&decoder->misc);
    if (shape == SHAPE_REALLOC) return decode_object(decoder, opcode, record);
    if (opcode >= RAW_NUMBERS)
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->opcodes, ": opcode 0x%02x", opcode);
    return true;
}

static bool decode_other(struct raw_decoder *decoder, unsigned opcode, struct record *record)
{
    if (record->number == RAW_FAILED) return decode_failed(decoder, opcode, record);
    if (opcode >= RAW_NUMBERS)
        return DECODER_FAIL(decoder, RAW_OPCODE_FLAG, decoder->opcodes, ": opcode 0x%02x", opcode);
    switch (record->number) {
    case RAW_THREAD_BEGIN: record->operand = varint_get(&decoder->misc); return true;
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED: return true;
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER: return decode_stamp(decoder, record);
    case RAW_LOST:
        record->size = varint_get(&decoder->misc);
        record->operand = varint_get(&decoder->misc);
        if (!decoder_count_birth(decoder, record, record->operand, decoder->opcodes)) return false;
        record->serial = 0;
        return true;
    case RAW_LOST_STAMPS: {
        uint64_t structure = varint_get(&decoder->misc);
        uint64_t first = varint_get(&decoder->misc);
        uint64_t count = varint_get(&decoder->misc);
        return decoder_take_lost_stamps(decoder, record, structure, first, count, decoder->opcodes);
    }
    default:
        return DECODER_FAIL(decoder, RAW_NUMBER, decoder->opcodes, ": number 0x%02x",
                            record->number);
    }
}

static bool decoder_columns_hold(const struct raw_decoder *decoder)
{
    return decoder->sizes <= decoder->sizes_end && decoder->objects <= decoder->objects_end &&
           decoder->misc <= decoder->misc_end && decoder->address_column <= decoder->address_end;
}

/* One record of any kind; the opcode is at decoder->opcodes. */
static bool decode_long(struct raw_decoder *decoder, struct record *record)
{
    unsigned opcode = *decoder->opcodes;
    unsigned number = opcode & RAW_OPCODE_NUMBER;
    *record = (struct record){
        .number = (uint8_t)number, .shape = call_shapes[number], .kind = (uint8_t)number};
    bool good = record->shape != SHAPE_UNDEFINED ? decode_call(decoder, opcode, record)
                                                 : decode_other(decoder, opcode, record);
    if (!good) return false;
    if (!decoder_columns_hold(decoder))
        return DECODER_FAIL(decoder, RAW_COLUMN_SHORT, decoder->opcodes, "%s", "");
    decoder->opcodes++;
    decoder->records++;
    return true;
}

/* ---- records, the short way ---- */

/* The value of the varint at `at`, or 0; the first byte must not be 0. */
static inline uint64_t masked_varint(const uint8_t *at, unsigned bytes, uint64_t mask)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return ((word << (64 - 8 * bytes)) >> (64 - 7 * bytes)) & mask;
}

/* Decodes records by masks until one needs the long way, `count` are done or a column ends. The positions live in
 * registers meanwhile. Returns how many. */
static uint32_t decode_short_run(struct raw_decoder *decoder, struct record *records,
                                 uint32_t count)
{
    const uint8_t *opcodes = decoder->opcodes, *sizes = decoder->sizes, *objects = decoder->objects;
    const uint8_t *sizes_end = decoder->sizes_end, *objects_end = decoder->objects_end;
    uint64_t births = decoder->births;
    const uint64_t lane = raw_token(decoder->lane, 0);
    /* With addresses a birth has one more operand. */
    const unsigned not_here = decoder->addresses ? PLAN_LONG | PLAN_BIRTH : PLAN_LONG;
    uint32_t done = 0;

    for (; done < count; done++) {
        unsigned opcode = *opcodes;
        unsigned plan = opcode_plan(opcode);
        /* A first byte of 0 means nine bytes, or is no operand of this record. */
        if (plan == 0 || (plan & not_here) != 0 || *sizes == 0 || *objects == 0) break;
        unsigned size_bytes = (unsigned)__builtin_ctz(*sizes) + 1;
        unsigned object_bytes = (unsigned)__builtin_ctz(*objects) + 1;
        uint64_t size_mask = -(uint64_t)(plan & PLAN_SIZE);
        uint64_t own_mask = -(uint64_t)((plan & PLAN_OWN) / PLAN_OWN);
        uint64_t size = masked_varint(sizes, size_bytes, size_mask);
        uint64_t distance = masked_varint(objects, object_bytes, own_mask);
        const uint8_t *sizes_next = sizes + (size_bytes & (unsigned)size_mask);
        const uint8_t *objects_next = objects + (object_bytes & (unsigned)own_mask);
        /* Whatever is wrong here, the long way finds it again and says what it is. */
        if (sizes_next > sizes_end || objects_next > objects_end ||
            (distance & own_mask) >= births + !own_mask || births >= RAW_SERIAL_MAX)
            break;
        struct record *record = &records[done];
        record->number = record->kind = (uint8_t)opcode;
        record->shape = call_shapes[opcode];
        record->count = 0;
        record->structure = 0;
        record->token = (lane + births - distance) & own_mask;
        record->size = size;
        record->operand = 0;
        record->address = 0;
        uint64_t birth = (plan & PLAN_BIRTH) / PLAN_BIRTH;
        births += birth;
        record->serial = births & -birth;
        opcodes++;
        sizes = sizes_next;
        objects = objects_next;
    }
    decoder->opcodes = opcodes;
    decoder->sizes = sizes;
    decoder->objects = objects;
    decoder->births = births;
    decoder->records += done;
    return done;
}

static bool decoder_check_used_up(struct raw_decoder *decoder)
{
    const uint8_t *at = decoder->sizes != decoder->sizes_end       ? decoder->sizes
                        : decoder->objects != decoder->objects_end ? decoder->objects
                        : decoder->misc != decoder->misc_end       ? decoder->misc
                                                                   : decoder->address_column;
    if (at == decoder->address_end && decoder->misc == decoder->misc_end) return true;
    return DECODER_FAIL(decoder, RAW_COLUMN_LONG, at, "%s", "");
}

static uint32_t decode_columns(struct raw_decoder *decoder, struct record *records, uint32_t count)
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

static const uint8_t shape_words[] = {
    [SHAPE_BIRTH] = 1,
    [SHAPE_BIRTH_ALIGNED] = 2,
    [SHAPE_REALLOC] = 2,
    [SHAPE_DEATH] = 1,
    [SHAPE_DEATH_SIZED] = 2,
    [SHAPE_DEATH_ALIGNED] = 2,
    [SHAPE_DEATH_SIZED_ALIGNED] = 3,
    [SHAPE_HEAP] = 3,
};

uint32_t raw_record_words(uint64_t word)
{
    unsigned number = raw_word_number(word);
    if (call_shapes[number] != SHAPE_UNDEFINED) return shape_words[call_shapes[number]];
    switch (number) {
    case RAW_THREAD_BEGIN:
    case RAW_THREAD_END:
    case RAW_THREAD_CACHE_DELETED:
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER: return 1;
    case RAW_LOST:
    case RAW_LOST_STAMPS: return 2;
    case RAW_FAILED: return 4;
    default: return 0;
    }
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
        return DECODER_FAIL(decoder, RAW_OBJECT, decoder->opcodes,
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
            return DECODER_FAIL(decoder, RAW_OPERAND, decoder->opcodes, ": %" PRIu64 " numbers",
                                value);
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
    return !shape_is_birth(shape) || decoder_count_birth(decoder, record, 1, decoder->opcodes);
}

static bool words_take_failed(struct raw_decoder *decoder, struct record *record,
                              const uint64_t *words)
{
    uint64_t kind = raw_word_value(words[0]);
    unsigned shape = kind < RAW_NUMBERS ? call_shapes[kind] : SHAPE_UNDEFINED;
    if (!shape_is_birth(shape))
        return DECODER_FAIL(decoder, RAW_OPERAND, decoder->opcodes,
                            ": a failed call of kind %" PRIu64, kind);
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
                                  raw_stamp_number(value), decoder->opcodes);
    case RAW_LOST:
        record->size = value;
        record->operand = words[1];
        if (!decoder_count_birth(decoder, record, record->operand, decoder->opcodes)) return false;
        record->serial = 0;
        return true;
    case RAW_FAILED: return words_take_failed(decoder, record, words);
    case RAW_LOST_STAMPS:
        return decoder_take_lost_stamps(decoder, record, raw_stamp_structure(value), words[1],
                                        raw_stamp_number(value), decoder->opcodes);
    default: return true;
    }
}

static bool decode_word_record(struct raw_decoder *decoder, struct record *record)
{
    size_t bytes = (size_t)(decoder->address_end - decoder->opcodes);
    uint64_t words[RAW_WORDS_PER_RECORD_MAX] = {0};
    memcpy(words, decoder->opcodes, bytes < sizeof words ? bytes : sizeof words);
    unsigned number = raw_word_number(words[0]);
    uint32_t length = raw_record_words(words[0]);
    if (length == 0)
        return DECODER_FAIL(decoder, RAW_NUMBER, decoder->opcodes, ": number 0x%02x", number);
    if (length * sizeof *words > bytes)
        return DECODER_FAIL(decoder, RAW_COLUMN_SHORT, decoder->opcodes, "%s", "");
    *record = (struct record){
        .number = (uint8_t)number, .shape = call_shapes[number], .kind = (uint8_t)number};
    if (record->shape != SHAPE_UNDEFINED ? !words_take_call(decoder, record, words)
                                         : !words_take_other(decoder, record, words))
        return false;
    decoder->opcodes += length * sizeof *words;
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
                                   : decode_columns(decoder, records, count);
    decoder->left -= done;
    if (decoder->left == 0 && !decoder->words) decoder_check_used_up(decoder);
    return done;
}
