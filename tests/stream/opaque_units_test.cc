/* Units of an opaque stream (FORMAT.md 2.7, 5.6): what units_opaque.c and the packer write, read back by
 * the decoder. */
#include <gtest/gtest.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/call_table.h"
#include "common/error.h"
#include "stream/raw_decoder.h"
#include "stream/raw_reader.h"
#include "stream/raw_unpack.h"
#include "stream/units.h"
#include "stream/units_profile.h"

extern "C" {
#include "stream/chunk.h"
}

namespace {

constexpr uint32_t kLane = 3;
constexpr size_t kSlotUnits = 3000, kSlotRoom = kSlotUnits + 200;

/* A lane, its slots and its chunks, and what it should say. */
class Lane {
  public:
    std::vector<record> wanted;
    std::vector<uint32_t> live;
    uint64_t calls = 0;
    size_t slot_units = 0, packed_units = 0; /* of packed chunks, as in the slot and as packed */

    Lane(uint32_t features, bool packs)
        : features_(features | RAW_FEATURE_OPAQUE), packs_(packs), slot_(kSlotRoom)
    {
        const pack_source source = {nullptr, nullptr, [](size_t bytes) { return calloc(1, bytes); },
                                    [](void *memory, size_t) { free(memory); }, true};
        packer_init(&packer_, &source);
        pack_fill_entries(unpack_);
        raw_decoder_init(&decoder_, kLane, features_);
        lane = static_cast<units_lane *>(aligned_alloc(alignof(units_lane), sizeof *lane));
        memset(lane, 0, sizeof *lane);
        lane->features = features_;
        lane->rounding = 7;
        begin_segment();
    }
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;
    ~Lane()
    {
        raw_decoder_free(&decoder_);
        packer_release(&packer_);
        free(lane);
    }

    units_lane *lane;

    void make_room()
    {
        if (units_cursor(lane) >= &slot_[kSlotUnits]) end_segment();
    }

    /* Reads back what the slot has, and begins the next one. */
    void end_segment()
    {
        size_t count = static_cast<size_t>(units_cursor(lane) - &slot_[0]);
        auto is_event = [](const record &r) { return r.number != RAW_AFTER; };
        EXPECT_EQ(units_events(lane->profile, features_, slot_.data(), count),
                  static_cast<uint64_t>(std::count_if(wanted.begin() + static_cast<long>(decoded_),
                                                      wanted.end(), is_event)));
        read_back(count);
        units_before_ += count;
        segments_++;
        begin_segment();
    }

    record *want(unsigned kind, bool begins)
    {
        wanted.push_back({});
        record *r = &wanted.back();
        r->number = r->kind = static_cast<uint8_t>(kind);
        r->shape = call_shapes[kind];
        if (begins) r->serial = calls + 1;
        calls++;
        return r;
    }

    record *want_other(unsigned number)
    {
        wanted.push_back({});
        wanted.back().number = wanted.back().kind = static_cast<uint8_t>(number);
        return &wanted.back();
    }

    bool has_addresses() const { return features_ & RAW_FEATURE_ADDRESSES; }

  private:
    uint32_t features_;
    bool packs_;
    std::vector<uint16_t> slot_;
    uint64_t units_before_ = 0, segments_ = 0, segment_calls_ = 0;
    size_t decoded_ = 0;
    packer packer_;
    pack_lane *followed_ = nullptr;
    uint32_t unpack_[PACK_ENTRIES];
    raw_decoder decoder_;

    bool is_key() const { return segments_ % RAW_KEY_SEGMENT_EVERY == 0; }

    void begin_segment()
    {
        std::vector<uint16_t> before(slot_);
        memset(slot_.data(), 0, slot_.size() * sizeof slot_[0]);
        units_begin_segment(lane, before.data(), segments_ ? 1000 : 0, segments_, is_key());
        units_enter_slot(lane, slot_.data());
        segment_calls_ = calls;
    }

    void read_back(size_t count)
    {
        chunk_units chunk = {};
        chunk.lane = kLane;
        chunk.flags = RAW_CHUNK_FLAG_BEGIN | (is_key() ? RAW_CHUNK_FLAG_KEY : 0u);
        chunk.first_unit = units_before_;
        chunk.first_allocation = segment_calls_;
        chunk.records = {lane->profile, features_, slot_.data(), count};
        /* Now and then a segment is not packed, and the lane followed anew after it. */
        bool packed = packs_ && segments_ % 7 != 3;
        if (followed_ && (!packed || is_key())) {
            pack_lane_end(&packer_, followed_);
            followed_ = nullptr;
        }
        if (packed && !followed_) followed_ = pack_lane_begin(&packer_);
        chunk.followed = followed_;
        if (packed) chunk.flags |= RAW_CHUNK_FLAG_PACKED;
        std::vector<uint8_t> bytes(CHUNK_BYTES_MAX(count));
        size_t length = chunk_write(&packer_, &chunk, bytes.data());
        ASSERT_LE(length, bytes.size());
        ASSERT_EQ(packed, (chunk.flags & RAW_CHUNK_FLAG_PACKED) != 0);
        decode(chunk, bytes.data(), length);
    }

    void decode(const chunk_units &written, const uint8_t *bytes, size_t length)
    {
        size_t count = written.records.count;
        const uint8_t *payload = bytes + RAW_CHUNK_HEADER_BYTES + RAW_PROFILE_BYTES;
        std::vector<uint8_t> room(6 * count + RAW_CHUNK_SLACK);
        raw_chunk chunk = {};
        chunk.type = RAW_CHUNK_UNITS;
        chunk.begin = true;
        chunk.key = is_key();
        chunk.packed = (written.flags & RAW_CHUNK_FLAG_PACKED) != 0;
        chunk.lane = kLane;
        chunk.units = static_cast<uint32_t>(count);
        chunk.first_unit = units_before_;
        chunk.first_allocation = segment_calls_;
        chunk.payload = room.data();
        chunk.payload_bytes = static_cast<uint32_t>(2 * count);
        memcpy(chunk.profile, written.records.profile, RAW_PROFILE_BYTES);
        if (chunk.packed) {
            uint32_t units = 3 * chunk.units;
            ASSERT_TRUE(raw_unpack(unpack_, payload,
                                   static_cast<uint32_t>(bytes + length - payload), room.data(),
                                   &units));
            chunk.payload_bytes = 2 * units;
            slot_units += count;
            packed_units += units;
        } else {
            memcpy(room.data(), payload, 2 * count);
        }
        expect(chunk);
    }

    void expect(const raw_chunk &chunk)
    {
        record records[64];
        ASSERT_TRUE(raw_decoder_open(&decoder_, &chunk)) << problem();
        while (uint32_t some = raw_decoder_next(&decoder_, records, 64))
            for (uint32_t i = 0; i < some; i++, decoded_++) {
                ASSERT_LT(decoded_, wanted.size());
                ASSERT_EQ(memcmp(&records[i], &wanted[decoded_], sizeof(record)), 0)
                    << "record " << decoded_ << ", kind " << +records[i].kind << ": place "
                    << records[i].place << " not " << wanted[decoded_].place << ", ends "
                    << records[i].ends << " not " << wanted[decoded_].ends << ", bound "
                    << records[i].bound << " not " << wanted[decoded_].bound;
            }
        ASSERT_FALSE(error_is_set(&decoder_.error)) << problem();
        ASSERT_EQ(decoded_, wanted.size());
    }

    std::string problem() const
    {
        char text[500];
        return error_text(&decoder_.error, text, sizeof text);
    }
};

/* Does what comes to mind: mostly a few sizes, whose places come back; now and then what other
 * lanes have had. */
class Anything {
  public:
    Anything(uint64_t seed, uint32_t features, bool packs) : random_(seed), lane_(features, packs)
    {
    }

    void run(int steps)
    {
        for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); i++) {
            lane_.make_room();
            step();
        }
        lane_.end_segment();
    }

    const Lane &lane() const { return lane_; }

  private:
    std::mt19937_64 random_;
    Lane lane_;
    std::vector<uint32_t> freed_[5000];
    uint32_t next_place_ = 1;
    uint64_t others_[4] = {5, 1, 70000, 8};

    uint64_t below(uint64_t limit) { return random_() % limit; }

    uint64_t some_size()
    {
        static const uint64_t sizes[] = {8, 24, 24, 24, 56, 100, 1024, 4095, 4096, 1000000};
        return below(20) ? sizes[below(10)] : below(3000);
    }

    uint32_t place_for(uint64_t size)
    {
        std::vector<uint32_t> &freed = freed_[size < 5000 ? size : 4999];
        if (!freed.empty() && below(10)) {
            size_t at = below(4) ? freed.size() - 1 : below(freed.size());
            uint32_t place = freed[at];
            freed.erase(freed.begin() + static_cast<long>(at));
            return place;
        }
        if (!below(200)) next_place_ += static_cast<uint32_t>(below(1u << 24));
        return next_place_ += static_cast<uint32_t>(1 + size / 16);
    }

    /* A lane and how far it has got. Lanes 11 and 3 + 8 share an entry. */
    uint64_t other()
    {
        static const uint32_t lanes[] = {0, 4, 11, 19};
        size_t which = below(4);
        others_[which] += below(10) ? below(200) : below(1u << 30);
        return raw_allocations(lanes[which], others_[which]);
    }

    uint64_t address_of(uint32_t place) const { return UINT64_C(0x7f0000000000) + place * 16; }

    units_allocation_of allocation_at(uint32_t place, record *r)
    {
        units_allocation_of allocation = {};
        allocation.object.place = r->place = place;
        allocation.address = reinterpret_cast<const void *>(address_of(place));
        if (lane_.has_addresses()) r->address = address_of(place);
        return allocation;
    }

    void allocate()
    {
        static const unsigned kinds[] = {CALL_MALLOC, CALL_MALLOC, CALL_NEW, CALL_CALLOC,
                                         CALL_MEMALIGN};
        unsigned kind = kinds[below(5)];
        uint64_t size = some_size(), alignment = kind == CALL_MEMALIGN ? 64 * below(2) : 0;
        uint32_t place = place_for(size);
        record *r = lane_.want(kind, true);
        r->size = size;
        r->operand = alignment;
        units_allocation_of allocation = allocation_at(place, r);
        const units_code *code = units_code_of(lane_.lane, kind);
        bool fast = kind != CALL_MEMALIGN && size < code->size_limit && below(2);
        uint16_t *cursor = units_cursor(lane_.lane);
        if (fast)
            units_fast_opaque_allocation(lane_.lane, cursor, kind, size, place);
        else
            units_opaque_allocation(lane_.lane, kind, size, alignment, &allocation);
        lane_.live.push_back(place);
        size_of_.resize(std::max<size_t>(size_of_.size(), lane_.live.size()));
        size_of_[lane_.live.size() - 1] = size;
    }

    std::vector<uint64_t> size_of_; /* of live objects */

    /* An object that lives, and is not alive any more; now and then another lane's or unknown. */
    units_object take_object(record *r, uint64_t *size)
    {
        units_object object = {};
        size_t at = below(4) ? lane_.live.size() - 1 : below(lane_.live.size());
        object.place = r->ends = lane_.live[at];
        r->bound = raw_allocations(kLane, lane_.calls - 1);
        *size = size_of_[at];
        lane_.live[at] = lane_.live.back();
        size_of_[at] = size_of_[lane_.live.size() - 1];
        lane_.live.pop_back();
        size_of_.pop_back();
        if (!below(20)) {
            object.unknown = true;
            r->bound = 0;
        } else if (!below(10)) {
            object.bound = r->bound = other();
        }
        return object;
    }

    void release()
    {
        static const unsigned kinds[] = {CALL_FREE, CALL_FREE, CALL_DELETE, CALL_DELETE_SIZED};
        unsigned kind = kinds[below(4)];
        uint64_t size = 0, given = kind == CALL_DELETE_SIZED ? 1 + below(40000) : 0;
        record *r = lane_.want(kind, false);
        units_object object = take_object(r, &size);
        r->size = given;
        freed_[size < 5000 ? size : 4999].push_back(object.place);
        bool fast = !object.unknown && !object.bound && below(2);
        uint16_t *cursor = units_cursor(lane_.lane);
        if (fast &&
            units_fast_opaque_free(lane_.lane, cursor, kind, object.place, given != 0, given))
            return;
        units_free(lane_.lane, kind, &object, given, 0);
    }

    void resize()
    {
        unsigned kind = below(2) ? CALL_REALLOC_MOVED : CALL_REALLOC_IN_PLACE;
        uint64_t size = some_size(), old_size = 0;
        record *r = lane_.want(kind, true);
        units_object old = take_object(r, &old_size);
        uint32_t place = kind == CALL_REALLOC_MOVED ? place_for(size) : old.place;
        r->size = size;
        units_allocation_of allocation = allocation_at(place, r);
        units_realloc(lane_.lane, kind, &old, size, &allocation);
        if (kind == CALL_REALLOC_MOVED)
            freed_[old_size < 5000 ? old_size : 4999].push_back(old.place);
        lane_.live.push_back(place);
        size_of_.push_back(size);
    }

    /* What the lane comes after, perhaps once more, which need not be said. */
    void come_after()
    {
        bool is_realloc = below(2);
        uint64_t bound = other();
        if (!units_after(lane_.lane, bound, is_realloc)) return;
        record *r = lane_.want_other(RAW_AFTER);
        r->bound = bound;
        r->operand = is_realloc;
        if (!is_realloc) {
            ASSERT_FALSE(units_after(lane_.lane, bound, below(2)));
        }
    }

    void open_page()
    {
        units_page(lane_.lane, static_cast<uint32_t>(1 + below(UINT32_MAX - RAW_PAGE_PLACES)),
                   below(UINT64_C(1) << 44) * 8);
    }

    void step()
    {
        if (!below(20)) come_after();
        if (!below(100)) open_page(); /* the decoder hands it out only if it is asked to */
        size_t live = lane_.live.size();
        if (live < 20 || (live < 400 && below(100) < 49))
            allocate();
        else if (below(20))
            release();
        else
            resize();
    }
};

TEST(OpaqueUnits, AnythingComesBack)
{
    for (uint64_t seed = 1; seed <= 16; seed++) {
        SCOPED_TRACE(seed);
        Anything anything(seed, seed % 4 == 0 ? RAW_FEATURE_ADDRESSES : 0, seed % 2);
        anything.run(60000);
        if (HasFatalFailure()) return;
        const Lane &lane = anything.lane();
        if (seed % 2) {
            EXPECT_LT(10 * lane.packed_units, 9 * lane.slot_units) << "places were left out";
        }
    }
}

/* Places that are far take more bytes than their units: a chunk that has many at its beginning is
 * packed all the same, as Lane expects. */
TEST(OpaqueUnits, FarPlacesFirst)
{
    const uint32_t count = 100;
    Lane lane(0, true);
    for (uint32_t i = 0; i < 2 * count; i++) {
        const bool begins = i < count;
        const uint32_t place = 1 + i % count * 7919 % count * 20000;
        record *r = lane.want(begins ? CALL_MALLOC : CALL_FREE, begins);
        uint16_t *cursor = units_cursor(lane.lane);
        if (begins) {
            r->size = 24;
            r->place = place;
            units_fast_opaque_allocation(lane.lane, cursor, CALL_MALLOC, 24, place);
        } else {
            r->ends = place;
            r->bound = raw_allocations(kLane, lane.calls - 1);
            units_fast_opaque_free(lane.lane, cursor, CALL_FREE, place, false, 0);
        }
    }
    lane.end_segment();
}

/* FORMAT.md 5.6, its example. */
TEST(OpaqueUnits, Example)
{
    std::vector<uint16_t> slot(100);
    units_lane *lane = static_cast<units_lane *>(aligned_alloc(alignof(units_lane), sizeof *lane));
    memset(lane, 0, sizeof *lane);
    lane->features = RAW_FEATURE_OPAQUE;
    units_begin_segment(lane, nullptr, 0, 0, true);
    units_enter_slot(lane, slot.data());
    units_allocation_of allocation = {{65, 0, 0, false, nullptr}, nullptr, false};
    const units_object object = {65, 0, 0, false, nullptr};
    units_opaque_allocation(lane, CALL_MALLOC, 24, 0, &allocation);
    units_free(lane, CALL_FREE, &object, 0, 0);
    EXPECT_EQ(units_allocations_so_far(lane), 2u) << "calls";
    EXPECT_TRUE(units_after(lane, raw_allocations(0, 2), false));
    EXPECT_FALSE(units_after(lane, raw_allocations(0, 2), true)) << "it comes after that";
    units_opaque_allocation(lane, CALL_MALLOC, 20, 0, &allocation);
    const std::vector<uint16_t> wanted = {0x0301, 0x0041, 0xd800, 0x0041, 0xf108,
                                          0,      2,      0x0281, 0x0041};
    EXPECT_EQ(std::vector<uint16_t>(slot.data(), units_cursor(lane)), wanted);
    free(lane);
}

/* Who takes a place in the middle of the realloc that gives it up comes after that. */
TEST(OpaqueUnits, Announced)
{
    std::vector<uint16_t> slot(100);
    units_lane *lane = static_cast<units_lane *>(aligned_alloc(alignof(units_lane), sizeof *lane));
    memset(lane, 0, sizeof *lane);
    units_enter_slot(lane, slot.data());
    units_announce(lane, 65, 1000, 7);
    EXPECT_EQ(lane->ending_place, 65u);
    EXPECT_EQ(lane->ending, 1u);
    EXPECT_EQ(lane->ending_limit, 1000u);
    EXPECT_EQ(lane->ending_owner, 7u);
    units_announce_end(lane);
    EXPECT_EQ(lane->ending_place, 0u);
    free(lane);
}

} // namespace
