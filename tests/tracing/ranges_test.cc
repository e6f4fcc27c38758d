// tracing/ranges: whom an object comes after that begins on bytes of others, over an allocator that
// splits and merges what threads free.
//
// One thread does what several lanes would do. What each lane surely comes after is known from what
// it named: it must be enough for all bytes.

#include "tests/tracing/shadow_window.h"
#include "tracing/data/ranges.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

/* --- the system, as far as it is needed: tracing/os/os.h --- */

extern "C" {
void *os_memory_reserve_per_process(size_t bytes);
void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes);
void os_memory_release(void *memory, size_t bytes);
void os_memory_clear(void *memory, size_t bytes);
void os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
}

void *os_memory_reserve_per_process(size_t bytes)
{
    return os_memory_reserve_per_process_at(0, bytes);
}

void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address ? MAP_FIXED_NOREPLACE : 0);
    void *memory =
        mmap(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

void os_memory_release(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

void os_memory_clear(void *memory, size_t bytes)
{
    madvise(memory, bytes, MADV_DONTNEED);
}

void os_wait(const uint32_t *, uint32_t, uint64_t)
{
    std::this_thread::yield();
}

namespace {

constexpr uintptr_t kHeap = uintptr_t{300} << SHADOW_REGION_BITS;
constexpr uint16_t kLanes = 5;

/* Blocks of any size; who takes one may get a part of it, and who frees one merges it. */
class Heap {
  public:
    uintptr_t take(std::mt19937_64 &random, size_t bytes)
    {
        for (int tries = 0; tries < 4 && !free_.empty(); tries++) {
            auto from = free_.lower_bound(kHeap + random() % (top_ - kHeap));
            if (from == free_.end() || from->second < bytes) continue;
            auto [address, has] = *from;
            free_.erase(from);
            uintptr_t taken = random() % 4 ? address : address + has - bytes;
            if (taken != address)
                free_[address] = has - bytes;
            else if (has > bytes)
                free_[address + bytes] = has - bytes;
            return taken;
        }
        top_ += bytes;
        return top_ - bytes;
    }

    void give(uintptr_t address, size_t bytes)
    {
        auto next = free_.find(address + bytes);
        if (next != free_.end()) {
            bytes += next->second;
            free_.erase(next);
        }
        auto before = free_.lower_bound(address);
        if (before != free_.begin() && (--before)->first + before->second == address)
            before->second += bytes;
        else
            free_[address] = bytes;
    }

  private:
    std::map<uintptr_t, size_t> free_;
    uintptr_t top_ = kHeap;
};

struct Call {
    uint16_t lane; /* 1 ..; 0: nobody's */
    uint64_t number;
};

class Program {
  public:
    Program(uint64_t seed, size_t granule, size_t largest, unsigned strangers, unsigned turn)
        : random_(seed), granule_(granule), largest_(largest), strangers_(strangers), turn_(turn)
    {
        current_ = this;
    }

    void run(int steps)
    {
        uint16_t owner = 1;
        for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); i++) {
            if (below(turn_) == 0) owner = static_cast<uint16_t>(1 + below(kLanes));
            size_t object = below(objects_.size() + 100);
            if (object >= objects_.size())
                begin(owner);
            else if (below(8))
                end(below(strangers_) ? objects_[object].owner : owner, object);
            else
                resize(objects_[object].owner, object);
        }
    }

    uint64_t named = 0, quick = 0; /* owners that were named; objects that needed no look */

  private:
    struct Object {
        uintptr_t address;
        size_t bytes, block;
        uint16_t owner;
    };

    static Program *current_;
    std::mt19937_64 random_;
    size_t granule_, largest_;
    unsigned strangers_; /* one free in so many is another lane's */
    unsigned turn_;      /* calls that a lane makes before another one does, on average */
    Heap heap_;
    std::vector<Object> objects_;
    uint64_t calls_[kLanes + 1] = {};
    uint64_t known_[kLanes + 1][kLanes + 1] = {}; /* calls that a lane comes after, by owner */
    std::vector<Call> latest_;                    /* by address / 8 */

    uint64_t below(uint64_t limit) { return random_() % limit; }

    size_t some_bytes()
    {
        size_t bytes = 1 + below(below(10) ? 100 : below(5) ? 2000 : largest_);
        return bytes;
    }

    size_t block_for(size_t bytes) const { return (bytes + granule_ - 1) / granule_ * granule_; }

    static void found(range *range, uint32_t place, uintptr_t)
    {
        current_->comes_after(range->owner, *shadow_owner(place) & (SHADOW_SURE - 1));
    }

    void comes_after(uint16_t owner, uint16_t other)
    {
        if (other == 0 || other == owner) return;
        named++;
        known_[owner][other] = calls_[other];
        for (uint16_t i = 1; i <= kLanes; i++)
            known_[owner][i] = std::max(known_[owner][i], known_[other][i]);
    }

    /* All who had these bytes come before the lane's next call, which has them then. */
    void has_bytes(uint16_t owner, uintptr_t address, size_t bytes, bool checked)
    {
        uintptr_t first = (address - kHeap) / 8, end = (address - kHeap + bytes + 7) / 8;
        if (end > latest_.size()) latest_.resize(2 * end);
        for (uintptr_t at = first; at < end; at++) {
            Call &call = latest_[at];
            if (checked && call.lane != 0 && call.lane != owner) {
                ASSERT_LE(call.number, known_[owner][call.lane])
                    << "byte " << 8 * (at - first) << " of " << bytes << " at " << address - kHeap
                    << ", lane " << owner << ", of lane " << call.lane;
            }
            call = {owner, calls_[owner]};
        }
    }

    static const void *pointer(uintptr_t address)
    {
        return reinterpret_cast<const void *>(address);
    }

    /* As the entry points do it. */
    void begin(uint16_t owner)
    {
        Object object = {0, some_bytes(), 0, owner};
        object.block = block_for(object.bytes);
        object.address = heap_.take(random_, object.block);
        const void *at = pointer(object.address);
        shadow_page *page = shadow_page_of(at);
        uint32_t place = shadow_granule_place(page, at), first;
        if (place && object.bytes < RANGES_SMALL && page->alone == owner) {
            *shadow_owner(place) = owner;
            quick++;
        } else if (place && object.bytes < RANGES_SMALL &&
                   shadow_had_bytes(page, shadow_owner(place), at, object.bytes, owner)) {
            quick++;
        } else {
            ASSERT_TRUE(shadow_open_granule(at, &first));
            look_up(owner, object.address, object.bytes, false);
        }
        calls_[owner]++;
        has_bytes(owner, object.address, object.bytes, true);
        objects_.push_back(object);
    }

    void look_up(uint16_t owner, uintptr_t address, size_t bytes, bool stays)
    {
        range range = {};
        range.owner = owner;
        range.address = address;
        range.bytes = bytes;
        range.found = found;
        ranges_touch(owner, address, bytes);
        stays ? ranges_find_inside(&range) : ranges_find(&range);
        ranges_begun(&range);
    }

    void end(uint16_t owner, size_t index)
    {
        Object object = objects_[index];
        objects_[index] = objects_.back();
        objects_.pop_back();
        uint32_t place =
            shadow_granule_place(shadow_page_of(pointer(object.address)), pointer(object.address));
        uint16_t before = *shadow_owner(place) & (SHADOW_SURE - 1);
        comes_after(owner, before); /* the bound of the free */
        if (before != owner)
            ranges_touch(owner, object.address,
                         ranges_may_reach(owner, object.address) ? object.block : 0);
        calls_[owner]++;
        shadow_take_granule(place, owner);
        has_bytes(owner, object.address, object.bytes, false);
        heap_.give(object.address, object.block);
    }

    /* In place: it gives up its end. */
    void resize(uint16_t owner, size_t index)
    {
        Object &object = objects_[index];
        size_t bytes = 1 + below(object.bytes), block = block_for(bytes);
        ranges_touch(owner, object.address, object.block);
        calls_[owner]++;
        has_bytes(owner, object.address, object.bytes, false);
        if (block < object.block) heap_.give(object.address + block, object.block - block);
        object.bytes = bytes;
        object.block = block;
        look_up(owner, object.address, bytes, true);
    }
};

Program *Program::current_;

class Ranges : public ::testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(shadow_prepare([] { return shadow_cover(kHeap, size_t{1} << 30); }));
        shadow_begin();
    }
    void TearDown() override { shadow_end(); }
};

/* Programs with many strangers and with few, with blocks of 16 bytes and of 8, small and large, whose
 * lanes take turns often and seldom. */
TEST_F(Ranges, AllBytesAreAfterWhoHadThem)
{
    for (uint64_t seed = 1; seed <= 24; seed++) {
        SCOPED_TRACE(seed);
        shadow_end();
        ASSERT_TRUE(shadow_prepare([] { return shadow_cover(kHeap, size_t{1} << 30); }));
        shadow_begin();
        Program program(seed, seed % 6 == 0 ? 8 : 16, seed % 2 ? 60000 : 6000,
                        seed % 3 == 0 ? 200 : 4, seed % 4 == 0 ? 100 : 1);
        program.run(10000);
        if (HasFatalFailure()) return;
        EXPECT_GT(program.named, 0u);
        if (seed % 6 != 0) {
            EXPECT_GT(program.quick, 0u);
        }
    }
}

/* What one lane has alone needs no look, however it is cut. */
TEST_F(Ranges, ALaneAloneIsQuick)
{
    uint32_t first;
    const void *at = reinterpret_cast<const void *>(kHeap + 4096);
    ASSERT_TRUE(shadow_open_granule(at, &first));
    ranges_touch(3, kHeap + 4096, 64);
    EXPECT_EQ(shadow_page_of(at)->alone, 3);
    /* Another lane has the next page: an object may reach into that. */
    ranges_touch(4, kHeap + SHADOW_PAGE_BYTES, 64);
    EXPECT_EQ(shadow_page_of(at)->alone, 0);
    EXPECT_EQ(shadow_page_of(at)->owner, 3);
    ranges_touch(4, kHeap + 64, 64);
    EXPECT_EQ(shadow_page_of(at)->owner, SHADOW_MIXED);
}

struct Looker : range {
    std::vector<unsigned> owners;
};

/* Whom an object there comes after. */
std::vector<unsigned> before(uint16_t owner, uintptr_t address, size_t bytes)
{
    Looker looker = {};
    looker.owner = owner;
    looker.address = address;
    looker.bytes = bytes;
    looker.found = [](range *range, uint32_t place, uintptr_t) {
        static_cast<Looker *>(range)->owners.push_back(*shadow_owner(place) & (SHADOW_SURE - 1));
    };
    ranges_touch(owner, address, bytes);
    ranges_find(&looker);
    std::sort(looker.owners.begin(), looker.owners.end());
    return looker.owners;
}

/* A lane that has the page alone begins an object, as the fast path does it. */
void begin_alone(uint16_t owner, uintptr_t address)
{
    const void *object = reinterpret_cast<const void *>(address);
    uint32_t first;
    ASSERT_TRUE(shadow_open_granule(object, &first));
    ranges_touch(owner, address, 16);
    ASSERT_EQ(shadow_page_of(object)->alone, owner);
    *shadow_owner(shadow_granule_place(shadow_page_of(object), object)) = owner;
}

void begin(uint16_t owner, uintptr_t address, size_t bytes)
{
    range range = {};
    range.owner = owner;
    range.address = address;
    range.bytes = bytes;
    range.found = [](struct range *, uint32_t, uintptr_t) {};
    ranges_touch(owner, address, bytes);
    ranges_find(&range);
    ranges_begun(&range);
}

void end(uint16_t owner, uintptr_t address, size_t bytes)
{
    const void *object = reinterpret_cast<const void *>(address);
    ranges_touch(owner, address, ranges_may_reach(owner, address) ? bytes : 0);
    shadow_take_granule(shadow_granule_place(shadow_page_of(object), object), owner);
}

/* An object was inside of one that began later, and of which nobody looked at the bytes. */
TEST_F(Ranges, BehindWhatIsNotSure)
{
    const uintptr_t page = kHeap + 64 * SHADOW_PAGE_BYTES;
    begin_alone(3, page + 64);
    begin_alone(3, page);
    end(4, page, 256);
    EXPECT_EQ(before(5, page + 128, 16), (std::vector<unsigned>{3, 4}));
}

/* It reached into the next page, and nobody looked at that. */
TEST_F(Ranges, FromThePageBefore)
{
    const uintptr_t page = kHeap + 64 * SHADOW_PAGE_BYTES;
    begin_alone(3, page - 64);
    begin_alone(3, page + 1024);
    end(4, page - 64, 256);
    EXPECT_EQ(before(5, page + 128, 16), (std::vector<unsigned>{4}));
}

/* The same, and nobody had done anything there. */
TEST_F(Ranges, FromThePageBeforeOnANewPage)
{
    const uintptr_t page = kHeap + 64 * SHADOW_PAGE_BYTES;
    uint32_t first;
    begin_alone(3, page - 64);
    ASSERT_TRUE(shadow_open_granule(reinterpret_cast<const void *>(page + 128), &first));
    EXPECT_EQ(before(4, page + 128, 16), (std::vector<unsigned>{3}));
}

/* Another lane begins an object that has the bytes of the one that is found, so that this is
 * forgotten before anybody asks whose it was. */
TEST_F(Ranges, WhatIsForgottenMeanwhile)
{
    static constexpr uintptr_t page = kHeap + 64 * SHADOW_PAGE_BYTES;
    begin_alone(3, page);
    end(4, page, 16);
    begin(3, page + 256, 64);
    Looker looker = {};
    looker.owner = 5;
    looker.address = page + 1024;
    looker.bytes = 16;
    looker.found = [](struct range *range, uint32_t place, uintptr_t address) {
        if (address == page + 256) begin(4, page + 128, 512);
        const unsigned owner = *shadow_owner(place) & (SHADOW_SURE - 1);
        if (owner) static_cast<Looker *>(range)->owners.push_back(owner);
    };
    ranges_touch(5, looker.address, 16);
    ranges_find(&looker);
    EXPECT_EQ(looker.owners, (std::vector<unsigned>{4}));
}

/* How large an object is matters to who ends it only if it may reach a page that another lane has
 * alone. */
TEST_F(Ranges, MayReachBeyondAMixedPageIfItHasAllOfIt)
{
    const uintptr_t page = kHeap + 64 * SHADOW_PAGE_BYTES, last = page + 2 * SHADOW_PAGE_BYTES;
    uint32_t first;
    ASSERT_TRUE(shadow_open_granule(reinterpret_cast<const void *>(page), &first));
    ranges_touch(3, last, 16);
    ranges_touch(5, page + SHADOW_PAGE_BYTES, 16);
    begin(3, page, SHADOW_PAGE_BYTES + 64);
    EXPECT_FALSE(ranges_may_reach(4, page));
    begin(3, page, 2 * SHADOW_PAGE_BYTES + 64);
    EXPECT_TRUE(ranges_may_reach(4, page));
    end(4, page, 2 * SHADOW_PAGE_BYTES + 64);
    EXPECT_EQ(shadow_page_of(reinterpret_cast<const void *>(last))->owner, SHADOW_MIXED);
}

} // namespace
