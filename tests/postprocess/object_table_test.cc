// object_table_test - the table of live objects against a plain list of them: places that are used
// again, objects that are allocated where another one lives, bounds, lost allocations.
#include "postprocess/object_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace {

// A table and what it must say. Objects are numbered as they come, over all lanes; those that live
// at a place stand in the order of their allocations.
class Checked {
  public:
    struct Object {
        uint32_t register_number;
        uint64_t allocated;
    };

    Checked() { EXPECT_TRUE(object_table_init(&table_)); }
    ~Checked() { object_table_free(&table_); }

    uint64_t allocation(uint32_t lane, uint32_t place)
    {
        uint64_t allocated = raw_allocations(lane, ++allocations_[lane]);
        object_table_allocation(&table_, allocated, place, next_);
        if (place != RAW_PLACE_NONE) alive_[place].push_back({next_, allocated});
        allocated_[{place, lane}].push_back(allocated);
        next_++;
        return allocated;
    }

    // Whether the end finds the object that it should, or none.
    ::testing::AssertionResult dies(uint32_t lane, uint32_t place, uint64_t bound)
    {
        bool own = raw_allocations_lane(bound) == lane;
        uint32_t found = 0, seen = 0;
        std::vector<Object> &here = alive_[place];
        size_t best = here.size();
        for (size_t i = 0; i < here.size(); i++)
            if (raw_allocations_lane(here[i].allocated) == raw_allocations_lane(bound) &&
                here[i].allocated <= bound)
                best = i;
        bool there = best < here.size();
        bool meant = there && here[best].allocated == latest(place, bound);
        if (object_table_find(&table_, place, bound, &seen) != meant)
            return ::testing::AssertionFailure() << "place " << place << ", find";
        bool ended = own ? object_table_end_own(&table_, place, bound, &found)
                         : object_table_end(&table_, place, bound, &found);
        if (ended != there) return ::testing::AssertionFailure() << "place " << place;
        if (!there) return ::testing::AssertionSuccess();
        if (found != here[best].register_number || (meant && seen != found))
            return ::testing::AssertionFailure() << "place " << place << ": another object";
        here.erase(here.begin() + static_cast<long>(best));
        return ::testing::AssertionSuccess();
    }

    uint64_t now(uint32_t lane) const { return raw_allocations(lane, allocations_[lane]); }
    const std::map<uint32_t, std::vector<Object>> &alive() const { return alive_; }
    struct object_table *table() { return &table_; }

    static constexpr uint32_t kLanes = 3;

  private:
    /* FORMAT.md 2.5: the last one there among the lane's first allocations. */
    uint64_t latest(uint32_t place, uint64_t bound) const
    {
        const std::vector<uint64_t> &all = allocated_.at({place, raw_allocations_lane(bound)});
        return *(std::upper_bound(all.begin(), all.end(), bound) - 1);
    }

    struct object_table table_;
    std::map<uint32_t, std::vector<Object>> alive_;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint64_t>> allocated_; /* by place, lane */
    uint64_t allocations_[kLanes] = {};
    uint32_t next_ = 0;
};

TEST(ObjectTable, PlacesAreUsedAgain)
{
    Checked table;
    for (uint32_t place : {1u, OBJECT_PAGE_ENTRIES - 1, OBJECT_PAGE_ENTRIES, UINT32_MAX})
        for (int i = 0; i < 3; i++) {
            ASSERT_TRUE(table.dies(0, place, table.now(0))) << "nobody lives there";
            uint64_t allocated = table.allocation(0, place);
            ASSERT_TRUE(table.dies(2, place, table.now(1))) << "not of that lane";
            ASSERT_TRUE(table.dies(1, place, allocated - 1)) << "allocated later";
            ASSERT_TRUE(table.dies(static_cast<uint32_t>(i % 2), place, allocated));
        }
    EXPECT_EQ(table.table()->sharing_count, 0u);
}

// FORMAT.md 2.5, where something happened beside the recording.
TEST(ObjectTable, AllocationsWhereSomebodyLives)
{
    Checked table;
    uint64_t oldest = table.allocation(0, 7), middle = table.allocation(1, 7);
    table.allocation(2, 8);
    uint64_t latest = table.allocation(0, 7);
    ASSERT_TRUE(table.dies(0, 7, oldest)) << "the bound is before the latest one";
    ASSERT_TRUE(table.dies(1, 7, latest));
    ASSERT_TRUE(table.dies(0, 7, table.now(0))) << "its lane has nobody there any more";
    ASSERT_TRUE(table.dies(2, 7, middle));
    ASSERT_TRUE(table.dies(2, 8, table.now(2)));
    EXPECT_EQ(table.table()->sharing_count, 0u);
    table.allocation(0, 7);
    EXPECT_EQ(table.table()->sharing_count, 0u) << "everybody has gone";
}

TEST(ObjectTable, NobodyKnowsWhere)
{
    Checked table;
    uint32_t object;
    table.allocation(0, RAW_PLACE_NONE);
    table.allocation(0, 1);
    table.allocation(0, RAW_PLACE_NONE);
    EXPECT_FALSE(object_table_end_own(table.table(), RAW_PLACE_NONE, table.now(0), &object));
    EXPECT_FALSE(object_table_end(table.table(), RAW_PLACE_NONE, 0, &object));
    EXPECT_TRUE(table.dies(0, 1, table.now(0)));
}

class ObjectTableAtRandom : public ::testing::TestWithParam<int> {};

// Few places, so that many objects are allocated where others live, and all over; then everybody
// dies.
TEST_P(ObjectTableAtRandom, AgreesWithAList)
{
    std::mt19937_64 random(static_cast<unsigned>(GetParam()));
    Checked table;
    for (int i = 0; i < 200000; i++) {
        uint32_t lane = static_cast<uint32_t>(random() % Checked::kLanes);
        uint32_t of = random() % 3 != 0 ? lane : static_cast<uint32_t>(random() % Checked::kLanes);
        uint32_t place = 1 + static_cast<uint32_t>(random() % 97) * 1361;
        uint64_t bound = table.now(of) - (of == lane ? 0 : random() % 50 * (table.now(of) > 50));
        if (raw_allocations_lane(bound) != of) bound = table.now(of);
        /* An own end of an object that is the only one there is that object's, whatever the bound:
         * give the right one. */
        auto here = table.alive().find(place);
        if (of == lane && here != table.alive().end() && here->second.size() == 1)
            bound = here->second[0].allocated;
        if (random() % 2 == 0)
            table.allocation(lane, place);
        else
            ASSERT_TRUE(table.dies(raw_allocations_lane(bound) == lane ? lane : Checked::kLanes,
                                   place, bound));
    }
    for (auto &place : table.alive())
        while (!place.second.empty())
            ASSERT_TRUE(table.dies(Checked::kLanes, place.first, place.second[0].allocated));
    EXPECT_EQ(table.table()->sharing_count, 0u);
    EXPECT_FALSE(table.table()->failed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ObjectTableAtRandom, ::testing::Range(1, 6));

} // namespace
