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
 * A lane's pending records become a chunk with cut(lane), cut_all(), tick() or end(). Stamps take the next number of their
 * structure, so calls made in the order in which they "happened" describe a run that could have been. */
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
    /* The kinds of the slots of the next chunks (FORMAT.md 5.1): death 1, death 2, birth 1, birth 2. */
    int slots[4] = {kFree, kDeleteSized, kMalloc, kMemalign};
    /* The first stamp of a structure is 1. Tests may leave numbers out by adding here. */
    std::map<uint32_t, uint64_t> next_stamp;

    explicit RawBuilder(uint64_t features = 0, const std::string &metadata = "",
                        const std::string &run_id = "0123456789abcdef")
        : addresses_((features & 1) != 0)
    {
        std::string header = "MTAPERAW";
        put16(header, 1);
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

    /* --- records --- */

    uint64_t birth(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                   uint64_t address = 0)
    {
        Lane &l = open(lane);
        if (kind != slots[2] || !put_birth_code(l, 151, 44, 195, 12, 207, size))
            if (kind != slots[3] || !put_birth_code(l, 208, 24, 232, 8, 240, size))
                varint(general(l, kind), size);
        if (has_alignment(kind)) varint(l.codes, alignment);
        put_address(l, address);
        l.births++;
        kinds_[kind]++;
        return token(lane, l.births);
    }

    void death(uint32_t lane, int kind, uint64_t object, uint64_t size = 0, uint64_t alignment = 0)
    {
        Lane &l = open(lane);
        bool coded = false;
        if (object != 0 && lane_of(object) == lane)
            coded = put_death_code(l, kind, l.births - serial_of(object));
        else if (object != 0 && kind == slots[0] && l.has_foreign &&
                 l.foreign_lane == lane_of(object))
            coded = put_foreign_code(l, object);
        if (!coded) {
            general(l, kind | flags(lane, object));
            put_object(l, lane, object);
        }
        if (has_size_given(kind)) varint(l.codes, size);
        if (has_alignment(kind)) varint(l.codes, alignment);
        kinds_[kind]++;
    }

    uint64_t realloc(uint32_t lane, int kind, uint64_t object, uint64_t size, uint64_t address = 0)
    {
        Lane &l = open(lane);
        general(l, kind | flags(lane, object));
        put_object(l, lane, object);
        varint(l.codes, size);
        put_address(l, address);
        l.births++;
        kinds_[kind]++;
        return token(lane, l.births);
    }

    void heap(uint32_t lane, int kind, const std::vector<uint64_t> &numbers)
    {
        Lane &l = open(lane);
        varint(general(l, kind), numbers.size());
        for (uint64_t number : numbers)
            varint(l.codes, number);
        kinds_[kind]++;
    }

    void thread_begin(uint32_t lane, uint64_t thread) { varint(general(open(lane), 48), thread); }
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
    void stamp(uint32_t lane, int record, uint32_t structure, uint64_t number)
    {
        Lane &l = open(lane);
        varint(general(l, record), structure);
        varint(l.codes, number - l.latest[structure]);
        l.latest[structure] = number;
    }

    void lost(uint32_t lane, uint64_t events, uint64_t births)
    {
        Lane &l = open(lane);
        varint(general(l, 53), events);
        varint(l.codes, births);
        l.births += births;
        lost_ += events;
    }

    void failed(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0, uint64_t object = 0)
    {
        bool is_realloc = kind == kReallocMoved || kind == kReallocInPlace;
        Lane &l = open(lane);
        varint(general(l, 54 | (is_realloc ? flags(lane, object) : 0)),
               static_cast<uint64_t>(kind));
        if (is_realloc) put_object(l, lane, object);
        varint(l.codes, size);
        if (has_alignment(kind)) varint(l.codes, alignment);
        kinds_[kind]++;
    }

    void lost_stamps(uint32_t lane, uint32_t structure, uint64_t first, uint64_t count)
    {
        Lane &l = open(lane);
        varint(general(l, 55), structure);
        varint(l.codes, first);
        varint(l.codes, count);
    }

    /* Bytes of a code, as they are, for what the functions above would not write. */
    void code(uint32_t lane, const std::string &code_bytes) { open(lane).codes += code_bytes; }

    /* --- chunks --- */

    void cut(uint32_t lane)
    {
        Lane &l = lanes_[lane];
        if (l.records == 0) return;
        std::string payload;
        for (int slot : slots)
            payload += static_cast<char>(slot);
        put32(payload, static_cast<uint32_t>(l.codes.size()));
        payload += l.codes + l.addresses;
        chunk(1, l.key ? 1 : 0, lane, payload, l.records, l.first_record, l.first_birth);
        l.first_record += l.records;
        l.first_birth = l.births;
        l.chunks++;
        l.key = l.chunks % 64 == 0;
        l.records = 0;
        l.codes.clear();
        l.addresses.clear();
        l.foreign.clear();
        l.has_foreign = false;
        l.last_address = 0;
        if (l.key) l.latest.clear();
    }

    void cut_all()
    {
        for (auto &lane : lanes_)
            cut(lane.first);
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
        varint(payload, lost_);
        varint(payload, 0);
        varint(payload, 0);
        uint32_t lanes = lanes_.empty() ? 0 : lanes_.rbegin()->first + 1;
        varint(payload, lanes);
        for (uint32_t lane = 0; lane < lanes; lane++) {
            varint(payload, lanes_[lane].first_record);
            varint(payload, lanes_[lane].births);
        }
        varint(payload, kinds_.size());
        for (auto &kind : kinds_) {
            varint(payload, static_cast<uint64_t>(kind.first));
            varint(payload, kind.second);
        }
        chunk(3, 0, 0, payload, 0, ticks_, 0);
    }

    /* Any chunk at all; the checksum is right. */
    void chunk(int type, int chunk_flags, uint32_t lane, const std::string &payload,
               uint32_t records, uint64_t first_record, uint64_t first_birth)
    {
        std::string header = "MTRC";
        header += static_cast<char>(type);
        header += static_cast<char>(chunk_flags);
        put16(header, static_cast<uint16_t>(lane));
        put32(header, static_cast<uint32_t>(payload.size()));
        put32(header, records);
        put64(header, first_record);
        put64(header, first_birth);
        put32(header, checksum(header + payload));
        bytes += header + payload;
    }

    /* Forgets the pending records of a lane without writing them: for streams that are cut. */
    void drop(uint32_t lane) { lanes_[lane].records = 0; }

    uint64_t records(uint32_t lane)
    {
        return lanes_[lane].first_record + lanes_[lane].records;
    }
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
        std::string codes, addresses;
        uint32_t records = 0;
        uint64_t births = 0, first_record = 0, first_birth = 0, chunks = 0, last_address = 0;
        bool key = true;
        std::map<uint32_t, uint64_t> latest;  /* stamp numbers, by structure */
        std::map<uint32_t, uint64_t> foreign; /* serials, by lane */
        bool has_foreign = false;
        uint32_t foreign_lane = 0; /* of the latest one */
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
        if (l.records == 65536) cut(lane);
        l.records++;
        return l;
    }

    /* Code 242; returns where its operands go. */
    static std::string &general(Lane &l, int opcode)
    {
        l.codes += static_cast<char>(242);
        l.codes += static_cast<char>(opcode);
        return l.codes;
    }

    /* One of the three rows of a birth slot: from `short_first` multiples of 8, from `middle_first` one byte more,
     * at `long_first` two. */
    static bool put_birth_code(Lane &l, unsigned short_first, unsigned shorts,
                               unsigned middle_first, unsigned middles, unsigned long_first,
                               uint64_t size)
    {
        if (size % 8 == 0 && size / 8 < shorts)
            put(l.codes, short_first + size / 8, 1);
        else if (size / 256 < middles)
            put(l.codes, (middle_first + size / 256) | size % 256 << 8, 2);
        else if (size < 65536)
            put(l.codes, long_first | size << 8, 3);
        else
            return false;
        return true;
    }

    bool put_death_code(Lane &l, int kind, uint64_t distance)
    {
        if (kind == slots[0]) {
            if (distance < 48)
                put(l.codes, distance, 1);
            else if (distance < 18480)
                put(l.codes, (48 + (distance - 48) / 256) | (distance - 48) % 256 << 8, 2);
            else if (distance < 149552)
                put(l.codes, (120 + (distance - 18480) / 65536) | (distance - 18480) % 65536 << 8,
                    3);
            else
                return false;
            return true;
        }
        if (kind != slots[1]) return false;
        if (distance < 16)
            put(l.codes, 122 + distance, 1);
        else if (distance < 3088)
            put(l.codes, (138 + (distance - 16) / 256) | (distance - 16) % 256 << 8, 2);
        else if (distance < 68624)
            put(l.codes, 150 | (distance - 3088) << 8, 3);
        else
            return false;
        return true;
    }

    bool put_foreign_code(Lane &l, uint64_t object)
    {
        uint64_t &latest = l.foreign[lane_of(object)];
        put(l.codes, 241, 1);
        varint(l.codes, zigzag(static_cast<int64_t>(serial_of(object) - latest)));
        latest = serial_of(object);
        return true;
    }

    void put_object(Lane &l, uint32_t lane, uint64_t object)
    {
        if (object == 0) return;
        if (lane_of(object) == lane) {
            varint(l.codes, l.births - serial_of(object));
            return;
        }
        l.has_foreign = true;
        l.foreign_lane = lane_of(object);
        varint(l.codes, l.foreign_lane);
        auto found = l.foreign.find(l.foreign_lane);
        if (found == l.foreign.end())
            varint(l.codes, serial_of(object));
        else
            varint(l.codes, zigzag(static_cast<int64_t>(serial_of(object) - found->second)));
        l.foreign[l.foreign_lane] = serial_of(object);
    }

    void put_address(Lane &l, uint64_t address)
    {
        if (!addresses_) return;
        varint(l.addresses, zigzag(static_cast<int64_t>(address - l.last_address) / 8));
        l.last_address = address;
    }

    uint64_t take(uint32_t structure) { return ++next_stamp[structure]; }

    bool addresses_;
    std::map<uint32_t, Lane> lanes_;
    std::map<int, uint64_t> kinds_;
    uint64_t ticks_ = 0, now_ = 0, lost_ = 0;
};

/* A spool (FORMAT.md 8), slot after slot. */
class SpoolBuilder {
  public:
    std::string bytes;

    explicit SpoolBuilder(uint32_t slot_bytes = 4096,
                          const std::string &run_id = "0123456789abcdef")
        : slot_bytes_(slot_bytes)
    {
        std::string header = "MTAPESPL";
        RawBuilder::put16(header, 1);
        RawBuilder::put16(header, 0);
        RawBuilder::put32(header, slot_bytes);
        header += run_id;
        RawBuilder::put32(header, 4711);
        RawBuilder::put32(header, RawBuilder::checksum(header));
        header.resize(4096);
        bytes = header;
    }

    static uint64_t word(int number, uint64_t value)
    {
        return value << 6 | static_cast<uint64_t>(number);
    }

    /* `first_record` less than 0: the writer has not begun with the slot. */
    void slot(uint32_t lane, uint64_t serial, uint64_t first_birth, int64_t first_record,
              const std::vector<uint64_t> &words, uint32_t state = 1)
    {
        std::string slot;
        RawBuilder::put32(slot, state);
        RawBuilder::put32(slot, lane);
        RawBuilder::put64(slot, serial);
        RawBuilder::put64(slot, first_birth);
        RawBuilder::put64(slot, static_cast<uint64_t>(first_record + 1));
        for (uint64_t one : words)
            RawBuilder::put64(slot, one);
        slot.resize(slot_bytes_);
        bytes += slot;
    }

  private:
    uint32_t slot_bytes_;
};

#endif
