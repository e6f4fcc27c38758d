/* raw_builder - raw event streams and spools for tests, written from FORMAT.md by hand.
 *
 * Shares no code with what it tests, apart from the checksum's library. Simple rather than fast:
 *
 *     RawBuilder raw;
 *     uint64_t a = raw.birth(0, 1, 24);         lane 0, malloc(24): returns the token
 *     raw.death(1, 21, a);                      lane 1, free
 *     raw.tick(10000000, 0, 0);                 what is pending becomes chunks, then a tick
 *     raw.end();
 *     raw.bytes                                 the stream
 *
 * A lane's pending records become a chunk with cut(lane), cut_all(), tick() or end(). A few chunks are a run; every
 * other chunk is packed. Stamps take the next number of their structure, so calls made in the order in which they
 * "happened" describe a program that could have been. */
#ifndef TESTS_RAW_BUILDER_H
#define TESTS_RAW_BUILDER_H

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

class RawBuilder {
  public:
    /* Kinds of call that tests use, FORMAT.md 3 and common/call_kind.h. */
    enum Kind {
        kMalloc = 1,
        kMemalign = 8,
        kReallocMoved = 18,
        kReallocInPlace = 19,
        kFree = 21,
        kDeleteSized = 28,
        kDeleteAligned = 30,
        kDeleteSizedAligned = 35,
        kReleaseMemory = 37
    };
    static constexpr uint32_t kPageHeap = 255;

    std::string bytes;
    /* Of the next runs (FORMAT.md 5.1): deaths, births, realloc. */
    std::string profile =
        make_profile({kFree, kDeleteSized, 0, kMalloc, kMemalign, 0, kReallocMoved, 0});
    uint64_t chunks_per_run = 3;
    enum { kPlain, kPacked, kEveryOther } packing = kEveryOther;
    /* The first stamp of a structure is 1. Tests may leave numbers out by adding here. */
    std::map<uint32_t, uint64_t> next_stamp;

    explicit RawBuilder(uint64_t features = 0, const std::string &metadata = "",
                        const std::string &run_id = "0123456789abcdef")
        : addresses_((features & 1) != 0)
    {
        std::string header = "MTAPERAW";
        put16(header, 2);
        put16(header, 0);
        put32(header, static_cast<uint32_t>(metadata.size()));
        put64(header, features);
        put64(header, 0);
        header += run_id;
        put64(header, 1700000000000000000);
        put32(header, 4711);
        put32(header, checksum(header + metadata));
        bytes = header + metadata;
    }

    static uint64_t token(uint32_t lane, uint64_t serial)
    {
        return static_cast<uint64_t>(lane) << 42 | serial;
    }

    static std::string make_profile(const std::vector<int> &kinds)
    {
        return std::string(kinds.begin(), kinds.end());
    }

    /* --- records --- */

    uint64_t birth(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                   uint64_t address = 0)
    {
        Lane &l = open(lane);
        if (is(l, 3, kind) && size < 0x2000)
            unit(l, 0x8000 + size);
        else if (is(l, 4, kind) && size < 0x1000)
            unit(l, 0xc000 + size);
        else if (is(l, 5, kind) && size < 0x800)
            unit(l, 0xd000 + size);
        else
            number(general(l, kind), size);
        if (has_alignment(kind)) number(l, alignment);
        put_address(l, address);
        l.births++;
        events_++;
        return token(lane, l.births);
    }

    void death(uint32_t lane, int kind, uint64_t object, uint64_t size = 0, uint64_t alignment = 0)
    {
        Lane &l = open(lane);
        bool own = object != 0 && lane_of(object) == lane;
        if (own ? !put_own_death(l, kind, l.births + 1 - serial_of(object))
                : !put_foreign_death(l, kind, object)) {
            general(l, kind | flags(lane, object));
            put_object(l, lane, object);
        }
        if (has_size_given(kind)) number(l, size);
        if (has_alignment(kind)) number(l, alignment);
        events_++;
    }

    uint64_t realloc(uint32_t lane, int kind, uint64_t object, uint64_t size, uint64_t address = 0)
    {
        Lane &l = open(lane);
        uint64_t distance = l.births + 1 - serial_of(object);
        if (is(l, 6, kind) && object != 0 && lane_of(object) == lane && distance <= 0x400) {
            unit(l, 0xe7ff + distance);
        } else {
            general(l, kind | flags(lane, object));
            put_object(l, lane, object);
        }
        number(l, size);
        put_address(l, address);
        l.births++;
        events_++;
        return token(lane, l.births);
    }

    void heap(uint32_t lane, int kind, const std::vector<uint64_t> &numbers)
    {
        Lane &l = open(lane);
        number(general(l, kind), numbers.size());
        for (uint64_t one : numbers)
            number(l, one);
        events_++;
    }

    void thread_begin(uint32_t lane, uint64_t thread) { number(general(open(lane), 48), thread); }
    void thread_end(uint32_t lane) { general(open(lane), 49); }
    void thread_cache_deleted(uint32_t lane) { general(open(lane), 50); }

    void stamp_before(uint32_t lane, uint32_t structure)
    {
        stamp(lane, 51, structure, take(structure));
    }
    void stamp_after(uint32_t lane, uint32_t structure)
    {
        stamp(lane, 52, structure, take(structure));
    }

    /* With a number of the test's choice. */
    void stamp(uint32_t lane, int record, uint32_t structure, uint64_t value)
    {
        Lane &l = open(lane);
        unit(l, (record == 51 ? 0xf100u : 0xf200u) + structure);
        number(l, value - l.latest[structure]);
        l.latest[structure] = value;
    }

    void lost(uint32_t lane, uint64_t events, uint64_t births)
    {
        Lane &l = open(lane);
        number(number(general(l, 53), events), births);
        l.births += births;
        lost_ += events;
    }

    void failed(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0, uint64_t object = 0)
    {
        bool is_realloc = kind == kReallocMoved || kind == kReallocInPlace;
        Lane &l = open(lane);
        number(general(l, 54 | (is_realloc ? flags(lane, object) : 0)),
               static_cast<uint64_t>(kind));
        if (is_realloc) put_object(l, lane, object);
        number(l, size);
        if (has_alignment(kind)) number(l, alignment);
        events_++;
    }

    void lost_stamps(uint32_t lane, uint32_t structure, uint64_t first, uint64_t count)
    {
        number(number(number(general(open(lane), 55), structure), first), count);
    }

    /* One record, as it is, that the functions above would not write; births so many objects. */
    void units(uint32_t lane, const std::vector<uint16_t> &record, uint64_t births = 0)
    {
        Lane &l = open(lane);
        for (uint16_t one : record)
            unit(l, one);
        l.births += births;
    }

    /* --- chunks and runs --- */

    void cut(uint32_t lane)
    {
        Lane &l = lanes_[lane];
        if (l.pending.empty()) return;
        bool begin = l.run_chunks == 0;
        bool packed = packing == kPacked || (packing == kEveryOther && l.chunks % 2 == 1);
        std::string payload = begin ? l.profile : "";
        payload += packed ? pack(l.pending) : l.pending;
        chunk(1, (begin ? 1 : 0) | (begin && l.key ? 2 : 0) | (packed ? 4 : 0), lane, payload,
              static_cast<uint32_t>(l.pending.size() / 2), l.first_unit, l.run_birth);
        l.first_unit += l.pending.size() / 2;
        l.pending.clear();
        l.chunks++;
        if (++l.run_chunks >= chunks_per_run) end_run(lane);
    }

    void cut_all()
    {
        for (auto &lane : lanes_)
            cut(lane.first);
    }

    /* The lane's next record begins a run. */
    void end_run(uint32_t lane)
    {
        cut(lane);
        lanes_[lane].in_run = false;
    }

    /* What is in the lane's slot of the spool: its present run, or its latest one. */
    struct Run {
        uint64_t first_birth, first_unit;
        std::string profile;
        bool key;
        std::string units; /* bytes */
    };
    Run run(uint32_t lane)
    {
        const Lane &l = lanes_[lane];
        return {l.run_birth, l.run_unit, l.profile, l.key, l.run_units};
    }

    /* Without `cut_first` what is pending comes behind the tick. */
    void tick(uint64_t ns, uint64_t rss, uint64_t heap_bytes, bool cut_first = true)
    {
        if (cut_first) cut_all();
        std::string payload;
        varint(payload, ns);
        varint(payload, rss);
        varint(payload, heap_bytes);
        chunk(2, 0, 0, payload, 0, ticks_++, 0);
        now_ = ns;
    }

    void end(int status = 0)
    {
        cut_all();
        std::string payload;
        varint(payload, static_cast<uint64_t>(status));
        varint(payload, now_);
        varint(payload, events_);
        varint(payload, lost_);
        varint(payload, 0);
        varint(payload, 0);
        uint32_t lanes = lanes_.empty() ? 0 : lanes_.rbegin()->first + 1;
        varint(payload, lanes);
        for (uint32_t lane = 0; lane < lanes; lane++)
            varint(payload, lanes_[lane].first_unit);
        chunk(3, 0, 0, payload, 0, ticks_, 0);
    }

    /* Any chunk at all; the checksum is right. */
    void chunk(int type, int chunk_flags, uint32_t lane, const std::string &payload, uint32_t units,
               uint64_t first_unit, uint64_t first_birth)
    {
        std::string header = "MTRC";
        header += static_cast<char>(type);
        header += static_cast<char>(chunk_flags);
        put16(header, static_cast<uint16_t>(lane));
        put32(header, static_cast<uint32_t>(payload.size()));
        put32(header, units);
        put64(header, first_unit);
        put64(header, first_birth);
        put32(header, checksum(header + payload));
        bytes += header + payload;
    }

    uint64_t records(uint32_t lane) { return lanes_[lane].records; }
    uint64_t births(uint32_t lane) { return lanes_[lane].births; }

    /* --- bytes --- */

    static void varint(std::string &to, uint64_t value)
    {
        unsigned count = 1;
        while (count < 9 && (count == 8 ? value >> 56 : value >> (7 * count)) != 0)
            count++;
        if (count == 9) {
            to += '\0';
            put64(to, value);
            return;
        }
        uint64_t word = (value << count) | (uint64_t{1} << (count - 1));
        for (unsigned i = 0; i < count; i++)
            to += static_cast<char>(word >> (8 * i));
    }

    /* FORMAT.md 5.5, as short as it goes. */
    static std::string pack(const std::string &units)
    {
        std::string packed;
        for (size_t i = 0; i < units.size(); i += 2) {
            uint32_t lower = static_cast<uint8_t>(units[i]);
            uint32_t upper = static_cast<uint8_t>(units[i + 1]), unit = upper << 8 | lower;
            int page = page_of(upper);
            if (unit >= 1 && unit <= 48)
                put(packed, unit - 1, 1);
            else if (unit >= 0x8000 && unit < 0x8000 + 8 * 44 && unit % 8 == 0)
                put(packed, 48 + (unit - 0x8000) / 8, 1);
            else if (unit >= 0xa000 && unit < 0xa000 + 12)
                put(packed, 92 + unit - 0xa000, 1);
            else if (unit >= 0xc000 && unit < 0xc000 + 8 * 24 && unit % 8 == 0)
                put(packed, 104 + (unit - 0xc000) / 8, 1);
            else if (page >= 0)
                put(packed, static_cast<uint64_t>(page) | lower << 8, 2);
            else
                put(packed, 255 | unit << 8, 3);
        }
        return packed;
    }

    static uint64_t zigzag(int64_t value)
    {
        return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
    }

    static void put16(std::string &to, uint16_t value) { put(to, value, 2); }
    static void put32(std::string &to, uint32_t value) { put(to, value, 4); }
    static void put64(std::string &to, uint64_t value) { put(to, value, 8); }

    static uint32_t checksum(const std::string &data)
    {
        return static_cast<uint32_t>(XXH3_64bits(data.data(), data.size()));
    }

  private:
    struct Lane {
        std::string pending;     /* units, in bytes */
        uint64_t first_unit = 0; /* of those */
        uint64_t records = 0, births = 0, chunks = 0, runs = 0;
        std::map<uint32_t, uint64_t> latest; /* stamp numbers, by structure */
        bool in_run = false;
        /* Of the run. */
        std::string profile, run_units;
        bool key = false;
        uint64_t run_birth = 0, run_unit = 0, run_chunks = 0, last_address = 0;
        uint64_t foreign[8] = {}; /* tokens */
    };

    static void put(std::string &to, uint64_t value, int count)
    {
        for (int i = 0; i < count; i++)
            to += static_cast<char>(value >> (8 * i));
    }

    static bool has_alignment(int kind)
    {
        return (kind >= 8 && kind <= 10) || (kind >= 13 && kind <= 16) ||
               (kind >= 30 && kind <= 36);
    }
    static bool has_size_given(int kind)
    {
        return (kind >= 27 && kind <= 29) || (kind >= 34 && kind <= 36);
    }

    static uint32_t lane_of(uint64_t object) { return static_cast<uint32_t>(object >> 42); }
    static uint64_t serial_of(uint64_t object) { return object & ((uint64_t{1} << 42) - 1); }

    static int flags(uint32_t lane, uint64_t object)
    {
        if (object == 0) return 0x80;
        return lane_of(object) == lane ? 0 : 0x40;
    }

    Lane &open(uint32_t lane)
    {
        Lane &l = lanes_[lane];
        if (l.pending.size() > 100000) cut(lane);
        if (!l.in_run) {
            l.in_run = true;
            l.profile = profile;
            l.run_units.clear();
            l.key = l.runs++ % 16 == 0;
            if (l.key) l.latest.clear();
            l.run_birth = l.births;
            l.run_unit = l.first_unit;
            l.run_chunks = l.last_address = 0;
            for (uint64_t &object : l.foreign)
                object = 0;
        }
        l.records++;
        return l;
    }

    static bool is(const Lane &l, size_t range, int kind)
    {
        return static_cast<uint8_t>(l.profile[range]) == kind;
    }

    static void unit(Lane &l, uint64_t value)
    {
        put(l.pending, value, 2);
        put(l.run_units, value, 2);
    }

    static Lane &number(Lane &l, uint64_t value)
    {
        for (; value >> 15 != 0; value >>= 15)
            unit(l, (value & 0x7fff) | 0x8000);
        unit(l, value);
        return l;
    }

    static Lane &general(Lane &l, int number_and_bits)
    {
        unit(l, 0xf000 + static_cast<uint64_t>(number_and_bits));
        return l;
    }

    static int page_of(uint32_t upper)
    {
        static const std::pair<uint32_t, uint32_t> pages[] = {
            {0x00, 0x1f}, {0x80, 0x9f}, {0xa0, 0xaf}, {0xc0, 0xcf},
            {0xd0, 0xdb}, {0xe0, 0xef}, {0xf0, 0xf2}};
        uint32_t code = 128;
        for (const auto &range : pages) {
            if (upper >= range.first && upper <= range.second)
                return static_cast<int>(code + upper - range.first);
            code += range.second - range.first + 1;
        }
        return -1;
    }

    static bool put_own_death(Lane &l, int kind, uint64_t distance)
    {
        if (is(l, 0, kind) && distance < 0x8000)
            unit(l, distance);
        else if (is(l, 1, kind) && distance <= 0x2000)
            unit(l, 0x9fff + distance);
        else if (is(l, 2, kind) && distance <= 0x800)
            unit(l, 0xdfff + distance);
        else if (is(l, 0, kind) && distance < 0x8000000) {
            unit(l, 0xd800 + (distance >> 16));
            unit(l, distance & 0xffff);
        } else
            return false;
        return true;
    }

    static bool put_foreign_death(Lane &l, int kind, uint64_t object)
    {
        uint32_t way = lane_of(object) % 8;
        uint64_t latest = l.foreign[way];
        uint64_t difference = zigzag(static_cast<int64_t>(object - latest));
        if (!is(l, 0, kind) || object == 0 || latest == 0 || lane_of(latest) != lane_of(object) ||
            difference >= 0x800000)
            return false;
        unit(l, 0xec00 | way << 7 | difference >> 16);
        unit(l, difference & 0xffff);
        l.foreign[way] = object;
        return true;
    }

    static void put_object(Lane &l, uint32_t lane, uint64_t object)
    {
        if (object == 0) return;
        if (lane_of(object) == lane) {
            number(l, l.births + 1 - serial_of(object));
            return;
        }
        number(number(l, lane_of(object)), serial_of(object));
        l.foreign[lane_of(object) % 8] = object;
    }

    void put_address(Lane &l, uint64_t address)
    {
        if (!addresses_) return;
        number(l, zigzag(static_cast<int64_t>(address - l.last_address) / 8));
        l.last_address = address;
    }

    uint64_t take(uint32_t structure) { return ++next_stamp[structure]; }

    bool addresses_;
    std::map<uint32_t, Lane> lanes_;
    uint64_t ticks_ = 0, now_ = 0, events_ = 0, lost_ = 0;
};

/* A spool (FORMAT.md 8), slot after slot. */
class SpoolBuilder {
  public:
    std::string bytes;

    explicit SpoolBuilder(uint32_t slot_bytes = 4096,
                          const std::string &run_id = "0123456789abcdef", uint64_t features = 0)
        : slot_bytes_(slot_bytes)
    {
        std::string header = "MTAPESPL";
        RawBuilder::put16(header, 2);
        RawBuilder::put16(header, 0);
        RawBuilder::put32(header, slot_bytes);
        header += run_id;
        RawBuilder::put32(header, 4711);
        RawBuilder::put32(header, 0);
        RawBuilder::put64(header, features);
        RawBuilder::put32(header, RawBuilder::checksum(header));
        header.resize(4096);
        bytes = header;
    }

    void slot(uint32_t lane, uint64_t serial, const RawBuilder::Run &run, uint32_t state = 1)
    {
        std::string slot;
        RawBuilder::put32(slot, state);
        RawBuilder::put32(slot, lane);
        RawBuilder::put64(slot, serial);
        RawBuilder::put64(slot, run.first_birth);
        RawBuilder::put64(slot, run.first_unit);
        slot += run.profile;
        RawBuilder::put32(slot, run.key ? 1 : 0);
        slot.resize(64);
        slot += run.units;
        slot.resize(slot_bytes_);
        bytes += slot;
    }

  private:
    uint32_t slot_bytes_;
};

#endif
