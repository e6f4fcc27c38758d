// Conditions of --when: when they count, and what is refused.
#include "keep/triggers.h"

#include <gtest/gtest.h>

#include "common/amount.h"

namespace {

constexpr uint64_t kSecond = 1000000000;

struct Triggers {
    explicit Triggers(const char *text) { good = triggers_add(&all, text, why, sizeof why); }
    // Whether it counts at this second, with this RSS.
    bool Look(uint64_t second, uint64_t rss, uint64_t calls = 0)
    {
        const trigger_values values = {second * kSecond, rss, rss / 2, 0, calls};
        return triggers_look(&all, &values) != nullptr;
    }
    triggers all = {};
    char why[128] = "";
    bool good;
};

TEST(Triggers, ALimitCountsWhenItIsPassedAndAgainOnlyLater)
{
    Triggers one("rss>1k");
    EXPECT_FALSE(one.Look(1, 1024));
    EXPECT_TRUE(one.Look(2, 1025));
    EXPECT_FALSE(one.Look(3, 5000)); // still
    EXPECT_FALSE(one.Look(4, 10));
    EXPECT_FALSE(one.Look(5, 5000)); // within a minute
    EXPECT_TRUE(one.Look(63, 5000)); // it still holds when the minute is over
    EXPECT_FALSE(one.Look(200, 5000));
}

// Each writes a file: one that becomes true all the time for a week must not fill the disk.
TEST(Triggers, WhatCountsOftenRestsLonger)
{
    Triggers one("rss>1k");
    int day = 0, week = 0;
    for (uint64_t second = 0; second < 7 * 86400; second++) {
        const bool counts = one.Look(second, second % 2 == 0 ? 10 : 5000);
        day += counts && second < 86400;
        week += counts;
    }
    EXPECT_EQ(11, day);  // after 1, 2, 4, ... 512 minutes
    EXPECT_EQ(17, week); // once a day
}

TEST(Triggers, GrowthIsAboveTheLeastOfItsTime)
{
    Triggers one("live>+50%/10m");
    EXPECT_FALSE(one.Look(0, 2000));
    EXPECT_FALSE(one.Look(300, 2900));
    EXPECT_FALSE(one.Look(1000, 3200)); // the 2000 are too long ago
    EXPECT_TRUE(one.Look(1100, 4900));
}

TEST(Triggers, GrowthByBytes)
{
    Triggers one("rss>+1k/1m");
    EXPECT_FALSE(one.Look(0, 5000));
    EXPECT_FALSE(one.Look(10, 1000));
    EXPECT_FALSE(one.Look(20, 2024));
    EXPECT_TRUE(one.Look(30, 2025));
}

TEST(Triggers, CallsASecond)
{
    Triggers one("calls/s>100");
    EXPECT_FALSE(one.Look(0, 0, 1000000));
    EXPECT_FALSE(one.Look(1, 0, 1000100));
    EXPECT_TRUE(one.Look(2, 0, 1000201));
}

TEST(Triggers, WhatIsNoConditionIsRefused)
{
    for (const char *text : {"", "rss", "rss>", "rss>-1", "rss>nan", "rss>1X", "rss>+20%",
                             "rss>+1/0s", "cpu>1", "rss>1/10m", "rss>1G "})
        EXPECT_FALSE(Triggers(text).good) << text;
    for (const char *text : {"rss>4G", "heap>1.5M", "calls/s>2M", "live>+20%/10m", "rss>+1G/1h"})
        EXPECT_TRUE(Triggers(text).good) << text;
}

TEST(Amount, Keep)
{
    uint64_t ns, bytes;
    EXPECT_TRUE(amount_parse_keep("10m,500M", &ns, &bytes));
    EXPECT_EQ(600 * kSecond, ns);
    EXPECT_EQ(500u << 20, bytes);
    EXPECT_TRUE(amount_parse_keep("0.5", &ns, &bytes));
    EXPECT_EQ(kSecond / 2, ns);
    EXPECT_EQ(0u, bytes);
    for (const char *text :
         {"", "0", "-1", "1x", "1m,", "1m,0", "1m,5x", "1e3", "inf", "99999999999d"})
        EXPECT_FALSE(amount_parse_keep(text, &ns, &bytes)) << text;
}

} // namespace
