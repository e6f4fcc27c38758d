// object_table_test - the table of live objects against a plain map, with lifetimes that make its rings
// grow, retire pages and grow again.
#include "postprocess/object_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

namespace {

// A table and what it must say. Objects are numbered as they come, over all lanes.
class Checked {
  public:
    Checked() { object_table_init(&table_); }
    ~Checked() { object_table_free(&table_); }

    uint64_t birth(uint32_t lane)
    {
        if (lane >= births_.size()) births_.resize(lane + 1);
        if (births_[lane] == 0) {
            EXPECT_TRUE(object_table_open_lane(&table_, lane));
        }
        uint64_t token = raw_token(lane, ++births_[lane]);
        object_table_birth(&table_, lane, next_);
        alive_[token] = next_++;
        return token;
    }

    // Whether the table finds the object as it should, and that it then does not any more.
    ::testing::AssertionResult dies(uint64_t token)
    {
        uint32_t object = 0, again = 0;
        if (!object_table_death(&table_, token, &object))
            return ::testing::AssertionFailure() << "not found: serial " << raw_token_serial(token);
        if (object != alive_[token]) return ::testing::AssertionFailure() << "another object";
        alive_.erase(token);
        if (object_table_find(&table_, token, &again))
            return ::testing::AssertionFailure() << "still alive";
        return ::testing::AssertionSuccess();
    }

    const std::map<uint64_t, uint32_t> &alive() const { return alive_; }

  private:
    struct object_table table_;
    std::vector<uint64_t> births_;
    std::map<uint64_t, uint32_t> alive_;
    uint32_t next_ = 0;
};

TEST(ObjectTable, FindsSurvivorsOfRetiredPagesAfterTheRingHasGrown)
{
    Checked table;
    // Pages with few survivors leave the ring.
    for (int i = 0; i < 300 * 1024; i++) {
        uint64_t token = table.birth(0);
        if (i % 100 != 0) {
            ASSERT_TRUE(table.dies(token));
        }
    }
    // Pages full of survivors make it grow over the serials of those.
    for (int i = 0; i < 500 * 1024; i++)
        table.birth(0);
    while (!table.alive().empty())
        ASSERT_TRUE(table.dies(table.alive().begin()->first));
}

class ObjectTableAtRandom : public ::testing::TestWithParam<int> {};

// Lanes whose objects live for very different times, in phases.
TEST_P(ObjectTableAtRandom, AgreesWithAMap)
{
    std::mt19937_64 random(static_cast<unsigned>(GetParam()));
    Checked table;
    std::deque<uint64_t> young;
    std::vector<uint64_t> old;
    for (int phase = 0; phase < 12; phase++) {
        unsigned survivors_in_1000 = static_cast<unsigned>(random() % (phase % 2 ? 1000 : 20));
        for (int i = 0; i < 60000; i++) {
            uint64_t token = table.birth(static_cast<uint32_t>(random() % 3));
            (random() % 1000 < survivors_in_1000 ? old.push_back(token) : young.push_back(token));
            if (young.size() > 50) {
                ASSERT_TRUE(table.dies(young.front()));
                young.pop_front();
            }
            if (old.size() > 100000 || (!old.empty() && random() % 50 == 0)) {
                std::swap(old[random() % old.size()], old.back());
                ASSERT_TRUE(table.dies(old.back()));
                old.pop_back();
            }
        }
    }
    while (!table.alive().empty())
        ASSERT_TRUE(table.dies(table.alive().rbegin()->first));
}

INSTANTIATE_TEST_SUITE_P(Seeds, ObjectTableAtRandom, ::testing::Range(1, 6));

} // namespace
