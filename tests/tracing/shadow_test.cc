// tracing/shadow: places of objects, and who has them. Nothing looks at the heap itself, so there
// is none here.

#include "tests/tracing/shadow_window.h"
#include "tracing/data/shadow.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
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

static unsigned calls_until_no_memory; /* 0: there always is */
static unsigned mapped;                /* pieces that have not been released */

static void *reserve(uintptr_t address, size_t bytes)
{
    if (calls_until_no_memory == 1) return nullptr;
    if (calls_until_no_memory > 1) calls_until_no_memory--;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address ? MAP_FIXED_NOREPLACE : 0);
    void *memory =
        mmap(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    mapped++;
    return memory;
}

void *os_memory_reserve_per_process(size_t bytes)
{
    return reserve(0, bytes);
}

void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes)
{
    return reserve(address, bytes);
}

void os_memory_release(void *memory, size_t bytes)
{
    munmap(memory, bytes);
    mapped--;
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
constexpr uintptr_t kFirstPage = kHeap >> SHADOW_PAGE_BITS;

/* Size classes of a number of sizes, as an allocator has them; 0: objects with pages of their
 * own. */
constexpr size_t kBytes[] = {0, 8, 16, 24, 48, 104, 144, 1024, 3072, 8192, 9472, 32768};
constexpr uint32_t kClasses = sizeof kBytes / sizeof *kBytes;

bool cover_nothing()
{
    return true;
}

bool cover_heap()
{
    return shadow_cover(kHeap, SHADOW_PAGE_BYTES << 17);
}

const void *object_at(uintptr_t page, size_t offset = 0)
{
    return reinterpret_cast<const void *>(((kFirstPage + page) << SHADOW_PAGE_BITS) + offset);
}

shadow_page *entry(uintptr_t page)
{
    return shadow_page_of(object_at(page));
}

bool is_open(uintptr_t page)
{
    return shadow_is_open(entry(page));
}

bool open_span(uintptr_t page, uintptr_t pages, uint32_t size_class)
{
    return shadow_open_pages(kFirstPage + page, pages, kBytes[size_class], size_class);
}

void close_span(uintptr_t page, uintptr_t pages, uint32_t size_class)
{
    shadow_close(kFirstPage + page, pages, size_class);
}

/* Places of all objects that begin in a span. */
std::vector<uint32_t> places_of(uintptr_t page, uintptr_t pages, uint32_t size_class)
{
    std::vector<uint32_t> places;
    size_t bytes = size_class ? kBytes[size_class] : pages * SHADOW_PAGE_BYTES;
    for (size_t at = 0; at + bytes <= pages * SHADOW_PAGE_BYTES; at += bytes) {
        const void *object = object_at(page, at);
        EXPECT_TRUE(shadow_is_open(shadow_page_of(object)));
        places.push_back(shadow_place(shadow_page_of(object), object));
    }
    return places;
}

/* These run first: nothing has been kept yet. */
TEST(AShadowBefore, NoMemoryAtTheStart)
{
    EXPECT_FALSE(shadow_has_begun());
    EXPECT_TRUE(open_span(0, 1, 1));
    unsigned failures = 0;
    for (unsigned calls = 1; calls < 50; calls++) {
        calls_until_no_memory = calls;
        unsigned before = mapped;
        bool prepared = shadow_prepare([] { return cover_heap() && open_span(0, 1, 1); });
        calls_until_no_memory = 0;
        if (prepared) {
            shadow_cancel();
            EXPECT_LE(mapped, 1u) << "but for what it needs itself";
            EXPECT_GE(failures, 3u);
            return;
        }
        failures++;
        EXPECT_LE(mapped, before + 1) << calls;
        EXPECT_FALSE(shadow_has_begun());
    }
    FAIL() << "memory does not help";
}

TEST(AShadowBefore, ACancelKeepsNothing)
{
    ASSERT_TRUE(shadow_prepare(cover_nothing));
    ASSERT_TRUE(shadow_cover(kHeap, 1));
    ASSERT_TRUE(open_span(0, 1, 2));
    shadow_cancel();
    EXPECT_FALSE(shadow_covers(object_at(0)));
    ASSERT_TRUE(shadow_prepare(cover_heap));
    EXPECT_FALSE(is_open(0));
    shadow_cancel();
}

class Shadow : public testing::Test {
  protected:
    void SetUp() override
    {
        calls_until_no_memory = 0;
        ASSERT_TRUE(shadow_prepare(cover_heap));
        shadow_begin();
    }
    void TearDown() override { shadow_end(); }
};

TEST_F(Shadow, PlacesAreDifferentAndOfTheirClass)
{
    std::set<uint32_t> all;
    std::map<uint32_t, uint32_t> classes;
    uintptr_t page = 0;
    for (int round = 0; round < 3; round++) {
        for (uint32_t size_class = 0; size_class < kClasses; size_class++) {
            uintptr_t pages = 1 + kBytes[size_class] / SHADOW_PAGE_BYTES * 3;
            ASSERT_TRUE(size_class ? open_span(page, pages, size_class)
                                   : shadow_open(object_at(page), 0, 0));
            for (uint32_t place : places_of(page, pages, size_class)) {
                EXPECT_GT(place, 0u);
                EXPECT_TRUE(all.insert(place).second) << place << " again, class " << size_class;
                EXPECT_EQ(*shadow_block_class(place / RAW_PLACE_BLOCK), size_class);
                EXPECT_EQ(classes.emplace(place / RAW_PLACE_BLOCK, size_class).first->second,
                          size_class);
            }
            page += pages;
        }
    }
}

/* Pages come and go: at any time places are different, and a block stays with its class for
 * ever. */
TEST_F(Shadow, ABlockStaysWithItsClass)
{
    struct span {
        uintptr_t pages;
        uint32_t size_class;
    };
    constexpr uintptr_t kSlot = 8;
    std::mt19937 random(1);
    std::map<uintptr_t, span> open;
    std::set<uint32_t> live;
    std::map<uint32_t, uint32_t> classes;
    for (int i = 0; i < 5000 && !HasFailure(); i++) {
        uintptr_t page = random() % 200 * kSlot;
        auto found = open.find(page);
        if (found != open.end()) {
            span was = found->second;
            for (uint32_t place : places_of(page, was.pages, was.size_class))
                live.erase(place);
            close_span(page, was.pages, was.size_class);
            EXPECT_FALSE(is_open(page));
            open.erase(found);
            continue;
        }
        span now = {1 + random() % kSlot, static_cast<uint32_t>(random() % kClasses)};
        ASSERT_TRUE(now.size_class ? open_span(page, now.pages, now.size_class)
                                   : shadow_open(object_at(page), 0, 0));
        open[page] = now;
        for (uint32_t place : places_of(page, now.pages, now.size_class)) {
            EXPECT_TRUE(live.insert(place).second);
            EXPECT_EQ(classes.emplace(place / RAW_PLACE_BLOCK, now.size_class).first->second,
                      now.size_class);
            EXPECT_EQ(*shadow_owner(place), 0) << "of a page that has just been opened";
            shadow_take(shadow_page_of(object_at(page)), place, static_cast<uint16_t>(1 + i % 9));
        }
    }
    EXPECT_LT(classes.size(), 40000u) << "places are not used again";
}

TEST_F(Shadow, APageThatIsClosedLeavesItsPlacesToItsClass)
{
    ASSERT_TRUE(open_span(0, 1, 3));
    std::vector<uint32_t> places = places_of(0, 1, 3);
    close_span(0, 1, 3);
    EXPECT_FALSE(is_open(0));
    EXPECT_EQ(entry(0)->size_class, 0u) << "an object of its own may come to be there unseen";
    ASSERT_TRUE(open_span(1, 1, 4));
    EXPECT_NE(places_of(1, 1, 4).front(), places.front());
    ASSERT_TRUE(open_span(2, 1, 3));
    EXPECT_EQ(places_of(2, 1, 3), places);
}

/* Of the page of a large object only the first page is open. */
TEST_F(Shadow, APageOfOneObject)
{
    ASSERT_TRUE(shadow_open(object_at(0), 0, 0));
    ASSERT_TRUE(shadow_open(object_at(5), 0, 0));
    EXPECT_FALSE(is_open(1));
    uint32_t place = places_of(0, 5, 0).front();
    EXPECT_NE(place, places_of(5, 1, 0).front());
    shadow_take(entry(0), place, 7);
    EXPECT_EQ(*shadow_owner(place), 7);
    EXPECT_EQ(entry(0)->owner, 0) << "nobody caches it";
    close_span(0, 5, 0);
    EXPECT_FALSE(is_open(0));
    EXPECT_TRUE(is_open(5));
}

TEST_F(Shadow, ANewPageIsOfTheOnlyLaneThatTakesPlaces)
{
    ASSERT_TRUE(open_span(0, 1, 2));
    std::vector<uint32_t> places = places_of(0, 1, 2);
    EXPECT_EQ(entry(0)->owner, 0);
    for (uint32_t place : places) {
        shadow_take(entry(0), place, 5);
        EXPECT_EQ(*shadow_owner(place), 5);
    }
    EXPECT_EQ(entry(0)->owner, 5);
    shadow_take(entry(0), places[3], 6);
    EXPECT_EQ(entry(0)->owner, SHADOW_MIXED);
    EXPECT_EQ(*shadow_owner(places[3]), 6);
    EXPECT_EQ(*shadow_owner(places[4]), 5);
    shadow_take(entry(0), places[3], 5);
    EXPECT_EQ(entry(0)->owner, SHADOW_MIXED) << "once and for all";
    EXPECT_EQ(*shadow_owner(places[3]), 5);
    close_span(0, 1, 2);
    ASSERT_TRUE(open_span(0, 1, 2));
    EXPECT_EQ(entry(0)->owner, 0);
    for (uint32_t place : places)
        EXPECT_EQ(*shadow_owner(place), 0);
}

/* Before a lane takes the first place, and after. */
TEST_F(Shadow, APageWithAnObjectThatNobodyHasIsNoLanes)
{
    ASSERT_TRUE(open_span(0, 2, 2));
    std::vector<uint32_t> places = places_of(0, 2, 2);
    shadow_take(entry(0), places.front(), 0);
    shadow_take(entry(0), places[1], 5);
    EXPECT_EQ(entry(0)->owner, SHADOW_MIXED);
    EXPECT_EQ(*shadow_owner(places.front()), 0);
    EXPECT_EQ(*shadow_owner(places[1]), 5);
    shadow_take(entry(1), places.back(), 5);
    EXPECT_EQ(entry(1)->owner, 5);
    shadow_take(entry(1), places.back() - 1, 0);
    EXPECT_EQ(entry(1)->owner, SHADOW_MIXED);
    EXPECT_EQ(*shadow_owner(places.back()), 5);
    EXPECT_EQ(*shadow_owner(places.back() - 1), 0);
}

/* What may have objects on it: pages from before the recording, and those that are opened with an
 * object. */
TEST_F(Shadow, APageThatIsNotNewIsNoLanes)
{
    ASSERT_TRUE(shadow_open(object_at(9, 48), 48, 4));
    EXPECT_EQ(entry(9)->owner, SHADOW_MIXED);
    EXPECT_EQ(*shadow_owner(shadow_place(entry(9), object_at(9, 48))), 0);
    shadow_end();
    ASSERT_TRUE(shadow_prepare([] { return cover_heap() && open_span(3, 1, 1); }));
    EXPECT_EQ(entry(3)->owner, SHADOW_MIXED);
    EXPECT_FALSE(is_open(9)) << "of the recording before";
    shadow_begin();
    shadow_take(entry(3), shadow_place(entry(3), object_at(3)), 5);
    EXPECT_EQ(entry(3)->owner, SHADOW_MIXED);
}

TEST_F(Shadow, AnOpenPageStaysAsItIs)
{
    ASSERT_TRUE(open_span(0, 1, 2));
    std::vector<uint32_t> places = places_of(0, 1, 2);
    shadow_take(entry(0), places[0], 5);
    EXPECT_TRUE(shadow_open(object_at(0, 16), 16, 2));
    EXPECT_TRUE(open_span(0, 2, 2));
    EXPECT_EQ(places_of(0, 1, 2), places);
    EXPECT_EQ(entry(0)->owner, 5);
    EXPECT_TRUE(is_open(1));
}

TEST_F(Shadow, WhatIsCovered)
{
    const uintptr_t region = uintptr_t{1} << SHADOW_REGION_BITS;
    auto covers = [](uintptr_t address) {
        return shadow_covers(reinterpret_cast<const void *>(address));
    };
    EXPECT_TRUE(covers(0)) << "a program may free NULL";
    EXPECT_TRUE(covers(reinterpret_cast<uintptr_t>(&region))) << "or what is on its stack";
    EXPECT_TRUE(covers(kHeap));
    EXPECT_TRUE(covers(kHeap - 1)) << "or what is before the heap";
    EXPECT_FALSE(covers(kHeap + 5 * region));
    EXPECT_FALSE(covers(~uintptr_t{0}));
    uintptr_t latest = 0;
    auto covers_next = [&latest](uintptr_t address) {
        return shadow_covers_next(&latest, reinterpret_cast<const void *>(address));
    };
    for (uintptr_t address : {uintptr_t{8}, kHeap, kHeap + 5 * region, kHeap + 8, ~uintptr_t{0}})
        EXPECT_EQ(covers_next(address), covers(address)) << address;
    EXPECT_EQ(latest, kHeap >> SHADOW_REGION_BITS) << "one without an entry is not remembered";
    EXPECT_FALSE(shadow_open(reinterpret_cast<const void *>(kHeap + 5 * region), 16, 2));
    EXPECT_TRUE(shadow_cover(kHeap + 5 * region, 1));
    EXPECT_TRUE(covers(kHeap + 6 * region - 1));
    EXPECT_TRUE(covers(kHeap + 4 * region));
    EXPECT_FALSE(covers(kHeap + 6 * region));
    EXPECT_FALSE(shadow_cover(uintptr_t{1} << SHADOW_ADDRESS_BITS, 1)) << "no such address";
    EXPECT_FALSE(shadow_is_open(shadow_page_of(nullptr)));
}

/* No memory in the middle of a recording: what cannot be opened is not, everything else goes on. */
TEST_F(Shadow, NoMemoryForPlaces)
{
    uintptr_t page = 0;
    ASSERT_TRUE(open_span(page++, 1, 1));
    std::vector<uint32_t> places = places_of(0, 1, 1);
    for (unsigned calls = 1; calls <= 4; calls++) {
        calls_until_no_memory = calls;
        while (page < 100000 && open_span(page, 1, 1))
            page++;
        ASSERT_LT(page, 100000u);
        EXPECT_FALSE(is_open(page));
        EXPECT_FALSE(shadow_open(object_at(page), 8, 1));
        EXPECT_FALSE(shadow_cover(kHeap + (uintptr_t{77} << SHADOW_REGION_BITS), 1));
        calls_until_no_memory = 0;
        EXPECT_TRUE(open_span(page, 1, 1));
    }
    EXPECT_EQ(places_of(0, 1, 1), places);
    std::set<uint32_t> firsts;
    for (uintptr_t i = 0; i <= page; i++)
        EXPECT_TRUE(firsts.insert(shadow_place(entry(i), object_at(i))).second);
}

/* 32 GiB of the smallest objects: as many as there are numbers. */
TEST_F(Shadow, NoMorePlaces)
{
    constexpr uintptr_t kPages = 33 * uintptr_t{SHADOW_REGION_PAGES};
    ASSERT_TRUE(shadow_cover(kHeap, kPages * SHADOW_PAGE_BYTES));
    uintptr_t page = 0;
    while (page < kPages && open_span(page, 1, 1))
        page++;
    ASSERT_LT(page, kPages);
    EXPECT_GT(page, kPages * 9 / 10);
    EXPECT_FALSE(is_open(page));
    uint32_t last = places_of(page - 1, 1, 1).back();
    EXPECT_GT(last, RAW_PLACE_LIMIT - 4096);
    EXPECT_EQ(*shadow_block_class(last / RAW_PLACE_BLOCK), 1u);
    shadow_take(entry(page - 1), last, 7);
    EXPECT_EQ(*shadow_owner(last), 7);
    close_span(17, 1, 1);
    EXPECT_TRUE(open_span(page, 1, 1)) << "in the place of one that has gone";
    EXPECT_FALSE(open_span(page + 1, 1, 1));
    shadow_end();
    ASSERT_TRUE(shadow_prepare(cover_heap));
    shadow_begin();
    EXPECT_TRUE(open_span(0, 1, 1)) << "another recording has all of them again";
    EXPECT_EQ(places_of(0, 1, 1).front(), RAW_PLACE_BLOCK);
}

/* Threads that are late in a recording that has ended find everything, and change nothing that
 * matters. */
TEST_F(Shadow, AfterTheEnd)
{
    ASSERT_TRUE(open_span(0, 1, 2));
    std::vector<uint32_t> places = places_of(0, 1, 2);
    shadow_take(entry(0), places[0], 5);
    EXPECT_TRUE(shadow_has_begun());
    shadow_end();
    EXPECT_FALSE(shadow_has_begun());
    EXPECT_EQ(*shadow_owner(places[0]), 0);
    shadow_take(entry(0), places[0], 5);
    EXPECT_FALSE(shadow_open(object_at(1), 16, 2));
    EXPECT_TRUE(open_span(1, 1, 2)) << "there is nothing to do";
    EXPECT_FALSE(is_open(1));
    close_span(0, 1, 2);
    EXPECT_TRUE(shadow_cover(kHeap + (uintptr_t{99} << SHADOW_REGION_BITS), 1));
    ASSERT_TRUE(shadow_prepare(cover_heap));
    shadow_begin();
    EXPECT_FALSE(is_open(0));
    ASSERT_TRUE(open_span(0, 1, 2));
    EXPECT_EQ(entry(0)->owner, 0);
    EXPECT_EQ(*shadow_owner(places_of(0, 1, 2)[0]), 0);
}

/* All at once; there is one set of places. */
TEST_F(Shadow, ThreadsThatOpenTheSamePages)
{
    constexpr uintptr_t kPages = 300;
    std::vector<uint32_t> seen[4];
    std::vector<std::thread> threads;
    for (std::vector<uint32_t> &places : seen)
        threads.emplace_back([&places] {
            for (uintptr_t page = 0; page < kPages; page++) {
                uint32_t size_class = 1 + page % 4;
                EXPECT_TRUE(shadow_open(object_at(page), kBytes[size_class], size_class));
                places.push_back(shadow_place(entry(page), object_at(page)));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const std::vector<uint32_t> &places : seen)
        EXPECT_EQ(places, seen[0]);
    EXPECT_EQ(std::set<uint32_t>(seen[0].begin(), seen[0].end()).size(), kPages);
}

} // namespace
