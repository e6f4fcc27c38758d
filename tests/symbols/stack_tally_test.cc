// stack_tally_test - functions that ask for the same sizes, of which some calls were sampled: the
// interval of each number has the true one in it in nine of ten samples, and is not much wider than
// it must be.
#include "symbols/stack_tally.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/call_kind.h"

namespace {

enum { OFTEN, SOMETIMES, SELDOM, FUNCTIONS };
const char *const names[FUNCTIONS] = {"often", "sometimes", "seldom"};
const unsigned kept_one_of[FUNCTIONS] = {50, 7, 2};

const int seeds = 400;
const double sample_bytes = 16384;

// What a recorder does: of small ones, one in so many calls; of larger ones, one in so many bytes.
struct Recorder {
    const char *name;
    double small_limit;
    double chance(double size) const
    {
        return std::min(1.0, size < small_limit ? 256 / sample_bytes : size / sample_bytes);
    }
};

// A program that keeps some of its objects, and frees a third of these at its end.
struct Program {
    std::vector<uint8_t> opcodes;
    std::vector<uint16_t> values;
    std::vector<uint32_t> functions; // by instruction
    stack_sums truth[FUNCTIONS] = {};

    void add(unsigned opcode, size_t value, unsigned function)
    {
        opcodes.push_back(static_cast<uint8_t>(opcode));
        values.push_back(static_cast<uint16_t>(value));
        functions.push_back(function);
    }
    explicit Program(unsigned calls)
    {
        std::mt19937 random(9);
        unsigned alive = 0;
        for (unsigned turn = 0; turn < calls; turn++) {
            const unsigned way = random() % 30;
            const unsigned function = way < 20 ? OFTEN : way < 28 ? SOMETIMES : SELDOM;
            const bool keeps = turn % kept_one_of[function] == 0;
            add(CALL_MALLOC, 16 + random() % 256 * (random() % 4 == 0 ? 20 : 1), function);
            alive += keeps;
            if (!keeps) add(CALL_FREE, 0, function);
        }
        for (unsigned i = 0; i < alive / 3; i++)
            add(CALL_FREE, 0, 0);
        sums([](size_t) { return true; }, false, truth);
    }
    // The nodes of stacks are FUNCTION + STACK_NODE_FIRST.
    template <class Has> void sums(Has has_stack, bool is_sampled, stack_sums *to) const
    {
        stack_tally tally;
        ASSERT_TRUE(stack_tally_open(&tally));
        uint64_t live = 0;
        for (size_t at = 0, count; at < opcodes.size(); at += count) {
            count = std::min<size_t>(opcodes.size() - at, INSTRUCTION_BLOCK_MAX);
            std::vector<uint32_t> stacks(count);
            for (size_t i = 0; i < count; i++)
                if (has_stack(at + i)) stacks[i] = functions[at + i] + STACK_NODE_FIRST;
            instruction_batch batch = {};
            batch.count = count;
            batch.opcodes = &opcodes[at];
            batch.values = &values[at];
            batch.stacks = stacks.data();
            batch.live = live;
            ASSERT_TRUE(stack_tally_add(&tally, &batch, count));
            live = tally.live;
        }
        tally.is_sampled = is_sampled;
        ASSERT_TRUE(stack_tally_end(&tally));
        std::vector<uint32_t> first, groups;
        for (size_t i = 0; i < tally.stacks_count; i++) {
            first.push_back(static_cast<uint32_t>(groups.size()));
            if (tally.stacks[i] != 0) groups.push_back(tally.stacks[i] - STACK_NODE_FIRST);
        }
        first.push_back(static_cast<uint32_t>(groups.size()));
        const stack_groups all = {first.data(), groups.data(), FUNCTIONS};
        ASSERT_TRUE(stack_tally_sum(&tally, &all, to));
        stack_tally_close(&tally);
    }
};

// What the estimates of one number said.
struct Said {
    int held = 0;
    double squares = 0; // of their errors
    std::vector<double> margins;
    void add(const stack_sum &sum, double truth)
    {
        const double margin = stack_sum_margin(&sum), error = sum.value - truth;
        held += std::abs(error) <= margin;
        squares += error * error;
        margins.push_back(margin);
    }
    // Of each interval's half, in the middle, what 95 % of the errors would ask for.
    double width()
    {
        std::sort(margins.begin(), margins.end());
        return margins[margins.size() / 2] / (1.96 * std::sqrt(squares / seeds));
    }
};

class Intervals : public testing::TestWithParam<std::tuple<Recorder, unsigned>> {};

// Of a few samples nobody knows much: such intervals may be wide.
TEST_P(Intervals, HoldAndAreNoWiderThanTheyMust)
{
    const stack_measure measures[] = {STACK_MADE, STACK_AT_PEAK, STACK_AT_END};
    const char *const measure_names[] = {"made", "at the peak", "at the end"};
    const Recorder recorder = std::get<0>(GetParam());
    const Program program(std::get<1>(GetParam()));
    Said objects[3][FUNCTIONS], bytes[3][FUNCTIONS];
    for (int seed = 0; seed < seeds; seed++) {
        std::mt19937 random(static_cast<unsigned>(seed) + 1);
        stack_sums sums[FUNCTIONS] = {};
        const auto met = [&](size_t i) {
            return program.opcodes[i] == CALL_MALLOC &&
                   std::generate_canonical<double, 32>(random) < recorder.chance(program.values[i]);
        };
        program.sums(met, true, sums);
        for (int m = 0; m < 3; m++)
            for (int f = 0; f < FUNCTIONS; f++) {
                const stack_measure measure = measures[m];
                objects[m][f].add(sums[f].objects[measure],
                                  program.truth[f].objects[measure].value);
                bytes[m][f].add(sums[f].bytes[measure], program.truth[f].bytes[measure].value);
            }
    }
    for (int m = 0; m < 3; m++)
        for (int f = 0; f < FUNCTIONS; f++) {
            const std::string what = std::string(names[f]) + ", " + measure_names[m];
            EXPECT_GE(objects[m][f].held, seeds * 9 / 10) << what << ", objects";
            EXPECT_GE(bytes[m][f].held, seeds * 9 / 10) << what << ", bytes";
            EXPECT_LE(objects[m][f].width(), 2) << what << ", objects";
            EXPECT_LE(bytes[m][f].width(), 2) << what << ", bytes";
        }
}

INSTANTIATE_TEST_SUITE_P(, Intervals,
                         testing::Combine(testing::Values(Recorder{"tcmalloc", 1024},
                                                          Recorder{"program", 4096}),
                                          testing::Values(10000, 30000)),
                         [](const auto &test) {
                             return std::get<0>(test.param).name +
                                    std::to_string(std::get<1>(test.param));
                         });

} // namespace
