/* raw_builder - raw event streams and spools for tests, written from FORMAT.md by hand.
 *
 * Shares no code with what it tests, apart from the checksum's library. Simple rather than fast:
 *
 *     RawBuilder raw;
 *     uint64_t a = raw.allocation(0, 1, 24);         lane 0, malloc(24): returns the object's name
 *     raw.free(1, 21, a);                      lane 1, free
 *     raw.tick(10000000, 0, 0);                 what is pending becomes chunks, then a tick
 *     raw.end();
 *     raw.bytes                                 the stream
 *
 * Tests name objects by lane and serial. Each has a place of its own, of class 0, which nothing caches: its allocation says it,
 * and an end in another lane gives the object's own serial as the bound. Where that will not do there are allocation_cached(),
 * which takes its place from the lane's cache as cache_begin(), size_class(), cached() and uncached() have filled it, and
 * allocation_at() and ends by place.
 *
 * A lane's pending records become a chunk with cut(lane), cut_all(), tick() or end(). A few chunks are a run; every
 * other chunk is packed. Sequence numbers take the next number of their structure, so calls made in the order in which they
 * "happened" describe a program that could have been. */
#ifndef TESTS_RAW_BUILDER_H
#define TESTS_RAW_BUILDER_H

#include <cstdint>
#include <cstring>
#include <deque>
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
    /* Of the next runs (FORMAT.md 5.1): frees, allocations, realloc. */
    std::string profile =
        make_profile({kFree, kDeleteSized, 0, kMalloc, kMemalign, 0, kReallocMoved, 0});
    uint64_t chunks_per_run = 3;
    enum { kPlain, kPacked, kEveryOther } packing = kEveryOther;
    /* The first sequence number of a structure is 1. Tests may leave numbers out by adding here. */
    std::map<uint32_t, uint64_t> next_sequence;
    /* Of the next object that gets a place of its own. Tests that choose places keep away from here. */
    uint32_t next_place = 1;

    /* An object that ends, as a record says it. */
    struct Object {
        enum { kOwn, kForeign, kUnknown } whose;
        uint32_t place, size_class; /* the class of an own one is not said */
        uint32_t lane;              /* of a foreign one */
        uint64_t bound;
    };

    explicit RawBuilder(uint64_t features = 0, const std::string &metadata = "",
                        const std::string &run_id = "0123456789abcdef")
        : addresses_((features & 1) != 0)
    {
        std::string header = "MTAPERAW";
        put16(header, 4);
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

    static Object own(uint32_t place) { return {Object::kOwn, place, 0, 0, 0}; }
    static Object foreign(uint32_t lane, uint64_t bound, uint32_t place, uint32_t size_class = 0)
    {
        return {Object::kForeign, place, size_class, lane, bound};
    }
    static Object unknown(uint32_t place = 0, uint32_t size_class = 0)
    {
        return {Object::kUnknown, place, size_class, 0, 0};
    }

    /* The place of an object, which may be yet to be allocated. */
    uint32_t place(uint64_t object)
    {
        auto found = places_.find(object);
        if (found != places_.end()) return found->second;
        return places_[object] = next_place++;
    }

    /* --- records --- */

    uint64_t allocation(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                        uint64_t address = 0)
    {
        return allocation_at(lane, kind, size, place(token(lane, allocations(lane) + 1)), 0,
                             alignment, address);
    }

    /* Says its place; 0: takes it from the cache, in the long form. */
    uint64_t allocation_at(uint32_t lane, int kind, uint64_t size, uint32_t place,
                           uint32_t size_class, uint64_t alignment = 0, uint64_t address = 0)
    {
        Lane &l = open(lane);
        number(general(l, kind), size);
        if (has_alignment(kind)) number(l, alignment);
        put_place(l, place, size_class);
        return begin_object(l, lane, size, place, size_class, address);
    }

    /* Takes its place from the lane's cache, and says nothing of it. */
    uint64_t allocation_cached(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                               uint64_t address = 0)
    {
        Lane &l = open(lane);
        bool brief = true;
        if (is(l, 3, kind) && size < 0x1000)
            unit(l, 0xa000 + size);
        else if (is(l, 4, kind) && size < 0x1000)
            unit(l, 0xc000 + size);
        else if (is(l, 5, kind) && size < 0x800)
            unit(l, 0xd000 + size);
        else {
            brief = false;
            number(general(l, kind), size);
        }
        if (has_alignment(kind)) number(l, alignment);
        if (!brief) put_place(l, 0, 0);
        return begin_object(l, lane, size, 0, 0, address);
    }

    void freeing(uint32_t lane, int kind, uint64_t object, uint64_t size = 0,
                 uint64_t alignment = 0)
    {
        freeing(lane, kind, object_of(lane, object), size, alignment);
    }

    void freeing(uint32_t lane, int kind, const Object &object, uint64_t size = 0,
                 uint64_t alignment = 0)
    {
        Lane &l = open(lane);
        if (!put_own_free(l, kind, object) && !put_foreign_free(l, kind, object)) {
            general(l, kind | flags(object));
            put_object(l, object);
        }
        if (has_size_given(kind)) number(l, size);
        if (has_alignment(kind)) number(l, alignment);
        end_object(l, object);
        events_++;
    }

    uint64_t realloc(uint32_t lane, int kind, uint64_t object, uint64_t size, uint64_t address = 0)
    {
        bool moved = kind != kReallocInPlace;
        uint64_t begins = token(lane, allocations(lane) + 1);
        Object ends = object_of(lane, object);
        if (!moved && object == 0) ends.place = next_place++;
        if (!moved) places_[begins] = ends.place;
        return realloc(lane, kind, ends, size, moved ? place(begins) : 0, 0, address);
    }

    /* A moved one says its place, 0: takes it from the cache. */
    uint64_t realloc(uint32_t lane, int kind, const Object &object, uint64_t size, uint32_t place,
                     uint32_t size_class = 0, uint64_t address = 0)
    {
        Lane &l = open(lane);
        if (is(l, 6, kind) && object.whose == Object::kOwn && object.place < 0x4000000) {
            size_t mark = l.aged.size();
            far(l, 0xe800, object.place);
            put_age(l, mark, object.place, 0xf6ff, 0x100);
        } else {
            general(l, kind | flags(object));
            put_object(l, object);
        }
        number(l, size);
        if (kind == kReallocInPlace) {
            places_[token(lane, l.allocations + 1)] = object.place;
            l.classes[object.place / 64] = class_of(l, object);
            put_address(l, address);
            events_++;
            l.latest_allocation[object.place] = ++l.allocations;
            return token(lane, l.allocations);
        }
        put_place(l, place, size_class);
        uint64_t begins = begin_object(l, lane, size, place, size_class, address);
        end_object(l, object);
        return begins;
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

    void size_class(uint32_t lane, uint32_t size_class, uint64_t object_bytes)
    {
        Lane &l = open(lane, false);
        number(number(general(l, 56), size_class), object_bytes);
        l.class_bytes[object_bytes] = size_class;
    }

    void cache_begin(uint32_t lane)
    {
        Lane &l = open(lane, false);
        general(l, 57);
        l.cache.clear();
    }

    void cached(uint32_t lane, uint32_t size_class, const std::vector<uint32_t> &places)
    {
        Lane &l = open(lane, false);
        number(number(general(l, 58), size_class), places.size());
        for (size_t i = 0; i < places.size(); i++) {
            uint32_t place = places[i];
            number(l, i == 0 ? place : zigzag(int64_t{place} - int64_t{places[i - 1]}));
            l.cache[size_class].push_back(place);
            l.classes[place / 64] = size_class;
        }
    }

    void uncached(uint32_t lane, uint32_t size_class, uint32_t count)
    {
        Lane &l = open(lane, false);
        number(number(general(l, 59), size_class), count);
        for (std::deque<uint32_t> &list = l.cache[size_class]; count > 0 && !list.empty(); count--)
            list.pop_front();
    }

    void sequence_before(uint32_t lane, uint32_t structure)
    {
        sequence(lane, 51, structure, take(structure));
    }
    void sequence_after(uint32_t lane, uint32_t structure)
    {
        sequence(lane, 52, structure, take(structure));
    }

    /* With a number of the test's choice. */
    void sequence(uint32_t lane, int record, uint32_t structure, uint64_t value)
    {
        Lane &l = open(lane);
        unit(l, (record == 51 ? 0xf100u : 0xf200u) + structure);
        number(l, value - l.latest[structure]);
        l.latest[structure] = value;
    }

    void lost(uint32_t lane, uint64_t events, uint64_t allocations)
    {
        Lane &l = open(lane);
        number(number(general(l, 53), events), allocations);
        l.allocations += allocations;
        lost_ += events;
    }

    void failed(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0, uint64_t object = 0)
    {
        bool is_realloc = kind == kReallocMoved || kind == kReallocInPlace;
        Object stays = object_of(lane, object);
        Lane &l = open(lane);
        number(general(l, 54 | (is_realloc ? flags(stays) : 0)), static_cast<uint64_t>(kind));
        if (is_realloc) put_object(l, stays);
        number(l, size);
        if (has_alignment(kind)) number(l, alignment);
        events_++;
    }

    /* One record, as it is, that the functions above would not write; allocations so many objects. */
    void units(uint32_t lane, const std::vector<uint16_t> &record, uint64_t allocations = 0)
    {
        Lane &l = open(lane);
        for (uint16_t one : record)
            unit(l, one);
        l.allocations += allocations;
    }

    /* --- chunks and runs --- */

    void cut(uint32_t lane)
    {
        Lane &l = lanes_[lane];
        if (l.pending.empty()) return;
        bool begin = l.run_chunks == 0;
        bool packed = will_be_packed(l);
        std::string payload = begin ? l.profile : "";
        payload += packed ? pack(l.aged) : l.pending;
        if (!packed) l.packed_allocations = l.allocations;
        chunk(1, (begin ? 1 : 0) | (begin && l.key ? 2 : 0) | (packed ? 4 : 0), lane, payload,
              static_cast<uint32_t>(l.pending.size() / 2), l.first_unit, l.run_allocation);
        l.first_unit += l.pending.size() / 2;
        l.pending.clear();
        l.aged.clear();
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
        uint64_t first_allocation, first_unit;
        std::string profile;
        bool key;
        std::string units; /* bytes */
    };
    Run run(uint32_t lane)
    {
        const Lane &l = lanes_[lane];
        return {l.run_allocation, l.run_unit, l.profile, l.key, l.run_units};
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
               uint64_t first_unit, uint64_t first_allocation)
    {
        std::string header = "MTRC";
        header += static_cast<char>(type);
        header += static_cast<char>(chunk_flags);
        put16(header, static_cast<uint16_t>(lane));
        put32(header, static_cast<uint32_t>(payload.size()));
        put32(header, units);
        put64(header, first_unit);
        put64(header, first_allocation);
        put32(header, checksum(header + payload));
        bytes += header + payload;
    }

    uint64_t records(uint32_t lane) { return lanes_[lane].records; }
    uint64_t allocations(uint32_t lane) { return lanes_[lane].allocations; }
    /* What the lane's cache has of the class, the first one first. */
    const std::deque<uint32_t> &cache(uint32_t lane, uint32_t size_class)
    {
        return lanes_[lane].cache[size_class];
    }

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
            if (unit >= 0xf800 && unit < 0xf800 + 48)
                put(packed, unit - 0xf800, 1);
            else if (unit >= 0xa000 && unit < 0xa000 + 8 * 44 && unit % 8 == 0)
                put(packed, 48 + (unit - 0xa000) / 8, 1);
            else if (unit >= 0xf400 && unit < 0xf400 + 12)
                put(packed, 92 + unit - 0xf400, 1);
            else if (unit >= 0xc000 && unit < 0xc000 + 8 * 24 && unit % 8 == 0)
                put(packed, 104 + (unit - 0xc000) / 8, 1);
            else if (upper == 0)
                put(packed, 0xf3 | lower << 8, 2);
            else if (upper >= 128 && upper < 255 && upper != 0xf3)
                put(packed, upper | lower << 8, 2);
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
        std::string aged;        /* the same for a packed chunk, with objects by their age */
        uint64_t first_unit = 0; /* of those */
        uint64_t records = 0, allocations = 0, chunks = 0, runs = 0;
        std::map<uint32_t, uint64_t> latest; /* sequence number numbers, by structure */
        bool in_run = false;
        /* Of the run. */
        std::string profile, run_units;
        bool key = false;
        uint64_t run_allocation = 0, run_unit = 0, run_chunks = 0, last_address = 0;
        std::map<uint32_t, std::pair<uint32_t, uint64_t>> foreign; /* by way: lane, bound */
        /* The cache (FORMAT.md 2.6). */
        std::map<uint64_t, uint32_t> class_bytes; /* classes by their bytes */
        std::map<uint32_t, std::deque<uint32_t>> cache;
        std::map<uint32_t, uint32_t> classes; /* by block */
        /* For ages (FORMAT.md 5.5): the latest allocation at each place, and those before the packed chunks. */
        std::map<uint32_t, uint64_t> latest_allocation;
        uint64_t packed_allocations = 0;
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

    static int flags(const Object &object)
    {
        return object.whose == Object::kOwn ? 0 : object.whose == Object::kForeign ? 0x40 : 0x80;
    }

    Object object_of(uint32_t lane, uint64_t object)
    {
        if (object == 0) return unknown();
        if (lane_of(object) == lane) return own(place(object));
        return foreign(lane_of(object), serial_of(object), place(object));
    }

    Lane &open(uint32_t lane, bool counts = true)
    {
        Lane &l = lanes_[lane];
        if (l.pending.size() > 100000) cut(lane);
        if (!l.in_run) {
            l.in_run = true;
            l.profile = profile;
            l.run_units.clear();
            l.key = l.runs++ % 16 == 0;
            if (l.key) l.latest.clear();
            l.run_allocation = l.allocations;
            l.run_unit = l.first_unit;
            l.run_chunks = l.last_address = 0;
            l.foreign.clear();
        }
        l.records += counts;
        return l;
    }

    static bool is(const Lane &l, size_t range, int kind)
    {
        return static_cast<uint8_t>(l.profile[range]) == kind;
    }

    static void unit(Lane &l, uint64_t value)
    {
        put(l.pending, value, 2);
        put(l.aged, value, 2);
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

    bool will_be_packed(const Lane &l) const
    {
        return packing == kPacked || (packing == kEveryOther && l.chunks % 2 == 1);
    }

    /* The units that say the place stand behind `mark`. In a packed chunk one for the age may stand for them. */
    void put_age(Lane &l, size_t mark, uint32_t place, uint64_t base, uint64_t limit)
    {
        uint64_t allocation = l.latest_allocation[place], age = l.allocations + 1 - allocation;
        if (!will_be_packed(l) || allocation <= l.packed_allocations || age > limit) return;
        l.aged.resize(mark);
        put(l.aged, base + age, 2);
    }

    bool put_own_free(Lane &l, int kind, const Object &object)
    {
        uint32_t place = object.place;
        size_t mark = l.aged.size();
        if (object.whose != Object::kOwn) return false;
        if (is(l, 0, kind) && place < 0xa000)
            unit(l, place);
        else if (is(l, 1, kind) && place < 0x1000)
            unit(l, 0xb000 + place);
        else if (is(l, 0, kind) && place < 0x8000000)
            far(l, 0xd800, place);
        else if (is(l, 1, kind) && place < 0x4000000)
            far(l, 0xe000, place);
        else if (is(l, 2, kind) && place < 0x4000000)
            far(l, 0xe400, place);
        else
            return false;
        if (is(l, 0, kind))
            put_age(l, mark, place, 0xf7ff, 0x800);
        else if (is(l, 1, kind))
            put_age(l, mark, place, 0xf3ff, 0x200);
        else
            put_age(l, mark, place, 0xf5ff, 0x100);
        return true;
    }

    static void far(Lane &l, uint64_t base, uint32_t place)
    {
        unit(l, base + (place >> 16));
        unit(l, place & 0xffff);
    }

    static bool put_foreign_free(Lane &l, int kind, const Object &object)
    {
        uint32_t way = object.lane % 8;
        auto latest = l.foreign.find(way);
        if (!is(l, 0, kind) || object.whose != Object::kForeign || latest == l.foreign.end() ||
            latest->second.first != object.lane || object.bound < latest->second.second ||
            object.place >= 0x800000)
            return false;
        far(l, 0xec00 | way << 7, object.place);
        number(l, (object.bound - latest->second.second) * 128 + object.size_class);
        latest->second.second = object.bound;
        return true;
    }

    static void put_object(Lane &l, const Object &object)
    {
        if (object.whose == Object::kForeign) {
            number(number(l, object.lane), object.bound);
            l.foreign[object.lane % 8] = {object.lane, object.bound};
        }
        number(l, object.place);
        if (object.whose != Object::kOwn) number(l, object.size_class);
    }

    static void put_place(Lane &l, uint32_t place, uint32_t size_class)
    {
        number(l, place);
        if (place != 0) number(l, size_class);
    }

    /* An allocation, of which everything has been said but the address. */
    uint64_t begin_object(Lane &l, uint32_t lane, uint64_t size, uint32_t place,
                          uint32_t size_class, uint64_t address)
    {
        put_address(l, address);
        if (place == 0) {
            auto told = l.class_bytes.lower_bound(size);
            if (told != l.class_bytes.end() && !l.cache[told->second].empty()) {
                place = l.cache[told->second].front();
                l.cache[told->second].pop_front();
            }
        } else {
            std::deque<uint32_t> &list = l.cache[size_class];
            if (!list.empty() && list.front() == place) list.pop_front();
            l.classes[place / 64] = size_class;
        }
        uint64_t object = token(lane, ++l.allocations);
        places_[object] = place;
        l.latest_allocation[place] = l.allocations;
        events_++;
        return object;
    }

    static uint32_t class_of(Lane &l, const Object &object)
    {
        return object.whose == Object::kOwn ? l.classes[object.place / 64] : object.size_class;
    }

    /* The cache has its place from now on. */
    static void end_object(Lane &l, const Object &object)
    {
        uint32_t size_class = class_of(l, object);
        if (object.place == 0 || size_class == 0) return;
        l.cache[size_class].push_front(object.place);
        l.classes[object.place / 64] = size_class;
    }

    void put_address(Lane &l, uint64_t address)
    {
        if (!addresses_) return;
        number(l, zigzag(static_cast<int64_t>(address - l.last_address) / 8));
        l.last_address = address;
    }

    uint64_t take(uint32_t structure) { return ++next_sequence[structure]; }

    bool addresses_;
    std::map<uint32_t, Lane> lanes_;
    std::map<uint64_t, uint32_t> places_; /* of objects */
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
        RawBuilder::put16(header, 4);
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
        RawBuilder::put64(slot, run.first_allocation);
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
