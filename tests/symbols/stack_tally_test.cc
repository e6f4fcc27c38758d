// stack_tally_test - random programs of which a recorder has sampled some calls: the interval of each
// number has the true one in it as often as it says, whatever sizes, kinds, threads, phases and
// frees the programs mix; and it is not much wider than it must be.
#include "symbols/stack_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/call_kind.h"
#include "tests/test_size.h"

namespace {

// What a recorder does (FORMAT.md 2.8): each call has a chance of its own, which its size decides.
struct Recorder {
    const char *name;
    double bytes;
    unsigned long small, small_realloc;
    double calls() const { return bytes / 256; }
    double chance(double size, bool is_large) const
    {
        if (is_large && size >= 1 << 20) return 1;
        return 1 - std::exp(-1 / calls() - (is_large ? size / bytes : 0));
    }
    bool takes(unsigned opcode, uint64_t size, std::mt19937 &random) const
    {
        const bool is_large = opcode == CALL_MALLOC             ? size >= small
                              : opcode == CALL_REALLOC_IN_PLACE ? size >= small_realloc
                                                                : false;
        return std::generate_canonical<double, 32>(random) <
               chance(static_cast<double>(size), is_large);
    }
    std::string metadata() const
    {
        const auto text = [](double number) {
            return std::to_string(static_cast<unsigned long>(number));
        };
        return "stacks=" + text(bytes) + "\nstacks.frees=some\nstacks.chance=" + text(calls()) +
               " " + std::to_string(small) + " " + std::to_string(small_realloc) + " 1048576\n";
    }
};
const Recorder recorders[] = {{"tcmalloc", 16384, 1025, 32768}, {"program", 65536, 4097, 32768}};

// A program: instructions that are counted once with the stacks of all, and then with some.
struct Program {
    std::vector<uint8_t> opcodes;
    std::vector<instruction> records;
    std::vector<uint64_t> operands;  // by instruction
    std::vector<uint32_t> functions; // the same
    std::vector<uint64_t> live;      // sizes
    unsigned lane = 0, function_count = 0;

    void add(unsigned opcode, uint64_t size, size_t object, unsigned function, uint64_t operand = 0)
    {
        instruction one = {};
        one.object = static_cast<uint32_t>(object);
        one.size = size;
        opcodes.push_back(static_cast<uint8_t>(opcode));
        records.push_back(one);
        operands.push_back(operand);
        functions.push_back(function);
    }
    void go_on_in(unsigned next)
    {
        if (next != lane) add(INSTRUCTION_LANE, 0, INSTRUCTION_NO_REGISTER, 0, next);
        lane = next;
    }
    void allocate(uint64_t size, unsigned function)
    {
        add(CALL_MALLOC, size, live.size(), function);
        live.push_back(size);
    }
    void resize(size_t object, uint64_t size, unsigned function)
    {
        add(CALL_REALLOC_IN_PLACE, size, object, function);
        live[object] = size;
    }
    void free(size_t object, unsigned function)
    {
        add(CALL_FREE, live[object], object, function);
        live[object] = live.back();
        live.pop_back();
    }
    // Stacks of functions are the nodes from STACK_NODE_FIRST on.
    template <class Has> bool count(stack_tally *tally, Has has_stack) const
    {
        bool good = true;
        for (size_t at = 0, count; at < opcodes.size() && good; at += count) {
            count = std::min<size_t>(opcodes.size() - at, INSTRUCTION_BLOCK_MAX);
            const std::vector<uint16_t> values(count, INSTRUCTION_ESCAPE);
            std::vector<instruction> here(&records[at], &records[at] + count);
            std::vector<uint32_t> stacks(count);
            for (size_t i = 0; i < count; i++) {
                here[i].operand_at = static_cast<uint16_t>(i);
                if (has_stack(at + i)) stacks[i] = functions[at + i] + STACK_NODE_FIRST;
            }
            instruction_batch batch = {};
            batch.count = count;
            batch.opcodes = &opcodes[at];
            batch.operands = &operands[at];
            batch.values = values.data();
            batch.records = here.data();
            batch.stacks = stacks.data();
            good = stack_tally_add(tally, &batch, count);
        }
        return good;
    }
    // By function; the second one: whether it has a sample.
    using Sums = std::vector<std::pair<stack_sums, bool>>;
    template <class Has> Sums sums(Has has_stack, const std::string &metadata) const
    {
        stack_tally tally;
        instruction_header header = {};
        header.metadata = metadata.c_str();
        header.metadata_bytes = static_cast<uint32_t>(metadata.size());
        header.features = INSTRUCTION_FEATURE_FREE_STACKS;
        EXPECT_TRUE(stack_tally_open(&tally, &header));
        tally.copies_grow = false; // samples do not tell
        EXPECT_TRUE(count(&tally, has_stack) && stack_tally_end(&tally));
        std::vector<uint32_t> first, groups;
        Sums result(function_count);
        for (size_t i = 0; i < tally.stacks_count; i++) {
            first.push_back(static_cast<uint32_t>(groups.size()));
            if (tally.stacks[i] == 0) continue;
            groups.push_back(tally.stacks[i] - STACK_NODE_FIRST);
            result[groups.back()].second = true;
        }
        first.push_back(static_cast<uint32_t>(groups.size()));
        const stack_groups all = {first.data(), groups.data(), function_count};
        std::vector<stack_sums> found(function_count);
        EXPECT_TRUE(stack_tally_sum(&tally, &all, found.data()));
        for (size_t i = 0; i < function_count; i++)
            result[i].first = found[i];
        stack_tally_close(&tally);
        return result;
    }
    Sums truth() const
    {
        return sums([](size_t) { return true; }, "stacks=all\nstacks.frees=all\n");
    }
    Sums sampled(const Recorder &recorder, unsigned seed) const
    {
        std::mt19937 random(seed);
        return sums(
            [&](size_t i) {
                return opcodes[i] != INSTRUCTION_LANE &&
                       recorder.takes(opcodes[i], records[i].size, random);
            },
            recorder.metadata());
    }
};

double uniform(std::mt19937 &random)
{
    return std::generate_canonical<double, 32>(random);
}

uint64_t between(std::mt19937 &random, double least, double most)
{
    return static_cast<uint64_t>(least * std::pow(most / least, uniform(random)));
}

// What a function of a random program does. Sizes are a few, or a range.
struct Function {
    std::vector<uint64_t> sizes;
    double least, most, weight, keeps, resizes, begins, ends;
    explicit Function(std::mt19937 &random)
    {
        least = static_cast<double>(between(random, 1, uniform(random) < 0.8 ? 2000 : 1 << 20));
        most = least * static_cast<double>(between(random, 1, 100)) + 1;
        for (unsigned i = 0, count = random() % 5; i < count; i++)
            sizes.push_back(between(random, least, most));
        weight =
            1 / static_cast<double>(between(random, 1, 1000) + static_cast<uint64_t>(most / 500));
        keeps = random() % 3 == 0 ? 1 : uniform(random) * uniform(random) * uniform(random);
        resizes = random() % 3 == 0 ? uniform(random) : 0;
        begins = random() % 2 * uniform(random);
        ends = random() % 2 == 0 ? 1 : begins + uniform(random) * (1 - begins);
    }
    uint64_t size(std::mt19937 &random) const
    {
        return sizes.empty() ? between(random, least, most) : sizes[random() % sizes.size()];
    }
};

Program random_program(unsigned seed, unsigned turns)
{
    std::mt19937 random(seed);
    Program program;
    std::vector<Function> functions;
    for (unsigned count = 3 + random() % 15; functions.size() < count;)
        functions.emplace_back(random);
    program.function_count = static_cast<unsigned>(functions.size()) + 3; // these free
    const unsigned lanes = 1 + random() % 5;
    for (unsigned turn = 0; turn < turns; turn++) {
        std::vector<double> weights;
        for (const Function &one : functions)
            weights.push_back(turn >= one.begins * turns && turn <= one.ends * turns ? one.weight
                                                                                     : 0);
        weights.push_back(1e-9);
        const unsigned at = static_cast<unsigned>(
            std::discrete_distribution<>(weights.begin(), weights.end())(random));
        if (at == functions.size()) continue;
        const Function &one = functions[at];
        program.go_on_in(random() % lanes);
        program.allocate(one.size(random), at);
        if (uniform(random) < one.resizes)
            program.resize(random() % program.live.size(), one.size(random), at);
        if (uniform(random) < one.keeps) continue;
        if (at % 4 == 0) program.go_on_in(random() % lanes);
        program.free(random() % 3 == 0 ? random() % program.live.size() : program.live.size() - 1,
                     static_cast<unsigned>(functions.size()) + at % 3);
    }
    return program;
}

struct Held {
    int held = 0, all = 0;
    void add(const stack_sum &sum, const stack_sum &truth)
    {
        if (sum.value == 0 && truth.value == 0) return;
        held += std::abs(sum.value - truth.value) <= stack_sum_margin(&sum) + 0.5;
        all++;
    }
};

class Intervals : public testing::TestWithParam<Recorder> {};

TEST_P(Intervals, HoldInRandomPrograms)
{
    const char *const names[STACK_MEASURES] = {"made",        "at the peak",  "at the end",
                                               "short-lived", "remote",       "grown",
                                               "freed",       "freed remote", "mapped"};
    Held objects[STACK_MEASURES], bytes[STACK_MEASURES];
    const unsigned seeds = 100;
    for (unsigned seed = 1; seed <= seeds; seed++) {
        const Program program = random_program(seed, 1000u << seed % 7);
        const auto truth = program.truth(), found = program.sampled(GetParam(), seed + 1000);
        for (size_t i = 0; i < truth.size(); i++)
            for (int m = 0; m < STACK_MEASURES && found[i].second; m++) {
                objects[m].add(found[i].first.objects[m], truth[i].first.objects[m]);
                bytes[m].add(found[i].first.bytes[m], truth[i].first.bytes[m]);
            }
    }
    for (int m = 0; m < STACK_MEASURES; m++) {
        EXPECT_GE(objects[m].held, objects[m].all * 0.95) << names[m] << " of " << objects[m].all;
        EXPECT_GE(bytes[m].held, bytes[m].all * 0.95) << names[m] << ", bytes, of " << bytes[m].all;
        if (m != STACK_MAPPED) {
            EXPECT_GT(bytes[m].all, 100) << names[m];
        }
    }
}

// Two functions: many small objects, and a few large ones. Neither swallows the other one.
TEST_P(Intervals, KeepLargeAndSmallApart)
{
    const Recorder recorder = GetParam();
    const double large = recorder.bytes / 3;
    Program program;
    program.function_count = 2;
    for (unsigned i = 0; i < 200000; i++) {
        program.allocate(80, 0);
        if (i % 4000 == 0) program.allocate(static_cast<uint64_t>(large), 1);
    }
    const auto truth = program.truth();
    for (unsigned seed = 1; seed <= 20; seed++) {
        const auto found = program.sampled(recorder, seed);
        for (size_t i = 0; i < 2; i++)
            EXPECT_NEAR(found[i].first.bytes[STACK_AT_END].value,
                        truth[i].first.bytes[STACK_AT_END].value,
                        truth[1].first.bytes[STACK_AT_END].value);
    }
}

// In the middle of 100 recordings of a program, an interval is at most twice as wide as 95 % of the
// errors ask for.
TEST_P(Intervals, AreNoWiderThanTheyMust)
{
    const int seeds = test_size(100, 200);
    const Program program = random_program(7, 30000);
    const auto truth = program.truth();
    std::vector<std::vector<double>> margins(truth.size());
    std::vector<double> squares(truth.size());
    for (int seed = 0; seed < seeds; seed++) {
        const auto found = program.sampled(GetParam(), static_cast<unsigned>(seed));
        for (size_t i = 0; i < truth.size(); i++) {
            const stack_sum &sum = found[i].first.bytes[STACK_MADE];
            const double error = sum.value - truth[i].first.bytes[STACK_MADE].value;
            squares[i] += error * error / seeds;
            margins[i].push_back(stack_sum_margin(&sum));
        }
    }
    for (size_t i = 0; i < truth.size(); i++) {
        std::sort(margins[i].begin(), margins[i].end());
        if (truth[i].first.objects[STACK_MADE].value < 20 * GetParam().calls()) continue;
        EXPECT_LE(margins[i][seeds / 2], 2 * 1.96 * std::sqrt(squares[i])) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(, Intervals, testing::ValuesIn(recorders),
                         [](const auto &test) { return test.param.name; });

} // namespace
