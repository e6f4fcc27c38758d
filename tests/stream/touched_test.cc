/* touched - runs of pages, as they are found, written and read. */
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "stream/touched.h"

namespace {

struct touched of(const std::vector<uint8_t> &pages)
{
    struct touched touched = {};
    /* In pieces, as they come. */
    for (size_t at = 0; at < pages.size(); at += 7)
        touched_add(&touched, std::min<size_t>(7, pages.size() - at), &pages[at]);
    return touched;
}

/* Written and read again. False: it was refused. */
bool read_again(const struct touched &touched, struct touched *again)
{
    uint8_t text[TOUCHED_BYTES_MAX + VARINT_SLACK];
    return touched_take(text, touched_put(&touched, text), again);
}

uint64_t pages_of(const struct touched &touched)
{
    uint64_t pages = 0;
    for (uint32_t i = 0; i < touched.count; i++)
        pages += touched.runs[i].skipped + uint64_t{touched.runs[i].resident};
    return pages;
}

} // namespace

TEST(Touched, RunsAcrossPieces)
{
    std::vector<uint8_t> pages(100, 0);
    for (size_t i = 5; i < 20; i++)
        pages[i] = 1;
    pages[40] = 3; /* other bits mean nothing */
    pages[41] = 2;
    struct touched touched = of(pages), again;
    ASSERT_TRUE(read_again(touched, &again));
    ASSERT_EQ(again.count, 2u);
    EXPECT_EQ(again.runs[0].skipped, 5u);
    EXPECT_EQ(again.runs[0].resident, 15u);
    EXPECT_EQ(again.runs[1].skipped, 20u);
    EXPECT_EQ(again.runs[1].resident, 1u);
    EXPECT_EQ(again.resident, 16u);
}

TEST(Touched, NoneAndAll)
{
    struct touched again;
    ASSERT_TRUE(read_again(of(std::vector<uint8_t>(1000, 0)), &again));
    EXPECT_EQ(again.count, 0u);
    ASSERT_TRUE(read_again(of(std::vector<uint8_t>(1000, 1)), &again));
    EXPECT_EQ(again.count, 1u);
    EXPECT_EQ(again.resident, 1000u);
}

/* However many runs there are, pages of both kinds stay as many, up to the last that is resident. */
TEST(Touched, TooManyRuns)
{
    for (size_t step = 2; step < 9; step++) {
        std::vector<uint8_t> pages(100000, 0);
        for (size_t i = 1; i < pages.size(); i += step)
            pages[i] = 1;
        struct touched touched = of(pages), again;
        size_t last = pages.size();
        while (pages[last - 1] == 0)
            last--;
        EXPECT_LE(touched.count, TOUCHED_RUNS_MAX);
        ASSERT_TRUE(read_again(touched, &again));
        EXPECT_EQ(again.resident, (pages.size() - 2) / step + 1);
        EXPECT_EQ(pages_of(again), last);
    }
}

TEST(Touched, Damage)
{
    struct touched touched;
    uint8_t text[TOUCHED_BYTES_MAX + 4 * VARINT_BYTES_MAX + VARINT_SLACK] = {};
    auto take = [&](const std::vector<uint64_t> &numbers) {
        uint8_t *at = text;
        for (uint64_t number : numbers)
            at = varint_put(at, number);
        return touched_take(text, static_cast<uint32_t>(at - text), &touched);
    };
    EXPECT_TRUE(take({3, 4}));
    EXPECT_FALSE(take({3}));
    EXPECT_FALSE(take({3, 0}));
    EXPECT_FALSE(take({UINT64_C(1) << 32, 4}));
    EXPECT_FALSE(take({3, UINT64_C(1) << 32}));
    EXPECT_TRUE(take(std::vector<uint64_t>(2 * TOUCHED_RUNS_MAX, 1)));
    EXPECT_FALSE(take(std::vector<uint64_t>(2 * TOUCHED_RUNS_MAX + 2, 1)));
    varint_put(text, UINT64_MAX); /* is cut */
    EXPECT_FALSE(touched_take(text, 3, &touched));
}
