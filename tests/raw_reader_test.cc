/* The raw stream and the spool as their readers see them: FORMAT.md byte for byte, and every kind of damage. */
#include <gtest/gtest.h>
#include <lz4frame.h>

#include <string>
#include <vector>

#include "tests/memory_file.h"
#include "tests/raw_builder.h"
#include "tracing/raw_decoder.h"
#include "tracing/raw_reader.h"
#include "tracing/spool_reader.h"

namespace {

/* Everything that reading a stream gave. */
struct Reading {
    raw_stream_state state = RAW_STREAM_FAILED;
    std::string error, text;
    uint64_t offset = 0;
    raw_header header = {};
    std::string program;
    raw_end end = {};
    std::vector<raw_lane_total> lane_totals;
    std::vector<std::vector<record>> lanes;
    std::vector<raw_tick> ticks;
    std::string decode_error, decode_text;
    uint64_t chunks = 0, spool_records = 0;
    uint32_t spool_gaps = 0;
    std::string spool_error;
};

void take_error(const error &failure, std::string *name, std::string *text)
{
    char buffer[512];
    if (!error_is_set(&failure)) return;
    *name = failure.kind->name;
    *text = error_text(&failure, buffer, sizeof buffer);
}

class Decoders {
  public:
    explicit Decoders(bool addresses) : addresses_(addresses) {}
    ~Decoders()
    {
        for (raw_decoder &decoder : decoders_)
            raw_decoder_free(&decoder);
    }

    void take(const raw_chunk *chunk, Reading *reading, uint32_t batch)
    {
        while (decoders_.size() <= chunk->lane) {
            decoders_.emplace_back();
            raw_decoder_init(&decoders_.back(), static_cast<uint32_t>(decoders_.size() - 1),
                             addresses_);
        }
        reading->lanes.resize(decoders_.size());
        raw_decoder &decoder = decoders_[chunk->lane];
        std::vector<record> records(batch);
        raw_decoder_open(&decoder, chunk);
        while (uint32_t count = raw_decoder_next(&decoder, records.data(), batch))
            reading->lanes[chunk->lane].insert(reading->lanes[chunk->lane].end(), records.begin(),
                                               records.begin() + count);
        if (reading->decode_error.empty())
            take_error(decoder.error, &reading->decode_error, &reading->decode_text);
    }

  private:
    bool addresses_;
    std::vector<raw_decoder> decoders_;
};

Reading read_all(const std::string &bytes, const std::string *spool_bytes = nullptr,
                 uint32_t batch = 7)
{
    Reading reading;
    MemoryFile file(bytes);
    raw_reader reader;
    raw_reader_open_fd(&reader, file.fd());
    size_t length = 0;
    if (reader.has_header) {
        const char *value = raw_header_value(&reader.header, "program", &length);
        if (value != nullptr) reading.program.assign(value, length);
    }
    Decoders decoders((reader.header.features & 1) != 0);
    while (raw_chunk *chunk = raw_reader_next(&reader)) {
        reading.chunks++;
        if (chunk->type == RAW_CHUNK_TICK)
            reading.ticks.push_back(reader.tick);
        else
            decoders.take(chunk, &reading, batch);
        raw_chunk_release(&reader, chunk);
    }
    reading.state = reader.state;
    reading.header = reader.header;
    reading.header.metadata = nullptr;
    reading.end = reader.end;
    if (reader.end.lane_totals != nullptr)
        reading.lane_totals.assign(reader.end.lane_totals,
                                   reader.end.lane_totals + reader.end.lanes);
    take_error(reader.error, &reading.error, &reading.text);
    reading.offset = reader.error.offset;
    if (spool_bytes != nullptr) {
        MemoryFile spool_file(*spool_bytes);
        spool_reader spool;
        if (spool_reader_open(&spool, spool_file.path().c_str()) &&
            spool_reader_belongs(&spool, &reader))
            while (raw_chunk *chunk = spool_reader_next(&spool, &reader)) {
                decoders.take(chunk, &reading, batch);
                raw_chunk_release(&reader, chunk);
            }
        reading.spool_records = spool.records;
        reading.spool_gaps = spool.lanes_gapped;
        std::string text;
        take_error(spool.error, &reading.spool_error, &text);
        spool_reader_close(&spool);
    }
    raw_reader_close(&reader);
    return reading;
}

std::string from_hex(const char *hex)
{
    std::string bytes;
    for (const char *at = hex; *at != '\0';) {
        if (*at == ' ') {
            at++;
            continue;
        }
        bytes += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
        at += 2;
    }
    return bytes;
}

std::string lz4(const std::string &bytes)
{
    std::string frame(LZ4F_compressFrameBound(bytes.size(), nullptr), '\0');
    frame.resize(LZ4F_compressFrame(&frame[0], frame.size(), bytes.data(), bytes.size(), nullptr));
    return frame;
}

/* The stream of FORMAT.md 5.4. */
RawBuilder example()
{
    RawBuilder raw;
    raw.slots[1] = raw.slots[3] = 0;
    raw.thread_begin(0, 4711);
    raw.stamp_before(0, 3);
    raw.stamp_before(0, RawBuilder::kPageHeap);
    uint64_t first = raw.birth(0, RawBuilder::kMalloc, 24);
    raw.birth(0, RawBuilder::kMalloc, 300);
    raw.death(0, RawBuilder::kFree, first);
    return raw;
}

/* --- the worked example --- */

TEST(RawFormat, ExampleOfSection54IsTheseBytes)
{
    RawBuilder raw = example();
    raw.cut(0);
    std::string payload =
        from_hex("15 00 01 00  11 00 00 00  f2 30 9e 49  f2 33 07 03  f2 33 fe 03 03"
                 "9a  c4 2c  01");
    ASSERT_EQ(raw.bytes.size(), 64u + 36 + payload.size());
    EXPECT_EQ(raw.bytes.substr(100), payload);

    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes.size(), 1u);
    const std::vector<record> &records = reading.lanes[0];
    ASSERT_EQ(records.size(), 6u);
    EXPECT_EQ(records[0].number, RAW_THREAD_BEGIN);
    EXPECT_EQ(records[0].operand, 4711u);
    EXPECT_EQ(records[1].number, RAW_STAMP_BEFORE);
    EXPECT_EQ(records[1].structure, 3u);
    EXPECT_EQ(records[1].size, 1u);
    EXPECT_EQ(records[2].structure, 255u);
    EXPECT_EQ(records[3].number, CALL_MALLOC);
    EXPECT_EQ(records[3].size, 24u);
    EXPECT_EQ(records[3].serial, 1u);
    EXPECT_EQ(records[4].size, 300u);
    EXPECT_EQ(records[4].serial, 2u);
    EXPECT_EQ(records[5].number, CALL_FREE);
    EXPECT_EQ(records[5].token, raw_token(0, 1));
}

TEST(RawFormat, VarintExamplesOfSection22)
{
    const std::pair<uint64_t, const char *> examples[] = {
        {0, "01"},     {1, "03"},     {127, "ff"},
        {128, "0202"}, {300, "b204"}, {~uint64_t{0}, "00ffffffffffffffff"}};
    for (const auto &one : examples) {
        std::string bytes;
        RawBuilder::varint(bytes, one.first);
        EXPECT_EQ(bytes, from_hex(one.second));
    }
}

/* --- header --- */

TEST(RawReader, HeaderAndMetadata)
{
    RawBuilder raw(0, "allocator=x 1\nprogram=/bin/true\nenv.A=b\n");
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.state, RAW_STREAM_COMPLETE) << reading.text;
    EXPECT_EQ(reading.header.pid, 4711u);
    EXPECT_EQ(reading.header.start_ns, 1700000000000000000u);
    EXPECT_EQ(reading.program, "/bin/true");
}

TEST(RawReader, HeaderDamage)
{
    struct {
        size_t at;
        char byte;
        const char *error;
    } const damages[] = {{0, 'X', "raw_no_stream"},       {8, 2, "raw_version"},
                         {14, 2, "raw_metadata"},         {17, 1, "raw_feature"},
                         {32, 'z', "raw_header_damaged"}, {66, 'z', "raw_header_damaged"}};
    RawBuilder raw(0, "program=a\n");
    raw.end();
    for (const auto &damage : damages) {
        std::string bytes = raw.bytes;
        bytes[damage.at] = damage.byte;
        Reading reading = read_all(bytes);
        EXPECT_EQ(reading.state, RAW_STREAM_FAILED);
        EXPECT_EQ(reading.error, damage.error) << reading.text;
    }
}

TEST(RawReader, UnknownFeatureIsNamed)
{
    RawBuilder raw(uint64_t{1} << 5);
    EXPECT_NE(read_all(raw.bytes).text.find("bit 5"), std::string::npos);
}

TEST(RawReader, HigherMinorVersionIsRead)
{
    RawBuilder raw = example();
    raw.end();
    std::string bytes = raw.bytes;
    bytes[10] = 7;
    std::string checksum;
    RawBuilder::put32(checksum, RawBuilder::checksum(bytes.substr(0, 60)));
    bytes.replace(60, 4, checksum);
    EXPECT_EQ(read_all(bytes).state, RAW_STREAM_COMPLETE);
}

/* --- chunks --- */

TEST(RawReader, CompleteStreamWithTicks)
{
    RawBuilder raw = example();
    raw.tick(10000000, 4096, 8192);
    raw.birth(1, RawBuilder::kMalloc, 5);
    raw.tick(20000000, 5000, 9000);
    raw.end(1);
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.state, RAW_STREAM_COMPLETE) << reading.text;
    ASSERT_EQ(reading.ticks.size(), 2u);
    EXPECT_EQ(reading.ticks[1].since_start_ns, 20000000u);
    EXPECT_EQ(reading.ticks[1].rss_bytes, 5000u);
    EXPECT_EQ(reading.ticks[1].heap_bytes, 9000u);
    EXPECT_EQ(reading.end.status, RAW_END_LIMIT);
    ASSERT_EQ(reading.lane_totals.size(), 2u);
    EXPECT_EQ(reading.lane_totals[0].records, 6u);
    EXPECT_EQ(reading.lane_totals[0].births, 2u);
    EXPECT_EQ(reading.end.kind_counts[CALL_MALLOC], 3u);
    EXPECT_EQ(reading.end.kind_counts[CALL_FREE], 1u);
}

TEST(RawReader, Lz4FramesAndSkippableOnes)
{
    RawBuilder raw = example();
    raw.end();
    std::string head = raw.bytes.substr(0, 64), rest = raw.bytes.substr(64);
    std::string skippable = from_hex("50 2a 4d 18 03 00 00 00") + "abc";
    Reading reading = read_all(skippable + lz4(head) + skippable + lz4(rest));
    EXPECT_EQ(reading.state, RAW_STREAM_COMPLETE) << reading.text;
    EXPECT_EQ(reading.lanes[0].size(), 6u);
}

TEST(RawReader, UnknownChunkTypeIsSkipped)
{
    RawBuilder raw = example();
    raw.cut(0);
    raw.chunk(9, 0x80, 77, "whatever", 5, 6, 7);
    raw.end();
    EXPECT_EQ(read_all(raw.bytes).state, RAW_STREAM_COMPLETE);
}

struct ChunkDamage {
    int type, flags;
    uint32_t lane, records;
    uint64_t first_record, first_birth;
    const char *error;
};

TEST(RawReader, ChunkFieldsThatCannotBe)
{
    const ChunkDamage damages[] = {
        {1, 3, 0, 1, 6, 2, "raw_chunk_field"},     {1, 0, 0, 1, 5, 2, "raw_sequence"},
        {1, 0, 0, 1, 7, 2, "raw_sequence"},        {1, 0, 1, 1, 0, 0, "raw_sequence"},
        {1, 0, 0, 70000, 6, 2, "raw_chunk_limit"}, {2, 0, 1, 0, 0, 0, "raw_chunk_field"},
        {2, 0, 0, 0, 1, 0, "raw_sequence"},        {2, 0, 0, 0, 0, 0, "raw_tick_damaged"},
        {3, 0, 0, 0, 0, 0, "raw_end_damaged"}};
    for (const ChunkDamage &damage : damages) {
        RawBuilder raw = example();
        raw.cut(0);
        size_t offset = raw.bytes.size();
        raw.chunk(damage.type, damage.flags, damage.lane, "\x03\x03", damage.records,
                  damage.first_record, damage.first_birth);
        Reading reading = read_all(raw.bytes);
        EXPECT_EQ(reading.error, damage.error) << reading.text;
        EXPECT_TRUE(reading.offset == offset || reading.offset == offset + 36) << reading.text;
        EXPECT_EQ(reading.lanes[0].size(), 6u) << "what comes before is delivered";
    }
}

TEST(RawReader, EveryFlippedBitIsFound)
{
    RawBuilder raw = example();
    raw.tick(1, 2, 3);
    raw.end();
    for (size_t bit = 0; bit < raw.bytes.size() * 8; bit++) {
        std::string bytes = raw.bytes;
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
        Reading reading = read_all(bytes);
        EXPECT_NE(reading.state, RAW_STREAM_COMPLETE) << "bit " << bit;
        EXPECT_NE(reading.error, "");
    }
}

TEST(RawReader, EveryCutIsCutAndDeliversWholeChunks)
{
    RawBuilder raw = example();
    raw.cut(0);
    size_t first_end = raw.bytes.size();
    raw.birth(1, RawBuilder::kMalloc, 5);
    raw.tick(1, 2, 3);
    raw.end();
    for (size_t length = 0; length < raw.bytes.size(); length++) {
        Reading reading = read_all(raw.bytes.substr(0, length));
        EXPECT_EQ(reading.state, RAW_STREAM_CUT) << reading.text;
        EXPECT_EQ(!reading.lanes.empty(), length >= first_end) << "length " << length;
    }
    /* The last four bytes of a frame only say that it ends. */
    std::string packed = lz4(raw.bytes);
    for (size_t length = 4; length < packed.size() - 4; length++)
        EXPECT_EQ(read_all(packed.substr(0, length)).state, RAW_STREAM_CUT) << "length " << length;
}

TEST(RawReader, EndChunkMustAgreeAndBeLast)
{
    RawBuilder raw = example();
    raw.end();
    std::string bytes = raw.bytes;
    raw.bytes += "x";
    EXPECT_EQ(read_all(raw.bytes).error, "raw_trailing");

    RawBuilder other;
    other.birth(0, RawBuilder::kMalloc, 1);
    other.end();
    std::string differs = example().bytes + other.bytes.substr(other.bytes.rfind("MTRC"));
    EXPECT_EQ(read_all(differs).error, "raw_end_differs");
}

/* --- records --- */

TEST(RawDecoder, EveryShapeAndRecord)
{
    RawBuilder raw;
    const int lane = 1;
    uint64_t other = raw.birth(0, RawBuilder::kMalloc, 1);
    uint64_t other2 = raw.birth(0, RawBuilder::kMalloc, 1);
    uint64_t a = raw.birth(lane, RawBuilder::kMalloc, uint64_t{1} << 60);
    uint64_t b = raw.birth(lane, RawBuilder::kMemalign, 300, 4096);
    uint64_t c = raw.realloc(lane, RawBuilder::kReallocMoved, a, 7);
    raw.death(lane, RawBuilder::kDeleteSizedAligned, b, 300, 64);
    raw.death(lane, RawBuilder::kDeleteSized, c, 7);
    raw.death(lane, RawBuilder::kDeleteAligned, other2, 0, 32);
    raw.death(lane, RawBuilder::kFree, other);
    raw.death(lane, RawBuilder::kFree, 0);
    raw.heap(lane, RawBuilder::kReleaseMemory, {~uint64_t{0}});
    raw.heap(lane, 41, {1, 1 << 20});
    raw.thread_cache_deleted(lane);
    raw.stamp_after(lane, 127);
    raw.failed(lane, RawBuilder::kMemalign, uint64_t{1} << 50, 64);
    raw.failed(lane, RawBuilder::kReallocInPlace, 9, 0, other);
    raw.lost(lane, 100, 40);
    raw.lost_stamps(lane, 5, 17, 3);
    uint64_t d = raw.birth(lane, RawBuilder::kMalloc, 65536);
    raw.thread_end(lane);
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[1].size(), 18u);
    const record *r = reading.lanes[1].data();
    EXPECT_EQ(r[0].size, uint64_t{1} << 60);
    EXPECT_EQ(r[1].operand, 4096u);
    EXPECT_EQ(r[1].serial, 2u);
    EXPECT_EQ(r[2].token, a);
    EXPECT_EQ(r[2].size, 7u);
    EXPECT_EQ(r[2].serial, 3u);
    EXPECT_EQ(r[3].token, b);
    EXPECT_EQ(r[3].size, 300u);
    EXPECT_EQ(r[3].operand, 64u);
    EXPECT_EQ(r[4].token, c);
    EXPECT_EQ(r[4].size, 7u);
    EXPECT_EQ(r[5].token, other2);
    EXPECT_EQ(r[5].operand, 32u);
    EXPECT_EQ(r[6].token, other);
    EXPECT_EQ(r[7].token, 0u);
    EXPECT_EQ(r[8].count, 1u);
    EXPECT_EQ(r[8].size, ~uint64_t{0});
    EXPECT_EQ(r[9].count, 2u);
    EXPECT_EQ(r[9].operand, 1u << 20);
    EXPECT_EQ(r[10].number, RAW_THREAD_CACHE_DELETED);
    EXPECT_EQ(r[11].structure, 127u);
    EXPECT_EQ(r[11].size, 1u);
    EXPECT_EQ(r[12].number, RAW_FAILED);
    EXPECT_EQ(r[12].kind, CALL_MEMALIGN);
    EXPECT_EQ(r[12].operand, 64u);
    EXPECT_EQ(r[13].kind, CALL_REALLOC_IN_PLACE);
    EXPECT_EQ(r[13].token, other);
    EXPECT_EQ(r[13].size, 9u);
    EXPECT_EQ(r[14].size, 100u);
    EXPECT_EQ(r[14].operand, 40u);
    EXPECT_EQ(r[15].structure, 5u);
    EXPECT_EQ(r[15].size, 17u);
    EXPECT_EQ(r[15].operand, 3u);
    EXPECT_EQ(raw_token(1, r[16].serial), d);
    EXPECT_EQ(r[16].serial, 44u);
    EXPECT_EQ(r[17].number, RAW_THREAD_END);
}

/* Every first byte of a code, with the largest and the smallest operand behind it. */
TEST(RawDecoder, EveryCodeHasItsOperand)
{
    for (uint64_t distance : {0, 47, 48, 303, 304, 18479, 18480, 149551, 149552}) {
        for (int kind : {RawBuilder::kFree, RawBuilder::kDeleteSized}) {
            RawBuilder raw;
            for (uint64_t i = 0; i <= distance; i++)
                raw.birth(0, RawBuilder::kMalloc, i);
            raw.death(0, kind, raw.token(0, 1), 8);
            raw.end();
            Reading reading = read_all(raw.bytes, nullptr, 256);
            EXPECT_EQ(reading.decode_text, "");
            EXPECT_EQ(reading.lanes[0].back().token, 1u);
            for (uint64_t i = 0; i <= distance; i++)
                ASSERT_EQ(reading.lanes[0][i].size, i);
        }
    }
}

TEST(RawDecoder, SizesOfBothBirthSlots)
{
    RawBuilder raw;
    std::vector<uint64_t> sizes;
    for (uint64_t size = 0; size < 5000; size++)
        sizes.push_back(size);
    for (uint64_t size : {65535, 65536, 65544, 1 << 30})
        sizes.push_back(size);
    for (uint64_t size : sizes) {
        raw.birth(0, RawBuilder::kMalloc, size);
        raw.birth(1, RawBuilder::kMemalign, size, 16);
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    for (size_t i = 0; i < sizes.size(); i++) {
        ASSERT_EQ(reading.lanes[0][i].size, sizes[i]);
        ASSERT_EQ(reading.lanes[1][i].size, sizes[i]);
        ASSERT_EQ(reading.lanes[1][i].operand, 16u);
    }
}

TEST(RawDecoder, Addresses)
{
    RawBuilder raw(1);
    uint64_t a = raw.birth(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000010);
    raw.birth(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000000);
    raw.death(0, RawBuilder::kFree, a);
    raw.cut(0);
    raw.birth(0, RawBuilder::kMalloc, 8, 0, 0x10);
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), 4u);
    EXPECT_EQ(reading.lanes[0][0].address, 0x7f0000000010u);
    EXPECT_EQ(reading.lanes[0][1].address, 0x7f0000000000u);
    EXPECT_EQ(reading.lanes[0][3].address, 0x10u);
}

TEST(RawDecoder, StampsContinueFromChunkToChunkAndKeyChunksReset)
{
    RawBuilder raw;
    for (int i = 0; i < 200; i++) {
        raw.stamp_before(0, 9);
        raw.birth(0, RawBuilder::kMalloc, 8);
        raw.cut(0);
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    for (uint64_t i = 0; i < 200; i++)
        EXPECT_EQ(reading.lanes[0][2 * i].size, i + 1);
}

struct RecordDamage {
    const char *code;
    const char *error;
};

TEST(RawDecoder, RecordsThatCannotBeAreNamedWithTheirPlace)
{
    const RecordDamage damages[] = {{"f2 00", "raw_number"},
                                    {"f2 2f", "raw_number"},
                                    {"f2 38", "raw_number"},
                                    {"f3", "raw_code"},
                                    {"7a", "raw_code"},
                                    {"f1 03", "raw_code"},
                                    {"02", "raw_object"},
                                    {"f2 15 05", "raw_object"},
                                    {"f2 55 01 01", "raw_object"},
                                    {"f2 55 03 01", "raw_object"},
                                    {"f2 d5 01", "raw_opcode_flag"},
                                    {"f2 41 03", "raw_opcode_flag"},
                                    {"f2 70 03", "raw_opcode_flag"},
                                    {"f2 33 02 06 03", "raw_structure"},
                                    {"f2 33 03 01", "raw_operand"},
                                    {"f2 25 07 03 03 03", "raw_operand"},
                                    {"f2 36 2b 03", "raw_operand"},
                                    {"f2 37 03 01 03", "raw_operand"},
                                    {"f2 35 03 00 ff ff ff ff ff ff ff ff", "raw_births"},
                                    {"f2 55 00 ff ff ff ff ff ff ff ff 03", "raw_object"}};
    for (const RecordDamage &damage : damages) {
        RawBuilder raw = example();
        raw.cut(0);
        size_t offset = raw.bytes.size() + 36 + 8;
        std::string code = from_hex(damage.code);
        raw.code(0, code);
        raw.end();
        Reading reading = read_all(raw.bytes);
        EXPECT_EQ(reading.decode_error, damage.error) << damage.code << ": " << reading.decode_text;
        EXPECT_NE(reading.decode_text.find("lane 0, record 6"), std::string::npos)
            << reading.decode_text;
        unsigned long long at =
            std::stoull(reading.decode_text.substr(strlen("offset 0x")), nullptr, 16);
        EXPECT_GE(at, offset) << reading.decode_text;
        EXPECT_LE(at, offset + code.size()) << reading.decode_text;
        EXPECT_EQ(reading.lanes[0].size(), 6u) << "records before it are delivered";
    }
}

TEST(RawDecoder, PayloadsThatDoNotAddUp)
{
    const char *payloads[] = {"",
                              "15 00 01 00",
                              "15 00 01 00 05 00 00 00 9a",
                              "01 00 01 00 01 00 00 00 9a",
                              "15 00 15 00 01 00 00 00 9a",
                              "15 00 01 00 02 00 00 00 9a 9a",
                              "15 00 01 00 01 00 00 00 9a 03",
                              "15 00 01 00 01 00 00 00 c4",
                              "15 00 01 00 01 00 00 00 f2",
                              "3f 00 01 00 01 00 00 00 9a",
                              "ff 00 01 00 01 00 00 00 9a"};
    for (const char *payload : payloads) {
        RawBuilder raw;
        raw.chunk(1, 1, 0, from_hex(payload), 1, 0, 0);
        Reading reading = read_all(raw.bytes);
        EXPECT_NE(reading.decode_error, "") << payload;
    }
}

/* Whatever a payload says, it is read without harm: for a run under sanitizers. */
TEST(RawDecoder, RandomPayloads)
{
    RawBuilder source = example();
    for (int i = 0; i < 50; i++) {
        source.birth(0, RawBuilder::kMemalign, static_cast<uint64_t>(i), 64);
        source.death(0, RawBuilder::kFree, source.token(3, 7 + static_cast<uint64_t>(i)));
        source.realloc(0, RawBuilder::kReallocMoved, source.token(0, 2 + static_cast<uint64_t>(i)),
                       5);
        source.failed(0, RawBuilder::kMalloc, 77);
    }
    source.cut(0);
    std::string payload = source.bytes.substr(100);
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        std::string mutated = payload;
        for (int changes = 1 + round % 4; changes > 0; changes--) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            mutated[random % mutated.size()] = static_cast<char>(random >> 32);
        }
        RawBuilder raw(round % 2 == 0 ? 0 : 1);
        raw.chunk(1, 1, 0, mutated, static_cast<uint32_t>(source.records(0)), 0, 0);
        Reading reading = read_all(raw.bytes, nullptr, 64);
        EXPECT_LE(reading.lanes[0].size(), source.records(0));
    }
}

/* --- spool --- */

std::vector<uint64_t> words_of_example()
{
    return {SpoolBuilder::word(48, 4711),
            SpoolBuilder::word(51, 1 * 256 + 3),
            SpoolBuilder::word(51, 1 * 256 + 255),
            SpoolBuilder::word(1, 24),
            SpoolBuilder::word(1, 300),
            SpoolBuilder::word(21, 1)};
}

TEST(SpoolReader, WordsAreTheSameRecords)
{
    RawBuilder raw = example();
    raw.cut(0);
    Reading from_chunk = read_all(raw.bytes);
    SpoolBuilder spool;
    spool.slot(0, 0, 0, -1, words_of_example());
    Reading from_spool = read_all(RawBuilder().bytes, &spool.bytes);
    EXPECT_EQ(from_spool.decode_text, "");
    ASSERT_EQ(from_spool.lanes[0].size(), from_chunk.lanes[0].size());
    for (size_t i = 0; i < from_chunk.lanes[0].size(); i++)
        EXPECT_EQ(memcmp(&from_spool.lanes[0][i], &from_chunk.lanes[0][i], sizeof(record)), 0) << i;
}

TEST(SpoolReader, EveryShapeInWords)
{
    auto word = SpoolBuilder::word;
    uint64_t foreign = RawBuilder::token(2, 9);
    SpoolBuilder spool;
    spool.slot(0, 0, 0, -1,
               {word(8, 100),
                4096,
                word(18, 1),
                200,
                word(35, 2),
                200,
                64,
                word(30, foreign),
                16,
                word(28, 0),
                8,
                word(37, 1),
                5,
                0,
                word(41, 2),
                6,
                7,
                word(53, 30),
                4,
                word(54, 8),
                99,
                32,
                0,
                word(54, 18),
                98,
                0,
                foreign,
                word(55, 3 * 256 + 7),
                12,
                word(50, 0),
                word(49, 0)});
    Reading reading = read_all(RawBuilder().bytes, &spool.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), 13u);
    const record *r = reading.lanes[0].data();
    EXPECT_EQ(r[0].size, 100u);
    EXPECT_EQ(r[0].operand, 4096u);
    EXPECT_EQ(r[1].token, 1u);
    EXPECT_EQ(r[1].size, 200u);
    EXPECT_EQ(r[1].serial, 2u);
    EXPECT_EQ(r[2].token, 2u);
    EXPECT_EQ(r[2].operand, 64u);
    EXPECT_EQ(r[3].token, foreign);
    EXPECT_EQ(r[3].operand, 16u);
    EXPECT_EQ(r[4].token, 0u);
    EXPECT_EQ(r[4].size, 8u);
    EXPECT_EQ(r[5].count, 1u);
    EXPECT_EQ(r[6].operand, 7u);
    EXPECT_EQ(r[7].size, 30u);
    EXPECT_EQ(r[7].operand, 4u);
    EXPECT_EQ(r[8].kind, 8u);
    EXPECT_EQ(r[8].operand, 32u);
    EXPECT_EQ(r[9].token, foreign);
    EXPECT_EQ(r[9].size, 98u);
    EXPECT_EQ(r[10].structure, 7u);
    EXPECT_EQ(r[10].operand, 3u);
    EXPECT_EQ(r[10].size, 12u);
}

TEST(SpoolReader, RecordsOfTheStreamAreSkipped)
{
    for (size_t in_stream = 1; in_stream <= 5; in_stream++) {
        RawBuilder raw;
        raw.slots[1] = raw.slots[3] = 0;
        raw.thread_begin(0, 4711);
        if (in_stream > 1) raw.stamp_before(0, 3);
        if (in_stream > 2) raw.stamp_before(0, RawBuilder::kPageHeap);
        if (in_stream > 3) raw.birth(0, RawBuilder::kMalloc, 24);
        if (in_stream > 4) raw.birth(0, RawBuilder::kMalloc, 300);
        raw.cut(0);
        SpoolBuilder spool;
        spool.slot(0, 5, 0, 0, words_of_example());
        spool.slot(0, 6, 2, -1, {SpoolBuilder::word(21, 2)});
        Reading reading = read_all(raw.bytes, &spool.bytes);
        EXPECT_EQ(reading.decode_text, "");
        ASSERT_EQ(reading.lanes[0].size(), 7u);
        EXPECT_EQ(reading.lanes[0][6].token, 2u);
        EXPECT_EQ(reading.spool_records, 7 - in_stream);
        EXPECT_EQ(reading.spool_gaps, 0u);
    }
}

TEST(SpoolReader, GapsEndTheirLaneOnly)
{
    RawBuilder raw = example();
    raw.cut(0);
    SpoolBuilder spool;
    spool.slot(0, 3, 2, -1, {SpoolBuilder::word(1, 8)});
    spool.slot(1, 0, 0, -1, {SpoolBuilder::word(1, 8)});
    spool.slot(0, 5, 4, -1, {SpoolBuilder::word(1, 8)});
    spool.slot(0, 6, 5, -1, {SpoolBuilder::word(1, 8)});
    Reading reading = read_all(raw.bytes, &spool.bytes);
    EXPECT_EQ(reading.decode_text, "");
    EXPECT_EQ(reading.lanes[0].size(), 7u);
    EXPECT_EQ(reading.lanes[1].size(), 1u);
    EXPECT_EQ(reading.spool_gaps, 1u);

    SpoolBuilder later;
    later.slot(0, 7, 2, 9, {SpoolBuilder::word(1, 8)});
    EXPECT_EQ(read_all(raw.bytes, &later.bytes).spool_gaps, 1u);
}

TEST(SpoolReader, FreeSlotsAndOtherRunsAreNotUsed)
{
    RawBuilder raw = example();
    raw.cut(0);
    SpoolBuilder free_slot;
    free_slot.slot(0, 0, 0, -1, words_of_example(), 0);
    EXPECT_EQ(read_all(raw.bytes, &free_slot.bytes).spool_records, 0u);

    SpoolBuilder other(4096, "another run's id");
    other.slot(0, 0, 0, -1, words_of_example());
    EXPECT_EQ(read_all(raw.bytes, &other.bytes).spool_error, "spool_other_run");
}

TEST(SpoolReader, Damage)
{
    SpoolBuilder good;
    good.slot(0, 0, 0, -1, {SpoolBuilder::word(1, 8), 0x3f, SpoolBuilder::word(1, 8)});
    Reading reading = read_all(RawBuilder().bytes, &good.bytes);
    EXPECT_EQ(reading.spool_error, "spool_slot_damaged");
    EXPECT_EQ(reading.lanes[0].size(), 1u) << "what comes before is delivered";

    struct {
        size_t at;
        char byte;
        const char *error;
    } const damages[] = {{0, 'x', "spool_no_spool"},
                         {8, 2, "spool_version"},
                         {20, 'x', "spool_header_damaged"},
                         {4096, 2, "spool_slot_damaged"},
                         {4102, 1, "spool_slot_damaged"}};
    for (const auto &damage : damages) {
        std::string bytes = good.bytes;
        bytes[damage.at] = damage.byte;
        EXPECT_EQ(read_all(RawBuilder().bytes, &bytes).spool_error, damage.error);
    }
    std::string empty;
    EXPECT_EQ(read_all(RawBuilder().bytes, &empty).spool_error, "spool_no_spool");
    std::string cut = good.bytes.substr(0, 4096 + 40);
    EXPECT_EQ(read_all(RawBuilder().bytes, &cut).lanes[0].size(), 1u);
}

TEST(SpoolReader, StreamWithoutHeaderDoesNotContradict)
{
    SpoolBuilder spool;
    spool.slot(0, 0, 0, -1, words_of_example());
    Reading reading = read_all("", &spool.bytes);
    EXPECT_EQ(reading.state, RAW_STREAM_CUT);
    EXPECT_EQ(reading.lanes[0].size(), 6u);
}

} // namespace
