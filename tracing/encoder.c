#include "encoder.h"

#include "../common/call_kind.h"
#include "../common/varint.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const uint8_t shape_of[RAW_NUMBERS] = {
#define SHAPE_ENTRY(number, identifier, name, shape) [number] = SHAPE_##shape,
    CALL_KIND_LIST(SHAPE_ENTRY)
#undef SHAPE_ENTRY
};

/* Where the next entry of each column goes. */
struct columns {
    uint8_t *opcode;
    uint8_t *size;
    uint8_t *object;
    uint8_t *misc;
};

static void put_u16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void put_u32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static void put_u64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

size_t encoder_seal(uint8_t *out, unsigned type, unsigned flags, uint32_t lane, size_t payload,
                    uint32_t records, uint64_t first_record, uint64_t first_birth)
{
    put_u32(out + RAW_CHUNK_HEADER_MAGIC, RAW_CHUNK_MAGIC);
    out[RAW_CHUNK_HEADER_TYPE] = (uint8_t)type;
    out[RAW_CHUNK_HEADER_FLAGS] = (uint8_t)flags;
    put_u16(out + RAW_CHUNK_HEADER_LANE, lane);
    put_u32(out + RAW_CHUNK_HEADER_PAYLOAD, (uint32_t)payload);
    put_u32(out + RAW_CHUNK_HEADER_RECORDS, records);
    put_u64(out + RAW_CHUNK_HEADER_FIRST, first_record);
    put_u64(out + RAW_CHUNK_HEADER_BIRTH, first_birth);
    /* The checksum covers header and payload, which it separates: one hash over both, with the
     * checksum's own place left out. */
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, out, RAW_CHUNK_HEADER_CHECKSUM);
    XXH3_64bits_update(&state, out + RAW_CHUNK_HEADER_BYTES, payload);
    put_u32(out + RAW_CHUNK_HEADER_CHECKSUM, (uint32_t)XXH3_64bits_digest(&state));
    return RAW_CHUNK_HEADER_BYTES + payload;
}

size_t encoder_tick(uint64_t ticks, uint64_t time_ns, uint64_t rss_bytes, uint64_t heap_bytes, uint8_t *out)
{
    uint8_t *at = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *end = varint_put(varint_put(varint_put(at, time_ns), rss_bytes), heap_bytes);
    return encoder_seal(out, RAW_CHUNK_TICK, 0, 0, (size_t)(end - at), 0, ticks, 0);
}

/* FORMAT.md 5.2, "Object". Returns the flag bits of the opcode. */
static unsigned put_object(struct columns *columns, struct encoder_scratch *scratch, uint32_t number,
                           uint64_t births, uint64_t token)
{
    if (token == RAW_TOKEN_UNKNOWN)
        return RAW_OPCODE_UNKNOWN;
    uint32_t lane = raw_token_lane(token);
    uint64_t serial = raw_token_serial(token);
    if (lane == number) {
        columns->object = varint_put(columns->object, births - serial);
        return 0;
    }
    uint64_t coded = serial;
    if (scratch->foreign[lane].epoch == scratch->epoch)
        coded = zigzag((int64_t)(serial - scratch->foreign[lane].serial));
    scratch->foreign[lane].epoch = scratch->epoch;
    scratch->foreign[lane].serial = serial;
    columns->object = varint_put(varint_put(columns->object, lane), coded);
    return RAW_OPCODE_FOREIGN;
}

/* FORMAT.md 5.2: the records that are not calls. Returns the flag bits of the opcode. */
static unsigned put_other(struct encoder_lane *lane, struct columns *columns,
                          struct encoder_scratch *scratch, struct encoder_totals *totals,
                          uint32_t number, const uint64_t *word)
{
    uint64_t value = raw_word_value(*word);
    uint32_t structure = raw_stamp_structure(value);
    uint64_t stamp = raw_stamp_number(value);
    uint8_t *misc = columns->misc;
    unsigned flags = 0;
    switch (raw_word_number(*word)) {
    case RAW_THREAD_BEGIN:
        misc = varint_put(misc, value);
        break;
    case RAW_STAMP_BEFORE:
    case RAW_STAMP_AFTER:
        misc = varint_put(varint_put(misc, structure), stamp - lane->stamps[structure]);
        lane->stamps[structure] = stamp;
        break;
    case RAW_LOST:
        misc = varint_put(varint_put(misc, value), word[1]);
        totals->lost_events += value;
        lane->births += word[1];
        break;
    case RAW_LOST_STAMPS:
        misc = varint_put(varint_put(varint_put(misc, structure), word[1]), stamp);
        break;
    case RAW_FAILED:
        misc = varint_put(misc, value);
        columns->size = varint_put(columns->size, word[1]);
        if (shape_of[value] == SHAPE_BIRTH_ALIGNED)
            misc = varint_put(misc, word[2]);
        if (shape_of[value] == SHAPE_REALLOC)
            flags = put_object(columns, scratch, number, lane->births, word[3]);
        totals->by_kind[value]++;
        break;
    default:
        break;
    }
    columns->misc = misc;
    return flags;
}

/* Words of the record that begins with a word of this number (FORMAT.md 7). */
static unsigned words_of(unsigned number)
{
    static const uint8_t words[SHAPE_HEAP + 1] = {
        [SHAPE_BIRTH] = 1,        [SHAPE_BIRTH_ALIGNED] = 2, [SHAPE_REALLOC] = 2,
        [SHAPE_DEATH] = 1,        [SHAPE_DEATH_SIZED] = 2,   [SHAPE_DEATH_ALIGNED] = 2,
        [SHAPE_DEATH_SIZED_ALIGNED] = 3, [SHAPE_HEAP] = 3};
    switch (number) {
    case RAW_LOST:
    case RAW_LOST_STAMPS:
        return 2;
    case RAW_FAILED:
        return 4;
    default:
        return shape_of[number] ? words[shape_of[number]] : 1;
    }
}

/* A call of any shape but the two simplest. Returns the flag bits of the opcode. */
static unsigned put_call(struct encoder_lane *lane, struct columns *columns,
                         struct encoder_scratch *scratch, uint32_t number, const uint64_t *word)
{
    uint64_t value = raw_word_value(*word);
    unsigned flags = 0;
    switch (shape_of[raw_word_number(*word)]) {
    case SHAPE_BIRTH_ALIGNED:
        columns->size = varint_put(columns->size, value);
        columns->misc = varint_put(columns->misc, word[1]);
        lane->births++;
        break;
    case SHAPE_REALLOC:
        columns->size = varint_put(columns->size, word[1]);
        flags = put_object(columns, scratch, number, lane->births, value);
        lane->births++;
        break;
    case SHAPE_DEATH_SIZED:
        columns->size = varint_put(columns->size, word[1]);
        flags = put_object(columns, scratch, number, lane->births, value);
        break;
    case SHAPE_DEATH_ALIGNED:
        columns->misc = varint_put(columns->misc, word[1]);
        flags = put_object(columns, scratch, number, lane->births, value);
        break;
    case SHAPE_DEATH_SIZED_ALIGNED:
        columns->size = varint_put(columns->size, word[1]);
        columns->misc = varint_put(columns->misc, word[2]);
        flags = put_object(columns, scratch, number, lane->births, value);
        break;
    case SHAPE_HEAP:
        columns->misc = varint_put(columns->misc, value);
        for (uint64_t i = 0; i < value; i++)
            columns->misc = varint_put(columns->misc, word[1 + i]);
        break;
    default:
        break;
    }
    return flags;
}

static void put_records(struct encoder_lane *lane, struct columns *columns,
                        struct encoder_scratch *scratch, struct encoder_totals *totals,
                        uint32_t number, const uint64_t *words, size_t count)
{
    const uint64_t *end = words + count;
    while (words < end) {
        uint64_t word = *words;
        unsigned kind = raw_word_number(word);
        unsigned flags = 0;
        if (shape_of[kind] == SHAPE_BIRTH) {
            columns->size = varint_put(columns->size, raw_word_value(word));
            lane->births++;
            totals->by_kind[kind]++;
            words++;
        } else if (shape_of[kind] == SHAPE_DEATH) {
            flags = put_object(columns, scratch, number, lane->births, raw_word_value(word));
            totals->by_kind[kind]++;
            words++;
        } else if (shape_of[kind]) {
            flags = put_call(lane, columns, scratch, number, words);
            totals->by_kind[kind]++;
            words += words_of(kind);
        } else {
            flags = put_other(lane, columns, scratch, totals, number, words);
            words += words_of(kind);
        }
        *columns->opcode++ = (uint8_t)(kind | flags);
    }
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

size_t encoder_chunk(struct encoder_lane *lane, uint32_t number, const uint64_t *words, size_t count,
                     struct encoder_scratch *scratch, struct encoder_totals *totals, uint8_t *out)
{
    if (count == 0)
        return 0;
    bool key = lane->chunks++ % RAW_KEY_CHUNK_EVERY == 0;
    if (key)
        memset(lane->stamps, 0, sizeof lane->stamps);
    uint64_t first_birth = lane->births;
    scratch->epoch++;
    struct columns columns = {scratch->opcodes, scratch->sizes, scratch->objects, scratch->misc};
    put_records(lane, &columns, scratch, totals, number, words, count);

    size_t opcodes = (size_t)(columns.opcode - scratch->opcodes);
    size_t sizes = (size_t)(columns.size - scratch->sizes);
    size_t objects = (size_t)(columns.object - scratch->objects);
    size_t misc = (size_t)(columns.misc - scratch->misc);
    uint8_t *payload = out + RAW_CHUNK_HEADER_BYTES;
    uint8_t *at = varint_put(payload, opcodes);
    at = varint_put(at, sizes);
    at = varint_put(at, objects);
    at = varint_put(at, misc);
    at = varint_put(at, 0);
    at = put_bytes(at, scratch->opcodes, opcodes);
    at = put_bytes(at, scratch->sizes, sizes);
    at = put_bytes(at, scratch->objects, objects);
    at = put_bytes(at, scratch->misc, misc);

    uint64_t first_record = lane->records;
    lane->records += opcodes;
    return encoder_seal(out, RAW_CHUNK_RECORDS, key ? RAW_CHUNK_FLAG_KEY : 0, number,
                        (size_t)(at - payload), (uint32_t)opcodes, first_record, first_birth);
}
