#include "encoder.h"

#include "../common/bytes.h"
#include "../common/call_kind.h"
#include "../common/checksum.h"
#include "../common/varint.h"
#include "record_words.h"

#include <stdbool.h>
#include <string.h>

static const uint8_t shape_of[RAW_NUMBERS] = {
#define SHAPE_ENTRY(number, identifier, name, shape) [number] = SHAPE_##shape,
    CALL_KIND_LIST(SHAPE_ENTRY)
#undef SHAPE_ENTRY
};

size_t encoder_seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                    uint32_t records, uint64_t first_record, uint64_t first_birth)
{
    bytes_put32(out + RAW_CHUNK_HEADER_MAGIC, RAW_CHUNK_MAGIC);
    out[RAW_CHUNK_HEADER_TYPE] = (uint8_t)type;
    out[RAW_CHUNK_HEADER_FLAGS] = (uint8_t)flags;
    bytes_put16(out + RAW_CHUNK_HEADER_LANE, (uint16_t)lane);
    bytes_put32(out + RAW_CHUNK_HEADER_PAYLOAD, (uint32_t)payload);
    bytes_put32(out + RAW_CHUNK_HEADER_RECORDS, records);
    bytes_put64(out + RAW_CHUNK_HEADER_FIRST, first_record);
    bytes_put64(out + RAW_CHUNK_HEADER_BIRTH, first_birth);
    bytes_put32(
        out + RAW_CHUNK_HEADER_CHECKSUM,
        checksum_of_two(out, RAW_CHUNK_HEADER_CHECKSUM, out + RAW_CHUNK_HEADER_BYTES, payload));
    return RAW_CHUNK_HEADER_BYTES + payload;
}

size_t encoder_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes,
                    uint8_t *out)
{
    uint8_t *at = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *end = varint_put(varint_put(varint_put(at, time_ns), rss_bytes), heap_bytes);
    return encoder_seal(out, RAW_CHUNK_TICK, 0, 0, (size_t)(end - at), 0, ticks, 0);
}

/* What one chunk's encoding works on. */
struct encoding {
    struct encoder_lane *lane;
    struct encoder_foreign *foreign;
    uint32_t number;              /* of the lane */
    uint8_t slot_of[RAW_NUMBERS]; /* 1 + slot of a kind, 0: none */
    /* Kinds of the first slots if they have no further operands, else a number that no record
     * has. */
    uint8_t plain_death, plain_birth;
    uint32_t counts[RAW_NUMBERS];
    uint64_t lost_events;
};

/* The short codes of each slot, FORMAT.md 5.2. */
static const struct slot_codes {
    uint8_t one_first, two_first, three_first;
    uint32_t two_from;   /* smallest operand with two bytes */
    uint32_t three_from; /* smallest operand with three */
    uint32_t limit;      /* smallest that needs the general code */
} slot_codes[RAW_SLOTS] = {
    {RAW_CODE_DEATH_1, RAW_CODE_DEATH_1 + 48, RAW_CODE_DEATH_1 + 120, 48, 48 + 72 * 256,
     48 + 72 * 256 + 2 * 65536},
    {RAW_CODE_DEATH_2, RAW_CODE_DEATH_2 + 16, RAW_CODE_DEATH_2 + 28, 16, 16 + 12 * 256,
     16 + 12 * 256 + 65536},
    {RAW_CODE_BIRTH_1, RAW_CODE_BIRTH_1 + 44, RAW_CODE_BIRTH_1 + 56, 0, 12 * 256, 65536},
    {RAW_CODE_BIRTH_2, RAW_CODE_BIRTH_2 + 24, RAW_CODE_BIRTH_2 + 32, 0, 8 * 256, 65536},
};
/* Multiples of 8 below this number times 8 take one byte in the slots of births. */
static const uint8_t eights[RAW_SLOTS] = {0, 0, 44, 24};

/* `yes` where `condition` holds, else `no`; by masks, because the lengths of codes follow no
 * pattern that a processor could predict. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & -(uint32_t)condition);
}

/* The two bytes of a code whose operand is `more` above the smallest of `two_first`: the sum, upper
 * byte first. */
static inline uint32_t two_bytes(unsigned two_first, uint32_t more)
{
    uint16_t sum = (uint16_t)((two_first << 8) + more);
    return (uint16_t)(sum >> 8 | sum << 8);
}

/* All of the code is stored at once, so that its length needs no branch. The operand must be
 * below the slot's limit. */
static inline __attribute__((always_inline)) uint8_t *put_short_death(uint8_t *at, unsigned slot,
                                                                      uint32_t distance)
{
    const struct slot_codes *codes = &slot_codes[slot];
    bool is_two = distance >= codes->two_from;
    bool is_three = distance >= codes->three_from;
    uint32_t three = distance - codes->three_from + ((uint32_t)codes->three_first << 16);
    uint32_t word = choose(is_two, two_bytes(codes->two_first, distance - codes->two_from),
                           codes->one_first + distance);
    word = choose(is_three, three >> 16 | three << 8, word);
    bytes_put32(at, word);
    return at + 1 + is_two + is_three;
}

static inline __attribute__((always_inline)) uint8_t *put_short_birth(uint8_t *at, unsigned slot,
                                                                      uint32_t size)
{
    const struct slot_codes *codes = &slot_codes[slot];
    bool is_one = ((size & 7) == 0) & (size < 8u * eights[slot]);
    bool is_three = size >= codes->three_from;
    uint32_t word = choose(is_three, codes->three_first | size << 8,
                           (codes->two_first + (size >> 8)) | (size & 0xff) << 8);
    word = choose(is_one, codes->one_first + (size >> 3), word);
    bytes_put32(at, word);
    return at + 2 - is_one + is_three;
}

/* FORMAT.md 5.2, "Object", after the opcode byte, whose flags it sets. */
static uint8_t *put_object(struct encoding *encoding, uint8_t *opcode, uint8_t *at, uint64_t token)
{
    if (token == RAW_TOKEN_UNKNOWN) {
        *opcode |= RAW_OPCODE_UNKNOWN;
        return at;
    }
    uint32_t number = raw_token_lane(token);
    uint64_t serial = raw_token_serial(token);
    if (number == encoding->number) return varint_put(at, encoding->lane->births - serial);
    struct encoder_foreign *foreign = encoding->foreign;
    uint64_t coded = serial;
    if (foreign->lanes[number].epoch == foreign->epoch)
        coded = zigzag((int64_t)(serial - foreign->lanes[number].serial));
    foreign->lanes[number].epoch = foreign->latest_epoch = foreign->epoch;
    foreign->lanes[number].serial = serial;
    foreign->latest_lane = number;
    *opcode |= RAW_OPCODE_FOREIGN;
    return varint_put(varint_put(at, number), coded);
}

/* The operands of a call behind its main one, as varints. */
static uint8_t *put_other_operands(uint8_t *at, unsigned shape, const uint64_t *word)
{
    if (shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_ALIGNED)
        return varint_put(at, word[1]);
    if (shape == SHAPE_DEATH_SIZED_ALIGNED) return varint_put(varint_put(at, word[1]), word[2]);
    return at;
}

/* A death with code 241, if its object is of the lane of the latest foreign one; else NULL. */
static uint8_t *put_foreign_death(struct encoding *encoding, uint8_t *at, uint64_t token)
{
    struct encoder_foreign *foreign = encoding->foreign;
    uint32_t number = raw_token_lane(token);
    if (foreign->latest_epoch != foreign->epoch || number != foreign->latest_lane) return NULL;
    uint64_t serial = raw_token_serial(token);
    int64_t difference = (int64_t)(serial - foreign->lanes[number].serial);
    foreign->lanes[number].serial = serial;
    *at = RAW_CODE_FOREIGN;
    return varint_put(at + 1, zigzag(difference));
}

static uint8_t *put_failed(struct encoding *encoding, uint8_t *opcode, uint8_t *at,
                           const uint64_t *word)
{
    uint64_t kind = raw_word_value(*word);
    encoding->counts[kind]++;
    at = varint_put(at, kind);
    if (shape_of[kind] == SHAPE_REALLOC)
        return varint_put(put_object(encoding, opcode, at, word[3]), word[1]);
    at = varint_put(at, word[1]);
    return shape_of[kind] == SHAPE_BIRTH_ALIGNED ? varint_put(at, word[2]) : at;
}

static uint8_t *put_stamp(struct encoder_lane *lane, uint8_t *at, uint64_t value)
{
    uint32_t structure = raw_stamp_structure(value);
    uint64_t number = raw_stamp_number(value);
    at = varint_put(varint_put(at, structure), number - lane->stamps[structure]);
    lane->stamps[structure] = number;
    return at;
}

/* Code 242 for a record that is not a call. */
static uint8_t *put_other(struct encoding *encoding, uint8_t *opcode, uint8_t *at,
                          const uint64_t *word)
{
    uint64_t value = raw_word_value(*word);
    switch (raw_word_number(*word)) {
    case RAW_THREAD_BEGIN: return varint_put(at, value);
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER: return put_stamp(encoding->lane, at, value);
    case RAW_LOST:
        encoding->lost_events += value;
        encoding->lane->births += word[1];
        return varint_put(varint_put(at, value), word[1]);
    case RAW_LOST_STAMPS:
        at = varint_put(varint_put(at, raw_stamp_structure(value)), word[1]);
        return varint_put(at, raw_stamp_number(value));
    case RAW_FAILED: return put_failed(encoding, opcode, at, word);
    default: return at;
    }
}

static uint8_t *put_heap_call(uint8_t *at, const uint64_t *word)
{
    uint64_t count = raw_word_value(*word);
    at = varint_put(at, count);
    for (uint64_t i = 0; i < count; i++)
        at = varint_put(at, word[1 + i]);
    return at;
}

/* Code 242. */
static uint8_t *put_general(struct encoding *encoding, uint8_t *at, const uint64_t *word)
{
    unsigned kind = raw_word_number(*word);
    unsigned shape = shape_of[kind];
    uint64_t value = raw_word_value(*word);
    uint8_t *opcode = at + 1;
    *at++ = RAW_CODE_GENERAL;
    *at++ = (uint8_t)kind;
    switch (shape) {
    case SHAPE_UNDEFINED: return put_other(encoding, opcode, at, word);
    case SHAPE_HEAP: return put_heap_call(at, word);
    case SHAPE_BIRTH:
    case SHAPE_BIRTH_ALIGNED: return put_other_operands(varint_put(at, value), shape, word);
    case SHAPE_REALLOC: return varint_put(put_object(encoding, opcode, at, value), word[1]);
    default: return put_other_operands(put_object(encoding, opcode, at, value), shape, word);
    }
}

/* The shortest code of a call whose kind has a slot; NULL if only the general one will do. */
static inline uint8_t *put_in_slot(struct encoding *encoding, uint8_t *at, unsigned slot,
                                   const uint64_t *word)
{
    const uint64_t value = raw_word_value(*word);
    const uint64_t limit = slot_codes[slot].limit;
    if (slot >= RAW_SLOT_BIRTH_1)
        return value < limit ? put_short_birth(at, slot, (uint32_t)value) : NULL;
    if (value == RAW_TOKEN_UNKNOWN) return NULL;
    if (raw_token_lane(value) != encoding->number)
        return slot == RAW_SLOT_DEATH_1 ? put_foreign_death(encoding, at, value) : NULL;
    uint64_t distance = encoding->lane->births - raw_token_serial(value);
    return distance < limit ? put_short_death(at, slot, (uint32_t)distance) : NULL;
}

/* One record of any kind. */
static uint8_t *put_record(struct encoding *encoding, uint8_t *at, const uint64_t *word)
{
    unsigned kind = raw_word_number(*word);
    unsigned shape = shape_of[kind];
    unsigned slot = encoding->slot_of[kind];
    uint8_t *end = slot ? put_in_slot(encoding, at, slot - 1, word) : NULL;
    if (!end)
        end = put_general(encoding, at, word);
    else
        end = put_other_operands(end, shape, word);
    encoding->counts[kind]++;
    encoding->lane->births +=
        shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_REALLOC;
    return end;
}

/* Most records are births and deaths of the first slots with codes of one or two bytes: these are
 * encoded here in few instructions, with what they need in registers. */
static uint8_t *put_records(struct encoding *encoding, uint8_t *at, const uint64_t *words,
                            size_t count, uint32_t *records)
{
    const struct slot_codes death = slot_codes[RAW_SLOT_DEATH_1];
    const struct slot_codes birth = slot_codes[RAW_SLOT_BIRTH_1];
    const uint32_t birth_ones = 8u * eights[RAW_SLOT_BIRTH_1];
    const uint64_t lane = raw_token(encoding->number, 0);
    const unsigned death_kind = encoding->plain_death;
    const unsigned birth_kind = encoding->plain_birth;
    const uint64_t *end = words + count;
    uint64_t births = encoding->lane->births;
    uint32_t births_here = 0, deaths_here = 0, others_here = 0;
    while (words < end) {
        uint64_t value = raw_word_value(*words);
        unsigned kind = raw_word_number(*words);
        /* Of an object of another lane this is beyond the limit; of no object it is `births`. */
        uint64_t distance = births - (value - lane);
        if (kind == birth_kind && value < birth.three_from) {
            uint32_t size = (uint32_t)value;
            bool is_one = ((size & 7) == 0) & (size < birth_ones);
            bytes_put16(at, (uint16_t)choose(is_one, birth.one_first + (size >> 3),
                                             two_bytes(birth.two_first, size)));
            at += 2 - is_one;
            births++;
            births_here++;
            words++;
        } else if (kind == death_kind && distance < death.limit && distance < births) {
            at = put_short_death(at, RAW_SLOT_DEATH_1, (uint32_t)distance);
            deaths_here++;
            words++;
        } else {
            encoding->lane->births = births;
            at = put_record(encoding, at, words);
            births = encoding->lane->births;
            others_here++;
            words += record_words(kind, shape_of[kind]);
        }
    }
    encoding->lane->births = births;
    encoding->counts[birth_kind] += births_here;
    encoding->counts[death_kind] += deaths_here;
    *records = births_here + deaths_here + others_here;
    return at;
}

/* The two most frequent kinds of this chunk with an accepted shape, for the next one. A kind
 * keeps its slot while it is among the two, because changing codes compress badly. */
static void choose_slots(struct encoding *encoding, unsigned first_slot, unsigned first_shape,
                         unsigned last_shape)
{
    uint8_t *slots = encoding->lane->slots + first_slot;
    unsigned best[2] = {0, 0};
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        if (shape_of[kind] < first_shape || shape_of[kind] > last_shape ||
            encoding->counts[kind] == 0)
            continue;
        if (best[0] == 0 || encoding->counts[kind] > encoding->counts[best[0]]) {
            best[1] = best[0];
            best[0] = kind;
        } else if (best[1] == 0 || encoding->counts[kind] > encoding->counts[best[1]]) {
            best[1] = kind;
        }
    }
    if (best[0] == 0) return;
    /* Swapping the two pays only when one is clearly ahead. */
    if (best[1] && slots[0] == best[1] && slots[1] == best[0] &&
        encoding->counts[best[0]] < 2 * encoding->counts[best[1]])
        return;
    slots[0] = (uint8_t)best[0];
    if (best[1])
        slots[1] = (uint8_t)best[1];
    else if (slots[1] == best[0])
        slots[1] = 0;
}

static void finish_counts(struct encoding *encoding, struct encoder_totals *totals)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        totals->by_kind[kind] += encoding->counts[kind];
    totals->lost_events += encoding->lost_events;
    choose_slots(encoding, RAW_SLOT_DEATH_1, SHAPE_DEATH, SHAPE_DEATH_SIZED_ALIGNED);
    choose_slots(encoding, RAW_SLOT_BIRTH_1, SHAPE_BIRTH, SHAPE_BIRTH_ALIGNED);
}

size_t encoder_chunk(struct encoder_lane *lane, uint32_t number, const uint64_t *words,
                     size_t count, struct encoder_foreign *foreign, struct encoder_totals *totals,
                     uint8_t *out)
{
    if (count == 0) return 0;
    struct encoding encoding = {.lane = lane, .foreign = foreign, .number = number};
    bool key = lane->chunks++ % RAW_KEY_CHUNK_EVERY == 0;
    if (key) memset(lane->stamps, 0, sizeof lane->stamps);
    if (lane->chunks == 1)
        memcpy(lane->slots, (uint8_t[RAW_SLOTS]){CALL_FREE, 0, CALL_MALLOC, 0}, RAW_SLOTS);
    for (unsigned slot = 0; slot < RAW_SLOTS; slot++)
        if (lane->slots[slot]) encoding.slot_of[lane->slots[slot]] = (uint8_t)(slot + 1);
    encoding.plain_death =
        shape_of[lane->slots[RAW_SLOT_DEATH_1]] == SHAPE_DEATH ? lane->slots[RAW_SLOT_DEATH_1] : 0;
    encoding.plain_birth =
        shape_of[lane->slots[RAW_SLOT_BIRTH_1]] == SHAPE_BIRTH ? lane->slots[RAW_SLOT_BIRTH_1] : 0;
    foreign->epoch++;

    uint64_t first_birth = lane->births;
    uint32_t records;
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *codes = payload + RAW_PAYLOAD_CODES;
    memcpy(payload, lane->slots, RAW_SLOTS);
    uint8_t *end = put_records(&encoding, codes, words, count, &records);
    bytes_put32(payload + RAW_SLOTS, (uint32_t)(end - codes));
    finish_counts(&encoding, totals);

    uint64_t first_record = lane->records;
    lane->records += records;
    return encoder_seal(out, RAW_CHUNK_RECORDS, key ? RAW_CHUNK_FLAG_KEY : 0, number,
                        (size_t)(end - payload), records, first_record, first_birth);
}
