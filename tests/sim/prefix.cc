#include "tests/sim/prefix.h"

#include <algorithm>
#include <fstream>
#include <iterator>

static bool same_call(const Instruction &a, const Instruction &b)
{
    return a.number == b.number && a.failed == b.failed && a.size == b.size && a.count == b.count &&
           std::equal(a.operands, a.operands + a.count, b.operands);
}

static bool same_instruction(const Instruction &a, const Instruction &b)
{
    return same_call(a, b) && a.lane == b.lane && a.unknown == b.unknown && a.object == b.object;
}

static std::vector<std::vector<const Instruction *>> by_lane(const Instructions &instructions)
{
    std::vector<std::vector<const Instruction *>> lanes;
    for (const Instruction &i : instructions.all) {
        if (i.number == kInsTick) continue;
        size_t lane = i.number == kInsLost ? i.operands[0] : i.lane;
        if (lane >= lanes.size()) lanes.resize(lane + 1);
        lanes[lane].push_back(&i);
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
            const Instruction &is = *part_lanes[lane][i], &was = *full_lanes[lane][i];
            prefix.lanes_agree = same_call(is, was) && (is.unknown || !was.unknown);
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
