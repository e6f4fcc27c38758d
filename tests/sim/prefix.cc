#include "tests/sim/prefix.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "tests/sim/truth.h"

static bool same_call(const Instruction &a, const Instruction &b)
{
    return a.number == b.number && a.failed == b.failed && a.size == b.size && a.count == b.count &&
           std::equal(a.operands, a.operands + a.count, b.operands);
}

static bool same_instruction(const Instruction &a, const Instruction &b)
{
    return same_call(a, b) && a.lane == b.lane && a.unknown == b.unknown && a.object == b.object;
}

/* An instruction, and which object it is about: the lane of its allocation, and the position of
 * that there. */
struct Said {
    const Instruction *instruction;
    std::pair<size_t, size_t> object;
};

static std::vector<std::vector<Said>> by_lane(const Instructions &instructions)
{
    std::vector<std::vector<Said>> lanes;
    std::vector<std::pair<size_t, size_t>> registers;
    for (const Instruction &i : instructions.all) {
        if (i.number == kInsTick) continue;
        size_t lane = i.number == kInsLost ? i.operands[0] : i.lane;
        if (lane >= lanes.size()) lanes.resize(lane + 1);
        Said said = {&i, {SIZE_MAX, SIZE_MAX}};
        Shape shape = i.number < 48 ? kind_traits[i.number].shape : kNoShape;
        if (shape != kNoShape && shape != kHeap && i.object != kNoRegister) {
            if (i.object >= registers.size()) registers.resize(i.object + 1);
            if (shape != kAllocation && !i.unknown) said.object = registers[i.object];
            if (shape != kFree && !i.failed) registers[i.object] = {lane, lanes[lane].size()};
        }
        lanes[lane].push_back(said);
    }
    return lanes;
}

Prefix common_prefix(const Instructions &full, const Instructions &part)
{
    Prefix prefix;
    size_t most = std::min(full.all.size(), part.all.size());
    while (prefix.instructions < most &&
           same_instruction(full.all[prefix.instructions], part.all[prefix.instructions]))
        prefix.ticks += full.all[prefix.instructions++].number == kInsTick;
    auto full_lanes = by_lane(full), part_lanes = by_lane(part);
    for (size_t lane = 0; lane < part_lanes.size(); lane++) {
        prefix.lanes.push_back(part_lanes[lane].size());
        if (part_lanes[lane].empty()) continue;
        bool longer =
            lane >= full_lanes.size() || part_lanes[lane].size() > full_lanes[lane].size();
        for (size_t i = 0; !longer && prefix.lanes_agree && i < part_lanes[lane].size(); i++) {
            const Instruction &is = *part_lanes[lane][i].instruction;
            const Instruction &was = *full_lanes[lane][i].instruction;
            prefix.lanes_agree = same_call(is, was) &&
                                 (is.unknown || (!was.unknown && part_lanes[lane][i].object ==
                                                                     full_lanes[lane][i].object));
        }
        if (longer) prefix.lanes_agree = false;
    }
    return prefix;
}

static Instructions decode_file(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    return decode_instructions(
        std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

std::string compare_prefix(const std::string &full_path, const std::string &part_path)
{
    Prefix prefix = common_prefix(decode_file(full_path), decode_file(part_path));
    std::string text = "same " + std::to_string(prefix.instructions) + " ticks " +
                       std::to_string(prefix.ticks) + " lanes ";
    for (uint64_t count : prefix.lanes)
        text += std::to_string(count) + ",";
    return text + (prefix.lanes_agree ? " agree" : " disagree");
}
