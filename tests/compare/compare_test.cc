// What compare reads (lists of allocators), finds (libraries) and calculates.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compare/compare_numbers.h"
#include "compare/expected.h"
#include "compare/list.h"
#include "compare/page_table.h"
#include "compare/rank.h"
#include "launch/allocators.h"

namespace {

class List : public testing::Test {
  protected:
    ~List() override { compare_list_free(&list); }

    bool add(const char *text) { return compare_list_add(&list, text, why, sizeof why); }

    // The entry as it was understood: NAME{VARIABLE|VALUE}...
    std::string entry(size_t at) const
    {
        std::string text = list.entries[at].allocator;
        for (size_t i = 0; i < list.entries[at].settings_count; i++) {
            const compare_setting &setting = list.entries[at].settings[i];
            text += std::string("{") + setting.name + "|" + setting.value + "}";
        }
        return text;
    }

    // What is wrong with a list.
    std::string refusal(const char *text) { return add(text) ? "nothing" : why; }

    compare_list list = {};
    char why[256] = "";
};

TEST_F(List, Names)
{
    ASSERT_TRUE(add("tcmalloc,glibc,glibc"));
    ASSERT_EQ(list.count, 3u);
    EXPECT_EQ(entry(0), "tcmalloc");
    EXPECT_EQ(entry(1), "glibc");
    EXPECT_EQ(entry(2), "glibc");
}

TEST_F(List, GrowsWithEachOption)
{
    ASSERT_TRUE(add("tcmalloc"));
    ASSERT_TRUE(add("/usr/lib/a.so,b"));
    ASSERT_EQ(list.count, 3u);
    EXPECT_EQ(entry(1), "/usr/lib/a.so");
}

TEST_F(List, Settings)
{
    ASSERT_TRUE(add("jemalloc:MALLOC_CONF=background_thread:true,tcmalloc:A=1;B_2=x=y;C="));
    ASSERT_EQ(list.count, 2u);
    EXPECT_EQ(entry(0), "jemalloc{MALLOC_CONF|background_thread:true}");
    EXPECT_EQ(entry(1), "tcmalloc{A|1}{B_2|x=y}{C|}");
}

TEST_F(List, BackslashTakesMeaningAway)
{
    ASSERT_TRUE(add(R"(a:X=1\,2\;3\\4,b)"));
    EXPECT_EQ(entry(0), R"(a{X|1,2;3\4})");
    EXPECT_EQ(entry(1), "b");
}

TEST_F(List, RefusesWhatMeansNothing)
{
    EXPECT_EQ(refusal(""), "an allocator without a name");
    EXPECT_EQ(refusal("a,,b"), "an allocator without a name");
    EXPECT_EQ(refusal("a,"), "an allocator without a name");
    EXPECT_EQ(refusal(":A=1"), "an allocator without a name");
    EXPECT_EQ(refusal("a:"), "a: '' is not the name of a variable");
    EXPECT_EQ(refusal("a:1A=2"), "a: '1A' is not the name of a variable");
    EXPECT_EQ(refusal("a:B C=2"), "a: 'B C' is not the name of a variable");
    EXPECT_EQ(refusal("a:B"), "a: B has no value");
    EXPECT_EQ(refusal("a:B=1;"), "a: '' is not the name of a variable");
    EXPECT_EQ(refusal("a:LD_PRELOAD=x.so"),
              "a: LD_PRELOAD cannot be set; name the library as the allocator");
    EXPECT_EQ(refusal("a:B=1\\"), "nothing follows the last backslash");
}

TEST(Find, KnowsNamesAndLibraries)
{
    EXPECT_TRUE(allocators_know("tcmalloc"));
    EXPECT_TRUE(allocators_know("system"));
    EXPECT_TRUE(allocators_know("none"));
    EXPECT_TRUE(allocators_know("./x"));
    EXPECT_TRUE(allocators_know("libx.so.1"));
    EXPECT_FALSE(allocators_know("jmalloc"));
}

TEST(Find, TheCLibraryNeedsNoLibrary)
{
    allocator_found found;
    ASSERT_TRUE(allocators_find(&found, "system"));
    EXPECT_STREQ(found.known->name, "glibc");
    EXPECT_STREQ(found.library, "");
}

TEST(Find, LibrariesOfTheSystem)
{
    allocator_found found;
    ASSERT_TRUE(allocators_find(&found, "libm.so.6")) << found.why;
    EXPECT_EQ(found.known, nullptr);
    EXPECT_EQ(found.library[0], '/');
    EXPECT_FALSE(allocators_find(&found, "libnosuchthing.so.1"));
    EXPECT_STREQ(found.why, "not installed: no libnosuchthing.so.1 in the library directories");
}

TEST(Find, FilesThatAreNoLibraries)
{
    allocator_found found;
    EXPECT_FALSE(allocators_find(&found, "/no/such/file.so"));
    EXPECT_STREQ(found.why, "/no/such/file.so: No such file or directory");
    EXPECT_FALSE(allocators_find(&found, "/etc/passwd"));
    EXPECT_STREQ(found.why, "/etc/passwd: not a shared library for this architecture");
}

compare_spread spread(std::vector<double> values)
{
    return compare_spread_values(values.data(), values.size());
}

TEST(Numbers, Spread)
{
    compare_spread odd = spread({5, 1, 3});
    EXPECT_EQ(odd.median, 3);
    EXPECT_EQ(odd.least, 1);
    EXPECT_EQ(odd.most, 5);
    EXPECT_DOUBLE_EQ(compare_spread_relative(&odd), 4.0 / 3);
    EXPECT_EQ(spread({4, 1, 2, 10}).median, 3);
    EXPECT_EQ(spread({7}).median, 7);
    EXPECT_TRUE(std::isnan(spread({}).median));
    EXPECT_TRUE(std::isnan(spread({1, NAN}).median));
}

const compare_number *number(const std::string &key)
{
    const compare_number *one = compare_numbers;
    while (one->key != nullptr && key != one->key)
        one++;
    return one;
}

TEST(Numbers, OwnCostIsThatOfAllRuns)
{
    json_t *reports = json_loads(
        R"([{"wall_seconds": 3e-6, "measured_events": 1000, "own_cost_ns_per_event": 1},
            {"wall_seconds": 5e-6, "measured_events": 1000, "own_cost_ns_per_event": 90},
            {"wall_seconds": 4e-6, "measured_events": 1000, "own_cost_ns_per_event": 2}])",
        0, nullptr);
    ASSERT_NE(reports, nullptr);
    compare_spread net = compare_spread_of(number("net_ns_per_event"), reports);
    EXPECT_DOUBLE_EQ(net.least, 1);
    EXPECT_DOUBLE_EQ(net.median, 2);
    EXPECT_DOUBLE_EQ(net.most, 3);
    json_decref(reports);
}

TEST(Numbers, LessThanTheOwnCostIsNotKnown)
{
    json_t *reports = json_loads(
        R"([{"wall_seconds": 3e-6, "measured_events": 1000, "own_cost_ns_per_event": 4}])", 0,
        nullptr);
    ASSERT_NE(reports, nullptr);
    EXPECT_TRUE(std::isnan(compare_spread_of(number("net_ns_per_event"), reports).median));
    json_decref(reports);
}

TEST(Numbers, OfReports)
{
    json_t *reports = json_loads(
        R"([{"wall_seconds": 3e-6, "measured_events": 1000, "own_cost_ns_per_event": 1,
             "peak_heap_bytes": null,
             "by_kind": {"malloc": 5, "new": 9, "realloc_moved": 99, "free": 2, "mallopt": 99},
             "latency": {"malloc": {"p50": 1}, "new": {"p50": 7.5}, "free": {"p50": 3}}}])",
        0, nullptr);
    ASSERT_NE(reports, nullptr);
    const json_t *report = json_array_get(reports, 0);
    EXPECT_STREQ(compare_kind(report, true), "new");
    EXPECT_STREQ(compare_kind(report, false), "free");
    EXPECT_DOUBLE_EQ(compare_spread_of(number("net_ns_per_event"), reports).median, 2);
    EXPECT_DOUBLE_EQ(compare_spread_of(number("allocation_p50_ns"), reports).median, 7.5);
    EXPECT_DOUBLE_EQ(compare_spread_of(number("free_p50_ns"), reports).median, 3);
    EXPECT_TRUE(std::isnan(compare_spread_of(number("free_p99_ns"), reports).median));
    EXPECT_TRUE(std::isnan(compare_spread_of(number("peak_heap_bytes"), reports).median));
    json_decref(reports);
}

rank_difference difference(std::vector<double> one, std::vector<double> other,
                           rank_threshold threshold)
{
    rank_candidate candidates[] = {{one.data(), one.size(), 0, false, false, 0},
                                   {other.data(), other.size(), 0, false, false, 0}};
    return rank_difference_of(&candidates[0], &candidates[1], &threshold);
}

// With five values each, the two differences at either end lie outside of the interval.
TEST(Rank, Difference)
{
    rank_difference of = difference({11, 12, 13, 14, 15}, {1, 1, 1, 1, 2}, {0, 0, 0});
    EXPECT_EQ(of.median, 12);
    EXPECT_EQ(of.least, 10);
    EXPECT_EQ(of.most, 14);
    EXPECT_TRUE(of.counts);
    EXPECT_FALSE(difference({11, 12, 13, 14, 15}, {1, 1, 1, 1, 2}, {12, 0, 0}).counts);
    EXPECT_TRUE(difference({11, 12, 13, 14, 15}, {1, 1, 1, 1, 2}, {11.9, 0, 0}).counts);
    EXPECT_FALSE(difference({104}, {100}, {0, 0.05, 0}).counts);
    EXPECT_TRUE(difference({106}, {100}, {0, 0.05, 0}).counts);
    EXPECT_FALSE(difference({1, 5, 9}, {2, 4, 6}, {0, 0, 0}).counts);
    EXPECT_TRUE(std::isnan(difference({}, {1}, {0, 0, 0}).median));
}

std::string ranks(std::vector<std::vector<double>> values, rank_threshold threshold)
{
    std::vector<rank_candidate> candidates;
    for (std::vector<double> &one : values)
        candidates.push_back({one.data(), one.size(), 0, false, false, 0});
    rank_all(candidates.data(), candidates.size(), &threshold);
    std::string text;
    for (const rank_candidate &one : candidates)
        text += std::to_string(one.rank) + (one.shared ? "= " : " ");
    return text;
}

TEST(Rank, All)
{
    EXPECT_EQ(ranks({{30}, {10}, {20}, {11}}, {2, 0, 0}), "4 1= 3 1= ");
    EXPECT_EQ(ranks({{30}, {}, {20}}, {2, 0, 0}), "2 0 1 ");
    EXPECT_EQ(ranks({{1}, {1}, {1}}, {0, 0, 0}), "1= 1= 1= ");
    // A chain, of which neighbours are equal: the last is worse than the first.
    EXPECT_EQ(ranks({{10}, {11}, {12}}, {1.5, 0, 0}), "1= 1= 3 ");
}

// The same two times, measured again and again with noise of a tenth and one disturbed round.
TEST(Rank, IsTheSameEachTime)
{
    std::mt19937 random(1);
    std::uniform_real_distribution<double> noise(1, 1.1);
    for (int repeat = 0; repeat < 200; repeat++) {
        std::vector<std::vector<double>> values(3);
        for (double time : {100.0, 101.0, 150.0}) {
            std::vector<double> &of = values[time == 100 ? 0 : time == 101 ? 1 : 2];
            for (int round = 0; round < 5; round++)
                of.push_back(time * noise(random) * (round == repeat % 5 ? 1.2 : 1));
        }
        ASSERT_EQ(ranks(values, {0, 0.05, 0}), "1= 1= 3 ") << "repeat " << repeat;
    }
}

/* ---- expected ---- */

double distance(const std::vector<double> &seconds, const std::vector<double> &one,
                const std::vector<double> &other)
{
    return compare_curves_distance(seconds.data(), one.data(), other.data(), seconds.size());
}

TEST(Rank, WhatMayBeMoreIsInTheInterval)
{
    std::vector<double> less = {10, 10, 10, 10, 10}, more = {20, 20, 20, 20, 20};
    rank_candidate candidates[] = {{less.data(), 5, 0, false, false, 0},
                                   {more.data(), 5, 0, false, false, 0}};
    const rank_threshold none = {0, 0, 0};
    rank_all(candidates, 2, &none);
    EXPECT_EQ(candidates[1].rank, 2u);
    candidates[0].more = 9;
    rank_all(candidates, 2, &none);
    EXPECT_EQ(candidates[1].rank, 2u);
    candidates[0].more = 11;
    rank_all(candidates, 2, &none);
    EXPECT_EQ(candidates[0].rank, 1u);
    EXPECT_EQ(candidates[1].rank, 1u);
    candidates[1].more = 1; /* of the greater one, it changes nothing */
    rank_difference of = rank_difference_of(&candidates[1], &candidates[0], &none);
    EXPECT_EQ(of.least, -1);
    EXPECT_EQ(of.most, 11);
}

// Of six areas one is the recorder's, and of one nothing is resident.
TEST(Expected, WhatOthersHadIsRead)
{
    const char *source = getenv("MALLOCTAPE_SOURCE");
    ASSERT_NE(source, nullptr);
    const std::string golden = std::string(source) + "/tests/golden/instructions-4.0-mappings";
    others others;
    ASSERT_TRUE(others_read(&others, golden.c_str(), "gperftools 2.10"));
    ASSERT_EQ(others.count, 2u);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_DOUBLE_EQ(others.seconds[i], 0.123456789);
        EXPECT_EQ(others.bytes[i], 36 * 1024);
        EXPECT_EQ(others.heap[i], 0);
    }
    others_free(&others);
    EXPECT_FALSE(others_read(&others, "/nonexistent", ""));
}

TEST(Expected, WhatOthersHadIsSubtracted)
{
    std::vector<double> at = {2, 4, 4, 6}, bytes = {10, 30, 40, 40};
    others others{};
    others.seconds = at.data();
    others.bytes = bytes.data();
    others.count = at.size();
    const std::vector<double> seconds = {1, 2, 3, 4, 5, 6, 7};
    std::vector<double> values(7, 100);
    compare_curves_subtract(&others, seconds.data(), values.data(), values.size());
    EXPECT_EQ(values, (std::vector<double>{90, 90, 80, 70, 60, 60, 60}));
    /* The heap is the same, but the process has mapped more and more. */
    const std::vector<double> heap = {5, 9, 5, 9, 5, 9, 5};
    std::vector<double> process = {15, 19, 25, 39, 45, 49, 45};
    EXPECT_GT(distance(seconds, process, heap), 9);
    compare_curves_subtract(&others, seconds.data(), process.data(), process.size());
    EXPECT_EQ(process, heap);
    others.count = 0;
    compare_curves_subtract(&others, seconds.data(), process.data(), process.size());
    EXPECT_EQ(process, heap);
}

// Of three replays on tcmalloc one has its heap on both sides of a border.
TEST(Expected, PartsOfThePageTableAreAsManyAsRecorded)
{
    const uint64_t border = UINT64_C(5) << 31, mib = 1 << 20;
    const known_allocator tcmalloc = {"tcmalloc", {}, nullptr, nullptr, false, nullptr},
                          glibc = {"glibc", {}, nullptr, nullptr, false, nullptr};
    compare_row rows[2] = {};
    rows[0].found.known = &tcmalloc;
    rows[1].found.known = &glibc;
    for (compare_row &row : rows) {
        row.reports = json_array();
        for (const uint64_t from : {border - 9 * mib, border - mib, border})
            json_array_append_new(row.reports,
                                  json_pack("{s:I,s:I,s:i,s:n}", "break_from", (json_int_t)from,
                                            "break_to", (json_int_t)(from + 8 * mib),
                                            "peak_net_rss_bytes", 10 << 20, "mean_net_rss_bytes"));
    }
    compare compare = {};
    compare.rows = rows;
    compare.rows_count = 2;
    compare.recorded = &rows[0];
    compare.others.break_from = border;
    compare.others.break_to = border + mib;
    compare_page_table_correct(&compare);
    const auto peak = [&](unsigned row, size_t report) {
        return compare_report_number(json_array_get(rows[row].reports, report), "peak_net_rss_bytes") / mib;
    };
    EXPECT_EQ(peak(0, 0), 10);
    EXPECT_EQ(peak(0, 1), 8);
    EXPECT_EQ(peak(0, 2), 10);
    EXPECT_EQ(peak(1, 1), 10);
    compare.others.break_from = border - mib;
    compare_page_table_correct(&compare);
    EXPECT_EQ(peak(0, 0), 12);
    compare.others.break_to = 0; // not known
    compare_page_table_correct(&compare);
    EXPECT_EQ(peak(0, 0), 12);
    for (compare_row &row : rows)
        json_decref(row.reports);
}

TEST(Expected, CurvesThatGoTogetherAreNotApart)
{
    const std::vector<double> seconds = {1, 2, 3, 4, 5, 6};
    const std::vector<double> curve = {10, 20, 40, 30, 50, 20};
    std::vector<double> higher = curve;
    for (double &value : higher)
        value += 1000;
    EXPECT_EQ(distance(seconds, curve, curve), 0);
    EXPECT_EQ(distance(seconds, higher, curve), 0);
    /* One second of five is 100 more. */
    higher[2] += 100;
    EXPECT_DOUBLE_EQ(distance(seconds, higher, curve), 20);
}

TEST(Expected, OldLooksDoNotCount)
{
    const double unknown = std::nan("");
    /* Between 0.50 and 0.55 the recorder did not look, while the replay went on. */
    EXPECT_EQ(distance({0.1, 0.2, 0.3, 0.4, 0.5, 0.53, 0.55, 0.6}, {1, 2, 3, 4, 5, 5, 5, 6},
                       {1, 2, 3, 4, 5, 900, 900, 6}),
              0);
    /* If it says the same for longer, it has looked. */
    EXPECT_GT(distance({1, 2, 3, 4, 5, 6}, {1, 2, 3, 3, 3, 3}, {1, 2, 3, 9, 9, 3}), 1);
    EXPECT_EQ(distance({1, 2, 3, 4, 5, 6}, {1, 2, 3, unknown, 5, 6}, {1, 2, 3, 9, 5, 6}), 0);
    EXPECT_TRUE(std::isnan(distance({1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4})));
}

TEST(Expected, LongCurvesAreMerged)
{
    json_t *series = json_object(), *seconds = json_array(), *bytes = json_array();
    json_object_set_new(series, "seconds", seconds);
    json_object_set_new(series, "net_rss_bytes", bytes);
    for (int i = 0; i < 2500; i++) {
        json_array_append_new(seconds, json_real(i));
        json_array_append_new(bytes, i == 1001   ? json_integer(999)
                                     : i < 3     ? json_null()
                                     : i == 1002 ? json_null()
                                                 : json_integer(5));
    }
    compare_curves_shorten(series, 3000);
    EXPECT_EQ(json_array_size(json_object_get(series, "seconds")), 2500u);
    compare_curves_shorten(series, 2500);
    EXPECT_EQ(json_array_size(json_object_get(series, "seconds")), 2500u);
    compare_curves_shorten(series, 1000);
    seconds = json_object_get(series, "seconds");
    bytes = json_object_get(series, "net_rss_bytes");
    ASSERT_EQ(json_array_size(seconds), 834u); // by threes
    EXPECT_EQ(json_array_size(bytes), 834u);
    EXPECT_EQ(json_number_value(json_array_get(seconds, 0)), 2);
    EXPECT_EQ(json_number_value(json_array_get(seconds, 833)), 2499);
    EXPECT_TRUE(json_is_null(json_array_get(bytes, 0)));
    EXPECT_EQ(json_integer_value(json_array_get(bytes, 333)), 999);
    EXPECT_EQ(json_integer_value(json_array_get(bytes, 334)), 5);
    json_decref(series);
}

TEST(Find, DirectoriesOfTheUserComeFirst)
{
    const std::string empty = testing::TempDir() + "compare_test.empty";
    // What glob() has a meaning for, the dynamic linker has none for.
    for (const char *name : {"full", "a,b", "{a,b}", "a*", "a?", "[a]", "a\\b"}) {
        const std::string full = testing::TempDir() + "compare_test." + name;
        const std::string library = full + "/libjemalloc.so.2";
        mkdir(empty.c_str(), 0777);
        mkdir(full.c_str(), 0777);
        // one that could be loaded here
        ASSERT_EQ(symlink("/proc/self/exe", library.c_str()), 0);
        setenv("LD_LIBRARY_PATH", (empty + ":/no/such;" + full + ":").c_str(), 1);
        allocator_found found;
        EXPECT_TRUE(allocators_find(&found, "jemalloc"));
        EXPECT_EQ(found.library, library);
        unsetenv("LD_LIBRARY_PATH");
        unlink(library.c_str());
        rmdir(full.c_str());
        rmdir(empty.c_str());
    }
}

TEST(Find, AnEmptyDirectoryIsTheCurrentOne)
{
    const std::string library = testing::TempDir() + "libjemalloc.so.2";
    char before[PATH_MAX];
    ASSERT_NE(getcwd(before, sizeof before), nullptr);
    ASSERT_EQ(symlink("/proc/self/exe", library.c_str()), 0);
    ASSERT_EQ(chdir(testing::TempDir().c_str()), 0);
    for (const char *path : {":/no/such", "/no/such:", "/no::such"}) {
        allocator_found found;
        setenv("LD_LIBRARY_PATH", path, 1);
        EXPECT_TRUE(allocators_find(&found, "jemalloc"));
        EXPECT_STREQ(found.library, "./libjemalloc.so.2") << path;
    }
    unsetenv("LD_LIBRARY_PATH");
    unlink(library.c_str());
    ASSERT_EQ(chdir(before), 0);
}

TEST(Find, RecordedAllocators)
{
    EXPECT_STREQ(allocators_name_recorded("gperftools 2.10"), "tcmalloc");
    EXPECT_STREQ(allocators_name_recorded("glibc 2.36"), "glibc");
    EXPECT_STREQ(allocators_name_recorded("jemalloc"), "jemalloc");
    EXPECT_EQ(allocators_name_recorded("jemalloc5 1.0"), nullptr);
    EXPECT_EQ(allocators_name_recorded("none"), nullptr);
    EXPECT_EQ(allocators_name_recorded(nullptr), nullptr);
}

} // namespace
