/* The units that a traced thread writes, by the inline functions of the hot path and by the others, read back with the
 * decoder, are what was recorded. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "common/call_table.h"
#include "tracing/raw_decoder.h"

extern "C" {
#include "tracing/units.h"
}

namespace {

constexpr size_t kSlotUnits = 8000;

record make_record(unsigned number)
{
    record made = {};
    made.number = static_cast<uint8_t>(number);
    made.shape = call_shapes[number];
    made.kind = static_cast<uint8_t>(number);
    return made;
}

/* A lane with its slot, and what it should say. Tokens are those of the format. */
class Lane {
  public:
    uint32_t number;
    bool addresses;
    struct malloctape_lane *lane;
    uint64_t births = 0, events = 0, units = 0;
    std::vector<record> wanted;

    Lane(uint32_t lane_number, bool with_addresses = false)
        : number(lane_number), addresses(with_addresses), slot_(kSlotUnits + 100)
    {
        lane = static_cast<struct malloctape_lane *>(aligned_alloc(128, sizeof *lane));
        memset(lane, 0, sizeof *lane);
        lane->number = number;
        lane->addresses = addresses;
        lane->next_token = units_token(number, 1);
        raw_decoder_init(&decoder_, number, addresses);
        begin_run(0);
    }
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;
    ~Lane() { free(lane); }

    bool has_room() const { return lane->cursor < &slot_[kSlotUnits]; }

    /* As tracing_tcmalloc.cc does it: the hot path where the kind has a code. */
    uint64_t birth(unsigned kind, uint64_t size, uint64_t alignment, uint64_t address)
    {
        const void *object = reinterpret_cast<const void *>(address);
        uint64_t token = lane->next_token;
        if (size < lane->codes[kind].limit && call_shapes[kind] == SHAPE_BIRTH)
            malloctape_lane_birth(lane, lane->cursor, kind, size, &token);
        else
            units_birth(lane, kind, size, alignment, object);
        EXPECT_EQ(token, units_token(number, births + 1));
        record one = make_record(kind);
        one.size = size;
        one.operand = alignment;
        return began(one, address);
    }

    void death(unsigned kind, uint64_t token, uint64_t size, uint64_t alignment)
    {
        uint64_t own = units_token_of(token);
        bool done = false;
        if (call_shapes[kind] == SHAPE_DEATH)
            done = malloctape_lane_death(lane, lane->cursor, kind, own);
        else if (call_shapes[kind] == SHAPE_DEATH_SIZED)
            done = malloctape_lane_death_sized(lane, lane->cursor, kind, own, size);
        if (!done) units_death(lane, kind, own, size, alignment);
        record one = make_record(kind);
        one.token = token;
        one.size = size;
        one.operand = alignment;
        wanted.push_back(one);
        events++;
    }

    uint64_t reallocated(unsigned kind, uint64_t token, uint64_t size, uint64_t address)
    {
        units_realloc(lane, kind, units_token_of(token), size,
                      reinterpret_cast<const void *>(address));
        record one = make_record(kind);
        one.token = token;
        one.size = size;
        return began(one, address);
    }

    void failed(unsigned kind, uint64_t size, uint64_t alignment, uint64_t token)
    {
        units_failed(lane, kind, size, alignment, units_token_of(token));
        record one = make_record(RAW_FAILED);
        one.kind = static_cast<uint8_t>(kind);
        one.token = token;
        one.size = size;
        one.operand = alignment;
        wanted.push_back(one);
        events++;
    }

    void heap_call(unsigned kind, unsigned count, uint64_t first, uint64_t second)
    {
        units_heap_call(lane, kind, count, first, second);
        record one = make_record(kind);
        one.count = static_cast<uint8_t>(count);
        one.size = count > 0 ? first : 0;
        one.operand = count > 1 ? second : 0;
        wanted.push_back(one);
        events++;
    }

    void thread(unsigned number_of_record, uint64_t id)
    {
        units_thread(lane, number_of_record, id);
        wanted.push_back(make_record(number_of_record));
        wanted.back().operand = id;
    }

    void stamp(bool before, unsigned structure, uint64_t value)
    {
        lane->allocating = before;
        units_stamp(lane, structure, value);
        wanted.push_back(make_record(before ? RAW_STAMP_BEFORE : RAW_STAMP_AFTER));
        wanted.back().structure = structure;
        wanted.back().size = value;
    }

    void lost(uint64_t lost_events, uint64_t lost_births)
    {
        units_lost(lane, lost_events, lost_births);
        lane->next_token += lost_births;
        births += lost_births;
        wanted.push_back(make_record(RAW_LOST));
        wanted.back().size = lost_events;
        wanted.back().operand = lost_births;
    }

    /* Compares what the slot says with what is wanted, and begins the next run. Returns the units of the run. */
    size_t end_run()
    {
        size_t count = static_cast<size_t>(lane->cursor - slot_.data());
        EXPECT_EQ(units + count - lane->extra_units, events) << "first units of events";
        EXPECT_EQ(units_events(profile_, addresses, slot_.data(), count), events - run_events_);
        run_events_ = events;
        raw_chunk chunk = {};
        chunk.type = RAW_CHUNK_UNITS;
        chunk.begin = true;
        chunk.key = key_;
        chunk.open_ended = true;
        memcpy(chunk.profile, profile_, sizeof profile_);
        chunk.lane = number;
        chunk.units = static_cast<uint32_t>(count);
        chunk.first_unit = units;
        chunk.first_birth = run_birth_;
        chunk.payload = reinterpret_cast<uint8_t *>(slot_.data());
        chunk.payload_bytes = 2 * chunk.units;
        std::vector<record> records(wanted.size() + 1);
        raw_decoder_open(&decoder_, &chunk);
        uint32_t done = 0;
        while (uint32_t some = raw_decoder_next(&decoder_, &records[done],
                                                static_cast<uint32_t>(records.size()) - done))
            done += some;
        char text[512];
        EXPECT_FALSE(error_is_set(&decoder_.error))
            << error_text(&decoder_.error, text, sizeof text);
        EXPECT_EQ(done, wanted.size());
        for (size_t i = 0; i < done && i < wanted.size(); i++)
            expect_same(wanted[i], records[i], i);
        EXPECT_EQ(decoder_.births, births);
        units += count;
        wanted.clear();
        begin_run(count);
        return count;
    }

  private:
    std::vector<uint16_t> slot_;
    raw_decoder decoder_;
    uint8_t profile_[RAW_PROFILE_BYTES];
    uint64_t run_birth_ = 0, run_events_ = 0;
    bool key_ = false;

    void begin_run(size_t count)
    {
        key_ = lane->slots % RAW_KEY_RUN_EVERY == 0;
        lane->cursor = slot_.data();
        units_begin_run(lane, slot_.data(), count, key_);
        lane->slots++;
        memcpy(profile_, lane->profile, sizeof profile_);
        run_birth_ = births;
        memset(slot_.data(), 0, slot_.size() * sizeof slot_[0]);
    }

    static uint64_t units_token_of(uint64_t token)
    {
        if (token == RAW_TOKEN_UNKNOWN) return token;
        return units_token(raw_token_lane(token), raw_token_serial(token));
    }

    uint64_t began(record one, uint64_t address)
    {
        one.serial = ++births;
        if (addresses) one.address = address;
        wanted.push_back(one);
        events++;
        return raw_token(number, births);
    }

    static void expect_same(const record &left, const record &right, size_t i)
    {
        EXPECT_EQ(left.number, right.number) << i;
        EXPECT_EQ(left.kind, right.kind) << i;
        EXPECT_EQ(left.count, right.count) << i;
        EXPECT_EQ(left.structure, right.structure) << i;
        EXPECT_EQ(left.token, right.token) << i;
        EXPECT_EQ(left.size, right.size) << i;
        EXPECT_EQ(left.serial, right.serial) << i;
        EXPECT_EQ(left.operand, right.operand) << i;
        EXPECT_EQ(left.address, right.address) << i;
    }
};

bool has_size(unsigned shape)
{
    return shape == SHAPE_DEATH_SIZED || shape == SHAPE_DEATH_SIZED_ALIGNED;
}

bool has_alignment(unsigned shape)
{
    return shape == SHAPE_BIRTH_ALIGNED || shape == SHAPE_DEATH_ALIGNED ||
           shape == SHAPE_DEATH_SIZED_ALIGNED;
}

/* Does what comes to mind, mostly with a few kinds that change from time to time. */
class Anything {
  public:
    Anything(uint64_t seed, uint32_t number, bool addresses)
        : random_(seed), lane_(number, addresses)
    {
        for (unsigned kind = 1; kind < CALL_KINDS; kind++)
            if (call_shapes[kind] != SHAPE_UNDEFINED) kinds_.push_back(kind);
    }

    void run(int runs)
    {
        for (int i = 0; i < runs; i++) {
            for (unsigned &kind : favourites_)
                if (i % 5 == 0) kind = kinds_[random(kinds_.size())];
            reach_ = std::vector<uint64_t>{10, 3000, 100000}[random(3)];
            while (lane_.has_room())
                step();
            lane_.end_run();
            if (testing::Test::HasFailure()) return;
        }
    }

  private:
    std::mt19937_64 random_;
    Lane lane_;
    std::vector<unsigned> kinds_;
    unsigned favourites_[6] = {1, 21, 1, 21, 3, 28};
    uint64_t reach_ = 10;
    uint64_t stamps_[256] = {};

    uint64_t random(uint64_t below) { return random_() % below; }
    /* Any size of number, small ones mostly. */
    uint64_t number() { return random_() >> (random(4) == 0 ? random(64) : 50 + random(14)); }
    uint64_t address() { return random_() >> (random(2) == 0 ? 17 : 40) & ~uint64_t{7}; }

    uint64_t object()
    {
        uint64_t most = (uint64_t{1} << RAW_SERIAL_BITS) - 1;
        switch (random(40)) {
        case 0: return RAW_TOKEN_UNKNOWN;
        case 1: return raw_token(lane_.number == 7 ? 8 : 7, 1 + random(100000000));
        case 2: return raw_token(lane_.number == 65535 ? 8 : 65535, most - random(10));
        case 3: return raw_token(lane_.number == 15 ? 8 : 15, 1 + random(10));
        default: break;
        }
        if (lane_.births == 0) return RAW_TOKEN_UNKNOWN;
        return raw_token(lane_.number, lane_.births - random(std::min(lane_.births, reach_)));
    }

    void step()
    {
        uint64_t what = random(100);
        unsigned kind = what < 90 ? favourites_[random(6)] : kinds_[random(kinds_.size())];
        unsigned shape = call_shapes[kind];
        uint64_t size = number(), alignment = has_alignment(shape) ? number() : 0;
        if (what == 99) return other();
        if (shape == SHAPE_HEAP)
            lane_.heap_call(kind, static_cast<unsigned>(random(3)), number(), number());
        else if (shape == SHAPE_BIRTH || shape == SHAPE_BIRTH_ALIGNED)
            random(50) == 0 ? lane_.failed(kind, size, alignment, 0)
                            : (void)lane_.birth(kind, size, alignment, address());
        else if (shape == SHAPE_REALLOC)
            random(50) == 0 ? lane_.failed(kind, size, 0, object())
                            : (void)lane_.reallocated(kind, object(), size, address());
        else
            lane_.death(kind, object(), has_size(shape) ? size : 0, alignment);
    }

    void other()
    {
        unsigned structure = random(3) == 0 ? 255 : static_cast<unsigned>(random(128));
        switch (random(6)) {
        case 0: lane_.thread(RAW_THREAD_BEGIN, number()); break;
        case 1: lane_.thread(RAW_THREAD_END, 0); break;
        case 2: lane_.thread(RAW_THREAD_CACHE_DELETED, 0); break;
        case 3: lane_.lost(number(), random(100)); break;
        default:
            stamps_[structure] += 1 + random(random(2) == 0 ? 3 : 100000);
            lane_.stamp(random(2) == 0, structure, stamps_[structure]);
        }
    }
};

TEST(Units, AnythingIsReadAsItWasRecorded)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Anything anything(seed, seed % 4 == 0 ? 65535 : static_cast<uint32_t>(seed), seed % 3 == 0);
        anything.run(25);
        if (HasFailure()) return;
    }
}

/* A kind that is frequent gets a range by the next run, whatever it is. */
TEST(Units, ProfilesFollowWhatIsFrequent)
{
    for (unsigned birth = 1; birth < CALL_KINDS; birth++) {
        if (call_shapes[birth] != SHAPE_BIRTH && call_shapes[birth] != SHAPE_BIRTH_ALIGNED)
            continue;
        for (unsigned death : {21u, 28u, 30u, 35u}) {
            Lane lane(1);
            size_t records = 0;
            for (int run = 0; run < 2; run++) {
                for (records = 0; lane.has_room(); records += 2) {
                    unsigned shape = call_shapes[death];
                    uint64_t alignment = call_shapes[birth] == SHAPE_BIRTH_ALIGNED ? 64 : 0;
                    uint64_t object = lane.birth(birth, 2000, alignment, 0);
                    lane.death(death, object, has_size(shape) ? 2000 : 0,
                               has_alignment(shape) ? 64 : 0);
                }
                size_t most = 1 + (call_shapes[birth] == SHAPE_BIRTH_ALIGNED) + 1 +
                              has_size(call_shapes[death]) + has_alignment(call_shapes[death]);
                EXPECT_LE(lane.end_run(), run == 0 ? SIZE_MAX : records / 2 * most)
                    << call_names[birth] << " " << call_names[death];
            }
        }
    }
}

/* A run in which many distances are far has them all written in two units. */
TEST(Units, DistancesThatAreFar)
{
    Lane lane(3);
    for (int i = 0; i < 40; i++) {
        while (lane.has_room()) {
            lane.birth(1, 8, 0, 0);
            if (lane.births > 50000) lane.death(21, raw_token(3, lane.births - 40000), 0, 0);
            if (lane.births > 50000) lane.death(21, raw_token(3, lane.births), 0, 0);
        }
        lane.end_run();
    }
}

/* The same with a kind that is told the size, and is not the first one's at the beginning. */
TEST(Units, DistancesThatAreFarOfSizedDeaths)
{
    Lane lane(3);
    for (int i = 0; i < 40; i++) {
        while (lane.has_room()) {
            lane.birth(5, 8, 0, 0);
            if (lane.births > 50000)
                lane.death(CALL_DELETE_SIZED, raw_token(3, lane.births - 40000), 24, 0);
            if (lane.births > 50000)
                lane.death(CALL_DELETE_SIZED, raw_token(3, lane.births), 24, 0);
        }
        lane.end_run();
    }
    EXPECT_EQ(lane.lane->profile[RAW_DEATH_1], CALL_DELETE_SIZED);
}

} // namespace
