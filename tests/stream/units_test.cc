/* The units that a traced thread writes, by the inline functions of the fast path and by the
 * others, read back with the decoder, are what was recorded; also when the writer has packed them.
 * */
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <unordered_set>
#include <vector>

#include "common/call_table.h"
#include "stream/raw_decoder.h"
#include "stream/raw_reader.h"
#include "stream/raw_unpack.h"

extern "C" {
#include "stream/pack.h"
#include "stream/units.h"
#include "stream/units_profile.h"
}

namespace {

constexpr size_t kSlotUnits = 8000;

/* Segments of each seed. A sanitizer makes the large tables of the decoders anew for each. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRuns = 5;
#else
constexpr int kRuns = 25;
#endif

record make_record(unsigned number)
{
    record made = {};
    made.number = static_cast<uint8_t>(number);
    made.shape = call_shapes[number];
    made.kind = static_cast<uint8_t>(number);
    return made;
}

/* Size classes, the same for all: bytes of objects. Each block of places has one. */
constexpr uint64_t kClassBytes[] = {0, 8, 16, 32, 104, 1024, 3000, 100000};
constexpr unsigned kClasses = sizeof kClassBytes / sizeof *kClassBytes;

unsigned class_of(uint32_t place)
{
    return (place / RAW_PLACE_BLOCK * 2654435761u >> 16) % kClasses;
}

/* The next place of the class from here on. */
uint32_t place_of(unsigned size_class, uint32_t from)
{
    while (class_of(from) != size_class)
        from++;
    return from;
}

/* The smallest class for the size, of all that there are. */
uint32_t smallest_class(uint64_t size)
{
    for (unsigned i = 1; i < kClasses; i++)
        if (size <= kClassBytes[i]) return i;
    return 0;
}

/* Of all places, by block: they repeat. */
const uint8_t *block_classes()
{
    constexpr uint32_t kPeriod = 1 << 19;
    static const std::vector<uint8_t> made = [] {
        std::vector<uint8_t> classes(RAW_PLACE_LIMIT / RAW_PLACE_BLOCK);
        for (uint32_t block = 0; block < kPeriod; block++)
            classes[block] = static_cast<uint8_t>(class_of(block * RAW_PLACE_BLOCK));
        for (uint32_t block = kPeriod; block < classes.size(); block += kPeriod)
            memcpy(&classes[block], &classes[0], kPeriod);
        return classes;
    }();
    return made.data();
}

units_object own(uint32_t place)
{
    return {place, class_of(place), 0, false, nullptr};
}

units_object foreign(uint32_t lane, uint64_t allocations, uint32_t place)
{
    return {place, class_of(place), raw_allocations(lane, allocations), false, nullptr};
}

units_object unknown(uint32_t place)
{
    return {place, place ? class_of(place) : 0, 0, true, nullptr};
}

/* A lane with its slot, the cache of its thread as FORMAT.md 2.6 has it, and what it should say. */
class Lane {
  public:
    uint32_t number;
    uint32_t features;
    struct units_lane *lane;
    uint64_t allocations = 0, events = 0, units = 0;
    std::vector<record> wanted;
    bool follows = false; /* the cache is known */
    std::deque<uint32_t> lists[kClasses];
    bool announced[kClasses] = {};
    size_t aged = 0; /* objects that packed chunks named by their age */
    size_t fast_reallocs = 0;

    Lane(uint32_t lane_number, bool with_addresses = false, bool packs = false,
         bool with_stacks = false)
        : number(lane_number),
          features((with_addresses ? RAW_FEATURE_ADDRESSES : 0) |
                   (with_stacks ? RAW_FEATURE_STACKS : 0) |
                   (with_stacks && lane_number % 2 ? RAW_FEATURE_FREE_STACKS : 0)),
          slot_(kSlotUnits + 200), packs_(packs)
    {
        const pack_source source = {smallest_class, block_classes(),
                                    [](size_t bytes) { return calloc(1, bytes); },
                                    [](void *memory, size_t) { free(memory); }, false};
        packer_init(&packer_, &source);
        pack_fill_entries(unpack_);
        raw_decoder_init(&unpacked_, number, features);

        lane = static_cast<struct units_lane *>(aligned_alloc(alignof(units_lane), sizeof *lane));
        memset(lane, 0, sizeof *lane);
        lane->features = features;
        raw_decoder_init(&decoder_, number, features);
        raw_decoder_init(&with_cache_, number, features);
        with_cache_.cache_records = true;
        for (raw_decoder *decoder : {&decoder_, &with_cache_, &unpacked_}) {
            decoder->define = [](void *context, const stack_definition *definition) {
                static_cast<Lane *>(context)->read_.push_back(*definition);
                return static_cast<const char *>(nullptr);
            };
            decoder->define_context = this;
        }
        begin_segment(0);
    }
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;
    ~Lane()
    {
        raw_decoder_free(&decoder_);
        raw_decoder_free(&with_cache_);
        raw_decoder_free(&unpacked_);
        packer_release(&packer_);
        free(lane);
    }

    bool has_room() const { return units_cursor(lane) < &slot_[kSlotUnits]; }
    /* Of the present segment. */
    std::vector<uint16_t> written() const
    {
        return std::vector<uint16_t>(slot_.begin(),
                                     slot_.begin() + (units_cursor(lane) - &slot_[0]));
    }

    /* --- the cache --- */

    void tell(unsigned size_class)
    {
        if (announced[size_class] || size_class == 0) return;
        announced[size_class] = true;
        units_class(lane, size_class, kClassBytes[size_class]);
        want_cache(RAW_CLASS, size_class).size = kClassBytes[size_class];
    }

    void cache_begin()
    {
        units_thread(lane, RAW_CACHE_BEGIN, 0);
        want_cache(RAW_CACHE_BEGIN, 0);
        forget();
        follows = true;
    }

    /* Places of one class. */
    void cached(const std::vector<uint32_t> &places)
    {
        unsigned size_class = class_of(places[0]);
        tell(size_class);
        units_cached(lane, size_class, static_cast<unsigned>(places.size()), places.data());
        for (uint32_t place : places) {
            want_cache(RAW_CACHED, size_class).place = place;
            lists[size_class].push_back(place);
        }
    }

    void uncached(unsigned size_class, unsigned count)
    {
        units_uncached(lane, size_class, count);
        want_cache(RAW_UNCACHED, size_class).operand = count;
        lists[size_class].erase(lists[size_class].begin(), lists[size_class].begin() + count);
    }

    /* The class from which an object of this size would be taken; 0: it has none. */
    unsigned class_of_size(uint64_t size) const
    {
        unsigned size_class = smallest_class(size);
        return lists[size_class].empty() ? 0 : size_class;
    }

    /* --- calls --- */

    /* Takes the first place of the class that the size has. As tracing_tcmalloc.cc does it:
     * the fast path where the kind has a code. */
    uint32_t allocation_taken(unsigned kind, uint64_t size, uint64_t alignment = 0,
                              uint64_t address = 0)
    {
        unsigned size_class = class_of_size(size);
        EXPECT_TRUE(follows && size_class);
        uint32_t place = lists[size_class].front();
        units_allocation_of allocation = {own(place), reinterpret_cast<const void *>(address),
                                          true};
        if (call_shapes[kind] == SHAPE_ALLOCATION && size < units_code_of(lane, kind)->size_limit)
            units_fast_allocation(lane, units_cursor(lane), kind, size);
        else
            units_allocation(lane, kind, size, alignment, &allocation);
        return allocated(kind, size, alignment, place, address);
    }

    /* Says its place. */
    uint32_t allocation_at(uint32_t place, unsigned kind, uint64_t size, uint64_t alignment = 0,
                           uint64_t address = 0)
    {
        units_allocation_of allocation = {own(place), reinterpret_cast<const void *>(address),
                                          false};
        tell(class_of(place));
        units_allocation(lane, kind, size, alignment, &allocation);
        return allocated(kind, size, alignment, place, address);
    }

    void freeing(unsigned kind, const units_object &object, uint64_t size = 0,
                 uint64_t alignment = 0)
    {
        bool is_own = !object.unknown && !object.bound, done = false;
        mention(object);
        bool sized = call_shapes[kind] == SHAPE_FREE_SIZED;
        if (is_own && (sized || call_shapes[kind] == SHAPE_FREE))
            done = units_fast_free(lane, units_cursor(lane), kind, object.place, sized, size);
        if (!done) units_free(lane, kind, &object, size, alignment);
        record one = make_record(kind);
        one.size = size;
        one.operand = alignment;
        if (features & RAW_FEATURE_FREE_STACKS) one.stack = take_stack();
        want_end(one, object);
        give_back(object);
    }

    /* On the fast path where the kind has a code. */
    void reallocate(unsigned kind, const units_object &old, uint64_t size,
                    const units_allocation_of &allocation, bool taken)
    {
        bool is_own = !old.unknown && !old.bound;
        if (is_own && taken && units_fast_can_realloc(lane, kind, old.place, size)) {
            units_fast_realloc(lane, units_cursor(lane), kind, old.place, size);
            fast_reallocs++;
        } else {
            units_realloc(lane, kind, &old, size, &allocation);
        }
    }

    /* `taken`: the place is the first of the class of the size. */
    void moved(const units_object &old, uint64_t size, uint32_t place, bool taken, uint64_t address)
    {
        units_allocation_of allocation = {own(place), reinterpret_cast<const void *>(address),
                                          taken};
        if (!taken) tell(class_of(place));
        mention(old);
        reallocate(CALL_REALLOC_MOVED, old, size, allocation, taken);
        resized(CALL_REALLOC_MOVED, old, size, place, address);
        take_if_first(place);
        give_back(old);
    }

    void resized_in_place(const units_object &old, uint64_t size, uint64_t address)
    {
        units_allocation_of allocation = {old, reinterpret_cast<const void *>(address), false};
        mention(old);
        reallocate(CALL_REALLOC_IN_PLACE, old, size, allocation, true);
        resized(CALL_REALLOC_IN_PLACE, old, size, old.place, address);
    }

    /* `object` may be NULL. */
    void failed(unsigned kind, uint64_t size, uint64_t alignment, const units_object *object)
    {
        if (object) mention(*object);
        units_failed(lane, kind, size, alignment, object);
        record one = make_record(RAW_FAILED);
        one.kind = static_cast<uint8_t>(kind);
        one.size = size;
        one.operand = alignment;
        want_end(one, object ? *object : unknown(0));
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

    /* --- other records --- */

    void thread(unsigned number_of_record, uint64_t id)
    {
        units_thread(lane, number_of_record, id);
        wanted.push_back(make_record(number_of_record));
        wanted.back().operand = id;
        if (number_of_record == RAW_THREAD_BEGIN) stack_ = 0;
        if (number_of_record != RAW_THREAD_END) forget();
    }

    void sequence(bool before, unsigned structure, uint64_t value)
    {
        lane->allocating = before;
        units_sequence(lane, structure, value);
        wanted.push_back(make_record(before ? RAW_SEQUENCE_BEFORE : RAW_SEQUENCE_AFTER));
        wanted.back().structure = structure;
        wanted.back().size = value;
    }

    void lost(uint64_t lost_events, uint64_t lost_allocations)
    {
        units_lost(lane, lost_events, lost_allocations);
        allocations += lost_allocations;
        wanted.push_back(make_record(RAW_LOST));
        wanted.back().size = lost_events;
        wanted.back().operand = lost_allocations;
        stack_ = 0;
        forget();
    }

    /* --- call stacks --- */

    void stack(uint32_t node)
    {
        units_stack(lane, node);
        wanted.push_back(make_record(RAW_STACK));
        wanted.back().size = stack_ = node;
    }

    void define(const stack_definition &definition)
    {
        units_define(lane, &definition);
        wanted.push_back(make_record(RAW_DEFINE));
        wanted.back().operand = definition.what;
        defined_.push_back(definition);
    }

    /* Compares what the slot says with what is wanted, and begins the next segment. Returns the
     * units of the segment. */
    size_t end_segment()
    {
        size_t count = static_cast<size_t>(units_cursor(lane) - slot_.data());
        EXPECT_EQ(units_head_allocations(lane->head, segment_allocation_), allocations);
        EXPECT_EQ(units + count - lane->extra_units, events) << "first units of events";
        EXPECT_EQ(units_events(profile_, features, slot_.data(), count), events - segment_events_);
        segment_events_ = events;
        std::vector<record> plain;
        for (const record &one : wanted)
            if (one.number < RAW_CLASS) plain.push_back(one);
        expect_read(&with_cache_, wanted, count);
        expect_read(&decoder_, plain, count);
        if (packs_) expect_packed(plain, count);
        units += count;
        wanted.clear();
        defined_.clear();
        begin_segment(count);
        return count;
    }

  private:
    std::vector<uint16_t> slot_;
    raw_decoder decoder_, with_cache_;
    bool packs_;
    packer packer_;
    pack_lane *followed_ = nullptr;
    uint32_t unpack_[PACK_ENTRIES];
    raw_decoder unpacked_;
    uint8_t profile_[RAW_PROFILE_BYTES];
    uint64_t segment_allocation_ = 0, segment_events_ = 0;
    bool key_ = false;
    uint64_t slots_ = 0;
    uint32_t stack_ = 0;
    std::vector<stack_definition> defined_, read_;

    uint32_t take_stack()
    {
        uint32_t taken = stack_;
        stack_ = 0;
        return taken;
    }

    void begin_segment(size_t count)
    {
        key_ = slots_ % RAW_KEY_SEGMENT_EVERY == 0;
        lane->head = units_head(slot_.data(), lane->head);
        units_begin_segment(lane, slot_.data(), count, slots_++, key_);
        memcpy(profile_, lane->profile, sizeof profile_);
        segment_allocation_ = allocations;
        memset(slot_.data(), 0, slot_.size() * sizeof slot_[0]);
    }

    /* The cache is not known any more. */
    void forget()
    {
        follows = false;
        for (std::deque<uint32_t> &list : lists)
            list.clear();
    }

    void take_if_first(uint32_t place)
    {
        std::deque<uint32_t> &list = lists[class_of(place)];
        if (!list.empty() && list.front() == place) list.pop_front();
    }

    void give_back(const units_object &object)
    {
        if (follows && object.place && object.size_class)
            lists[object.size_class].push_front(object.place);
    }

    void mention(const units_object &object)
    {
        if (object.unknown || object.bound) tell(object.size_class);
    }

    record &want_cache(unsigned record_number, unsigned size_class)
    {
        wanted.push_back(make_record(record_number));
        wanted.back().structure = size_class;
        return wanted.back();
    }

    void want_end(record one, const units_object &object)
    {
        one.ends = object.place;
        if (one.number == RAW_FAILED || one.shape == SHAPE_REALLOC) one.stack = take_stack();
        if (!object.unknown)
            one.bound = object.bound ? object.bound : raw_allocations(number, allocations);
        wanted.push_back(one);
        events++;
    }

    uint32_t allocated(unsigned kind, uint64_t size, uint64_t alignment, uint32_t place,
                       uint64_t address)
    {
        record one = make_record(kind);
        one.size = size;
        one.operand = alignment;
        one.serial = ++allocations;
        one.place = place;
        one.stack = take_stack();
        if (features & RAW_FEATURE_ADDRESSES) one.address = address;
        wanted.push_back(one);
        events++;
        take_if_first(place);
        return place;
    }

    void resized(unsigned kind, const units_object &old, uint64_t size, uint32_t place,
                 uint64_t address)
    {
        record one = make_record(kind);
        one.size = size;
        one.place = place;
        one.serial = allocations + 1;
        if (features & RAW_FEATURE_ADDRESSES) one.address = address;
        want_end(one, old);
        allocations++;
    }

    /* Now and then a segment is not packed, and the lane followed anew after it. */
    void expect_packed(const std::vector<record> &expected, size_t count)
    {
        if (slots_ % 7 == 3) {
            if (followed_) pack_lane_end(&packer_, followed_);
            followed_ = nullptr;
            return expect_read(&unpacked_, expected, count);
        }
        if (!followed_) followed_ = pack_lane_begin(&packer_);
        const pack_records records = {profile_, features, slot_.data(), count};
        std::vector<uint8_t> packed(3 * count + 4);
        uint8_t *end = pack_units(&packer_, followed_, &records, packed.data());
        ASSERT_LE(end, packed.data() + 3 * count);
        std::vector<uint16_t> read(count + RAW_CHUNK_SLACK);
        uint32_t read_count = static_cast<uint32_t>(count);
        ASSERT_TRUE(raw_unpack(unpack_, packed.data(), static_cast<uint32_t>(end - packed.data()),
                               reinterpret_cast<uint8_t *>(read.data()), &read_count));
        raw_chunk chunk = {};
        chunk.packed = true;
        chunk.payload = reinterpret_cast<uint8_t *>(read.data());
        chunk.payload_bytes = 2 * read_count;
        expect_chunk(&unpacked_, expected, chunk, count);
        aged += count - read_count;
    }

    void expect_read(raw_decoder *decoder, const std::vector<record> &expected, size_t count)
    {
        raw_chunk chunk = {};
        chunk.open_ended = true;
        chunk.payload = reinterpret_cast<uint8_t *>(slot_.data());
        chunk.payload_bytes = static_cast<uint32_t>(2 * count);
        expect_chunk(decoder, expected, chunk, count);
    }

    void expect_chunk(raw_decoder *decoder, const std::vector<record> &expected, raw_chunk chunk,
                      size_t count)
    {
        chunk.type = RAW_CHUNK_UNITS;
        chunk.begin = true;
        chunk.key = key_;
        memcpy(chunk.profile, profile_, sizeof profile_);
        chunk.lane = number;
        chunk.units = static_cast<uint32_t>(count);
        chunk.first_unit = units;
        chunk.first_allocation = segment_allocation_;
        std::vector<record> records(expected.size() + RAW_CACHED_MAX);
        read_.clear();
        raw_decoder_open(decoder, &chunk);
        uint32_t done = 0;
        while (uint32_t some = raw_decoder_next(decoder, &records[done],
                                                static_cast<uint32_t>(records.size()) - done))
            done += some;
        char text[512];
        EXPECT_FALSE(error_is_set(&decoder->error))
            << error_text(&decoder->error, text, sizeof text);
        EXPECT_EQ(done, expected.size());
        for (size_t i = 0; i < done && i < expected.size() && !testing::Test::HasFailure(); i++)
            expect_same(expected[i], records[i], i);
        EXPECT_EQ(decoder->allocations, allocations);
        ASSERT_EQ(read_.size(), defined_.size());
        for (size_t i = 0; i < read_.size(); i++)
            expect_same_definition(defined_[i], read_[i]);
    }

    static void expect_same_definition(const stack_definition &left, const stack_definition &right)
    {
        EXPECT_EQ(left.what, right.what);
        EXPECT_EQ(left.number, right.number);
        EXPECT_EQ(left.count, right.count);
        EXPECT_EQ(left.of, right.of);
        if (left.what == STACK_MODULE) {
            EXPECT_EQ(left.start, right.start);
            EXPECT_EQ(left.end, right.end);
            EXPECT_EQ(left.bias, right.bias);
        } else if (left.what == STACK_TEXT) {
            EXPECT_EQ(left.length, right.length);
            EXPECT_EQ(left.offset, right.offset);
            EXPECT_EQ(0, memcmp(left.piece, right.piece, stack_piece_bytes(&left)));
        } else if (left.what == STACK_CODES) {
            EXPECT_EQ(0, memcmp(left.offsets, right.offsets, left.count * sizeof *left.offsets));
        } else if (left.what == STACK_NODES) {
            EXPECT_EQ(0, memcmp(left.codes, right.codes, left.count * sizeof *left.codes));
        }
    }

    static void expect_same(const record &left, const record &right, size_t i)
    {
        EXPECT_EQ(left.number, right.number) << i;
        EXPECT_EQ(left.kind, right.kind) << i;
        EXPECT_EQ(left.count, right.count) << i;
        EXPECT_EQ(left.structure, right.structure) << i;
        EXPECT_EQ(left.ends, right.ends) << i;
        EXPECT_EQ(left.bound, right.bound) << i;
        EXPECT_EQ(left.size, right.size) << i;
        EXPECT_EQ(left.serial, right.serial) << i;
        EXPECT_EQ(left.operand, right.operand) << i;
        EXPECT_EQ(left.address, right.address) << i;
        EXPECT_EQ(left.place, right.place) << i;
        EXPECT_EQ(left.stack, right.stack) << i;
    }
};

bool has_size(unsigned shape)
{
    return shape == SHAPE_FREE_SIZED || shape == SHAPE_FREE_SIZED_ALIGNED;
}

bool has_alignment(unsigned shape)
{
    return shape == SHAPE_ALLOCATION_ALIGNED || shape == SHAPE_FREE_ALIGNED ||
           shape == SHAPE_FREE_SIZED_ALIGNED;
}

/* Does what comes to mind, mostly with a few kinds that change from time to time; now the thread's
 * cache is followed, now it is not. */
class Anything {
  public:
    Anything(uint64_t seed, uint32_t number, bool addresses, bool packs, bool stacks)
        : random_(seed), lane_(number, addresses, packs, stacks)
    {
        for (unsigned kind = 1; kind < CALL_KINDS; kind++)
            if (call_shapes[kind] != SHAPE_UNDEFINED) kinds_.push_back(kind);
    }

    void run(int runs)
    {
        for (int i = 0; i < runs; i++) {
            for (unsigned &kind : favourites_)
                if (i % 5 == 0) kind = kinds_[random(kinds_.size())];
            reach_ = std::vector<uint64_t>{2000, 100000, RAW_PLACE_LIMIT}[random(3)];
            while (lane_.has_room())
                step();
            lane_.end_segment();
            if (testing::Test::HasFailure()) return;
        }
    }

    size_t aged() const { return lane_.aged; }
    size_t fast_reallocs() const { return lane_.fast_reallocs; }

  private:
    std::mt19937_64 random_;
    Lane lane_;
    std::vector<unsigned> kinds_;
    unsigned favourites_[6] = {1, 21, 1, 21, 3, 28};
    uint64_t reach_ = 2000;
    uint64_t sequences_[256] = {};
    std::vector<uint32_t> objects_;      /* places of those that the lane has */
    std::unordered_set<uint32_t> taken_; /* these, and what is in the cache */

    uint64_t random(uint64_t below) { return random_() % below; }
    /* Any size of number, small ones mostly. */
    uint64_t number() { return random_() >> (random(4) == 0 ? random(64) : 50 + random(14)); }
    uint64_t address() { return random_() >> (random(2) == 0 ? 17 : 40) & ~uint64_t{7}; }

    /* One that the lane does not have. Most are on few pages, if there is room. */
    uint32_t new_place()
    {
        for (unsigned tries = 0;; tries++) {
            uint32_t place = static_cast<uint32_t>(1 + random(reach_ - 1));
            if (random(8)) place = place % 4096 + 1;
            if (tries > 20) place = static_cast<uint32_t>(1 + random(RAW_PLACE_LIMIT - 1));
            if (taken_.count(place) == 0) return place;
        }
    }

    units_object object_of_others()
    {
        uint64_t most = RAW_SERIAL_MAX;
        uint32_t place = new_place();
        switch (random(6)) {
        case 0: return unknown(0);
        case 1: return unknown(place);
        case 2: return foreign(lane_.number == 65535 ? 8 : 65535, most - random(10), place);
        case 3: return foreign(lane_.number == 15 ? 8 : 15, 1 + random(10), place);
        case 4: return foreign(lane_.number == 7 ? 8 : 7, 1 + random(most), place);
        default: return foreign(lane_.number == 16 ? 8 : 16, ++allocations_elsewhere_, place);
        }
    }
    uint64_t allocations_elsewhere_ = 0;

    /* An object that is about to end; `own` ones leave the list. */
    units_object object()
    {
        if (objects_.empty() || lane_.allocations == 0 || random(12) == 0)
            return object_of_others();
        size_t at = random(4) ? objects_.size() - 1 - random(std::min<size_t>(8, objects_.size()))
                              : random(objects_.size());
        uint32_t place = objects_[at];
        objects_[at] = objects_.back();
        objects_.pop_back();
        if (!lane_.follows || class_of(place) == 0) taken_.erase(place);
        return own(place);
    }

    /* The place of an object of others came into the cache. */
    void has_ended(const units_object &object)
    {
        if (lane_.follows && object.place && object.size_class) taken_.insert(object.place);
    }

    void begins(uint32_t place)
    {
        objects_.push_back(place);
        taken_.insert(place);
    }

    /* A size for which the cache has an object, if it has any. */
    bool size_in_cache(uint64_t *size)
    {
        for (int i = 0; i < 8; i++) {
            uint64_t bytes = kClassBytes[1 + random(kClasses - 1)];
            *size = random(2) ? bytes - random(std::min<uint64_t>(bytes, 8)) : random(bytes + 1);
            if (lane_.class_of_size(*size)) return true;
        }
        return false;
    }

    void allocation(unsigned kind, uint64_t alignment)
    {
        uint64_t size = number();
        if (random(50) == 0) return lane_.failed(kind, size, alignment, nullptr);
        if (lane_.follows && random(16) && size_in_cache(&size))
            return begins(lane_.allocation_taken(kind, size, alignment, address()));
        begins(lane_.allocation_at(a_place(), kind, size, alignment, address()));
    }

    /* Of an object that says its place: that may be the first of a list. */
    uint32_t a_place()
    {
        const std::deque<uint32_t> &list = lane_.lists[random(kClasses)];
        return lane_.follows && !list.empty() && random(2) ? list.front() : new_place();
    }

    void reallocated(unsigned kind)
    {
        uint64_t size = number();
        if (random(50) == 0) {
            units_object stays = object();
            lane_.failed(kind, size, 0, &stays);
            if (!stays.unknown && !stays.bound) begins(stays.place);
            return;
        }
        if (kind == CALL_REALLOC_IN_PLACE) {
            units_object old = object();
            lane_.resized_in_place(old, size, address());
            if (old.place) begins(old.place);
            return;
        }
        bool taken = lane_.follows && random(2) && size_in_cache(&size);
        uint32_t place = taken ? lane_.lists[lane_.class_of_size(size)].front() : a_place();
        taken_.insert(place);
        units_object old = object();
        lane_.moved(old, size, place, taken, address());
        has_ended(old);
        begins(place);
    }

    void step()
    {
        uint64_t what = random(100);
        unsigned kind = what < 90 ? favourites_[random(6)] : kinds_[random(kinds_.size())];
        unsigned shape = call_shapes[kind];
        uint64_t alignment = has_alignment(shape) ? number() : 0;
        if (what == 99) return other();
        if (lane_.features & RAW_FEATURE_STACKS) {
            if (random(2))
                lane_.stack(1 + static_cast<uint32_t>(number() % (STACK_NUMBERS_LIMIT - 1)));
            if (random(30) == 0) lane_.define(definition());
        }
        if (random(40) == 0) return cache();
        if (shape == SHAPE_HEAP) {
            lane_.heap_call(kind, static_cast<unsigned>(random(3)), number(), number());
        } else if (shape == SHAPE_ALLOCATION || shape == SHAPE_ALLOCATION_ALIGNED) {
            allocation(kind, alignment);
        } else if (shape == SHAPE_REALLOC) {
            reallocated(kind);
        } else {
            units_object old = object();
            lane_.freeing(kind, old, has_size(shape) ? number() : 0, alignment);
            has_ended(old);
        }
    }

    /* Any number from the first one on. */
    uint32_t number_from(uint32_t first, uint32_t limit, uint32_t count = 1)
    {
        return first + static_cast<uint32_t>(number() % (limit - first - count + 1));
    }

    /* Any that is within the limits. */
    stack_definition definition()
    {
        stack_definition made = {};
        made.what = static_cast<uint32_t>(STACK_MODULE + random(STACK_NODES));
        switch (made.what) {
        case STACK_MODULE:
            made.start = number();
            made.end = made.start + number() % (UINT64_MAX - made.start);
            made.bias = number();
            [[fallthrough]];
        case STACK_UNLOADED: made.number = number_from(1, STACK_MODULES_LIMIT); break;
        case STACK_TEXT:
            made.of = static_cast<uint32_t>(random(STACK_TEXTS));
            made.number = number_from(1, made.of == STACK_CODE_TEXT ? STACK_NUMBERS_LIMIT
                                                                    : STACK_MODULES_LIMIT);
            made.length = static_cast<uint32_t>(1 + number() % (made.of == STACK_BUILD_ID
                                                                    ? STACK_BUILD_ID_MAX
                                                                    : STACK_TEXT_BYTES_MAX));
            made.offset =
                static_cast<uint32_t>(random(made.length)) / STACK_PIECE_BYTES * STACK_PIECE_BYTES;
            for (uint8_t &byte : made.piece)
                byte = static_cast<uint8_t>(random(256));
            break;
        case STACK_CODES:
            made.count = static_cast<uint32_t>(1 + random(STACK_CODES_MAX));
            made.number = number_from(STACK_CODE_FIRST, STACK_NUMBERS_LIMIT, made.count);
            made.of = number_from(0, STACK_MODULES_LIMIT);
            for (uint64_t &offset : made.offsets)
                offset = number() % STACK_OFFSETS_LIMIT;
            break;
        default:
            made.count = static_cast<uint32_t>(1 + random(STACK_NODES_MAX));
            made.number = number_from(STACK_NODE_FIRST, STACK_NUMBERS_LIMIT, made.count);
            made.of = static_cast<uint32_t>(number() % made.number);
            for (uint32_t &code : made.codes)
                code = number_from(STACK_CODE_FIRST, STACK_NUMBERS_LIMIT);
        }
        return made;
    }

    /* Some come, some go. */
    void cache()
    {
        if (!lane_.follows) {
            if (random(4)) return;
            forget();
            return lane_.cache_begin();
        }
        unsigned size_class = static_cast<unsigned>(1 + random(kClasses - 1));
        std::deque<uint32_t> &list = lane_.lists[size_class];
        if (!list.empty() && random(3) == 0) {
            unsigned count = static_cast<unsigned>(1 + random(list.size()));
            for (unsigned i = 0; i < count; i++)
                taken_.erase(list[i]);
            return lane_.uncached(size_class, count);
        }
        std::vector<uint32_t> places;
        for (uint64_t count = 1 + random(RAW_CACHED_MAX), tries = 0;
             places.size() < count && tries < 200; tries++) {
            uint32_t place = new_place();
            if (class_of(place) != size_class) continue;
            taken_.insert(place);
            places.push_back(place);
        }
        if (!places.empty()) lane_.cached(places);
    }

    /* What was in the cache is not the lane's any more. */
    void forget()
    {
        taken_.clear();
        taken_.insert(objects_.begin(), objects_.end());
    }

    void other()
    {
        unsigned structure = random(3) == 0 ? 255 : static_cast<unsigned>(random(128));
        switch (random(24)) {
        case 0: lane_.thread(RAW_THREAD_BEGIN, number()); break;
        case 1: lane_.thread(RAW_THREAD_END, 0); break;
        case 2: lane_.thread(RAW_THREAD_CACHE_DELETED, 0); break;
        case 3: lane_.lost(number(), random(100)); break;
        default:
            sequences_[structure] += 1 + random(random(2) == 0 ? 3 : 100000);
            lane_.sequence(random(2) == 0, structure, sequences_[structure]);
        }
        if (!lane_.follows) forget();
    }
};

TEST(Units, AnythingIsReadAsItWasRecorded)
{
    size_t aged = 0, fast_reallocs = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Anything anything(seed, seed % 4 == 0 ? 65535 : static_cast<uint32_t>(seed), seed % 3 == 0,
                          seed % 2 == 0, seed % 4 >= 2);
        anything.run(kRuns);
        aged += anything.aged();
        fast_reallocs += anything.fast_reallocs();
        if (HasFailure()) return;
    }
    EXPECT_GT(aged, 0u) << "no far place was named by an age";
    EXPECT_GT(fast_reallocs, 0u);
}

/* A thread asks for the allocations of a lane whose own thread goes on, from slot to slot, some of
 * them without an allocation. */
TEST(Units, AllocationsSeenByAnotherThread)
{
    const uint64_t enough = 400000;
    struct units_lane *lane =
        static_cast<struct units_lane *>(aligned_alloc(alignof(units_lane), sizeof *lane));
    memset(lane, 0, sizeof *lane);
    lane->codes[units_code_at(CALL_MALLOC)].base = 1;
    std::vector<uint16_t> slots[2] = {std::vector<uint16_t>(kSlotUnits),
                                      std::vector<uint16_t>(kSlotUnits)};
    std::atomic<uint64_t> begun{0}, done{0}, asked{0};
    std::thread owner([&] {
        std::mt19937 random(1);
        uint64_t allocations = 0;
        for (unsigned slot = 0; allocations < enough; slot++) {
            units_enter_slot(lane, slots[slot % 2].data());
            uint64_t here = slot % 3 == 0 ? 0 : random() % kSlotUnits + 1;
            for (uint64_t i = 0; i < here; i++) {
                begun = ++allocations;
                units_fast_allocation(lane, units_cursor(lane), CALL_MALLOC, 8);
                done = allocations;
            }
            EXPECT_EQ(units_cursor(lane), slots[slot % 2].data() + here);
            while (asked < slot)
                std::this_thread::yield();
        }
    });
    uint64_t least, wrong = 0;
    do {
        least = done;
        uint64_t allocations = units_allocations_so_far(lane);
        wrong += allocations < least || allocations > begun;
        asked++;
    } while (least < enough);
    owner.join();
    EXPECT_EQ(wrong, 0u) << "of " << asked;
    EXPECT_EQ(units_allocations_so_far(lane), done);
    free(lane);
}

/* FORMAT.md 5.7. */
/* Two kinds with one code would be recorded as one another. */
TEST(Units, EachKindHasACodeOfItsOwn)
{
    std::vector<bool> is_taken(UNITS_CODES);
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        if (call_shapes[kind] == SHAPE_UNDEFINED || call_shapes[kind] == SHAPE_HEAP) continue;
        ASSERT_LT(units_code_at(kind), UNITS_CODES) << call_names[kind];
        EXPECT_FALSE(is_taken[units_code_at(kind)]) << call_names[kind];
        is_taken[units_code_at(kind)] = true;
    }
}

TEST(Units, TheExample)
{
    struct units_lane *lane = static_cast<struct units_lane *>(calloc(1, sizeof *lane));
    std::vector<uint16_t> slot(100);
    lane->head = units_head(slot.data(), 0);
    units_begin_segment(lane, slot.data(), 0, 0, true);
    const uint32_t places[] = {65, 64};
    const units_allocation_of taken = {{65, 3, 0, false, nullptr}, nullptr, true};
    units_thread(lane, RAW_THREAD_BEGIN, 4711);
    units_thread(lane, RAW_CACHE_BEGIN, 0);
    lane->allocating = 1;
    units_sequence(lane, 3, 1);
    units_sequence(lane, RAW_STRUCTURE_PAGE_HEAP, 1);
    units_class(lane, 3, 24);
    units_cached(lane, 3, 2, places);
    units_allocation(lane, CALL_MALLOC, 24, 0, &taken);
    units_fast_allocation(lane, units_cursor(lane), CALL_MALLOC, 20);
    EXPECT_TRUE(units_fast_free(lane, units_cursor(lane), CALL_FREE, 65, false, 0));
    units_fast_allocation(lane, units_cursor(lane), CALL_MALLOC, 24);
    slot.resize(static_cast<size_t>(units_cursor(lane) - slot.data()));
    EXPECT_EQ(slot, (std::vector<uint16_t>{0xf030, 0x1267, 0xf039, 0xf103, 0x0001, 0xf1ff, 0x0001,
                                           0xf038, 0x0003, 0x0018, 0xf03a, 0x0003, 0x0002, 0x0041,
                                           0x0001, 0xa018, 0xa014, 0x0041, 0xa018}));
    EXPECT_EQ(units_head_allocations(lane->head, 0), 3u);
    EXPECT_EQ(slot.size() - lane->extra_units, 4u);
    free(lane);
}

/* FORMAT.md 5.8. */
TEST(Units, TheExampleOfStacks)
{
    Lane lane(0, false, false, true);
    const auto one = [](uint32_t what, uint32_t number, uint32_t count, uint32_t of) {
        stack_definition made = {};
        made.what = what, made.number = number, made.count = count, made.of = of;
        return made;
    };
    stack_definition module = one(STACK_MODULE, 1, 0, 0), path = one(STACK_TEXT, 1, 0, STACK_PATH),
                     codes = one(STACK_CODES, 1, 2, 1), nodes = one(STACK_NODES, 8, 2, STACK_END);
    module.start = module.bias = 0x10000, module.end = module.start + 8192;
    path.length = 6, memcpy(path.piece, "/bin/a", 6);
    codes.offsets[0] = 0x100, codes.offsets[1] = 0x180;
    nodes.codes[0] = 2, nodes.codes[1] = 1;
    for (const stack_definition *definition : {&module, &path, &codes, &nodes})
        lane.define(*definition);
    lane.stack(9);
    EXPECT_EQ(lane.written(),
              (std::vector<uint16_t>{0xf03f, 0x0001, 0x0001, 0x8000, 0x0002, 0x2000, 0x0000, 0xf03f,
                                     0x0003, 0x0001, 0x0006, 0x0000, 0x622f, 0x6e69, 0x612f, 0xf03f,
                                     0x0014, 0x0002, 0x0001, 0x0200, 0x0100, 0xf03f, 0x0015, 0x0010,
                                     0x0008, 0x0002, 0x0001, 0xf300, 0x0009}));
    lane.end_segment();
}

/* What the call adds to the units of the segment. */
template <typename Call> std::vector<uint16_t> adds(const Lane &lane, Call call)
{
    size_t before = lane.written().size();
    call();
    std::vector<uint16_t> written = lane.written();
    return std::vector<uint16_t>(written.begin() + static_cast<std::ptrdiff_t>(before),
                                 written.end());
}

using Units16 = std::vector<uint16_t>;

/* Each range up to the last place for which it has a unit, or two. */
TEST(Units, PlacesAtTheLimitsOfRanges)
{
    Lane lane(3);
    auto ends = [&](unsigned kind, uint32_t place) {
        lane.allocation_at(place, CALL_MALLOC, 40);
        return adds(lane,
                    [&] { lane.freeing(kind, own(place), has_size(call_shapes[kind]) ? 9 : 0); });
    };
    EXPECT_EQ(ends(CALL_FREE, 1), (Units16{1}));
    EXPECT_EQ(ends(CALL_FREE, 0x9fff), (Units16{0x9fff}));
    EXPECT_EQ(ends(CALL_FREE, 0xa000), (Units16{0xd800, 0xa000}));
    EXPECT_EQ(ends(CALL_FREE, 0x7ffffff), (Units16{0xdfff, 0xffff}));
    EXPECT_EQ(ends(CALL_DELETE, 0xfff), (Units16{0xbfff}));
    EXPECT_EQ(ends(CALL_DELETE, 0x1000), (Units16{0xe000, 0x1000}));
    EXPECT_EQ(ends(CALL_DELETE, 0x3ffffff), (Units16{0xe3ff, 0xffff}));
    EXPECT_EQ(ends(CALL_DELETE, 0x4000000), (Units16{0xf017, 0x8000, 0x0800}));
    EXPECT_EQ(ends(CALL_DELETE_SIZED, 1), (Units16{0xe400, 1, 9}));
    EXPECT_EQ(ends(CALL_DELETE_SIZED, 0x3ffffff), (Units16{0xe7ff, 0xffff, 9}));
    EXPECT_EQ(ends(CALL_DELETE_SIZED, 0x4000000), (Units16{0xf01c, 0x8000, 0x0800, 9}));
    EXPECT_EQ(ends(CALL_CFREE, 5), (Units16{0xf016, 5}));
    lane.end_segment();
}

TEST(Units, SizesAtTheLimitsOfRanges)
{
    Lane lane(3);
    lane.cache_begin();
    for (unsigned size_class = 1; size_class < kClasses; size_class++)
        lane.cached({place_of(size_class, 64)});
    auto begins = [&](unsigned kind, uint64_t size) {
        uint32_t place = 0;
        Units16 units = adds(lane, [&] { place = lane.allocation_taken(kind, size, 0); });
        lane.freeing(CALL_FREE, own(place));
        return units;
    };
    EXPECT_EQ(begins(CALL_MALLOC, 0), (Units16{0xa000}));
    EXPECT_EQ(begins(CALL_MALLOC, 1024), (Units16{0xa400}));
    EXPECT_EQ(begins(CALL_MALLOC, 0xfff), (Units16{0xafff}));
    EXPECT_EQ(begins(CALL_MALLOC, 0x1000), (Units16{0xf001, 0x1000, 0}));
    EXPECT_EQ(begins(CALL_NEW, 0xfff), (Units16{0xcfff}));
    EXPECT_EQ(begins(CALL_NEW, 0x1000), (Units16{0xf003, 0x1000, 0}));
    EXPECT_EQ(begins(CALL_CALLOC, 0x7ff), (Units16{0xd7ff}));
    EXPECT_EQ(begins(CALL_CALLOC, 0x800), (Units16{0xf002, 0x800, 0}));
    EXPECT_EQ(begins(CALL_NEW_ARRAY, 3), (Units16{0xf005, 3, 0}));
    lane.end_segment();
}

/* By their lane and its bound at first; then by its entry, as long as no other lane has it and the
 * bound does not go back. */
TEST(Units, ObjectsOfOtherLanes)
{
    Lane lane(3);
    uint32_t place = place_of(2, 200), large = place_of(0, 200), far = place_of(2, 0x7fff00);
    auto ends = [&](unsigned kind, const units_object &object) {
        return adds(lane, [&] { lane.freeing(kind, object); });
    };
    lane.tell(2);
    uint16_t low = static_cast<uint16_t>(place);
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 5, place)), (Units16{0xf055, 9, 5, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 5, place)), (Units16{0xec80, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 8, large)),
              (Units16{0xec80, static_cast<uint16_t>(large), 3 * 128}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 1000, place)),
              (Units16{0xec80, low, 0x8000 | ((992 * 128 + 2) & 0x7fff), 992 * 128 >> 15}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 1000, far)),
              (Units16{static_cast<uint16_t>(0xec80 | far >> 16), static_cast<uint16_t>(far), 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 999, place)), (Units16{0xf055, 9, 999, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(17, 999, place)), (Units16{0xf055, 17, 999, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 999, place)), (Units16{0xf055, 9, 999, low, 2}));
    EXPECT_EQ(ends(CALL_DELETE, foreign(9, 999, place)), (Units16{0xf057, 9, 999, low, 2}));
    uint32_t beyond = place_of(2, RAW_REMOTE_LIMIT);
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 999, beyond)).size(), 6u);
    EXPECT_EQ(ends(CALL_FREE, foreign(0, 1, place)), (Units16{0xf055, 0, 1, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, foreign(0, 1, place)), (Units16{0xec00, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, unknown(place)), (Units16{0xf095, low, 2}));
    EXPECT_EQ(ends(CALL_FREE, unknown(0)), (Units16{0xf095, 0, 0}));
    lane.end_segment();
    /* A segment remembers none of them. */
    EXPECT_EQ(ends(CALL_FREE, foreign(9, 999, place)).size(), 5u);
    lane.end_segment();
}

/* The fast path looks for itself how far the other lane has got, once a free has remembered it. */
TEST(Units, ObjectsOfOtherLanesOnTheFastPath)
{
    static units_lane lane, others[10];
    std::vector<uint16_t> slot(200);
    const uint32_t place = 0x123456;
    auto frees = [&](uint32_t number, const units_lane &other) {
        const units_object object = {
            place, 2, raw_allocations(number, units_allocations_so_far(&other)), false, &other};
        units_free(&lane, CALL_FREE, &object, 0, 0);
    };
    auto frees_fast = [&](uint32_t number, unsigned kind = CALL_FREE, uint32_t size_class = 2) {
        uint16_t *begin = units_cursor(&lane);
        bool done =
            units_fast_free_remote(&lane, kind, place, size_class, number + 1, false, UINT64_MAX);
        EXPECT_EQ(done, units_cursor(&lane) != begin);
        return Units16(begin, units_cursor(&lane));
    };
    units_begin_segment(&lane, nullptr, 0, 0, true);
    units_enter_slot(&lane, slot.data());
    units_class(&lane, 2, 16);
    EXPECT_EQ(frees_fast(9), Units16());
    others[9].first_allocation = 70000;
    others[9].head = units_head(nullptr, 70005);
    frees(9, others[9]);
    EXPECT_EQ(frees_fast(9), (Units16{0xec92, 0x3456, 2}));
    others[9].head += 3 * UNITS_HEAD_ALLOCATION;
    EXPECT_EQ(frees_fast(9), (Units16{0xec92, 0x3456, 3 * 128 + 2}));
    EXPECT_EQ(frees_fast(17), Units16()) << "which has the same entry";
    EXPECT_EQ(frees_fast(9, CALL_DELETE), Units16()) << "which does not have the first range";
    EXPECT_EQ(frees_fast(9, CALL_FREE, 3), Units16()) << "a class that was not announced";
    others[4].head = units_head(nullptr, 255);
    frees(4, others[4]);
    EXPECT_EQ(frees_fast(9), (Units16{0xec92, 0x3456, 2}));
    others[4].head += 255 * UNITS_HEAD_ALLOCATION;
    EXPECT_EQ(frees_fast(4), (Units16{0xee12, 0x3456, 255 * 128 + 2}));
    others[4].head += 256 * UNITS_HEAD_ALLOCATION;
    EXPECT_EQ(frees_fast(4), Units16()) << "which is too much for one unit";
    frees(0, others[0]);
    EXPECT_EQ(frees_fast(0), Units16()) << "which an empty entry would look like";
    others[0].head += UNITS_HEAD_ALLOCATION;
    frees(0, others[0]);
    EXPECT_EQ(frees_fast(0), (Units16{0xec12, 0x3456, 2}));
    units_begin_segment(&lane, slot.data(), 0, 1, false);
    EXPECT_EQ(frees_fast(0), Units16()) << "which the segment does not remember";
    EXPECT_EQ(frees_fast(UINT32_MAX), Units16()) << "whom nobody has";
}

/* A signal handler forks in the middle of such a free, and the child goes on with it. */
TEST(Units, ObjectsOfOtherLanesInAForkedChild)
{
    static units_lane lane;
    EXPECT_FALSE(units_fast_free_remote(&lane, CALL_FREE, 0x123456, 2, 10, false, UINT64_MAX));
    EXPECT_FALSE(units_fast_free_remote(&lane, CALL_FREE, 0x123456, 2, 0, false, UINT64_MAX));
}

/* All forms of the object, and of the place. */
TEST(Units, Reallocs)
{
    Lane lane(3);
    lane.cache_begin();
    uint32_t first = place_of(3, 500), second = place_of(3, first + 1), other = place_of(5, 500);
    lane.cached({first, second});
    lane.allocation_taken(CALL_MALLOC, 20);
    lane.tell(5);
    uint16_t a = static_cast<uint16_t>(first), b = static_cast<uint16_t>(other);
    auto moves = [&](const units_object &old, uint64_t size, uint32_t place, bool taken) {
        return adds(lane, [&] { lane.moved(old, size, place, taken, 0); });
    };
    EXPECT_EQ(moves(own(first), 30, second, true), (Units16{0xe800, a, 30, 0}));
    EXPECT_EQ(lane.lists[3], std::deque<uint32_t>{first}) << "it takes before it gives";
    EXPECT_EQ(moves(own(second), 900, other, false), (Units16{0xe800, uint16_t(a + 1), 900, b, 5}));
    EXPECT_EQ(moves(foreign(4, 70, other + 1), 8, second, false),
              (Units16{0xf052, 4, 70, uint16_t(b + 1), 5, 8, uint16_t(a + 1), 3}));
    EXPECT_EQ(moves(unknown(0), 8, place_of(0, 900), false).size(), 6u);
    auto stays = [&](const units_object &old) {
        return adds(lane, [&] { lane.resized_in_place(old, 77, 0); });
    };
    EXPECT_EQ(stays(own(other)), (Units16{0xf013, b, 77}));
    EXPECT_EQ(stays(foreign(4, 71, other)), (Units16{0xf053, 4, 71, b, 5, 77}));
    EXPECT_EQ(stays(unknown(other)), (Units16{0xf093, b, 5, 77}));
    EXPECT_EQ(stays(unknown(0)), (Units16{0xf093, 0, 0, 77}));
    auto fails = [&](unsigned kind, const units_object &old) {
        return adds(lane, [&] { lane.failed(kind, 99, 0, &old); });
    };
    EXPECT_EQ(fails(CALL_REALLOC_MOVED, own(other)), (Units16{0xf036, 18, b, 99}));
    EXPECT_EQ(fails(CALL_REALLOC_MOVED, foreign(4, 71, other)),
              (Units16{0xf076, 18, 4, 71, b, 5, 99}));
    EXPECT_EQ(fails(CALL_REALLOC_MOVED, unknown(0)), (Units16{0xf0b6, 18, 0, 0, 99}));
    EXPECT_EQ(adds(lane, [&] { lane.failed(CALL_MEMALIGN, 99, 64, nullptr); }),
              (Units16{0xf036, 8, 99, 64}));
    lane.end_segment();
}

/* A kind that is frequent gets a range by the next segment, whatever it is. */
TEST(Units, ProfilesFollowWhatIsFrequent)
{
    for (unsigned allocation = 1; allocation < CALL_KINDS; allocation++) {
        if (call_shapes[allocation] != SHAPE_ALLOCATION &&
            call_shapes[allocation] != SHAPE_ALLOCATION_ALIGNED)
            continue;
        for (unsigned freeing : {21u, 28u, 30u, 35u}) {
            Lane lane(1);
            lane.cache_begin();
            lane.cached({place_of(6, 100)});
            size_t records = 0;
            for (int run = 0; run < 2; run++) {
                for (records = 0; lane.has_room(); records += 2) {
                    unsigned shape = call_shapes[freeing];
                    uint64_t alignment =
                        call_shapes[allocation] == SHAPE_ALLOCATION_ALIGNED ? 64 : 0;
                    uint32_t place = lane.allocation_taken(allocation, 2000, alignment);
                    lane.freeing(freeing, own(place), has_size(shape) ? 2000 : 0,
                                 has_alignment(shape) ? 64 : 0);
                }
                size_t most = 1 + (call_shapes[allocation] == SHAPE_ALLOCATION_ALIGNED) + 1 +
                              has_size(call_shapes[freeing]) + has_alignment(call_shapes[freeing]);
                EXPECT_LE(lane.end_segment(), run == 0 ? SIZE_MAX : records / 2 * most)
                    << call_names[allocation] << " " << call_names[freeing];
            }
        }
    }
}

/* The cache has one object at a place that is near, and one that is far; both end again and again.
 * Units of a segment that begins normally, and of one in which far places were found to be
 * frequent. */
void far_places(Lane *lane, unsigned allocation, unsigned freeing, uint64_t size_given,
                size_t *normal, size_t *wide)
{
    lane->cache_begin();
    lane->cached({place_of(1, 100)});
    lane->cached({place_of(2, 500000)});
    for (int i = 0; i < 5; i++) {
        bool is_wide = lane->lane->long_frees;
        size_t records = 0;
        for (; lane->has_room(); records += 4) {
            uint32_t near = lane->allocation_taken(allocation, 8),
                     far = lane->allocation_taken(allocation, 16);
            lane->freeing(freeing, own(far), size_given);
            lane->freeing(freeing, own(near), size_given);
        }
        *(is_wide ? wide : normal) = 1000 * lane->end_segment() / records;
    }
    EXPECT_NE(*normal, 0u);
    EXPECT_NE(*wide, 0u);
}

/* A segment behind one in which many places are far has them all written in two units. */
TEST(Units, PlacesThatAreFar)
{
    Lane lane(3);
    size_t normal = 0, wide = 0;
    far_places(&lane, CALL_MALLOC, CALL_FREE, 0, &normal, &wide);
    EXPECT_GE(wide, normal + 240); /* a unit more for each free that is near */
}

/* The same with a kind that is told the size, and is not the first one's at the beginning. */
TEST(Units, PlacesThatAreFarOfSizedFrees)
{
    Lane lane(3);
    size_t normal = 0, wide = 0;
    far_places(&lane, CALL_NEW_ARRAY, CALL_DELETE_SIZED, 24, &normal, &wide);
    EXPECT_EQ(lane.lane->profile[RAW_FREE_1], CALL_DELETE_SIZED);
    EXPECT_EQ(lane.lane->profile[RAW_ALLOCATION_1], CALL_NEW_ARRAY);
}

} // namespace
