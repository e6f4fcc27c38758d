/* The encoder of the capture core: what it makes of event words (FORMAT.md 7), read back with the decoder, is what
 * the words said. */
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/call_kind.h"
#include "common/call_table.h"
#include "tracing/raw_decoder.h"

extern "C" {
#include "tracing/encoder.h"
}

namespace {

constexpr size_t kGuardBytes = 64;
constexpr uint8_t kGuard = 0xa5;

uint64_t little_endian(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

std::string hex(const uint8_t *bytes, size_t count)
{
    std::string text;
    char one[4];
    for (size_t i = 0; i < count; i++) {
        snprintf(one, sizeof one, i ? " %02x" : "%02x", bytes[i]);
        text += one;
    }
    return text;
}

/* What the encoder's caller keeps for a stream. */
struct Stream {
    encoder_totals totals = {};
    std::unique_ptr<encoder_foreign> foreign{new encoder_foreign()};
};

/* One chunk, with its header taken apart and checked. */
struct Chunk {
    std::vector<uint8_t> bytes;
    raw_chunk chunk = {};

    Chunk(Stream *stream, encoder_lane *lane, uint32_t number, const std::vector<uint64_t> &words)
    {
        size_t room = ENCODER_CHUNK_BYTES_MAX(words.size());
        bytes.assign(room + kGuardBytes + RAW_CHUNK_SLACK, kGuard);
        size_t size = encoder_chunk(lane, number, words.data(), words.size(), stream->foreign.get(),
                                    &stream->totals, bytes.data());
        EXPECT_LE(size, room);
        for (size_t i = 0; i < kGuardBytes; i++)
            EXPECT_EQ(bytes[room + i], kGuard) << "a store " << i << " bytes behind the room";
        const uint8_t *header = bytes.data();
        EXPECT_EQ(memcmp(header, "MTRC", 4), 0);
        chunk.type = header[4];
        chunk.key = header[5] & 1;
        chunk.lane = static_cast<uint32_t>(little_endian(header + 6, 2));
        chunk.payload_bytes = static_cast<uint32_t>(little_endian(header + 8, 4));
        chunk.records = static_cast<uint32_t>(little_endian(header + 12, 4));
        chunk.first_record = little_endian(header + 16, 8);
        chunk.first_birth = little_endian(header + 24, 8);
        chunk.payload = bytes.data() + RAW_CHUNK_HEADER_BYTES;
        EXPECT_EQ(chunk.type, RAW_CHUNK_RECORDS);
        EXPECT_EQ(chunk.lane, number);
        EXPECT_EQ(size, RAW_CHUNK_HEADER_BYTES + chunk.payload_bytes);
        std::string covered(reinterpret_cast<const char *>(header), 32);
        covered.append(reinterpret_cast<const char *>(chunk.payload), chunk.payload_bytes);
        EXPECT_EQ(little_endian(header + 32, 4),
                  XXH3_64bits(covered.data(), covered.size()) & 0xffffffff);
    }
};

std::vector<record> decode(raw_decoder *decoder, const Chunk &chunk)
{
    std::vector<record> records(chunk.chunk.records + 1);
    raw_decoder_open(decoder, &chunk.chunk);
    uint32_t done = 0;
    while (uint32_t count =
               raw_decoder_next(decoder, &records[done], chunk.chunk.records + 1 - done))
        done += count;
    char text[512];
    EXPECT_FALSE(error_is_set(&decoder->error)) << error_text(&decoder->error, text, sizeof text);
    records.resize(done);
    return records;
}

void expect_same(const record &wanted, const record &got, size_t index)
{
    EXPECT_EQ(wanted.number, got.number) << "record " << index;
    EXPECT_EQ(wanted.shape, got.shape) << "record " << index;
    EXPECT_EQ(wanted.kind, got.kind) << "record " << index;
    EXPECT_EQ(wanted.count, got.count) << "record " << index;
    EXPECT_EQ(wanted.structure, got.structure) << "record " << index;
    EXPECT_EQ(wanted.token, got.token) << "record " << index;
    EXPECT_EQ(wanted.size, got.size) << "record " << index;
    EXPECT_EQ(wanted.operand, got.operand) << "record " << index;
    EXPECT_EQ(wanted.serial, got.serial) << "record " << index;
    EXPECT_EQ(wanted.address, got.address) << "record " << index;
}

/* A lane that does what comes to mind. */
class Lane {
  public:
    uint32_t number;
    encoder_lane encoder = {};
    raw_decoder decoder;
    std::vector<uint64_t> words; /* of the next chunk */
    std::vector<record> wanted;
    uint64_t births = 0;
    uint64_t by_kind[RAW_NUMBERS] = {};
    uint64_t lost = 0;

    Lane(uint32_t lane_number, uint64_t seed) : number(lane_number), random_(seed)
    {
        raw_decoder_init(&decoder, number, false);
    }
    ~Lane() { raw_decoder_free(&decoder); }
    Lane(const Lane &) = delete;

    uint64_t random(uint64_t below) { return random_() % below; }

    /* A number of any length up to `bits` bits; short ones as often as long ones. */
    uint64_t number_of(unsigned bits)
    {
        unsigned length = static_cast<unsigned>(random(bits + 1));
        return length == 0 ? 0 : random_() >> (64 - length);
    }

    uint64_t size()
    {
        switch (random(8)) {
        case 0: return number_of(58);
        case 1: return RAW_WORD_VALUE_MAX;
        case 2: return random(70000);
        default: return random(2) ? random(64) * 8 : random(5000);
        }
    }

    uint64_t object()
    {
        uint64_t kind = random(16);
        if (kind == 0 || births == 0) return RAW_TOKEN_UNKNOWN;
        if (kind < 5) return foreign_object();
        if (kind < 7) return raw_token(number, births - random(births)); /* any at all */
        return raw_token(number, births - random(births < 300 ? births : 300));
    }

    /* Of few lanes mostly, with serials that are near each other or not. */
    uint64_t foreign_object()
    {
        uint32_t other = random(4) ? (number + 1 + static_cast<uint32_t>(random(2))) & 0xffff
                                   : static_cast<uint32_t>(random(RAW_LANES_MAX));
        if (other == number) other ^= 1;
        uint64_t serial = random(3) ? 1000000 + random(1000) : number_of(RAW_SERIAL_BITS);
        return raw_token(other, serial ? serial : RAW_SERIAL_MAX);
    }

    void put(const record &one, std::initializer_list<uint64_t> further)
    {
        wanted.push_back(one);
        words.insert(words.end(), further);
        EXPECT_EQ(raw_record_words(*further.begin()), further.size());
    }

    void call(unsigned kind)
    {
        record one = {};
        one.number = one.kind = static_cast<uint8_t>(kind);
        one.shape = call_shapes[kind];
        by_kind[kind]++;
        switch (one.shape) {
        case SHAPE_BIRTH:
            one.size = size();
            one.serial = ++births;
            return put(one, {raw_word(kind, one.size)});
        case SHAPE_BIRTH_ALIGNED:
            one.size = size();
            one.operand = number_of(64);
            one.serial = ++births;
            return put(one, {raw_word(kind, one.size), one.operand});
        case SHAPE_REALLOC:
            one.token = object();
            one.size = random(2) ? size() : number_of(64);
            one.serial = ++births;
            return put(one, {raw_word(kind, one.token), one.size});
        case SHAPE_DEATH: one.token = object(); return put(one, {raw_word(kind, one.token)});
        case SHAPE_DEATH_SIZED:
            one.token = object();
            one.size = number_of(64);
            return put(one, {raw_word(kind, one.token), one.size});
        case SHAPE_DEATH_ALIGNED:
            one.token = object();
            one.operand = number_of(64);
            return put(one, {raw_word(kind, one.token), one.operand});
        case SHAPE_DEATH_SIZED_ALIGNED:
            one.token = object();
            one.size = number_of(64);
            one.operand = number_of(64);
            return put(one, {raw_word(kind, one.token), one.size, one.operand});
        default: break;
        }
        ASSERT_EQ(one.shape, SHAPE_HEAP);
        one.count = static_cast<uint8_t>(random(3));
        one.size = one.count > 0 ? number_of(64) : 0;
        one.operand = one.count > 1 ? number_of(64) : 0;
        put(one, {raw_word(kind, one.count), one.size, one.operand});
    }

    void failed(unsigned kind)
    {
        record one = {};
        one.number = RAW_FAILED;
        one.kind = static_cast<uint8_t>(kind);
        one.size = number_of(64);
        if (call_shapes[kind] == SHAPE_BIRTH_ALIGNED) one.operand = number_of(64);
        if (call_shapes[kind] == SHAPE_REALLOC) one.token = object();
        by_kind[kind]++;
        put(one, {raw_word(RAW_FAILED, kind), one.size, one.operand, one.token});
    }

    void stamp(unsigned record_number)
    {
        record one = {};
        one.number = one.kind = static_cast<uint8_t>(record_number);
        one.structure = random(3) ? static_cast<uint32_t>(random(RAW_SIZE_CLASSES_MAX))
                                  : RAW_STRUCTURE_PAGE_HEAP;
        uint64_t &latest = stamps_[one.structure];
        latest += 1 + (random(50) ? random(200) : number_of(40));
        one.size = latest;
        put(one, {raw_word(record_number, raw_stamp_value(one.structure, latest))});
    }

    void other()
    {
        record one = {};
        switch (random(8)) {
        case 0:
            one.number = one.kind = RAW_THREAD_BEGIN;
            one.operand = number_of(31);
            return put(one, {raw_word(RAW_THREAD_BEGIN, one.operand)});
        case 1:
            one.number = one.kind = RAW_THREAD_END;
            return put(one, {raw_word(RAW_THREAD_END, 0)});
        case 2:
            one.number = one.kind = RAW_THREAD_CACHE_DELETED;
            return put(one, {raw_word(RAW_THREAD_CACHE_DELETED, 0)});
        case 3:
            one.number = one.kind = RAW_LOST;
            one.operand = number_of(34);
            one.size = one.operand + random(1000);
            births += one.operand;
            lost += one.size;
            return put(one, {raw_word(RAW_LOST, one.size), one.operand});
        case 4:
            one.number = one.kind = RAW_LOST_STAMPS;
            one.structure = RAW_STRUCTURE_PAGE_HEAP;
            one.size = 1 + number_of(40);
            one.operand = 1 + number_of(40);
            return put(one, {raw_word(RAW_LOST_STAMPS, raw_stamp_value(one.structure, one.operand)),
                             one.size});
        default: {
            unsigned birth = 1 + static_cast<unsigned>(random(CALL_REALLOC_NULL));
            return failed(random(2) ? static_cast<unsigned>(CALL_REALLOC_MOVED) : birth);
        }
        }
    }

    /* `frequent`: two births and two deaths that most calls are, and that differ from chunk to chunk. */
    void step(const unsigned *frequent)
    {
        uint64_t what = random(100);
        if (what < 70)
            call(frequent[random(4)]);
        else if (what < 85)
            call(1 + static_cast<unsigned>(random(44)));
        else if (what < 95)
            stamp(random(2) ? RAW_STAMP_BEFORE : RAW_STAMP_AFTER);
        else
            other();
    }

    void cut(Stream *stream)
    {
        if (words.empty()) return;
        uint64_t first_record = encoder.records;
        Chunk chunk(stream, &encoder, number, words);
        EXPECT_EQ(chunk.chunk.first_record, first_record);
        EXPECT_EQ(chunk.chunk.key, chunks_ % RAW_KEY_CHUNK_EVERY == 0);
        ASSERT_EQ(chunk.chunk.records, wanted.size());
        std::vector<record> got = decode(&decoder, chunk);
        ASSERT_EQ(got.size(), wanted.size());
        for (size_t i = 0; i < got.size(); i++)
            expect_same(wanted[i], got[i], i);
        EXPECT_EQ(encoder.births, births);
        EXPECT_EQ(decoder.births, births);
        slots_seen += memcmp(chunk.chunk.payload, last_slots_, 4) != 0;
        memcpy(last_slots_, chunk.chunk.payload, 4);
        words.clear();
        wanted.clear();
        chunks_++;
    }

    unsigned slots_seen = 0; /* how often the slots of a chunk were others than before */

  private:
    std::mt19937_64 random_;
    uint64_t stamps_[RAW_STRUCTURES] = {};
    uint64_t chunks_ = 0;
    uint8_t last_slots_[4] = {};
};

const unsigned births_of[] = {CALL_MALLOC, CALL_CALLOC, CALL_NEW, CALL_NEW_ARRAY,
                              CALL_POSIX_MEMALIGN};
const unsigned deaths_of[] = {CALL_FREE, CALL_DELETE, CALL_DELETE_SIZED, CALL_FREE_ALIGNED_SIZED,
                              CALL_DELETE_ALIGNED};

void run_seed(uint64_t seed)
{
    Stream stream;
    std::vector<std::unique_ptr<Lane>> lanes;
    for (uint32_t number : {0u, 1u, 700u, 65535u})
        lanes.emplace_back(new Lane(number, seed * 4 + lanes.size() + 1));
    for (unsigned round = 0; round < 4 * (RAW_KEY_CHUNK_EVERY + 10); round++) {
        Lane *lane = lanes[round % lanes.size()].get();
        unsigned phase = round / 32; /* the program's habits change */
        unsigned frequent[] = {births_of[phase % 5], deaths_of[phase % 5],
                               births_of[(phase + 1) % 5], deaths_of[(phase + 2) % 5]};
        size_t words = 1 + lane->random(lane->random(4) ? 2044 : 10);
        while (lane->words.size() < words)
            lane->step(frequent);
        lane->cut(&stream);
        if (testing::Test::HasFailure()) {
            ADD_FAILURE() << "seed " << seed << ", chunk " << round << ", lane " << lane->number;
            return;
        }
    }
    uint64_t lost = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        uint64_t all = 0;
        for (auto &lane : lanes)
            all += lane->by_kind[kind];
        EXPECT_EQ(stream.totals.by_kind[kind], all) << "kind " << kind << ", seed " << seed;
    }
    for (auto &lane : lanes) {
        lost += lane->lost;
        EXPECT_GT(lane->slots_seen, 3u);
    }
    EXPECT_EQ(stream.totals.lost_events, lost);
}

TEST(Encoder, WhatItWritesIsWhatTheDecoderReads)
{
    for (uint64_t seed = 1; seed <= 12 && !HasFailure(); seed++)
        run_seed(seed);
}

TEST(Encoder, ExampleOfTheFormat)
{
    Stream stream;
    encoder_lane lane = {};
    std::vector<uint64_t> words = {
        raw_word(RAW_THREAD_BEGIN, 4711),
        raw_word(RAW_STAMP_BEFORE, raw_stamp_value(3, 1)),
        raw_word(RAW_STAMP_BEFORE, raw_stamp_value(RAW_STRUCTURE_PAGE_HEAP, 1)),
        raw_word(CALL_MALLOC, 24),
        raw_word(CALL_MALLOC, 300),
        raw_word(CALL_FREE, raw_token(0, 1)),
    };
    Chunk chunk(&stream, &lane, 0, words);
    EXPECT_EQ(hex(chunk.chunk.payload, chunk.chunk.payload_bytes), "15 00 01 00 11 00 00 00 "
                                                                   "f2 30 9e 49 "
                                                                   "f2 33 07 03 "
                                                                   "f2 33 fe 03 03 "
                                                                   "9a "
                                                                   "c4 2c "
                                                                   "01");
    EXPECT_EQ(chunk.chunk.records, 6u);
    EXPECT_TRUE(chunk.chunk.key);
    EXPECT_EQ(lane.births, 2u);
}

/* As many bytes as words can be made to take. */
void fill_with(const std::vector<uint64_t> &one_record, size_t count)
{
    Stream stream;
    encoder_lane lane = {};
    std::vector<uint64_t> words;
    for (size_t i = 0; i < count; i++)
        words.insert(words.end(), one_record.begin(), one_record.end());
    Chunk chunk(&stream, &lane, 65534, words);
    EXPECT_EQ(chunk.chunk.records, count);
}

TEST(Encoder, NoChunkIsLongerThanItsRoom)
{
    uint64_t all = ~uint64_t{0};
    uint64_t size = RAW_WORD_VALUE_MAX;
    uint64_t foreign = raw_token(65535, RAW_SERIAL_MAX);
    for (size_t count : {1, 2, 3, 2044}) {
        fill_with({raw_word(CALL_MALLOC, size)}, count);
        fill_with({raw_word(CALL_NEW, size)}, count);
        fill_with({raw_word(CALL_MEMALIGN, size), all}, count);
        fill_with({raw_word(CALL_REALLOC_MOVED, foreign), all}, count);
        fill_with({raw_word(CALL_FREE, foreign)}, count);
        fill_with({raw_word(CALL_DELETE_SIZED, foreign), all}, count);
        fill_with({raw_word(CALL_DELETE_SIZED_ALIGNED, foreign), all, all}, count);
        fill_with({raw_word(CALL_MALLOPT, 2), all, all}, count);
        fill_with({raw_word(RAW_LOST, size), all}, count);
        fill_with({raw_word(RAW_LOST_STAMPS, raw_stamp_value(255, (uint64_t{1} << 50) - 1)), all},
                  count);
        fill_with({raw_word(RAW_FAILED, CALL_POSIX_MEMALIGN), all, all, 0}, count);
        fill_with({raw_word(RAW_FAILED, CALL_REALLOC_MOVED), all, 0, foreign}, count);
    }
}

/* Deaths in other lanes that never repeat, and that are as far from each other as can be. */
TEST(Encoder, ForeignObjectsOfManyLanes)
{
    Stream stream;
    encoder_lane lane = {};
    raw_decoder decoder;
    raw_decoder_init(&decoder, 9, false);
    for (unsigned kind : {CALL_FREE, CALL_DELETE}) {
        std::vector<uint64_t> words, tokens;
        for (uint32_t i = 0; i < 2044; i++) {
            uint32_t other = (i * 257 + 10) % RAW_LANES_MAX;
            tokens.push_back(raw_token(other == 9 ? 10 : other, i % 2 ? RAW_SERIAL_MAX : 1));
            words.push_back(raw_word(kind, tokens.back()));
        }
        /* The same lanes again, from one end of their serials to the other. */
        for (size_t i = 0; i < 1000; i++) {
            tokens.push_back(tokens[i] ^ (RAW_SERIAL_MAX ^ 1));
            words.push_back(raw_word(kind, tokens.back()));
        }
        Chunk chunk(&stream, &lane, 9, words);
        std::vector<record> got = decode(&decoder, chunk);
        ASSERT_EQ(got.size(), tokens.size());
        for (size_t i = 0; i < got.size(); i++)
            ASSERT_EQ(got[i].token, tokens[i]) << i;
    }
    raw_decoder_free(&decoder);
}

TEST(Encoder, NothingGivesNoChunk)
{
    Stream stream;
    encoder_lane lane = {};
    uint8_t out[ENCODER_CHUNK_BYTES_MAX(0)];
    EXPECT_EQ(encoder_chunk(&lane, 0, nullptr, 0, stream.foreign.get(), &stream.totals, out), 0u);
    EXPECT_EQ(lane.chunks, 0u);
}

} // namespace
