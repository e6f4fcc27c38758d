#include "tests/sim/mutants.h"

#include <algorithm>
#include <map>

namespace {

/* Everything a mutant may look at: instructions with the records that they stand for. */
struct Subject {
    Random &random;
    bool opaque;
    const Truth &truth;
    Instructions &in;
    std::vector<uint32_t> records; /* by instruction; kNever: ticks */

    const Record &record(size_t i) const { return truth.records[records[i]]; }
    bool is_call(size_t i) const { return in.all[i].number < 48; }
    Shape shape(size_t i) const
    {
        return is_call(i) ? kind_traits[in.all[i].number].shape : kNoShape;
    }

    /* A random instruction for which `fits` is true, or SIZE_MAX. */
    template <class Fits> size_t find(Fits fits) const
    {
        size_t count = in.all.size(), start = count == 0 ? 0 : random.below(count);
        for (size_t i = 0; i < count; i++)
            if (fits((start + i) % count)) return (start + i) % count;
        return SIZE_MAX;
    }
    /* Moves one instruction to where another is. */
    void move(size_t from, size_t to)
    {
        auto at = in.all.begin();
        auto f = at + static_cast<ptrdiff_t>(from), t = at + static_cast<ptrdiff_t>(to);
        if (from < to)
            std::rotate(f, f + 1, t + 1);
        else
            std::rotate(t, f, f + 1);
    }
};

bool swap_in_lane(Subject &s)
{
    size_t other = SIZE_MAX;
    size_t i = s.find([&](size_t at) {
        if (!s.is_call(at)) return false;
        for (other = at + 1; other < s.in.all.size(); other++)
            if (s.in.all[other].lane == s.in.all[at].lane && s.is_call(other))
                return s.in.all[other].number != s.in.all[at].number;
        return false;
    });
    if (i == SIZE_MAX) return false;
    std::swap(s.in.all[i], s.in.all[other]);
    return true;
}

/* A free before the allocation, in another lane, of its object. */
bool free_first(Subject &s)
{
    std::map<ObjectId, size_t> allocations;
    for (size_t i = 0; i < s.in.all.size(); i++)
        if (s.is_call(i) && s.record(i).begins != 0) allocations[s.record(i).begins] = i;
    size_t allocation = SIZE_MAX;
    size_t freeing = s.find([&](size_t at) {
        if (s.shape(at) != kFree || s.in.all[at].unknown) return false;
        allocation = allocations[s.record(at).ends];
        if (s.in.all[allocation].lane == s.in.all[at].lane) return false;
        for (size_t i = allocation + 1; i < at; i++)
            if (s.records[i] == kNever || s.in.all[i].lane == s.in.all[at].lane) return false;
        return true;
    });
    if (freeing == SIZE_MAX) return false;
    s.move(freeing, allocation);
    return true;
}

bool wrong_pairing(Subject &s)
{
    size_t other = SIZE_MAX;
    size_t i = s.find([&](size_t at) {
        if (s.shape(at) != kFree || s.in.all[at].unknown) return false;
        for (other = at + 1; other < s.in.all.size() && other < at + 50; other++)
            if (s.shape(other) == kFree && !s.in.all[other].unknown &&
                s.in.all[other].object != s.in.all[at].object)
                return true;
        return false;
    });
    if (i == SIZE_MAX) return false;
    std::swap(s.in.all[i].object, s.in.all[other].object);
    return true;
}

/* What ends an object of another lane comes after its allocation, but too early for its bound. */
bool bound_first(Subject &s)
{
    std::map<std::pair<uint32_t, uint64_t>, size_t> counted; /* calls, by lane and count */
    std::vector<uint64_t> of_lane(s.truth.lanes.size());
    for (size_t i = 0; i < s.in.all.size(); i++) {
        if (s.records[i] == kNever) continue;
        const Record &r = s.record(i);
        of_lane[r.lane] += r.number == kLost ? r.alignment : counts(r, s.opaque);
        if (counts(r, s.opaque)) counted[{r.lane, of_lane[r.lane]}] = i;
    }
    size_t bound = SIZE_MAX;
    size_t end = s.find([&](size_t at) {
        if (s.shape(at) != kFree || s.in.all[at].unknown) return false;
        const Record &r = s.record(at);
        const Object &object = s.truth.objects[r.ends];
        auto found = counted.find({object.lane, r.bound});
        if (object.lane == r.lane || object.serial >= r.bound || found == counted.end())
            return false;
        bound = found->second;
        for (size_t i = bound; i < at; i++)
            if (s.records[i] == kNever || s.in.all[i].lane == s.in.all[at].lane ||
                s.in.all[i].object == s.in.all[at].object)
                return false;
        return bound < at;
    });
    if (end == SIZE_MAX) return false;
    s.move(end, bound);
    return true;
}

/* An allocation before the end, in another lane, of what was at its place. */
bool place_taken(Subject &s)
{
    if (!s.opaque || s.truth.lost_events > 0) return false;
    std::map<uint32_t, size_t> ends; /* by place */
    std::map<size_t, size_t> end_before;
    for (size_t i = 0; i < s.in.all.size(); i++) {
        if (s.shape(i) == kFree && !s.in.all[i].unknown)
            ends[s.truth.objects[s.record(i).ends].place] = i;
        if (s.shape(i) != kAllocation || s.record(i).begins == 0) continue;
        auto end = ends.find(s.truth.objects[s.record(i).begins].place);
        if (end == ends.end()) continue;
        end_before[i] = end->second;
        ends.erase(end);
    }
    size_t allocation = s.find([&](size_t at) {
        auto end = end_before.find(at);
        if (end == end_before.end()) return false;
        for (size_t i = end->second; i < at; i++)
            if (s.records[i] == kNever || s.in.all[i].lane == s.in.all[at].lane ||
                s.in.all[i].object == s.in.all[at].object)
                return false;
        return true;
    });
    if (allocation == SIZE_MAX) return false;
    s.move(allocation, end_before[allocation]);
    return true;
}

/* A call goes before one of another lane, after which it entered a structure. */
bool sequences_descend(Subject &s)
{
    std::vector<size_t> instruction(s.truth.records.size(), SIZE_MAX);
    for (size_t i = 0; i < s.in.all.size(); i++)
        if (s.records[i] != kNever) instruction[s.records[i]] = i;
    /* What each sequence number stands before or after. */
    std::map<std::pair<uint32_t, uint64_t>, size_t> after; /* sequence numbers after this call */
    std::vector<std::pair<std::pair<uint32_t, uint64_t>, size_t>> before;
    for (const std::vector<uint32_t> &lane : s.truth.lanes) {
        size_t latest = SIZE_MAX;
        std::vector<std::pair<uint32_t, uint64_t>> pending;
        for (uint32_t index : lane) {
            const Record &r = s.truth.records[index];
            if (!r.in_stream) continue;
            if (r.number == kSequenceAfter && latest != SIZE_MAX)
                after[{r.structure, r.size}] = latest;
            if (r.number == kSequenceBefore) pending.emplace_back(r.structure, r.size);
            if (is_sequence(r) || instruction[index] == SIZE_MAX) continue;
            latest = instruction[index];
            for (const auto &sequence : pending)
                before.emplace_back(sequence, latest);
            pending.clear();
        }
    }
    for (size_t i = before.size(); i > 1; i--)
        std::swap(before[i - 1], before[s.random.below(i)]);
    for (const auto &one : before) {
        auto found = after.find({one.first.first, one.first.second - 1});
        if (found == after.end() || found->second >= one.second) continue;
        size_t earlier = found->second, later = one.second;
        bool free = s.shape(later) == kAllocation && s.in.all[later].lane != s.in.all[earlier].lane;
        for (size_t i = earlier; free && i < later; i++)
            free = s.records[i] != kNever && s.in.all[i].lane != s.in.all[later].lane &&
                   s.in.all[i].object != s.in.all[later].object;
        if (!free) continue;
        s.move(later, earlier);
        return true;
    }
    return false;
}

bool left_out(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.records[at] != kNever; });
    if (i == SIZE_MAX) return false;
    s.in.all.erase(s.in.all.begin() + static_cast<ptrdiff_t>(i));
    return true;
}

bool twice(Subject &s)
{
    size_t i = s.find([&](size_t at) {
        return s.shape(at) == kHeap || s.in.all[at].failed || s.in.all[at].unknown;
    });
    if (i == SIZE_MAX) return false;
    s.in.all.insert(s.in.all.begin() + static_cast<ptrdiff_t>(i), Instruction(s.in.all[i]));
    return true;
}

bool wrong_size(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.shape(at) == kAllocation; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].size++;
    return true;
}

bool wrong_stack(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.in.all[at].stack != 0; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].stack = s.random.one_in(2) ? 0 : s.in.all[i].stack + 1;
    return true;
}

bool wrong_frame(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.in.nodes.count(s.in.all[at].stack) != 0; });
    if (i == SIZE_MAX) return false;
    s.in.nodes[s.in.all[i].stack].second++;
    return true;
}

bool becomes_unknown(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.shape(at) == kFree && !s.in.all[at].unknown; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].unknown = true;
    return true;
}

bool register_reused(Subject &s)
{
    size_t other = SIZE_MAX;
    size_t i = s.find([&](size_t at) {
        other = at + 1;
        return other < s.in.all.size() && s.shape(at) == kAllocation &&
               s.shape(other) == kAllocation && !s.in.all[at].failed && !s.in.all[other].failed;
    });
    if (i == SIZE_MAX) return false;
    s.in.all[other].object = s.in.all[i].object;
    return true;
}

bool other_lane(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.is_call(at); });
    if (i == SIZE_MAX || s.truth.lanes.size() < 2) return false;
    s.in.all[i].lane = static_cast<uint32_t>((s.in.all[i].lane + 1) % s.truth.lanes.size());
    return true;
}

/* All ticks at the end, their values right. */
bool late_ticks(Subject &s)
{
    if (s.truth.ticks.size() < 4) return false;
    std::stable_partition(s.in.all.begin(), s.in.all.end(),
                          [](const Instruction &i) { return i.number != kInsTick; });
    return true;
}

bool early_ticks(Subject &s)
{
    if (s.truth.ticks.size() < 4) return false;
    std::stable_partition(s.in.all.begin(), s.in.all.end(),
                          [](const Instruction &i) { return i.number == kInsTick; });
    return true;
}

bool tick_value(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.in.all[at].number == kInsTick; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].operands[1]++;
    return true;
}

bool usage_value(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.in.all[at].has_usage; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].usage[2]++;
    return true;
}

bool statistic_value(Subject &s)
{
    size_t i = s.find([&](size_t at) { return s.in.all[at].has_usage; });
    if (i == SIZE_MAX) return false;
    s.in.all[i].statistics[1]++;
    return true;
}

bool mapping_left_out(Subject &s)
{
    if (s.in.passed.empty()) return false;
    s.in.passed.erase(s.in.passed.begin() +
                      static_cast<ptrdiff_t>(s.random.below(s.in.passed.size())));
    return true;
}

bool mappings_swapped(Subject &s)
{
    for (size_t i = 1; i < s.in.passed.size(); i++) {
        Passed &one = s.in.passed[i - 1], &other = s.in.passed[i];
        if (one.numbers == other.numbers && one.name == other.name) continue;
        std::swap(one, other);
        return true;
    }
    return false;
}

bool late_mapping(Subject &s)
{
    if (s.in.passed.empty()) return false;
    s.in.passed[s.random.below(s.in.passed.size())].window++;
    return true;
}

bool wrong_kind_total(Subject &s)
{
    s.in.kinds[1]++;
    return true;
}

bool wrong_live_total(Subject &s)
{
    s.in.live++;
    return true;
}

bool wrong_status(Subject &s)
{
    s.in.status ^= 1;
    return true;
}

/* One page more of a large object was resident. */
bool touched_page(Subject &s)
{
    size_t i = s.find([&](size_t at) { return !s.in.all[at].touched.empty(); });
    if (i == SIZE_MAX) return false;
    s.in.all[i].touched.back()++;
    return true;
}

const struct {
    const char *name;
    bool (*apply)(Subject &);
} mutants[] = {{"swap_in_lane", swap_in_lane},
               {"free_first", free_first},
               {"bound_first", bound_first},
               {"place_taken", place_taken},
               {"wrong_pairing", wrong_pairing},
               {"sequences_descend", sequences_descend},
               {"left_out", left_out},
               {"twice", twice},
               {"wrong_size", wrong_size},
               {"wrong_stack", wrong_stack},
               {"wrong_frame", wrong_frame},
               {"becomes_unknown", becomes_unknown},
               {"register_reused", register_reused},
               {"other_lane", other_lane},
               {"late_ticks", late_ticks},
               {"early_ticks", early_ticks},
               {"tick_value", tick_value},
               {"usage_value", usage_value},
               {"statistic_value", statistic_value},
               {"touched_page", touched_page},
               {"mapping_left_out", mapping_left_out},
               {"mappings_swapped", mappings_swapped},
               {"late_mapping", late_mapping},
               {"wrong_kind_total", wrong_kind_total},
               {"wrong_live_total", wrong_live_total},
               {"wrong_status", wrong_status}};

/* The lanes' records go with their instructions one by one: the result is correct as yet. */
std::vector<uint32_t> records_of(const Truth &truth, const Instructions &in)
{
    std::vector<uint32_t> records;
    std::vector<size_t> next(truth.lanes.size());
    for (const Instruction &i : in.all) {
        records.push_back(kNever);
        if (i.number == kInsTick) continue;
        size_t lane = i.number == kInsLost ? i.operands[0] : i.lane;
        while (!is_visible(truth.records[truth.lanes[lane][next[lane]]]) ||
               !truth.records[truth.lanes[lane][next[lane]]].in_stream)
            next[lane]++;
        records.back() = truth.lanes[lane][next[lane]++];
    }
    return records;
}

} // namespace

std::vector<std::string> mutant_names()
{
    std::vector<std::string> names;
    for (const auto &mutant : mutants)
        names.push_back(mutant.name);
    return names;
}

bool mutate(const std::string &name, Random &random, bool opaque, const Truth &truth,
            Instructions &instructions)
{
    Subject subject = {random, opaque, truth, instructions, records_of(truth, instructions)};
    for (const auto &mutant : mutants)
        if (name == mutant.name) return mutant.apply(subject);
    return false;
}
