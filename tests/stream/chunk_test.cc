/* The capture core's chunks: what it makes of units, read back, is what the units were; and it is
 * what FORMAT.md says, by a second writer. */
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/call_kind.h"
#include "stream/raw_reader.h"
#include "tests/memory_file.h"
#include "tests/raw_builder.h"

extern "C" {
#include "stream/chunk.h"
}

namespace {

constexpr size_t kGuardBytes = 64;
constexpr char kGuard = '\xa5';

/* No lane is followed here, so nobody asks for a class. */
packer *the_packer()
{
    static const std::unique_ptr<packer> made = [] {
        std::unique_ptr<packer> fresh(new packer());
        const pack_source source = {};
        packer_init(fresh.get(), &source);
        return fresh;
    }();
    return made.get();
}

/* What was written; nothing was stored behind the room that the header promises to be enough. */
std::string written(const std::string &out, size_t room, size_t bytes)
{
    EXPECT_LE(bytes, room);
    EXPECT_EQ(out.substr(room), std::string(kGuardBytes, kGuard));
    return out.substr(0, bytes);
}

std::string write_units(const std::vector<uint16_t> &units, unsigned flags, uint32_t lane = 0,
                        uint64_t first_unit = 0, uint64_t first_allocation = 0)
{
    const std::string profile = RawBuilder().profile;
    size_t room = CHUNK_BYTES_MAX(units.size());
    std::string out(room + kGuardBytes, kGuard);
    chunk_units chunk = {};
    chunk.lane = lane;
    chunk.flags = flags;
    chunk.first_unit = first_unit;
    chunk.first_allocation = first_allocation;
    chunk.records.profile = reinterpret_cast<const uint8_t *>(profile.data());
    chunk.records.units = units.data();
    chunk.records.count = units.size();
    return written(out, room,
                   chunk_write(the_packer(), &chunk, reinterpret_cast<uint8_t *>(&out[0])));
}

std::string bytes_of(const std::vector<uint16_t> &units)
{
    std::string bytes;
    for (uint16_t unit : units)
        bytes::put(bytes, unit, 2);
    return bytes;
}

/* The same chunk by the other writer. */
std::string expected(const std::vector<uint16_t> &units, unsigned flags, uint32_t lane = 0,
                     uint64_t first_unit = 0, uint64_t first_allocation = 0)
{
    RawBuilder raw;
    std::string payload = (flags & RAW_CHUNK_FLAG_BEGIN) != 0 ? raw.profile : "";
    std::string bytes = bytes_of(units);
    payload += (flags & RAW_CHUNK_FLAG_PACKED) != 0 ? RawBuilder::pack(bytes) : bytes;
    raw.bytes.clear();
    raw.chunk(1, static_cast<int>(flags), lane, payload, static_cast<uint32_t>(units.size()),
              first_unit, first_allocation);
    return raw.bytes;
}

/* The units that the reader makes of a key segment's first chunk. */
std::string read_back(const std::string &chunk)
{
    MemoryFile file(RawBuilder().bytes + chunk);
    raw_reader reader;
    std::string units = "none";
    raw_reader_open_fd(&reader, file.fd());
    if (raw_chunk *read = raw_reader_next(&reader)) {
        units.assign(reinterpret_cast<const char *>(read->payload), read->payload_bytes);
        free(read);
    }
    raw_reader_close(&reader);
    return units;
}

constexpr unsigned kKeyRun = RAW_CHUNK_FLAG_BEGIN | RAW_CHUNK_FLAG_KEY;

TEST(Chunk, FieldsAreThoseOfTheFormat)
{
    const std::vector<uint16_t> units = {0xf030, 0x1267, 0xa018, 0x0001, 0xf301};
    for (unsigned flags : {0u, 1u, 3u, 4u, 5u, 7u})
        EXPECT_EQ(write_units(units, flags, 65535, uint64_t{1} << 50, uint64_t{1} << 41),
                  expected(units, flags, 65535, uint64_t{1} << 50, uint64_t{1} << 41))
            << flags;
}

TEST(Chunk, NoUnits)
{
    for (unsigned flags : {0u, kKeyRun, kKeyRun | RAW_CHUNK_FLAG_PACKED})
        EXPECT_EQ(write_units({}, flags), expected({}, flags));
}

/* As short as it can be, and the same when read. */
TEST(Chunk, EveryUnitIsPackedAndReadBack)
{
    std::vector<uint16_t> units;
    for (uint32_t unit = 0; unit < 65536; unit++)
        units.push_back(static_cast<uint16_t>(unit));
    std::string packed = write_units(units, kKeyRun | RAW_CHUNK_FLAG_PACKED);
    EXPECT_EQ(packed, expected(units, kKeyRun | RAW_CHUNK_FLAG_PACKED));
    EXPECT_EQ(read_back(packed), bytes_of(units));
    EXPECT_EQ(read_back(write_units(units, kKeyRun)), bytes_of(units));
}

TEST(Chunk, UnitsInAnySequence)
{
    uint64_t random = 88172645463325252u;
    for (size_t count : {1, 2, 3, 7, 8, 9, 1000, 100000}) {
        std::vector<uint16_t> units;
        while (units.size() < count) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            uint64_t kind = random % 4, value = random >> 40;
            units.push_back(static_cast<uint16_t>(kind == 0   ? value % 64
                                                  : kind == 1 ? 0xa000 + value % 512
                                                  : kind == 2 ? value % 0x3000
                                                              : value));
        }
        std::string packed = write_units(units, kKeyRun | RAW_CHUNK_FLAG_PACKED);
        EXPECT_EQ(packed, expected(units, kKeyRun | RAW_CHUNK_FLAG_PACKED));
        EXPECT_EQ(read_back(packed), bytes_of(units));
    }
}

/* Units that are longest when packed: the room that CHUNK_BYTES_MAX() gives is enough. */
TEST(Chunk, TheLongest)
{
    std::vector<uint16_t> units(5000, 0xffff);
    EXPECT_EQ(read_back(write_units(units, kKeyRun | RAW_CHUNK_FLAG_PACKED)), bytes_of(units));
}

/* Objects are named by their ages if the lane has been followed since their allocations; what it
 * was before does not count, because there are chunks between that are not packed. */
TEST(Chunk, AgesSinceTheLaneIsFollowed)
{
    constexpr uint16_t kPlace = 64;
    const std::string profile = RawBuilder().profile;
    const std::vector<uint8_t> classes(2, 1);
    const pack_source source = {[](uint64_t) -> uint32_t { return 1; }, classes.data(),
                                [](size_t bytes) { return calloc(1, bytes); },
                                [](void *memory, size_t) { free(memory); }, false};
    packer own;
    packer_init(&own, &source);
    auto pack = [&](pack_lane *lane, const std::vector<uint16_t> &units) {
        std::string out(3 * units.size() + 4, kGuard);
        pack_records records = {reinterpret_cast<const uint8_t *>(profile.data()), false,
                                units.data(), units.size()};
        uint8_t *begin = reinterpret_cast<uint8_t *>(&out[0]);
        return out.substr(0, static_cast<size_t>(pack_units(&own, lane, &records, begin) - begin));
    };
    const std::vector<uint16_t> allocation = {static_cast<uint16_t>(RAW_UNIT_GENERAL + CALL_MALLOC),
                                              24, kPlace, 1};
    const std::vector<uint16_t> freeing = {kPlace};
    const std::string aged(1, '\0'), placed = pack(nullptr, freeing);
    pack_lane *lane = pack_lane_begin(&own);
    pack(lane, allocation);
    EXPECT_EQ(pack(lane, freeing), aged);
    pack(lane, allocation);
    pack_lane_end(&own, lane);
    lane = pack_lane_begin(&own);
    EXPECT_EQ(pack(lane, freeing), placed);
    pack(lane, allocation);
    EXPECT_EQ(pack(lane, freeing), aged);
    pack_lane_end(&own, lane);
    packer_release(&own);
}

TEST(Chunk, Ticks)
{
    RawBuilder raw;
    raw.bytes.clear();
    raw.tick(~uint64_t{0}, 4096, uint64_t{1} << 40, true, {8192, 5000, 6000, uint64_t{1} << 41});
    const uint64_t most = ~uint64_t{0};
    raw.tick(most, most, most, true, std::vector<uint64_t>(4 + ORIGINAL_STATISTICS_MAX, most));
    raw_tick ticks[] = {
        {most, 4096, uint64_t{1} << 40, true, {8192, 5000, 6000, uint64_t{1} << 41}, {}},
        {most, most, most, true, {most, most, most, most}, {ORIGINAL_STATISTICS_MAX, {}}}};
    std::fill_n(ticks[1].statistics.values, ORIGINAL_STATISTICS_MAX, most);
    std::string both;
    for (uint64_t tick : {0, 1}) {
        std::string out(CHUNK_TICK_BYTES_MAX + kGuardBytes, kGuard);
        size_t bytes = chunk_write_tick(tick, &ticks[tick], reinterpret_cast<uint8_t *>(&out[0]));
        both += written(out, CHUNK_TICK_BYTES_MAX, bytes);
    }
    EXPECT_EQ(both, raw.bytes);
}

TEST(Chunk, Ends)
{
    const uint64_t most = UINT64_MAX;
    for (const std::vector<uint64_t> &units :
         {std::vector<uint64_t>{}, {7, 0, 300}, std::vector<uint64_t>(1000, most)}) {
        RawBuilder raw;
        raw.bytes.clear();
        raw.chunk(3, 0, 0, encode_end({1, 2, most, 4, 500, 6, units}), 0, 5, 0);
        const raw_end end = {1, 2, most, 4, 500, 6, static_cast<uint32_t>(units.size())};
        const size_t room = CHUNK_END_BYTES_MAX(units.size()) + VARINT_SLACK;
        std::string out(room + kGuardBytes, kGuard);
        size_t bytes = chunk_write_end(
            5, &end,
            [](const void *of, uint32_t lane) { return static_cast<const uint64_t *>(of)[lane]; },
            units.data(), reinterpret_cast<uint8_t *>(&out[0]));
        EXPECT_EQ(written(out, room, bytes), raw.bytes);
    }
}

} // namespace
