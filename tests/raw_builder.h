/* raw_builder - raw event streams and spools that tests write by hand, record by record.
 *
 *     RawBuilder raw;
 *     uint64_t a = raw.allocation(0, 1, 24);         lane 0, malloc(24): returns the object's name
 *     raw.freeing(1, 21, a);                         lane 1, free
 *     raw.tick(10000000, 0, 0);                      what is pending becomes chunks, then a tick
 *     raw.end();
 *     raw.bytes                                      the stream
 *
 * tests/sim/raw_encoder.h encodes; this gives objects names, serials and places, follows the caches
 * of the lanes, and makes segments and chunks.
 *
 * Tests name objects by lane and serial. Each has a place of its own, of class 0, which nothing
 * caches: its allocation says it, and an end in another lane gives the object's own serial as the
 * bound. Where that will not do there are allocation_cached(), which takes its place from the
 * lane's cache as cache_begin(), size_class(), cached() and uncached() have filled it, and
 * allocation_at() and ends by place.
 *
 * In an opaque stream (feature 2) each call counts, and `packing` is to be kPlain.
 *
 * A lane's pending records become a chunk with cut(lane), cut_all(), tick() or end(). A few chunks
 * are a segment; every other chunk is packed. Sequence numbers take the next
 * number of their structure, so calls made in the order in which they "happened" describe a program
 * that could have been. */
#ifndef TESTS_RAW_BUILDER_H
#define TESTS_RAW_BUILDER_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/bytes.h"
#include "tests/sim/raw_encoder.h"

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
    /* Of the next segments (FORMAT.md 5.1): frees, allocations, realloc. */
    std::string profile =
        make_profile({kFree, kDeleteSized, 0, kMalloc, kMemalign, 0, kReallocMoved, 0});
    uint64_t chunks_per_segment = 3;
    enum { kPlain, kPacked, kEveryOther } packing = kEveryOther;
    int key = -1; /* whether the next segments are key; -1: one in 16 of a lane is */
    /* The first sequence number of a structure is 1. Tests may leave numbers out by adding here. */
    std::map<uint32_t, uint64_t> next_sequence;
    /* Of the next object with a place of its own. Tests that choose places keep away from here. */
    uint32_t next_place = 1;

    /* The forms of the next records; units of a chunk before it is cut, about. */
    RawRecord::Form form = RawRecord::kShortest;
    uint64_t chunk_units_max = 50000;

    /* An object that ends, as a record says it. */
    struct Object {
        enum { kOwn, kForeign, kUnknown } whose;
        uint32_t place, size_class; /* the class of an own one is not said */
        uint32_t lane;              /* of a foreign one */
        uint64_t bound;
        uint64_t serial; /* 0: the latest one there */
    };

    explicit RawBuilder(const RawStreamHeader &header)
        : bytes(encode_stream_header(header)), opaque_((header.features & 2) != 0),
          encoder_((header.features & 1) != 0, nullptr, opaque_)
    {
    }
    explicit RawBuilder(uint64_t features = 0, const std::string &metadata = "")
        : RawBuilder(RawStreamHeader{metadata, features})
    {
    }

    static uint64_t token(uint32_t lane, uint64_t serial)
    {
        return static_cast<uint64_t>(lane) << 42 | serial;
    }

    static std::string make_profile(const std::vector<int> &kinds)
    {
        return std::string(kinds.begin(), kinds.end());
    }

    static Object own(uint32_t place) { return {Object::kOwn, place, 0, 0, 0, 0}; }
    static Object foreign(uint32_t lane, uint64_t bound, uint32_t place, uint32_t size_class = 0)
    {
        return {Object::kForeign, place, size_class, lane, bound, 0};
    }
    static Object unknown(uint32_t place = 0, uint32_t size_class = 0)
    {
        return {Object::kUnknown, place, size_class, 0, 0, 0};
    }

    /* The place of an object, which may be yet to be allocated. */
    uint32_t place(uint64_t object)
    {
        auto found = places_.find(object);
        if (found != places_.end()) return found->second;
        return places_[object] = next_place++;
    }

    /* What a record of `lane` says of an object that ends. */
    Object object_of(uint32_t lane, uint64_t object)
    {
        if (object == 0) return unknown();
        Object named = foreign(lane_of(object), serial_of(object), place(object));
        if (lane_of(object) != lane) return named;
        named.whose = Object::kOwn;
        named.serial = serial_of(object);
        return named;
    }

    /* --- records --- */

    uint64_t allocation(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                        uint64_t address = 0)
    {
        return allocation_at(lane, kind, size, place(token(lane, allocations(lane) + 1)), 0,
                             alignment, address);
    }

    /* Says its place. */
    uint64_t allocation_at(uint32_t lane, int kind, uint64_t size, uint32_t place,
                           uint32_t size_class, uint64_t alignment = 0, uint64_t address = 0)
    {
        RawRecord record = call(kind, size, alignment, address);
        record.place = place;
        record.place_class = size_class;
        record.implied = place == 0;
        return begin_object(say(lane, record), lane, size, place, size_class);
    }

    /* Takes its place from the lane's cache, and says nothing of it. */
    uint64_t allocation_cached(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0,
                               uint64_t address = 0)
    {
        return allocation_at(lane, kind, size, 0, 0, alignment, address);
    }

    /* Whether the lane's cache has a place for an object of that size. */
    bool has_cached(uint32_t lane, uint64_t size)
    {
        Lane &l = lanes_[lane];
        auto announced = l.class_bytes.lower_bound(size);
        return l.known && announced != l.class_bytes.end() && !l.cache[announced->second].empty();
    }

    void freeing(uint32_t lane, int kind, uint64_t object, uint64_t size = 0,
                 uint64_t alignment = 0)
    {
        freeing(lane, kind, object_of(lane, object), size, alignment);
    }

    void freeing(uint32_t lane, int kind, const Object &object, uint64_t size = 0,
                 uint64_t alignment = 0)
    {
        RawRecord record = call(kind, size, alignment);
        set_object(record, lane, object);
        Lane &l = say(lane, record);
        end_object(l, object);
        l.allocations += opaque_;
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
        RawRecord record = call(kind, size, 0, address);
        record.place = place;
        record.place_class = size_class;
        record.implied = place == 0;
        set_object(record, lane, object);
        Lane &l = say(lane, record);
        if (kind == kReallocInPlace) {
            places_[token(lane, l.allocations + 1)] = object.place;
            l.classes[object.place / 64] = class_of(l, object);
            events_++;
            l.latest_allocation[object.place] = ++l.allocations;
            return token(lane, l.allocations);
        }
        uint64_t begins = begin_object(l, lane, size, place, size_class);
        end_object(l, object);
        return begins;
    }

    /* At most two numbers. */
    void heap(uint32_t lane, int kind, const std::vector<uint64_t> &numbers)
    {
        RawRecord record = call(kind);
        record.count = static_cast<uint8_t>(numbers.size());
        if (!numbers.empty()) record.size = numbers[0];
        if (numbers.size() > 1) record.alignment = numbers[1];
        say(lane, record);
        events_++;
    }

    /* Of an opaque stream: whom the lane comes after; where 512 places are. */
    void after(uint32_t lane, uint32_t other, uint64_t calls, bool of_realloc)
    {
        RawRecord record = call(kAfter);
        record.after_lane = other;
        record.after = calls;
        record.of_realloc = of_realloc;
        say(lane, record);
    }
    void page(uint32_t lane, uint32_t place, uint64_t address)
    {
        RawRecord record = call(kPage);
        record.place = place;
        record.address = address;
        say(lane, record);
    }

    void thread_begin(uint32_t lane, uint64_t thread)
    {
        forget_cache(say(lane, call(kThreadBegin, thread)), false);
    }
    void thread_end(uint32_t lane) { say(lane, call(kThreadEnd)); }
    void thread_cache_deleted(uint32_t lane)
    {
        forget_cache(say(lane, call(kThreadCacheDeleted)), false);
    }

    void size_class(uint32_t lane, uint32_t size_class, uint64_t object_bytes)
    {
        RawRecord record = call(kClass, object_bytes);
        record.structure = size_class;
        say(lane, record, false).class_bytes[object_bytes] = size_class;
    }

    void cache_begin(uint32_t lane) { forget_cache(say(lane, call(kCacheBegin), false), true); }

    /* Behind those of the list, the first of them first. */
    void cached(uint32_t lane, uint32_t size_class, const std::vector<uint32_t> &places)
    {
        RawRecord record = call(kCached);
        record.structure = size_class;
        record.places = places;
        Lane &l = say(lane, record, false);
        for (uint32_t place : places) {
            l.cache[size_class].push_back(place);
            l.classes[place / 64] = size_class;
        }
    }

    /* The first ones of the list. */
    void uncached(uint32_t lane, uint32_t size_class, uint32_t count)
    {
        RawRecord record = call(kUncached, count);
        record.structure = size_class;
        std::deque<uint32_t> &list = say(lane, record, false).cache[size_class];
        for (; count > 0 && !list.empty(); count--)
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
        RawRecord one = call(record, value);
        one.structure = structure;
        say(lane, one);
    }

    void lost(uint32_t lane, uint64_t events, uint64_t allocations)
    {
        Lane &l = say(lane, call(kLost, events, allocations));
        forget_cache(l, false);
        l.allocations += allocations;
        lost_ += events;
    }

    void failed(uint32_t lane, int kind, uint64_t size, uint64_t alignment = 0, uint64_t object = 0)
    {
        failed(lane, kind, size, alignment, object_of(lane, object));
    }
    void failed(uint32_t lane, int kind, uint64_t size, uint64_t alignment, const Object &object)
    {
        RawRecord record = call(kFailed, size, alignment);
        record.kind = static_cast<uint8_t>(kind);
        if (kind == kReallocMoved || kind == kReallocInPlace) set_object(record, lane, object);
        say(lane, record);
        events_++;
    }

    /* Units as they are, which the functions above would not write; they allocate so many
     * objects. */
    void units(uint32_t lane, const std::vector<uint16_t> &record, uint64_t allocations = 0)
    {
        Lane &l = open(lane, true);
        l.segment.units.insert(l.segment.units.end(), record.begin(), record.end());
        l.allocations += allocations;
    }

    /* --- chunks and segments --- */

    void cut(uint32_t lane)
    {
        Lane &l = lanes_[lane];
        size_t from = l.chunk_at, to = l.segment.units.size();
        if (from == to) return;
        bool begin = l.segment_chunks == 0, packed = will_be_packed(l);
        std::string payload = begin ? profile_of(l) : "";
        payload += packed ? encoder_.pack(l.segment, from, to, l.packed_from)
                          : RawEncoder::plain(l.segment, from, to);
        if (!packed) l.packed_from = l.allocations + 1;
        chunk(1, (begin ? 1 : 0) | (begin && l.segment.key ? 2 : 0) | (packed ? 4 : 0), lane,
              payload, static_cast<uint32_t>(to - from), l.segment.first_unit + from,
              l.segment.first_allocation);
        l.chunk_at = to;
        l.chunks++;
        if (++l.segment_chunks >= chunks_per_segment) end_segment(lane);
    }

    void cut_all()
    {
        for (auto &lane : lanes_)
            cut(lane.first);
    }

    /* The lane's next record begins a segment. */
    void end_segment(uint32_t lane)
    {
        cut(lane);
        lanes_[lane].in_run = false;
    }

    /* What is in the lane's slot of the spool: its present segment, or its latest one. */
    struct Segment {
        uint64_t first_allocation, first_unit;
        std::string profile;
        bool key;
        std::string units; /* bytes */
    };
    Segment segment(uint32_t lane)
    {
        const Lane &l = lanes_[lane];
        return {l.segment.first_allocation, l.segment.first_unit, profile_of(l), l.segment.key,
                RawEncoder::plain(l.segment, 0, l.segment.units.size())};
    }

    /* Without `cut_first` what is pending comes behind the tick. */
    void tick(uint64_t ns, uint64_t rss, uint64_t heap_bytes, bool cut_first = true,
              const std::vector<uint64_t> &usage = {})
    {
        if (cut_first) cut_all();
        std::string payload;
        bytes::put_varint(payload, ns);
        bytes::put_varint(payload, rss);
        bytes::put_varint(payload, heap_bytes);
        for (uint64_t number : usage)
            bytes::put_varint(payload, number);
        chunk(2, 0, 0, payload, 0, ticks_++, 0);
        now_ = ns;
    }

    void end(uint64_t status = 0) { end(RawEnd{status, now_, events_, lost_, 0, 0, {}}); }

    /* With numbers of the test's choice; those of the lanes are right. */
    void end(RawEnd says)
    {
        cut_all();
        uint32_t lanes = lanes_.empty() ? 0 : lanes_.rbegin()->first + 1;
        for (uint32_t lane = 0; lane < lanes; lane++)
            says.lane_units.push_back(lanes_[lane].units());
        chunk(3, 0, 0, encode_end(says), 0, ticks_, 0);
    }

    /* Any chunk at all; the checksum is right. */
    void chunk(int type, int chunk_flags, uint32_t lane, const std::string &payload, uint32_t units,
               uint64_t first_unit, uint64_t first_allocation)
    {
        bytes +=
            encode_chunk(type, chunk_flags, lane, payload, units, first_unit, first_allocation);
    }

    uint64_t events() const { return events_; }
    uint64_t records(uint32_t lane) { return lanes_[lane].records; }
    uint64_t allocations(uint32_t lane) { return lanes_[lane].allocations; }
    /* What the lane's cache has of the class, the first one first. */
    const std::deque<uint32_t> &cache(uint32_t lane, uint32_t size_class)
    {
        return lanes_[lane].cache[size_class];
    }

    /* FORMAT.md 5.5, as short as it goes. */
    static std::string pack(const std::string &units)
    {
        std::string packed;
        RawEncoder encoder(false);
        for (size_t i = 0; i < units.size(); i += 2)
            encoder.put_packed(packed, static_cast<uint8_t>(units[i]) |
                                           static_cast<unsigned>(static_cast<uint8_t>(units[i + 1]))
                                               << 8);
        return packed;
    }

  private:
    struct Lane {
        RawSegment segment; /* the present one, or the latest */
        bool in_run = false;
        size_t chunk_at = 0; /* units of the segment that chunks have */
        uint64_t records = 0, allocations = 0, chunks = 0, segments = 0, segment_chunks = 0;
        uint64_t packed_from = 1; /* from this allocation on all chunks are packed */
        /* The cache (FORMAT.md 2.6). */
        bool known = false;
        std::map<uint64_t, uint32_t> class_bytes; /* classes by their bytes */
        std::map<uint32_t, std::deque<uint32_t>> cache;
        std::map<uint32_t, uint32_t> classes;           /* by block */
        std::map<uint32_t, uint64_t> latest_allocation; /* by place */

        uint64_t units() const { return segment.first_unit + segment.units.size(); }
    };

    static uint32_t lane_of(uint64_t object) { return static_cast<uint32_t>(object >> 42); }
    static uint64_t serial_of(uint64_t object) { return object & ((uint64_t{1} << 42) - 1); }

    static std::string profile_of(const Lane &l)
    {
        return std::string(reinterpret_cast<const char *>(l.segment.profile), 8);
    }

    static void forget_cache(Lane &l, bool known)
    {
        l.cache.clear();
        l.known = known;
    }

    /* --- records --- */

    static RawRecord call(int number, uint64_t size = 0, uint64_t alignment = 0,
                          uint64_t address = 0)
    {
        RawRecord record;
        record.number = record.kind = static_cast<uint8_t>(number);
        record.size = size;
        record.alignment = alignment;
        record.address = address;
        return record;
    }

    void set_object(RawRecord &record, uint32_t lane, const Object &object)
    {
        Lane &l = lanes_[lane];
        record.has_object = true;
        record.unknown = object.whose == Object::kUnknown;
        record.object_lane = object.whose == Object::kForeign ? object.lane : lane;
        record.object_place = object.place;
        record.object_class = object.size_class;
        record.bound = object.bound;
        if (object.whose != Object::kOwn) return;
        record.object_serial = object.serial;
        if (object.serial == 0) record.object_serial = l.latest_allocation[object.place];
        if (object.serial > l.allocations) record.object_serial = 0;
    }

    Lane &say(uint32_t lane, RawRecord record, bool counts = true)
    {
        Lane &l = open(lane, counts);
        record.lane = lane;
        record.form = form;
        RawEncoder::append(l.segment, record, encoder_.encode(l.segment, record), l.allocations);
        return l;
    }

    Lane &open(uint32_t lane, bool counts)
    {
        Lane &l = lanes_[lane];
        if (l.segment.units.size() - l.chunk_at > chunk_units_max) cut(lane);
        l.records += counts;
        if (l.in_run) return l;
        RawSegment segment;
        segment.first_unit = l.units();
        segment.first_allocation = l.allocations;
        std::copy_n(profile.begin(), 8, segment.profile);
        segment.key = key < 0 ? l.segments % 16 == 0 : key > 0;
        l.segments++;
        if (!segment.key) std::copy_n(l.segment.latest, kStructures, segment.latest);
        l.segment = segment;
        l.in_run = true;
        l.chunk_at = l.segment_chunks = 0;
        return l;
    }

    bool will_be_packed(const Lane &l) const
    {
        return packing == kPacked || (packing == kEveryOther && l.chunks % 2 == 1);
    }

    /* An allocation, of which everything has been said. */
    uint64_t begin_object(Lane &l, uint32_t lane, uint64_t size, uint32_t place,
                          uint32_t size_class)
    {
        if (place == 0) {
            auto announced = l.class_bytes.lower_bound(size);
            if (announced != l.class_bytes.end() && !l.cache[announced->second].empty()) {
                place = l.cache[announced->second].front();
                l.cache[announced->second].pop_front();
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

    uint64_t take(uint32_t structure) { return ++next_sequence[structure]; }

    bool opaque_;
    RawEncoder encoder_;
    std::map<uint32_t, Lane> lanes_;
    std::map<uint64_t, uint32_t> places_; /* of objects */
    uint64_t ticks_ = 0, now_ = 0, events_ = 0, lost_ = 0;
};

/* A spool (FORMAT.md 8), slot after slot. */
class SpoolBuilder {
  public:
    std::string bytes;

    explicit SpoolBuilder(uint32_t slot_bytes = 4096,
                          const std::string &recording_id = "0123456789abcdef",
                          uint64_t features = 0)
        : bytes(encode_spool_header(slot_bytes, recording_id, 4711, features)),
          slot_bytes_(slot_bytes)
    {
    }

    void slot(uint32_t lane, uint64_t serial, const RawBuilder::Segment &segment,
              uint32_t state = 1)
    {
        bytes +=
            encode_spool_slot({state, lane, serial, segment.first_allocation, segment.first_unit,
                               segment.profile, segment.key, segment.units},
                              slot_bytes_);
    }

  private:
    uint32_t slot_bytes_;
};

#endif
