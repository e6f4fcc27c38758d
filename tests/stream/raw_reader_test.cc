/* The raw stream and the spool as their readers see them: FORMAT.md byte for byte, and every kind
 * of damage. */
#include <gtest/gtest.h>
#include <lz4frame.h>

#include <deque>
#include <string>
#include <vector>

#include "common/call_kind.h"
#include "stream/cell.h"
#include "stream/metadata.h"
#include "stream/raw_decoder.h"
#include "stream/raw_reader.h"
#include "stream/spool_reader.h"
#include "tests/memory_file.h"
#include "tests/raw_builder.h"

namespace {

/* Everything that reading a stream gave. */
struct Reading {
    raw_stream_state state = RAW_STREAM_FAILED;
    std::string error, text;
    uint64_t offset = 0;
    raw_header header = {};
    std::string program;
    raw_end end = {};
    std::vector<uint64_t> lane_units;
    std::vector<std::vector<record>> lanes;
    std::vector<raw_tick> ticks;
    std::string decode_error, decode_text;
    std::string underrun;
    uint64_t chunks = 0, spool_chunks = 0;
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
    explicit Decoders(bool addresses, bool cache_records = false)
        : addresses_(addresses), cache_records_(cache_records)
    {
    }
    Decoders(const Decoders &) = delete;
    Decoders &operator=(const Decoders &) = delete;
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
            decoders_.back().cache_records = cache_records_;
        }
        reading->lanes.resize(decoders_.size());
        raw_decoder &decoder = decoders_[chunk->lane];
        std::vector<record> records(batch);
        raw_decoder_open(&decoder, chunk);
        raw_decoder lookahead;
        raw_decoder_lookahead(&lookahead, &decoder);
        while (uint32_t count = raw_decoder_next(&decoder, records.data(), batch))
            reading->lanes[chunk->lane].insert(reading->lanes[chunk->lane].end(), records.begin(),
                                               records.begin() + count);
        if (!cache_records_)
            expect_lookahead_agrees(&lookahead, decoder, reading->lanes[chunk->lane]);
        if (reading->decode_error.empty())
            take_error(decoder.error, &reading->decode_error, &reading->decode_text);
        if (error_is_set(&decoder.underrun)) reading->underrun = decoder.underrun.kind->name;
    }

  private:
    bool addresses_, cache_records_;
    std::deque<raw_decoder> decoders_;

    /* A lookahead that goes through the chunk tells what the decoder told, but for places. */
    static void expect_lookahead_agrees(raw_decoder *lookahead, const raw_decoder &decoder,
                                        const std::vector<record> &records)
    {
        std::vector<record> announced(decoder.records - lookahead->records + 1);
        size_t at = records.size() - (announced.size() - 1);
        uint32_t count = 0, some;
        while (count < announced.size() &&
               (some = raw_decoder_next_special(lookahead, &announced[count],
                                                static_cast<uint32_t>(announced.size()) - count)) >
                   0)
            count += some;
        if (error_is_set(&decoder.error)) {
            EXPECT_GE(count, announced.size() - 1);
            count = static_cast<uint32_t>(announced.size()) - 1;
        }
        ASSERT_EQ(count, announced.size() - 1);
        for (uint32_t i = 0; i < count; i++) {
            record wanted = records[at + i];
            if (announced[i].place == 0) wanted.place = 0;
            if (announced[i].ends == 0) wanted.ends = 0;
            /* Allocated at a place that nobody knows. */
            if (wanted.ends == 0) wanted.bound = announced[i].bound;
            EXPECT_EQ(memcmp(&announced[i], &wanted, sizeof wanted), 0) << "record " << at + i;
        }
        if (!error_is_set(&decoder.error)) {
            EXPECT_EQ(lookahead->allocations, decoder.allocations);
            EXPECT_EQ(lookahead->records, decoder.records);
        }
    }
};

Reading read_all(const std::string &bytes, const std::string *spool_bytes = nullptr,
                 uint32_t batch = 7, bool cache_records = false)
{
    Reading reading;
    MemoryFile file(bytes);
    raw_reader reader;
    raw_reader_open_fd(&reader, file.fd());
    size_t length = 0;
    if (reader.has_header) {
        const char *value = metadata_value(reader.header.metadata, reader.header.metadata_bytes,
                                           "program", &length);
        if (value != nullptr) reading.program.assign(value, length);
    }
    Decoders decoders((reader.header.features & 1) != 0, cache_records);
    while (raw_chunk *chunk = raw_reader_next(&reader)) {
        reading.chunks++;
        if (chunk->type == RAW_CHUNK_TICK)
            reading.ticks.push_back(reader.tick);
        else
            decoders.take(chunk, &reading, batch);
        free(chunk);
    }
    reading.state = reader.state;
    reading.header = reader.header;
    reading.header.metadata = nullptr;
    reading.end = reader.end;
    if (reader.end_units != nullptr)
        reading.lane_units.assign(reader.end_units, reader.end_units + reader.end.lanes);
    take_error(reader.error, &reading.error, &reading.text);
    reading.offset = reader.error.offset;
    if (spool_bytes != nullptr) {
        MemoryFile spool_file(*spool_bytes);
        spool_reader spool;
        if (spool_reader_open(&spool, spool_file.path().c_str(), &reader))
            while (raw_chunk *chunk = spool_reader_next(&spool, &reader)) {
                decoders.take(chunk, &reading, batch);
                reading.spool_chunks++;
                free(chunk);
            }
        reading.spool_gaps = spool.lanes_gapped;
        std::string text;
        take_error(spool.error, &reading.spool_error, &text);
        spool_reader_close(&spool);
    }
    raw_reader_close(&reader);
    return reading;
}

std::string units_of_first_chunk(const std::string &bytes)
{
    MemoryFile file(bytes);
    raw_reader reader;
    std::string units = "none";
    raw_reader_open_fd(&reader, file.fd());
    if (raw_chunk *chunk = raw_reader_next(&reader)) {
        EXPECT_LE(chunk->payload_bytes, 2 * chunk->units);
        units.assign(reinterpret_cast<const char *>(chunk->payload), chunk->payload_bytes);
        free(chunk);
    }
    raw_reader_close(&reader);
    return units;
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

/* The stream of FORMAT.md 5.7. */
RawBuilder example()
{
    RawBuilder raw;
    raw.profile = RawBuilder::make_profile({0x15, 0, 0, 1, 0, 0, 0x12, 0});
    raw.thread_begin(0, 4711);
    raw.cache_begin(0);
    raw.sequence_before(0, 3);
    raw.sequence_before(0, RawBuilder::kPageHeap);
    raw.size_class(0, 3, 24);
    raw.cached(0, 3, {65, 64});
    uint64_t first = raw.allocation_cached(0, RawBuilder::kMalloc, 24);
    raw.allocation_cached(0, RawBuilder::kMalloc, 20);
    raw.freeing(0, RawBuilder::kFree, first);
    raw.allocation_cached(0, RawBuilder::kMalloc, 24);
    return raw;
}
constexpr uint64_t kExampleUnits = 19, kExampleAllocations = 3, kExampleRecords = 7;

/* --- the worked example --- */

TEST(RawFormat, ExampleOfSection56IsTheseBytes)
{
    RawBuilder raw = example();
    raw.cut(0);
    std::string payload =
        from_hex("15 00 00 01 00 00 12 00  30 f0 67 12  39 f0  03 f1 01 00  ff f1 01 00"
                 "38 f0 03 00 18 00  3a f0 03 00 02 00 41 00 01 00  18 a0  14 a0  41 00  18 a0");
    ASSERT_EQ(raw.bytes.size(), 64u + 36 + payload.size());
    EXPECT_EQ(raw.bytes.substr(100), payload);
    EXPECT_EQ(raw.segment(0).units, payload.substr(8))
        << "the slot of the spool has the same units";

    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes.size(), 1u);
    const std::vector<record> &records = reading.lanes[0];
    ASSERT_EQ(records.size(), kExampleRecords);
    EXPECT_EQ(records[0].number, RAW_THREAD_BEGIN);
    EXPECT_EQ(records[0].operand, 4711u);
    EXPECT_EQ(records[1].number, RAW_SEQUENCE_BEFORE);
    EXPECT_EQ(records[1].structure, 3u);
    EXPECT_EQ(records[1].size, 1u);
    EXPECT_EQ(records[2].structure, 255u);
    EXPECT_EQ(records[3].number, CALL_MALLOC);
    EXPECT_EQ(records[3].size, 24u);
    EXPECT_EQ(records[3].serial, 1u);
    EXPECT_EQ(records[3].place, 65u);
    EXPECT_EQ(records[4].size, 20u);
    EXPECT_EQ(records[4].serial, 2u);
    EXPECT_EQ(records[4].place, 64u);
    EXPECT_EQ(records[5].number, CALL_FREE);
    EXPECT_EQ(records[5].ends, 65u);
    EXPECT_EQ(records[5].bound, raw_allocations(0, 2));
    EXPECT_EQ(records[6].place, 65u);
    EXPECT_EQ(records[6].serial, 3u);
}

TEST(RawFormat, VarintExamplesOfSection22)
{
    const std::pair<uint64_t, const char *> examples[] = {
        {0, "01"},     {1, "03"},     {127, "ff"},
        {128, "0202"}, {300, "b204"}, {~uint64_t{0}, "00ffffffffffffffff"}};
    for (const auto &one : examples) {
        std::string bytes;
        bytes::put_varint(bytes, one.first);
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
    } const damages[] = {{0, 'X', "raw_no_stream"},       {8, 1, "raw_version"},
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
    bytes::put(checksum, bytes::checksum(bytes.substr(0, 60)), 4);
    bytes.replace(60, 4, checksum);
    EXPECT_EQ(read_all(bytes).state, RAW_STREAM_COMPLETE);
}

/* --- chunks --- */

TEST(RawReader, CompleteStreamWithTicks)
{
    RawBuilder raw = example();
    raw.tick(10000000, 4096, 8192);
    raw.allocation(1, RawBuilder::kMalloc, 5);
    raw.tick(20000000, 5000, 9000);
    raw.end(1);
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.state, RAW_STREAM_COMPLETE) << reading.text;
    ASSERT_EQ(reading.ticks.size(), 2u);
    EXPECT_EQ(reading.ticks[1].since_start_ns, 20000000u);
    EXPECT_EQ(reading.ticks[1].rss_bytes, 5000u);
    EXPECT_EQ(reading.ticks[1].heap_bytes, 9000u);
    EXPECT_EQ(reading.end.status, RAW_END_LIMIT);
    EXPECT_EQ(reading.lane_units, (std::vector<uint64_t>{kExampleUnits, 4}));
    EXPECT_EQ(reading.end.events, 5u);
}

TEST(RawReader, Lz4FramesAndSkippableOnes)
{
    RawBuilder raw = example();
    raw.end();
    std::string head = raw.bytes.substr(0, 64), rest = raw.bytes.substr(64);
    std::string skippable = from_hex("50 2a 4d 18 03 00 00 00") + "abc";
    Reading reading = read_all(skippable + lz4(head) + skippable + lz4(rest));
    EXPECT_EQ(reading.state, RAW_STREAM_COMPLETE) << reading.text;
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords);
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
    uint32_t lane, units;
    uint64_t first_unit, first_allocation;
    const char *error;
};

/* What comes has two bytes of payload. */
TEST(RawReader, ChunkFieldsThatCannotBe)
{
    const ChunkDamage damages[] = {
        {1, 8, 0, 1, kExampleUnits, 0, "raw_chunk_field"},
        {1, 2, 0, 1, kExampleUnits, 0, "raw_chunk_field"},
        {1, 0, 0, 1, kExampleUnits - 1, 0, "raw_sequence"},
        {1, 0, 0, 1, kExampleUnits + 1, 0, "raw_sequence"},
        {1, 0, 0, 1, kExampleUnits, 1, "raw_sequence"},
        {1, 0, 1, 1, 0, 0, "raw_sequence"},
        {1, 3, 0, 1, kExampleUnits, uint64_t{1} << 42, "raw_allocations"},
        {1, 0, 0, 600000, kExampleUnits, 0, "raw_chunk_limit"},
        {1, 0, 0, 2, kExampleUnits, 0, "raw_payload"},
        {1, 0, 0, 0, kExampleUnits, 0, "raw_payload"},
        {1, 1, 0, 1, kExampleUnits, kExampleAllocations, "raw_payload"},
        {1, 4, 0, 1, kExampleUnits, 0, "raw_packed"},
        {1, 4, 0, 5, kExampleUnits, 0, "raw_packed"},
        {2, 0, 1, 0, 0, 0, "raw_chunk_field"},
        {2, 0, 0, 1, 0, 0, "raw_chunk_field"},
        {2, 1, 0, 0, 0, 0, "raw_chunk_field"},
        {2, 0, 0, 0, 1, 0, "raw_sequence"},
        {2, 0, 0, 0, 0, 0, "raw_tick_damaged"},
        {3, 0, 0, 0, 0, 0, "raw_end_damaged"}};
    for (const ChunkDamage &damage : damages) {
        RawBuilder raw = example();
        raw.cut(0);
        size_t offset = raw.bytes.size();
        raw.chunk(damage.type, damage.flags, damage.lane, "\x03\x03", damage.units,
                  damage.first_unit, damage.first_allocation);
        Reading reading = read_all(raw.bytes);
        EXPECT_EQ(reading.error, damage.error) << reading.text;
        EXPECT_TRUE(reading.offset == offset || reading.offset == offset + 36) << reading.text;
        EXPECT_EQ(reading.lanes[0].size(), kExampleRecords) << "what comes before is delivered";
    }
    RawBuilder first;
    first.chunk(1, 1, 0, std::string(8, '\0'), 0, 0, 0);
    EXPECT_EQ(read_all(first.bytes).error, "raw_sequence") << "the first segment of a lane is key";
}

/* A begin chunk says how many allocations precede it; whether that is so the decoder finds. */
TEST(RawReader, AllocationsOfARun)
{
    for (uint64_t allocations :
         {kExampleAllocations - 1, kExampleAllocations, kExampleAllocations + 1}) {
        RawBuilder raw = example();
        raw.cut(0);
        raw.chunk(1, 1, 0, raw.segment(0).profile + from_hex("4000"), 1, kExampleUnits,
                  allocations);
        Reading reading = read_all(raw.bytes);
        bool good = allocations == kExampleAllocations;
        EXPECT_EQ(reading.error, "raw_cut_no_end");
        EXPECT_EQ(reading.decode_error, good ? "" : "raw_sequence");
        EXPECT_EQ(reading.lanes[0].size(), good ? kExampleRecords + 1 : kExampleRecords);
    }
}

TEST(RawReader, ChunksWithoutUnits)
{
    RawBuilder raw;
    raw.chunk(1, 3, 0, raw.profile, 0, 0, 0);
    raw.chunk(1, 4, 0, "", 0, 0, 0);
    raw.chunk(1, 0, 0, from_hex("01f01800 4000 0000"), 4, 0, 0);
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.chunks, 3u) << reading.text;
    ASSERT_EQ(reading.lanes[0].size(), 1u) << reading.decode_text;
    EXPECT_EQ(reading.lanes[0][0].size, 24u);
}

/* --- packed chunks, FORMAT.md 5.5 --- */

/* Every unit there is, as payload of a packed chunk, against the same plain: the reader is asked,
 * not the decoder. */
TEST(RawReader, EveryUnitCanBePacked)
{
    std::string units;
    for (uint32_t unit = 0; unit < 65536; unit++)
        bytes::put(units, static_cast<uint16_t>(unit), 2);
    for (size_t cut = 0; cut < 40; cut++) { /* the last units are read one by one */
        RawBuilder raw;
        std::string some = units.substr(2 * cut);
        raw.chunk(1, 7, 0, raw.profile + RawBuilder::pack(some),
                  static_cast<uint32_t>(some.size() / 2), 0, 0);
        EXPECT_EQ(units_of_first_chunk(raw.bytes), some);
        some = units.substr(0, 2 * cut);
        RawBuilder begin;
        begin.chunk(1, 7, 0, begin.profile + RawBuilder::pack(some),
                    static_cast<uint32_t>(some.size() / 2), 0, 0);
        EXPECT_EQ(units_of_first_chunk(begin.bytes), some);
    }
    uint64_t random = 88172645463325252u;
    std::string mixed;
    for (int i = 0; i < 100000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint64_t unit = random >> 40;
        if (random % 3 != 1) unit %= random % 3 == 0 ? 64 : 0x1000;
        bytes::put(mixed, unit, 2);
    }
    RawBuilder raw;
    raw.chunk(1, 7, 0, raw.profile + RawBuilder::pack(mixed), 100000, 0, 0);
    EXPECT_EQ(units_of_first_chunk(raw.bytes), mixed);
}

/* A writer may use any code that yields the unit. */
TEST(RawReader, PackedUnitsInLongerForms)
{
    RawBuilder raw;
    raw.chunk(1, 7, 0, raw.profile + from_hex("00 f800 ff00f8 30 a000 ff00a0 ff1234 ffffff"), 8, 0,
              0);
    EXPECT_EQ(units_of_first_chunk(raw.bytes), from_hex("00f8 00f8 00f8 00a0 00a0 00a0 1234 ffff"));
}

/* Each may stand for two. */
TEST(RawReader, PackedUnitsThatAreNotSoMany)
{
    struct {
        const char *payload;
        uint32_t least, most;
    } const cases[] = {{"", 0, 0},         {"00", 1, 2},    {"00 00 00", 3, 6}, {"80", 1, 0},
                       {"80 80 80", 1, 0}, {"ff 01", 1, 0}, {"ff", 1, 0},       {"00 ff 01", 1, 0}};
    for (const auto &one : cases) {
        for (uint32_t padding : {0u, 1u, 2u, 20u}) {
            for (uint32_t units = 0; units < 2 * padding + 10; units++) {
                RawBuilder raw;
                raw.chunk(1, 7, 0, raw.profile + std::string(padding, '\0') + from_hex(one.payload),
                          units, 0, 0);
                bool good = one.most + 1 > one.least && units >= one.least + padding &&
                            units <= one.most + 2 * padding;
                EXPECT_EQ(read_all(raw.bytes).error == "raw_packed", !good)
                    << one.payload << " " << padding << " " << units;
            }
        }
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
    raw.allocation(1, RawBuilder::kMalloc, 5);
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
    other.allocation(0, RawBuilder::kMalloc, 1);
    other.end();
    std::string differs = example().bytes + other.bytes.substr(other.bytes.rfind("MTRC"));
    EXPECT_EQ(read_all(differs).error, "raw_end_differs");
}

/* --- records --- */

TEST(RawDecoder, EveryShapeAndRecord)
{
    RawBuilder raw;
    const int lane = 1;
    uint64_t other = raw.allocation(0, RawBuilder::kMalloc, 1);
    uint64_t other2 = raw.allocation(0, RawBuilder::kMalloc, 1);
    uint64_t a = raw.allocation(lane, RawBuilder::kMalloc, uint64_t{1} << 60);
    uint64_t b = raw.allocation(lane, RawBuilder::kMemalign, 300, 4096);
    uint64_t c = raw.realloc(lane, RawBuilder::kReallocMoved, a, 7);
    raw.freeing(lane, RawBuilder::kDeleteSizedAligned, b, 300, 64);
    raw.freeing(lane, RawBuilder::kDeleteSized, c, 7);
    raw.freeing(lane, RawBuilder::kDeleteAligned, other2, 0, 32);
    raw.freeing(lane, RawBuilder::kFree, other);
    raw.freeing(lane, RawBuilder::kFree, 0);
    raw.heap(lane, RawBuilder::kReleaseMemory, {~uint64_t{0}});
    raw.heap(lane, 41, {1, 1 << 20});
    raw.thread_cache_deleted(lane);
    raw.sequence_after(lane, 127);
    raw.failed(lane, RawBuilder::kMemalign, uint64_t{1} << 50, 64);
    raw.failed(lane, RawBuilder::kReallocInPlace, 9, 0, other);
    raw.lost(lane, 100, 40);
    uint64_t d = raw.allocation(lane, RawBuilder::kMalloc, 65536);
    raw.thread_end(lane);
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    EXPECT_EQ(reading.end.events, 15u);
    ASSERT_EQ(reading.lanes[1].size(), 17u);
    const record *r = reading.lanes[1].data();
    EXPECT_EQ(r[0].size, uint64_t{1} << 60);
    EXPECT_EQ(r[1].operand, 4096u);
    EXPECT_EQ(r[1].serial, 2u);
    EXPECT_EQ(r[0].place, raw.place(a));
    EXPECT_EQ(r[2].ends, raw.place(a));
    EXPECT_EQ(r[2].bound, raw_allocations(lane, 2)) << "so many allocations before it";
    EXPECT_EQ(r[2].place, raw.place(c));
    EXPECT_EQ(r[2].size, 7u);
    EXPECT_EQ(r[2].serial, 3u);
    EXPECT_EQ(r[3].ends, raw.place(b));
    EXPECT_EQ(r[3].bound, raw_allocations(lane, 3));
    EXPECT_EQ(r[3].size, 300u);
    EXPECT_EQ(r[3].operand, 64u);
    EXPECT_EQ(r[4].ends, raw.place(c));
    EXPECT_EQ(r[4].size, 7u);
    EXPECT_EQ(r[5].ends, raw.place(other2));
    EXPECT_EQ(r[5].bound, raw_allocations(0, 2));
    EXPECT_EQ(r[5].operand, 32u);
    EXPECT_EQ(r[6].ends, raw.place(other));
    EXPECT_EQ(r[6].bound, raw_allocations(0, 1));
    EXPECT_EQ(r[7].ends, 0u);
    EXPECT_EQ(r[7].bound, 0u);
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
    EXPECT_EQ(r[13].ends, raw.place(other));
    EXPECT_EQ(r[13].bound, raw_allocations(0, 1));
    EXPECT_EQ(r[13].size, 9u);
    EXPECT_EQ(r[14].size, 100u);
    EXPECT_EQ(r[14].operand, 40u);
    EXPECT_EQ(r[15].place, raw.place(d));
    EXPECT_EQ(r[15].serial, 44u);
    EXPECT_EQ(r[16].number, RAW_THREAD_END);
}

/* What an object freed twice makes of a list: it gives its place twice, and has less than is taken
 * from it. */
TEST(RawDecoder, AListThatRunsDry)
{
    RawBuilder raw;
    raw.cache_begin(0);
    raw.size_class(0, 1, 16);
    raw.cached(0, 1, {64});
    raw.allocation_cached(0, RawBuilder::kMalloc, 16);
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    for (uint64_t size = 1; size <= 3; size++)
        raw.allocation_cached(0, RawBuilder::kMalloc, size);
    raw.uncached(0, 1, 2);
    raw.allocation_cached(0, RawBuilder::kMalloc, 4);
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    EXPECT_EQ(reading.underrun, "raw_cache_empty");
    ASSERT_EQ(reading.lanes[0].size(), 7u);
    const uint32_t places[] = {64, 64, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        EXPECT_EQ(reading.lanes[0][3 + i].size, i + 1);
        EXPECT_EQ(reading.lanes[0][3 + i].place, places[i]);
    }
    RawBuilder less;
    less.cache_begin(0);
    less.size_class(0, 1, 16);
    less.uncached(0, 1, 1);
    less.end();
    reading = read_all(less.bytes);
    EXPECT_EQ(reading.decode_text, "");
    EXPECT_EQ(reading.underrun, "raw_cache_short");
}

/* Each range with its smallest and its largest operand, and what is beyond: of objects that no
 * thread caches, and of those that go into the cache and come out again. */
TEST(RawDecoder, PlacesOfEveryRange)
{
    for (uint32_t size_class : {0, 1, 127}) {
        RawBuilder raw;
        raw.profile = RawBuilder::make_profile({RawBuilder::kFree, RawBuilder::kDeleteSized,
                                                RawBuilder::kDeleteAligned, 1, 2, 0,
                                                RawBuilder::kReallocInPlace, 0});
        raw.cache_begin(0);
        if (size_class != 0) raw.size_class(0, size_class, 8);
        std::vector<uint32_t> wanted;
        for (uint32_t place :
             {1u, 2u, 63u, 64u, 0xfffu, 0x1000u, 0x1001u, 0x3fffu, 0x4000u, 0x9fffu, 0xa000u,
              0xffffu, 0x10000u, 0x7fffffu, 0x800000u, 0x3ffffffu, 0x4000000u, 0x7ffffffu})
            for (int kind : {int{RawBuilder::kFree}, int{RawBuilder::kDeleteSized},
                             int{RawBuilder::kDeleteAligned}, 23}) {
                if (size_class == 0 || kind == RawBuilder::kFree)
                    raw.allocation_at(0, RawBuilder::kMalloc, 8, place, size_class);
                else
                    raw.allocation_cached(0, RawBuilder::kMalloc, 8);
                raw.realloc(0, RawBuilder::kReallocInPlace, RawBuilder::own(place), 100, 0);
                raw.freeing(0, kind, RawBuilder::own(place), 77, 64);
                wanted.push_back(place);
            }
        raw.end();
        Reading reading = read_all(raw.bytes, nullptr, 256);
        EXPECT_EQ(reading.decode_text, "");
        ASSERT_EQ(reading.lanes[0].size(), 3 * wanted.size());
        for (size_t i = 0; i < wanted.size(); i++) {
            const record *three = &reading.lanes[0][3 * i];
            EXPECT_EQ(three[0].place, wanted[i]);
            EXPECT_EQ(three[1].ends, wanted[i]);
            EXPECT_EQ(three[1].place, wanted[i]);
            EXPECT_EQ(three[1].size, 100u);
            EXPECT_EQ(three[1].bound, raw_allocations(0, 2 * i + 1));
            EXPECT_EQ(three[2].ends, wanted[i]);
            EXPECT_EQ(three[2].bound, raw_allocations(0, 2 * i + 2));
            EXPECT_EQ(three[2].size, three[2].shape == SHAPE_FREE_SIZED ? 77u : 0u);
            EXPECT_EQ(three[2].operand, three[2].shape == SHAPE_FREE_ALIGNED ? 64u : 0u);
        }
    }
}

TEST(RawDecoder, SizesOfEveryRange)
{
    RawBuilder raw;
    raw.profile =
        RawBuilder::make_profile({0, 0, 0, RawBuilder::kMemalign, RawBuilder::kMalloc, 3, 0, 0});
    std::vector<uint64_t> sizes;
    for (uint64_t size = 0; size < 9000; size++)
        sizes.push_back(size);
    for (unsigned bits : {14u, 15u, 16u, 29u, 30u, 31u, 45u, 46u, 60u, 61u, 63u})
        for (uint64_t more : {0, 1, 2})
            sizes.push_back((uint64_t{1} << bits) - 1 + more);
    sizes.push_back(~uint64_t{0});
    for (uint32_t lane = 0; lane < 3; lane++) {
        raw.cache_begin(lane);
        raw.size_class(lane, 7, 2048);
        raw.size_class(lane, 9, 0xffffffff);
    }
    for (uint64_t size : sizes) {
        for (uint32_t lane = 0; lane < 3; lane++) {
            const int kinds[] = {RawBuilder::kMalloc, RawBuilder::kMemalign, 3};
            uint32_t size_class = size <= 2048 ? 7 : 9;
            if (size > 0xffffffff) {
                raw.allocation(lane, kinds[lane], size, 16);
                continue;
            }
            raw.cached(lane, size_class, {64 * size_class + static_cast<uint32_t>(size % 64)});
            raw.allocation_cached(lane, kinds[lane], size, 16);
        }
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    for (size_t i = 0; i < sizes.size(); i++) {
        for (size_t lane = 0; lane < 3; lane++) {
            ASSERT_EQ(reading.lanes[lane][i].size, sizes[i]);
            ASSERT_EQ(reading.lanes[lane][i].serial, i + 1);
            uint32_t size_class = sizes[i] <= 2048 ? 7 : 9;
            if (sizes[i] <= 0xffffffff) {
                ASSERT_EQ(reading.lanes[lane][i].place, 64 * size_class + sizes[i] % 64);
            }
        }
        ASSERT_EQ(reading.lanes[1][i].operand, 16u);
    }
}

TEST(RawDecoder, NumbersInLongerForms)
{
    RawBuilder raw;
    raw.units(0, {0xf001, 0x8005, 0x8000, 0x0000, 0x8001, 0x0000, 0x8000, 0x0000}, 1);
    raw.units(0, {0xf015, 0x8001, 0x0000});
    raw.units(0, {0xf030, 0xffff, 0xffff, 0xffff, 0xffff, 0x000f});
    raw.units(0, {0xf01c, 0x0001, 0x8007, 0x8000, 0x8000, 0x8000, 0x0000});
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), 4u);
    EXPECT_EQ(reading.lanes[0][0].size, 5u);
    EXPECT_EQ(reading.lanes[0][0].place, 1u);
    EXPECT_EQ(reading.lanes[0][1].ends, 1u);
    EXPECT_EQ(reading.lanes[0][2].operand, ~uint64_t{0});
    EXPECT_EQ(reading.lanes[0][3].size, 7u);
}

/* Eight entries, by lane modulo 8; a segment begins with all of them empty. */
TEST(RawDecoder, ForeignObjects)
{
    RawBuilder raw;
    raw.chunks_per_segment = 50;
    std::vector<RawBuilder::Object> wanted;
    auto free = [&](uint32_t lane, uint64_t bound, uint32_t place) {
        wanted.push_back(RawBuilder::foreign(lane, bound, place, place / 64 % 128));
        raw.freeing(0, RawBuilder::kFree, wanted.back());
    };
    for (uint32_t size_class = 1; size_class < 128; size_class++)
        raw.size_class(0, size_class, size_class);
    const uint64_t most = (uint64_t{1} << 42) - 1;
    uint32_t place = 1;
    for (int round = 0; round < 60; round++) {
        for (uint32_t lane = 1; lane < 20; lane++) {
            for (uint64_t bound : {uint64_t{100}, uint64_t{100}, uint64_t{101}, uint64_t{356},
                                   uint64_t{99}, most - 1, most, uint64_t{1}})
                free(lane, bound, place = place * 75 % 65537);
            for (uint32_t far : {0x7fffffu, 0x800000u, 0x7ffffffu})
                free(lane, 2, far);
        }
        for (uint64_t bound : {5, 6, 9, 7})
            for (uint32_t lane : {1, 2, 10, 2, 1})
                free(lane, bound, place = place * 75 % 65537);
        raw.cut(0);
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); i++) {
        ASSERT_EQ(reading.lanes[0][i].ends, wanted[i].place) << i;
        ASSERT_EQ(reading.lanes[0][i].bound, raw_allocations(wanted[i].lane, wanted[i].bound)) << i;
    }
    EXPECT_LT(reading.lane_units[0], wanted.size() * 5) << "the short form was used";

    RawBuilder empty;
    empty.freeing(0, RawBuilder::kFree, RawBuilder::foreign(3, 9, 1));
    empty.units(0, {0xed80, 0x0002, 0x0080});
    empty.end_segment(0);
    empty.units(0, {0xed80, 0x0002, 0x0080});
    empty.end();
    reading = read_all(empty.bytes);
    ASSERT_EQ(reading.lanes[0].size(), 2u);
    EXPECT_EQ(reading.lanes[0][1].ends, 2u);
    EXPECT_EQ(reading.lanes[0][1].bound, raw_allocations(3, 10));
    EXPECT_EQ(reading.decode_error, "raw_unit") << reading.decode_text;
}

/* --- caches --- */

/* Threads that do whatever they can with caches of odd classes; the builder follows them in its own
 * way. */
class CachingThreads {
  public:
    RawBuilder raw;
    /* Of each lane: places of the objects that begin and end, in order. */
    std::vector<std::vector<uint64_t>> begun{kLanes}, ended{kLanes};

    static constexpr uint32_t kLanes = 3;

    explicit CachingThreads(uint64_t seed) : seed_(seed), state_(seed * 0x9e3779b97f4a7c15)
    {
        if (seed % 4 == 0) raw.packing = RawBuilder::kPacked;
        raw.profile = RawBuilder::make_profile({21, 28, seed % 2 == 0 ? 23 : 0, 1, 8, 2, 18, 0});
        for (uint32_t lane = 0; lane < kLanes; lane++) {
            raw.thread_begin(lane, lane);
            raw.cache_begin(lane);
        }
        for (int i = 0; i < 3000; i++) {
            step();
            if (random(200) == 0) raw.cut(random(kLanes));
            /* Places of their own of a class that has none stay away from the others. */
            raw.next_place = std::max(raw.next_place, 0x7000000u);
        }
        raw.end();
    }

  private:
    static constexpr uint32_t kClasses = 12;
    static constexpr uint64_t kBytes[kClasses] = {3,    8,    20,   24,   25,    100,
                                                  1000, 4094, 4096, 8190, 20000, 1000000};
    struct Live {
        uint64_t object;
        uint32_t lane, size_class;
    };

    uint64_t seed_, state_;
    std::vector<uint32_t> given_ = std::vector<uint32_t>(kClasses);
    std::vector<Live> live_;
    std::vector<std::vector<bool>> announced_{kLanes, std::vector<bool>(kClasses)};

    uint32_t random(uint64_t below)
    {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<uint32_t>((state_ >> 20) % below);
    }

    /* The places of a class are spread over blocks of its own, near and far. */
    uint32_t fresh(uint32_t i)
    {
        uint32_t n = given_[i]++, block = (n / 64 * kClasses + i) * (seed_ % 3 == 0 ? 700u : 1u);
        return block * 64 + n % 64 + (block == 0 && n % 64 == 0 ? 64 * 100000 : 0);
    }

    void announce(uint32_t lane, uint32_t i)
    {
        if (!announced_[lane][i]) raw.size_class(lane, i + 1, kBytes[i]);
        announced_[lane][i] = true;
    }

    uint32_t class_of(uint32_t lane, uint64_t size) const
    {
        uint32_t i = 0;
        while (i < kClasses && (kBytes[i] < size || !announced_[lane][i]))
            i++;
        return i;
    }

    /* A size whose class the lane has, with something in its list. Returns the class. */
    uint32_t prepare(uint32_t lane, uint64_t *size)
    {
        uint32_t i = random(kClasses);
        announce(lane, i);
        *size = kBytes[i] - random(std::min(uint64_t{kBytes[i]}, uint64_t{8}));
        uint32_t of = class_of(lane, *size);
        if (!raw.cache(lane, of + 1).empty()) return of;
        for (uint32_t records = random(3); records < 3; records++) {
            std::vector<uint32_t> places(1 + random(8));
            for (uint32_t &place : places)
                place = fresh(of);
            raw.cached(lane, of + 1, places);
        }
        return of;
    }

    void allocated(uint32_t lane, uint64_t object, uint32_t i)
    {
        live_.push_back({object, lane, i});
        begun[lane].push_back(raw.place(object));
    }

    void allocate(uint32_t lane, int kind)
    {
        uint64_t size;
        uint32_t i = prepare(lane, &size);
        allocated(lane, raw.allocation_cached(lane, kind, size, 16), i);
    }

    /* At what is first in the list, or at something new. */
    void allocate_at(uint32_t lane, bool first)
    {
        uint64_t size;
        uint32_t i = prepare(lane, &size);
        uint32_t place = first ? raw.cache(lane, i + 1).front() : fresh(i);
        allocated(lane, raw.allocation_at(lane, 1, size, place, i + 1), i);
    }

    void release(uint32_t lane, bool unknown)
    {
        const int kinds[] = {21, 21, 23, 28};
        std::swap(live_[random(live_.size())], live_.back());
        Live one = live_.back();
        live_.pop_back();
        uint32_t place = raw.place(one.object);
        announce(lane, one.size_class);
        int kind = kinds[random(4)];
        uint64_t had = raw.allocations(one.lane);
        if (unknown)
            raw.freeing(lane, kind, RawBuilder::unknown(place, one.size_class + 1));
        else if (one.lane == lane)
            raw.freeing(lane, kind, RawBuilder::own(place), 5);
        else
            raw.freeing(lane, kind, RawBuilder::foreign(one.lane, had, place, one.size_class + 1),
                        5);
        ended[lane].push_back(place);
    }

    void reallocate(uint32_t lane, bool in_place)
    {
        Live &one = live_[random(live_.size())];
        if (one.lane != lane) return;
        uint32_t place = raw.place(one.object);
        if (in_place) {
            one.object = raw.realloc(lane, 19, RawBuilder::own(place), 77, 0);
        } else {
            uint64_t size;
            one.size_class = prepare(lane, &size);
            one.object = raw.realloc(lane, 18, RawBuilder::own(place), size, 0);
        }
        begun[lane].push_back(raw.place(one.object));
        ended[lane].push_back(place);
    }

    void uncache(uint32_t lane)
    {
        uint32_t i = random(kClasses);
        auto count = static_cast<uint32_t>(raw.cache(lane, i + 1).size());
        if (count > 0) raw.uncached(lane, i + 1, 1 + random(count));
    }

    void begin_cache_again(uint32_t lane)
    {
        const uint32_t why = random(3);
        if (why == 0) raw.thread_cache_deleted(lane);
        if (why == 1) raw.lost(lane, 5, 2);
        raw.allocation(lane, 1, 5);
        begun[lane].push_back(raw.place(RawBuilder::token(lane, raw.allocations(lane))));
        raw.cache_begin(lane);
    }

    void step()
    {
        uint32_t lane = random(kLanes), what = random(40);
        if (what < 14)
            allocate(lane, what < 12 ? 1 : 8);
        else if (what < 30 && !live_.empty())
            release(lane, what == 29);
        else if (what < 32)
            allocate_at(lane, what == 30);
        else if (what < 35 && !live_.empty())
            reallocate(lane, what < 33);
        else if (what < 37)
            uncache(lane);
        else if (what < 38 && random(30) == 0)
            begin_cache_again(lane);
        else
            raw.sequence_before(lane, 3);
    }
};

TEST(RawDecoder, CachesAreFollowed)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        CachingThreads threads(seed);
        for (uint32_t batch : {1u, 5u, 300u}) {
            Reading reading = read_all(threads.raw.bytes, nullptr, batch);
            EXPECT_EQ(reading.decode_text, "") << "seed " << seed;
            for (uint32_t lane = 0; lane < CachingThreads::kLanes; lane++) {
                std::vector<uint64_t> begun, ended;
                for (const record &one : reading.lanes[lane]) {
                    if (one.shape >= SHAPE_ALLOCATION && one.shape <= SHAPE_REALLOC)
                        begun.push_back(one.place);
                    if (one.shape >= SHAPE_REALLOC && one.shape <= SHAPE_FREE_SIZED_ALIGNED)
                        ended.push_back(one.ends);
                }
                EXPECT_EQ(begun, threads.begun[lane]) << "seed " << seed << " lane " << lane;
                EXPECT_EQ(ended, threads.ended[lane]) << "seed " << seed << " lane " << lane;
            }
        }
    }
}

/* Every age of every range, and the next one, which has no unit: near and far, in packed chunks
 * only. */
TEST(RawDecoder, Ages)
{
    const std::pair<int, uint32_t> ranges[] = {{21, 0x800}, {28, 0x200}, {30, 0x100}, {18, 0x100}};
    for (const auto &range : ranges) {
        for (uint32_t base : {64u, 0x100000u}) {
            RawBuilder raw;
            raw.packing = RawBuilder::kPacked;
            raw.profile = RawBuilder::make_profile({21, 28, 30, 1, 0, 0, 18, 0});
            raw.cache_begin(0);
            raw.size_class(0, 1, 8);
            std::vector<uint32_t> wanted;
            const uint32_t allocations = range.second + 1;
            for (uint32_t i = 0; i < allocations; i++) {
                if (i % 3 != 0) {
                    raw.allocation_at(0, 1, 8, base + i, 1);
                    continue;
                }
                raw.cached(0, 1, {base + i});
                raw.allocation_cached(0, 1, 8);
            }
            for (uint32_t i = allocations; i-- > 0;) {
                wanted.push_back(base + i);
                if (range.first == 18) {
                    raw.realloc(0, 18, RawBuilder::own(base + i), 5, base + allocations + i, 1);
                    i -= i > 0;
                } else {
                    raw.freeing(0, range.first, RawBuilder::own(base + i), 3, 16);
                }
            }
            raw.end();
            Reading reading = read_all(raw.bytes, nullptr, 100);
            EXPECT_EQ(reading.decode_text, "") << range.first;
            std::vector<uint32_t> ends;
            for (const record &one : reading.lanes[0])
                if (one.ends != 0) ends.push_back(one.ends);
            EXPECT_EQ(ends, wanted);
            /* All but the first allocated; of reallocs, which are allocations, those of age 1, 4, 7
             * ... 256. */
            std::string units = units_of_first_chunk(raw.bytes);
            uint32_t aged = 0;
            for (size_t i = 0; i < units.size(); i += 2)
                aged += static_cast<uint8_t>(units[i + 1]) >= 0xf4;
            EXPECT_EQ(aged, range.first == 18 ? 86 : range.second);
        }
    }
}

TEST(RawDecoder, AgesThatCannotBe)
{
    for (bool packed : {false, true}) {
        for (uint32_t unit : {0xf802u, 0xf401u, 0xf600u, 0xf700u, 0xf800u}) {
            RawBuilder raw;
            raw.packing = packed ? RawBuilder::kPacked : RawBuilder::kPlain;
            raw.profile = RawBuilder::make_profile({21, 23, 0, 1, 0, 0, 18, 0});
            raw.allocation(0, 1, 8); /* at place 1, which is looked up the long way */
            raw.allocation_at(0, 1, 8, 128, 0);
            raw.lost(0, 1, unit == 0xf800 ? 1 : 0);
            raw.units(0, {static_cast<uint16_t>(unit)});
            if (unit == 0xf700) raw.units(0, {0, 0});
            raw.end();
            bool good = packed && (unit == 0xf401 || unit == 0xf700);
            EXPECT_EQ(read_all(raw.bytes).decode_error, !packed          ? "raw_unit"
                                                        : unit == 0xf600 ? "raw_unit"
                                                        : unit == 0xf700 ? "raw_cache_unknown"
                                                        : good           ? ""
                                                                         : "raw_object")
                << std::hex << unit;
        }
    }
}

/* A realloc takes its place before it gives one back. */
TEST(RawDecoder, ReallocTakesBeforeItGives)
{
    RawBuilder raw;
    raw.cache_begin(0);
    raw.size_class(0, 1, 16);
    raw.cached(0, 1, {64, 65});
    raw.allocation_cached(0, RawBuilder::kMalloc, 16);
    raw.realloc(0, RawBuilder::kReallocMoved, RawBuilder::own(64), 10, 0);
    raw.allocation_cached(0, RawBuilder::kMalloc, 16);
    raw.end();
    Reading reading = read_all(raw.bytes);
    ASSERT_EQ(reading.lanes[0].size(), 3u) << reading.decode_text;
    EXPECT_EQ(reading.lanes[0][1].place, 65u);
    EXPECT_EQ(reading.lanes[0][2].place, 64u);
}

TEST(RawDecoder, CacheRecordsAreToldOnRequest)
{
    RawBuilder raw = example();
    raw.freeing(0, RawBuilder::kFree, RawBuilder::token(0, 3));
    raw.uncached(0, 3, 1);
    raw.thread_end(0);
    raw.end();
    for (uint32_t batch : {16u, 17u, 100u}) {
        Reading reading = read_all(raw.bytes, nullptr, batch, true);
        EXPECT_EQ(reading.decode_text, "");
        const std::vector<record> &r = reading.lanes[0];
        ASSERT_EQ(r.size(), kExampleRecords + 2 + 5);
        EXPECT_EQ(r[1].number, RAW_CACHE_BEGIN);
        EXPECT_EQ(r[4].number, RAW_CLASS);
        EXPECT_EQ(r[4].structure, 3u);
        EXPECT_EQ(r[4].size, 24u);
        EXPECT_EQ(r[5].number, RAW_CACHED);
        EXPECT_EQ(r[5].structure, 3u);
        EXPECT_EQ(r[5].place, 65u);
        EXPECT_EQ(r[6].number, RAW_CACHED);
        EXPECT_EQ(r[6].place, 64u);
        EXPECT_EQ(r[12].number, RAW_UNCACHED);
        EXPECT_EQ(r[12].structure, 3u);
        EXPECT_EQ(r[12].operand, 1u);
        EXPECT_EQ(r[13].number, RAW_THREAD_END);
    }
}

/* Whatever is between cache_begin and what makes the cache unknown again. */
TEST(RawDecoder, CachesThatAreNotKnown)
{
    auto begin = [](RawBuilder *raw) {
        raw->cache_begin(0);
        raw->size_class(0, 1, 16);
        raw->cached(0, 1, {64, 65});
        raw->allocation_cached(0, RawBuilder::kMalloc, 16);
        raw->freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    };
    for (int which = 0; which < 4; which++) {
        for (bool again : {false, true}) {
            RawBuilder raw;
            begin(&raw);
            if (which == 0) raw.thread_begin(0, 7);
            if (which == 1) raw.thread_cache_deleted(0);
            if (which == 2) raw.lost(0, 2, 1);
            if (which == 3) raw.cache_begin(0);
            if (again) begin(&raw);
            raw.allocation_cached(0, RawBuilder::kMalloc, 16);
            raw.end();
            Reading reading = read_all(raw.bytes);
            EXPECT_EQ(reading.decode_error, again || which == 3 ? "" : "raw_cache_unknown");
            EXPECT_EQ(reading.underrun, !again && which == 3 ? "raw_cache_empty" : "");
            if (again) {
                EXPECT_EQ(reading.lanes[0].back().place, 64u);
            }
        }
    }
    RawBuilder never;
    never.size_class(0, 1, 16);
    never.cached(0, 1, {64}); /* not wrong, but of no use */
    never.allocation_at(0, RawBuilder::kMalloc, 16, 70, 1);
    never.freeing(0, RawBuilder::kFree, RawBuilder::own(70));
    never.freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    never.uncached(0, 1, 5);
    never.allocation_cached(0, RawBuilder::kMalloc, 16);
    never.end();
    Reading reading = read_all(never.bytes);
    EXPECT_EQ(reading.decode_error, "raw_cache_unknown");
    EXPECT_EQ(reading.lanes[0].size(), 3u);
}

TEST(RawDecoder, PlacesOfOneBlockHaveOneClass)
{
    for (int which = 0; which < 5; which++) {
        RawBuilder raw;
        raw.cache_begin(0);
        raw.size_class(0, 1, 16);
        raw.size_class(0, 2, 32);
        raw.cached(0, 1, {64, 65});
        raw.allocation_at(0, RawBuilder::kMalloc, 16, 128, 2);
        if (which == 0) raw.cached(0, 2, {66});
        if (which == 1) raw.allocation_at(0, RawBuilder::kMalloc, 16, 66, 2);
        if (which == 2) raw.freeing(0, RawBuilder::kFree, RawBuilder::foreign(1, 1, 66, 2));
        if (which == 3) raw.freeing(0, RawBuilder::kFree, RawBuilder::unknown(66, 2));
        if (which == 4) raw.freeing(0, RawBuilder::kFree, RawBuilder::unknown(129, 1));
        raw.end();
        Reading reading = read_all(raw.bytes);
        EXPECT_EQ(reading.decode_error, "raw_place_class") << which;
        EXPECT_EQ(reading.lanes[0].size(), 1u);
    }
}

/* Chunks are left out before `resume`, each a segment of its own. */
std::vector<record> read_with_gap(const std::string &bytes, size_t missing, std::string *error)
{
    MemoryFile file(bytes);
    raw_reader reader;
    raw_decoder decoder;
    std::vector<record> all;
    size_t number = 0;
    std::string text;
    raw_reader_open_fd(&reader, file.fd());
    raw_decoder_init(&decoder, 0, false);
    while (raw_chunk *chunk = raw_reader_next(&reader)) {
        record records[16];
        if (number == missing + 1) raw_decoder_resume(&decoder, chunk);
        if (number++ != missing) {
            raw_decoder_open(&decoder, chunk);
            while (uint32_t count = raw_decoder_next(&decoder, records, 16))
                all.insert(all.end(), records, records + count);
        }
        free(chunk);
    }
    take_error(decoder.error, error, &text);
    raw_decoder_free(&decoder);
    raw_reader_close(&reader);
    return all;
}

/* Behind a gap an allocation has the place it had, or none. */
TEST(RawDecoder, CachesBehindAGap)
{
    RawBuilder raw;
    raw.chunks_per_segment = 1;
    raw.cache_begin(0);
    raw.size_class(0, 1, 16);
    raw.size_class(0, 3, 48);
    raw.cached(0, 1, {64, 65, 66, 67});
    raw.cached(0, 3, {128, 129, 130});
    raw.allocation_cached(0, RawBuilder::kMalloc, 10); /* 64 */
    raw.allocation_cached(0, RawBuilder::kMalloc, 40); /* 128 */
    raw.cut(0);
    raw.size_class(0, 2, 32);
    raw.cached(0, 2, {192, 193});
    raw.allocation_cached(0, RawBuilder::kMalloc, 30); /* 192 */
    raw.allocation_cached(0, RawBuilder::kMalloc, 10); /* 65 */
    raw.cut(0);
    std::vector<uint32_t> wanted = {64, 128};
    auto allocation = [&](uint64_t size, bool is_certain) {
        uint64_t object = raw.allocation_cached(0, RawBuilder::kMalloc, size);
        wanted.push_back(is_certain ? raw.place(object) : 0);
    };
    allocation(10, false);
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(65));
    allocation(10, true);
    allocation(16, true);
    allocation(20, false); /* of class 2, but nobody knows */
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(64));
    raw.freeing(0, RawBuilder::kFree,
                RawBuilder::own(192)); /* of an unknown class: it may be first now */
    allocation(30, false);
    allocation(10, false);
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(65));
    raw.uncached(0, 1, 2); /* the second one is not known */
    raw.cached(0, 1, {70});
    allocation(10, true);
    raw.freeing(0, RawBuilder::kFree, RawBuilder::own(128));
    allocation(40, false); /* it might be of a class between */
    allocation(40, false);
    raw.freeing(0, RawBuilder::kFree, RawBuilder::foreign(1, 1, 194, 2));
    allocation(40, false);
    raw.size_class(0, 4, 64);
    raw.cached(0, 4, {256});
    allocation(64, true);
    raw.cache_begin(0);
    raw.cached(0, 1, {64});
    allocation(16, true);
    raw.end();
    std::string error;
    std::vector<uint32_t> places;
    for (const record &one : read_with_gap(raw.bytes, 1, &error))
        if (one.shape == SHAPE_ALLOCATION) places.push_back(one.place);
    EXPECT_EQ(error, "");
    EXPECT_EQ(places, wanted);
    read_with_gap(raw.bytes, 99, &error);
    EXPECT_EQ(error, "");
}

/* A segment's profile holds to its end, and the next one has another. */
TEST(RawDecoder, ProfilesOfSegments)
{
    RawBuilder raw;
    raw.chunks_per_segment = 2;
    for (int kind : {1, 2, 5, 1}) {
        raw.profile = RawBuilder::make_profile({0, 0, 0, kind, 0, 0, 0, 0});
        for (int chunk = 0; chunk < 2; chunk++) {
            raw.cache_begin(0);
            raw.size_class(0, 1, 8);
            raw.cached(0, 1, {64, 65});
            raw.allocation_cached(0, kind, 7);
            raw.allocation_cached(0, 1, 8);
            raw.cut(0);
        }
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), 16u);
    for (size_t i = 0; i < 16; i++) {
        const uint8_t kinds[] = {1, 2, 5, 1};
        EXPECT_EQ(reading.lanes[0][i].kind, i % 2 == 0 ? kinds[i / 4] : 1);
        EXPECT_EQ(reading.lanes[0][i].size, 7 + i % 2);
    }
}

TEST(RawDecoder, Addresses)
{
    RawBuilder raw(1);
    uint64_t a = raw.allocation(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000010);
    raw.allocation(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000000);
    raw.freeing(0, RawBuilder::kFree, a);
    raw.cut(0);
    raw.allocation(0, RawBuilder::kMalloc, 8, 0, 0x10);
    raw.end_segment(0);
    a = raw.allocation(0, RawBuilder::kMalloc, 8, 0, 0x7f0000000020);
    raw.failed(0, RawBuilder::kMalloc, 1);
    raw.realloc(0, RawBuilder::kReallocMoved, a, 9, 0x7f0000000040);
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    ASSERT_EQ(reading.lanes[0].size(), 7u);
    EXPECT_EQ(reading.lanes[0][4].address, 0x7f0000000020u);
    EXPECT_EQ(reading.lanes[0][6].address, 0x7f0000000040u);
    EXPECT_EQ(reading.lanes[0][0].address, 0x7f0000000010u);
    EXPECT_EQ(reading.lanes[0][1].address, 0x7f0000000000u);
    EXPECT_EQ(reading.lanes[0][3].address, 0x10u);
}

TEST(RawDecoder, SequencesContinueFromSegmentToSegmentAndKeyResets)
{
    RawBuilder raw;
    for (int i = 0; i < 200; i++) {
        raw.sequence_before(0, 9);
        raw.allocation(0, RawBuilder::kMalloc, 8);
        raw.cut(0);
    }
    raw.end();
    Reading reading = read_all(raw.bytes);
    EXPECT_EQ(reading.decode_text, "");
    for (uint64_t i = 0; i < 200; i++)
        EXPECT_EQ(reading.lanes[0][2 * i].size, i + 1);
}

struct RecordDamage {
    std::vector<uint16_t> units;
    const char *error;
};

const RecordDamage kRecordDamages[] = {
    {{0x0000}, "raw_unit"},
    {{0x0001}, "raw_object"},
    {{0x9fff}, "raw_object"},
    {{0xb000, 0x0001}, "raw_unit"},
    {{0xb001}, "raw_unit"},
    {{0xc000}, "raw_unit"},
    {{0xd7ff}, "raw_unit"},
    {{0xd800, 0x0000}, "raw_place"},
    {{0xd801, 0x0001}, "raw_object"},
    {{0xe000, 0x0041}, "raw_unit"},
    {{0xe400, 0x0041}, "raw_unit"},
    {{0xe800, 0x0000, 0x0007, 0x0000}, "raw_place"},
    {{0xe803, 0x0007, 0x0007, 0x0043, 0x0003}, "raw_object"},
    {{0xec00, 0x0002, 0x0000}, "raw_unit"},
    {{0xf300}, "raw_unit"},
    {{0xf3ff}, "raw_unit"},
    {{0xf000}, "raw_number"},
    {{0xf02d}, "raw_number"},
    {{0xf02f}, "raw_number"},
    {{0xf033, 0x0003, 0x0001}, "raw_number"},
    {{0xf03d}, "raw_number"},
    {{0xf03c, 0x0100, 0x0001}, "raw_operand"},
    {{0xf03c, 0x020c, 0x0001}, "raw_operand"},
    {{0xf03f}, "raw_number"},
    {{0xf015, 0x0000}, "raw_place"},
    {{0xf015, 0x8000, 0x8000, 0x0004}, "raw_place"},
    {{0xf015, 0x0004}, "raw_object"},
    {{0xf015, 0x0080}, "raw_object"},
    {{0xf055, 0x0000, 0x0002, 0x0041, 0x0003}, "raw_object"},
    {{0xf055, 0x8000, 0x0002, 0x0001, 0x0041, 0x0003}, "raw_object"},
    {{0xf055, 0x0001, 0x8000, 0x8000, 0x1000, 0x0041, 0x0003}, "raw_object"},
    {{0xf055, 0x0001, 0x0001, 0x0000, 0x0003}, "raw_place"},
    {{0xf055, 0x0001, 0x0001, 0x8000, 0x8000, 0x0004, 0x0003}, "raw_place"},
    {{0xf055, 0x0001, 0x0001, 0x0041, 0x0080}, "raw_size_class"},
    {{0xf055, 0x0001, 0x0001, 0x0041, 0x0004}, "raw_size_class"},
    {{0xf055, 0x0001, 0x0001, 0x0041, 0x0000}, "raw_place_class"},
    {{0xf095, 0x0000, 0x0003}, "raw_place"},
    {{0xf095, 0x0041, 0x0000}, "raw_place_class"},
    {{0xf095, 0x0041, 0x0004}, "raw_size_class"},
    {{0xf0d5}, "raw_unit_flag"},
    {{0xf041, 0x0001}, "raw_unit_flag"},
    {{0xf070, 0x0001}, "raw_unit_flag"},
    {{0xf0b6, 0x0001, 0x0001}, "raw_unit_flag"},
    {{0xf079}, "raw_unit_flag"},
    {{0xa019}, "raw_size_class"},
    {{0xf001, 0x0018, 0x8000, 0x8000, 0x0004, 0x0003}, "raw_place"},
    {{0xf001, 0x0018, 0x0041, 0x0080}, "raw_size_class"},
    {{0xf001, 0x0018, 0x0041, 0x0004}, "raw_size_class"},
    {{0xf001, 0x0018, 0x0041, 0x0000}, "raw_place_class"},
    {{0xf038, 0x0000, 0x0008}, "raw_size_class"},
    {{0xf038, 0x0080, 0x0008}, "raw_size_class"},
    {{0xf038, 0x0003, 0x0020}, "raw_size_class"},
    {{0xf038, 0x0004, 0x0018}, "raw_size_class"},
    {{0xf038, 0x0004, 0x0000}, "raw_operand"},
    {{0xf038, 0x0004, 0x8000, 0x8000, 0x0004}, "raw_operand"},
    {{0xf03a, 0x0000, 0x0001, 0x0041}, "raw_size_class"},
    {{0xf03a, 0x0004, 0x0001, 0x00c8}, "raw_size_class"},
    {{0xf03a, 0x0003, 0x0000}, "raw_operand"},
    {{0xf03a, 0x0003, 0x0011}, "raw_operand"},
    {{0xf03a, 0x0003, 0x0001, 0x0000}, "raw_place"},
    {{0xf03a, 0x0003, 0x0002, 0x0041, 0x0081}, "raw_place"},
    {{0xf03a, 0x0003, 0x0002, 0x0041, 0x8000, 0x8000, 0x0008}, "raw_place"},
    {{0xf03a, 0x0003, 0x0001, 0x8000, 0x8000, 0x0004}, "raw_place"},
    {{0xf03b, 0x0003, 0x0000}, "raw_operand"},
    {{0xf03b, 0x0004, 0x0001}, "raw_size_class"},
    {{0xf03b, 0x0000, 0x0001}, "raw_size_class"},
    {{0xf180, 0x0001}, "raw_structure"},
    {{0xf1fe, 0x0001}, "raw_structure"},
    {{0xf103, 0x0000}, "raw_operand"},
    {{0xf203, 0x8000, 0x8000, 0x8000, 0x2000}, "raw_operand"},
    {{0xf025, 0x0003, 0x0001, 0x0001, 0x0001}, "raw_operand"},
    {{0xf036, 0x0015, 0x0001}, "raw_operand"},
    {{0xf001, 0xffff, 0xffff, 0xffff, 0xffff, 0x0010, 0x0000}, "raw_operand"},
    {{0xf001, 0x8000, 0x8000, 0x8000, 0x8000, 0x8001, 0x0000}, "raw_operand"},
    {{0xf035, 0x0001, 0xffff, 0xffff, 0xffff, 0xffff, 0x000f}, "raw_allocations"},
    {{0xf001}, "raw_units_short"},
    {{0xf001, 0x8001}, "raw_units_short"},
    {{0xf001, 0x0001}, "raw_units_short"},
    {{0xf001, 0x0001, 0x0043}, "raw_units_short"},
    {{0xf008, 0x0001}, "raw_units_short"},
    {{0xf055, 0x0001, 0x0001, 0x0043}, "raw_units_short"},
    {{0xf038, 0x0004}, "raw_units_short"},
    {{0xf03a, 0x0003, 0x0002, 0x0043}, "raw_units_short"},
    {{0xf103}, "raw_units_short"},
    {{0xd800}, "raw_units_short"},
    {{0xe801}, "raw_units_short"}};

TEST(RawDecoder, RecordsThatCannotBeAreNamedWithTheirPlace)
{
    for (const RecordDamage &damage : kRecordDamages) {
        for (bool packed : {false, true}) {
            RawBuilder raw = example();
            raw.packing = packed ? RawBuilder::kPacked : RawBuilder::kPlain;
            raw.cut(0);
            size_t offset = raw.bytes.size() + 36;
            raw.units(0, {0xf001, 0x0001, 0x0042, 0x0003}, 1);
            raw.units(0, damage.units);
            raw.end();
            Reading reading = read_all(raw.bytes);
            EXPECT_EQ(reading.decode_error, damage.error)
                << std::hex << damage.units[0] << ": " << reading.decode_text;
            EXPECT_NE(reading.decode_text.find("lane 0, record 8"), std::string::npos)
                << reading.decode_text;
            EXPECT_EQ(std::stoull(reading.decode_text.substr(strlen("offset 0x")), nullptr, 16),
                      packed ? offset : offset + 8)
                << reading.decode_text;
            EXPECT_EQ(reading.lanes[0].size(), kExampleRecords + 1)
                << "records before it are delivered";
        }
    }
}

TEST(RawDecoder, ProfilesThatCannotBe)
{
    const std::vector<int> profiles[] = {
        {1, 0, 0, 0, 0, 0, 0, 0},  {0, 18, 0, 0, 0, 0, 0, 0}, {0, 0, 37, 0, 0, 0, 0, 0},
        {0, 0, 0, 21, 0, 0, 0, 0}, {0, 0, 0, 0, 18, 0, 0, 0}, {0, 0, 0, 0, 0, 45, 0, 0},
        {0, 0, 0, 0, 0, 0, 1, 0},  {0, 0, 0, 0, 0, 0, 0, 1},  {63, 0, 0, 0, 0, 0, 0, 0},
        {64, 0, 0, 0, 0, 0, 0, 0}, {255, 0, 0, 0, 0, 0, 0, 0}};
    for (const std::vector<int> &profile : profiles) {
        RawBuilder raw;
        raw.profile = RawBuilder::make_profile(profile);
        raw.thread_end(0);
        raw.cut(0);
        EXPECT_EQ(read_all(raw.bytes).decode_error, "raw_profile");
    }
}

/* Whatever units say, they are read without harm: for a run under sanitizers. */
TEST(RawDecoder, RandomUnits)
{
    RawBuilder source = example();
    source.next_place = 640;
    for (int i = 0; i < 50; i++) {
        source.allocation(0, RawBuilder::kMemalign, static_cast<uint64_t>(i), 64);
        source.cached(0, 3, {static_cast<uint32_t>(65536 + 2 * i), 128});
        source.allocation_cached(0, RawBuilder::kMalloc, 24);
        source.freeing(0, RawBuilder::kFree, RawBuilder::own(static_cast<uint32_t>(65536 + 2 * i)));
        source.uncached(0, 3, 1);
        source.freeing(0, RawBuilder::kFree, source.token(3, 7 + static_cast<uint64_t>(i)));
        source.realloc(0, RawBuilder::kReallocMoved, source.token(0, 2 + static_cast<uint64_t>(i)),
                       5);
        source.failed(0, RawBuilder::kMalloc, 77);
        source.sequence_after(0, 3);
    }
    std::string units = source.segment(0).units;
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        std::string mutated = units;
        for (int changes = 1 + round % 4; changes > 0; changes--) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            mutated[random % mutated.size()] = static_cast<char>(random >> 32);
        }
        RawBuilder raw(round % 2 == 0 ? 0 : 1);
        bool packed = round % 3 == 0;
        raw.chunk(1, packed ? 7 : 3, 0,
                  raw.profile + (packed ? RawBuilder::pack(mutated) : mutated),
                  static_cast<uint32_t>(units.size() / 2), 0, 0);
        Reading reading = read_all(raw.bytes, nullptr, 64);
        EXPECT_LE(reading.lanes[0].size(), units.size() / 2);
    }
}

/* --- spool --- */

void expect_same_records(const std::vector<record> &left, const std::vector<record> &right)
{
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); i++)
        EXPECT_EQ(memcmp(&left[i], &right[i], sizeof(record)), 0) << i;
}

/* A lane that was cut wherever it can be: the slots of its last segments have the rest, whatever of
 * them the stream has. */
TEST(SpoolReader, SlotsContinueTheStreamAnywhere)
{
    RawBuilder raw(1);
    raw.chunks_per_segment = 4;
    std::vector<std::string> streams = {raw.bytes};
    std::vector<RawBuilder::Segment> segments;
    for (int chunk = 0; chunk < 12; chunk++) {
        if (chunk % 3 != 1) raw.sequence_before(0, 3);
        uint64_t a =
            raw.allocation(0, RawBuilder::kMemalign, 24, 32, 0x1000 + 64 * (uint64_t)chunk);
        raw.freeing(0, RawBuilder::kFree, RawBuilder::token(5, 3 + (uint64_t)chunk));
        raw.realloc(0, RawBuilder::kReallocMoved, a, 0x10000, 0x2000);
        raw.lost(0, 7, 2);
        raw.thread_begin(0, 0);
        if (chunk % 4 == 3) segments.push_back(raw.segment(0));
        raw.cut(0);
        streams.push_back(raw.bytes);
    }
    Reading all = read_all(raw.bytes);
    EXPECT_EQ(all.decode_text, "");
    for (size_t chunks = 0; chunks < streams.size(); chunks++) {
        for (size_t first = 0; first <= std::min(chunks / 4, size_t{2}); first++) {
            SpoolBuilder spool(4096, "0123456789abcdef", 1);
            for (size_t segment = first; segment < segments.size(); segment++)
                spool.slot(0, 10 + segment, segments[segment]);
            Reading reading = read_all(streams[chunks], &spool.bytes);
            EXPECT_EQ(reading.decode_text, "");
            EXPECT_EQ(reading.spool_error, "");
            EXPECT_EQ(reading.spool_gaps, 0u);
            expect_same_records(reading.lanes[0], all.lanes[0]);
        }
    }
}

/* The mappings that a spool has, each "what address" or, if some are missing, "lost count". */
std::vector<std::string> mappings_of(const std::string &spool_bytes)
{
    std::vector<std::string> all;
    MemoryFile stream_file(RawBuilder().bytes), spool_file(spool_bytes);
    raw_reader reader;
    spool_reader spool;
    raw_reader_open_fd(&reader, stream_file.fd());
    while (raw_chunk *chunk = raw_reader_next(&reader))
        free(chunk);
    EXPECT_TRUE(spool_reader_open(&spool, spool_file.path().c_str(), &reader));
    while (raw_chunk *chunk = spool_reader_next(&spool, &reader)) {
        const uint8_t *at = chunk->payload, *end = at + chunk->payload_bytes;
        mapping_record record;
        uint64_t latest = 0;
        while (at < end && mapping_record_take(&at, end, &latest, &record) == nullptr)
            all.push_back(
                std::string(mapping_what_name(record.what)) + " " +
                std::to_string(record.what == MAPPING_LOST ? record.length : record.address));
        free(chunk);
    }
    spool_reader_close(&spool);
    raw_reader_close(&reader);
    return all;
}

/* Threads were ended before they had filled their cells: what others have recorded is there. */
TEST(SpoolReader, MappingsBehindAHole)
{
    constexpr uint32_t kCells = 32;
    uint64_t words[kCells * SPOOL_CELL_WORDS] = {0};
    const cell_ring ring = {words, kCells};
    for (uint64_t number : {1, 4, 5, 9, 33, 64}) {
        mapping_record record = {};
        record.what = MAPPING_UNMAP;
        record.address = number;
        cell_put(&ring, number, &record);
    }
    std::string bytes = SpoolBuilder().bytes;
    bytes[SPOOL_HEADER_CELLS] = kCells;
    bytes.append(reinterpret_cast<const char *>(words), sizeof words);
    EXPECT_EQ(mappings_of(bytes),
              (std::vector<std::string>{"lost 3", "unmap 4", "unmap 5", "lost 3", "unmap 9"}))
        << "of the first, a later one has its cell; of the last, there is no such number yet";
}

TEST(SpoolReader, UnitsAreTheSameRecords)
{
    RawBuilder raw = example();
    SpoolBuilder spool;
    spool.slot(0, 0, raw.segment(0));
    raw.cut(0);
    Reading from_spool = read_all(RawBuilder().bytes, &spool.bytes);
    EXPECT_EQ(from_spool.decode_text, "");
    expect_same_records(from_spool.lanes[0], read_all(raw.bytes).lanes[0]);
}

/* The records end before a zero, though units of one may be zero. */
TEST(SpoolReader, WhereTheRecordsOfASlotEnd)
{
    RawBuilder raw;
    raw.thread_begin(0, 0);
    raw.heap(0, RawBuilder::kReleaseMemory, {0, 0});
    std::string units = raw.segment(0).units;
    for (size_t junk : {0, 2, 40}) {
        RawBuilder::Segment segment = raw.segment(0);
        segment.units = units + std::string(2, '\0') + std::string(junk, '\x01');
        SpoolBuilder spool;
        spool.slot(0, 0, segment);
        Reading reading = read_all(RawBuilder().bytes, &spool.bytes);
        EXPECT_EQ(reading.decode_text, "");
        EXPECT_EQ(reading.lanes[0].size(), 2u);
    }
    RawBuilder full;
    while (full.segment(0).units.size() < 4096 - 64)
        full.thread_end(0);
    SpoolBuilder spool;
    spool.slot(0, 0, full.segment(0));
    EXPECT_EQ(read_all(RawBuilder().bytes, &spool.bytes).lanes[0].size(), 2016u);
    RawBuilder::Segment crossing = full.segment(0);
    crossing.units[crossing.units.size() - 1] = static_cast<char>(0xd8);
    SpoolBuilder damaged;
    damaged.slot(0, 0, crossing);
    Reading reading = read_all(RawBuilder().bytes, &damaged.bytes);
    EXPECT_EQ(reading.decode_error, "raw_units_short");
    EXPECT_EQ(reading.lanes[0].size(), 2015u);
}

TEST(SpoolReader, SlotsWithNothing)
{
    RawBuilder raw = example();
    raw.cut(0);
    SpoolBuilder spool;
    spool.slot(0, 0, raw.segment(0));
    RawBuilder::Segment empty = {kExampleAllocations, kExampleUnits, raw.segment(0).profile, false,
                                 ""};
    spool.slot(0, 1, empty);
    Reading reading = read_all(raw.bytes, &spool.bytes);
    EXPECT_EQ(reading.spool_gaps, 0u);
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords) << reading.decode_text;
    empty.units = from_hex("31f0");
    spool.slot(0, 2, empty);
    reading = read_all(raw.bytes, &spool.bytes);
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords + 1) << reading.decode_text;
}

TEST(SpoolReader, GapsEndTheirLaneOnly)
{
    RawBuilder raw = example();
    raw.end_segment(0);
    RawBuilder::Segment segment = raw.segment(0), other = segment;
    segment.units = from_hex("31f0");
    other.first_unit = other.first_allocation = 0;
    other.units = from_hex("31f0");
    auto at = [&segment](uint64_t unit, uint64_t allocations) {
        segment.first_unit = unit;
        segment.first_allocation = allocations;
        return segment;
    };
    SpoolBuilder serials;
    serials.slot(0, 3, at(kExampleUnits, 3));
    serials.slot(1, 0, other);
    serials.slot(0, 5, at(kExampleUnits + 1, 3));
    serials.slot(0, 6, at(kExampleUnits + 2, 3));
    Reading reading = read_all(raw.bytes, &serials.bytes);
    EXPECT_EQ(reading.decode_text, "");
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords + 1);
    EXPECT_EQ(reading.lanes[1].size(), 1u);
    EXPECT_EQ(reading.spool_gaps, 1u);

    SpoolBuilder later;
    later.slot(0, 7, at(kExampleUnits + 1, 3));
    EXPECT_EQ(read_all(raw.bytes, &later.bytes).spool_gaps, 1u) << "units are missing";

    SpoolBuilder between;
    between.slot(0, 7, at(kExampleUnits, 3));
    between.slot(0, 8, at(kExampleUnits + 4096, 3));
    reading = read_all(raw.bytes, &between.bytes);
    EXPECT_EQ(reading.spool_gaps, 1u) << "a slot has not so many";
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords + 1);

    SpoolBuilder within;
    within.slot(0, 7, at(5, 3));
    reading = read_all(raw.bytes, &within.bytes);
    EXPECT_EQ(reading.spool_gaps, 1u) << "it begins within a segment of the stream";
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords);
}

TEST(SpoolReader, FreeSlotsAndOtherRecordingsAreNotUsed)
{
    RawBuilder raw = example();
    SpoolBuilder free_slot;
    free_slot.slot(0, 0, raw.segment(0), 0);
    EXPECT_EQ(read_all(RawBuilder().bytes, &free_slot.bytes).spool_chunks, 0u);

    SpoolBuilder other(4096, "another one's id");
    other.slot(0, 0, raw.segment(0));
    EXPECT_EQ(read_all(RawBuilder().bytes, &other.bytes).spool_error, "spool_other_recording");
}

TEST(SpoolReader, Damage)
{
    RawBuilder raw;
    raw.allocation(0, RawBuilder::kMalloc, 8);
    raw.units(0, {0xf03f});
    SpoolBuilder good;
    good.slot(0, 0, raw.segment(0));
    Reading reading = read_all(RawBuilder().bytes, &good.bytes);
    EXPECT_EQ(reading.decode_error, "raw_number");
    EXPECT_EQ(reading.lanes[0].size(), 1u) << "what comes before is delivered";

    struct {
        size_t at;
        char byte;
        const char *error;
    } const damages[] = {{0, 'x', "spool_no_spool"},        {8, 1, "spool_version"},
                         {20, 'x', "spool_header_damaged"}, {40, 1, "spool_header_damaged"},
                         {4096, 2, "spool_slot_damaged"},   {4102, 1, "spool_slot_damaged"}};
    for (const auto &damage : damages) {
        std::string bytes = good.bytes;
        bytes[damage.at] = damage.byte;
        EXPECT_EQ(read_all(RawBuilder().bytes, &bytes).spool_error, damage.error);
    }
    SpoolBuilder unknown(4096, "0123456789abcdef", 128);
    EXPECT_EQ(read_all(RawBuilder().bytes, &unknown.bytes).spool_error, "raw_feature");
    std::string empty;
    EXPECT_EQ(read_all(RawBuilder().bytes, &empty).spool_error, "spool_no_spool");
    std::string cut = good.bytes.substr(0, 4096 + 64 + 8);
    EXPECT_EQ(read_all(RawBuilder().bytes, &cut).lanes[0].size(), 1u);
}

TEST(SpoolReader, StreamWithoutHeaderDoesNotContradict)
{
    SpoolBuilder spool;
    spool.slot(0, 0, example().segment(0));
    Reading reading = read_all("", &spool.bytes);
    EXPECT_EQ(reading.state, RAW_STREAM_CUT);
    EXPECT_EQ(reading.lanes[0].size(), kExampleRecords);
}

} // namespace
