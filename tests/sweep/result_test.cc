// What is read of one result: changes from the recorded allocator, of the process where that is
// known, and which of them are above the noise.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "common/mean.h"
#include "sweep/result.h"

namespace {

const double mib = 1024 * 1024;

struct Entry {
    std::string label;
    bool recorded;
    std::vector<double> mib, seconds; // of each run
    std::string expected = "{}";
    std::string status = "complete";
};

std::string reports_of(const Entry &entry)
{
    std::string text;
    char one[256];
    for (size_t i = 0; i < entry.mib.size(); i++) {
        snprintf(one, sizeof one,
                 R"(%s{"peak_net_rss_bytes": %.0f, "user_seconds": %g, "system_seconds": 0})",
                 i > 0 ? "," : "", entry.mib[i] * mib, entry.seconds[i]);
        text += one;
    }
    return text;
}

class Result : public testing::Test {
  protected:
    ~Result() override
    {
        result_free(&result);
        unlink(path.c_str());
    }

    bool read_text(const std::string &text)
    {
        FILE *file = fopen(path.c_str(), "w");
        fputs(text.c_str(), file);
        fclose(file);
        result_free(&result);
        return result_read(&result, path.c_str(), why, sizeof why);
    }

    bool read(const std::vector<Entry> &entries, const std::string &original = "{}")
    {
        std::string text =
            R"({"trace": {"file": "t.lz4"}, "original": )" + original + R"(, "allocators": [)";
        for (const Entry &entry : entries)
            text += std::string(&entry == &entries[0] ? "" : ",") + R"({"entry": ")" + entry.label +
                    R"(", "name": ")" + entry.label + R"(", "status": ")" + entry.status +
                    R"(", "error": "it crashed", "recorded": )" +
                    (entry.recorded ? "true" : "false") + R"(, "expected": )" + entry.expected +
                    R"(, "reports": [)" + reports_of(entry) + "]}";
        return read_text(text + "]}");
    }

    const result_entry *find(const std::string &label) const
    {
        for (size_t i = 0; i < result.entries_count; i++)
            if (result.entries[i].label == label) return &result.entries[i];
        return nullptr;
    }
    const result_entry &entry(const char *label) const { return *find(label); }

    const result_change &memory(const char *label) const
    {
        return entry(label).change[COMPARE_MEMORY];
    }
    const result_change &time(const char *label) const { return entry(label).change[COMPARE_TIME]; }

    const std::string path = testing::TempDir() + "result_test." + std::to_string(getpid());
    struct result result = {};
    char why[256] = "";
};

const std::vector<double> runs_10 = {10, 10.1, 9.9, 10, 10};
const std::vector<double> second = {1, 1.01, 0.99, 1, 1};

TEST_F(Result, ChangeOfReplays)
{
    ASSERT_TRUE(read({{"glibc", true, runs_10, second},
                      {"less", false, {8, 8, 8, 8, 8}, {2, 2, 2, 2, 2}},
                      {"same", false, {10.5, 10.5, 10.5, 10.5, 10.5}, second}}));
    EXPECT_EQ(result.of[COMPARE_MEMORY], RESULT_REPLAYS);
    EXPECT_STREQ(result.recorded->label, "glibc");
    EXPECT_NEAR(memory("less").share, -0.2, 1e-9);
    EXPECT_LE(memory("less").least, -0.2);
    EXPECT_GE(memory("less").most, -0.21);
    EXPECT_TRUE(memory("less").counts);
    EXPECT_NEAR(time("less").share, 1, 1e-9);
    EXPECT_TRUE(time("less").counts);
    EXPECT_NEAR(memory("same").share, 0.05, 1e-9);
    EXPECT_FALSE(memory("same").counts); // less than 1 MiB
    EXPECT_FALSE(time("same").counts);
    EXPECT_EQ(memory("glibc").share, 0);
    EXPECT_NEAR(entry("less").of_run[COMPARE_MEMORY][0], 0.8, 1e-9);
    EXPECT_NEAR(entry("less").of_run[COMPARE_TIME][4], 2, 1e-9);
    EXPECT_EQ(entry("less").peak_bytes, 8 * mib);
}

// The process has more than its allocator: the same difference is a lesser share.
TEST_F(Result, ChangeOfProcess)
{
    const std::string original = R"({"peak_rss_bytes": 41943040, "cpu_seconds": 20})";
    const std::string as_recorded =
        R"({"peak_rss_bytes": 41943040, "cpu_change_seconds": 0,
            "cpu_change_least_seconds": 0, "cpu_change_most_seconds": 0})";
    const auto expects = [](const char *least, const char *most) {
        return std::string(R"({"peak_rss_bytes": 39845888, "cpu_change_seconds": -1,
                               "cpu_change_least_seconds": )") +
               least + R"(, "cpu_change_most_seconds": )" + most + "}";
    };
    ASSERT_TRUE(read({{"glibc", true, runs_10, second, as_recorded},
                      {"sure", false, {8, 8, 8, 8, 8}, second, expects("-3", "-0.5")},
                      {"unsure", false, {8, 8, 8, 8, 8}, second, expects("-3", "1")},
                      {"few", false, {8, 8}, {0.5, 0.5}, expects("null", "null")}},
                     original));
    EXPECT_EQ(result.of[COMPARE_MEMORY], RESULT_PROCESS);
    EXPECT_EQ(result.of[COMPARE_TIME], RESULT_PROCESS);
    EXPECT_NEAR(memory("sure").share, -0.05, 1e-9);
    EXPECT_EQ(entry("sure").peak_bytes, 38 * mib);
    EXPECT_NEAR(entry("sure").of_run[COMPARE_MEMORY][0], 0.95, 1e-9);
    EXPECT_NEAR(time("sure").share, -0.05, 1e-9);
    EXPECT_NEAR(time("sure").least, -0.15, 1e-9);
    EXPECT_NEAR(time("sure").most, -0.025, 1e-9);
    EXPECT_TRUE(time("sure").counts);
    EXPECT_FALSE(time("unsure").counts);
    EXPECT_TRUE(std::isnan(time("few").least));
    EXPECT_TRUE(std::isnan(memory("few").least));
    EXPECT_NEAR(memory("few").share, -0.05, 1e-9);
}

// Much of the process is not its allocator's: what that saves is a small share.
TEST_F(Result, ChangeAsShareOfWhatItHad)
{
    const std::vector<Entry> entries = {{"glibc", true, runs_10, second},
                                        {"less", false, {5, 5, 5, 5, 5}, second}};
    ASSERT_TRUE(read(entries, R"({"peak_rss_bytes": 104857600})"));
    EXPECT_EQ(result.of[COMPARE_MEMORY], RESULT_DIFFERENCE);
    EXPECT_NEAR(memory("less").share, -0.05, 1e-9);
    EXPECT_NEAR(entry("less").peak_change, -5 * mib, 1);
    EXPECT_NEAR(entry("less").of_run[COMPARE_MEMORY][0], 0.95, 1e-9);
    // It left untouched what a replay writes to.
    result_free(&result);
    ASSERT_TRUE(read(entries, R"({"peak_rss_bytes": 8388608})"));
    EXPECT_EQ(result.of[COMPARE_MEMORY], RESULT_REPLAYS);
    EXPECT_NEAR(memory("less").share, -0.5, 1e-9);
}

TEST_F(Result, FailedEntries)
{
    ASSERT_TRUE(read({{"glibc", true, runs_10, second},
                      {"bad", false, {}, {}, "{}", "failed"},
                      {"none", false, {0, 0}, {0.1, 0.1}}}));
    EXPECT_EQ(result.entries_count, 2u);
    EXPECT_STREQ(entry("bad").why, "it crashed");
    EXPECT_TRUE(std::isnan(memory("bad").share));
    EXPECT_EQ(find("none"), nullptr);
}

TEST_F(Result, NoYardstick)
{
    ASSERT_TRUE(
        read({{"glibc", true, {}, {}, "{}", "failed"}, {"other", false, {8, 8, 8, 8, 8}, second}}));
    EXPECT_EQ(result.recorded, nullptr);
    EXPECT_TRUE(std::isnan(memory("other").share));
    EXPECT_EQ(entry("other").of_run[COMPARE_MEMORY], nullptr);
    EXPECT_EQ(entry("other").peak_bytes, 8 * mib);
}

TEST_F(Result, RefusesOtherFiles)
{
    EXPECT_FALSE(read_text("{"));
    EXPECT_FALSE(read_text("{}"));
    EXPECT_FALSE(read_text(R"({"trace": {"file": "x"}, "recordings": []})"));
    result_free(&result);
    EXPECT_FALSE(result_read(&result, "/nothing", why, sizeof why));
}

TEST(Mean, OfValues)
{
    const double values[] = {1, 2, 3, 4};
    const mean four = mean_of(values, 4), one = mean_of(values, 1), none = mean_of(values, 0);
    EXPECT_NEAR(four.mean, 2.5, 1e-9);
    EXPECT_NEAR(four.most, 2.5 + 3.182 * std::sqrt(5. / 3 / 4), 1e-9);
    EXPECT_EQ(one.mean, 1);
    EXPECT_TRUE(std::isnan(one.least) && std::isnan(none.mean));
    // Student's t of 20, 30 and 120 degrees of freedom, by the tables: 2.086, 2.042, 1.980.
    for (const auto &[count, t] : {std::pair(21, 2.086), {31, 2.042}, {121, 1.980}}) {
        std::vector<double> many(static_cast<size_t>(count));
        for (size_t i = 0; i < many.size(); i++)
            many[i] = i % 2 == 0 ? 1 : -1;
        const mean of = mean_of(many.data(), many.size());
        double squares = 0;
        for (double value : many)
            squares += (value - of.mean) * (value - of.mean);
        EXPECT_NEAR((of.most - of.mean) / std::sqrt(squares / (count - 1) / count), t, 0.001);
    }
}

} // namespace
