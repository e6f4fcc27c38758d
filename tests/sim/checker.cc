#include "tests/sim/checker.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace {

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/* A call that enters more structures than this need not stay whole: an engine sees only so far. */
constexpr uint32_t kSequencesOfWhole = 10;

class Checker {
  public:
    Checker(const Options &options, const Truth &truth, const Instructions &instructions)
        : options_(options), truth_(truth), in_(instructions), lanes_(truth.lanes.size()),
          position_(truth.records.size(), kNever), placed_(truth.records.size(), false)
    {
        for (const Record &record : truth.records)
            cut_lanes_ = cut_lanes_ || !record.in_stream;
        find_sequences();
        find_windows();
        ended_.resize(truth.objects.size());
        if (options.opaque != 0) find_predecessors();
    }

    void run()
    {
        for (const Instruction &instruction : in_.all)
            one(instruction);
        nothing_left();
        passed();
        totals();
    }

    /* Of sequence numbers in the order of their numbers, whose calls are not. */
    uint64_t inversions()
    {
        uint64_t count = 0;
        for (const std::vector<uint32_t> &sequences : sequences_) {
            uint32_t latest = 0;
            for (uint32_t sequence : sequences) {
                if (!may_be_whole(sequence)) continue;
                uint32_t position = position_[owner_[sequence]];
                if (position < latest && count++ == 0) first_inversion_ = sequence;
                latest = std::max(latest, position);
            }
        }
        return count;
    }

    /* Where no call was interrupted and nothing is missing (a pause may come between a sequence
     * number and its call), calls with their sequence numbers can stand in order as wholes. */
    void whole_calls(uint64_t inversions) const
    {
        if (inversions > 0 && truth_.whole_units && options_.end == 0 && options_.losses == 0 &&
            options_.pauses == 0)
            fail(std::to_string(inversions) +
                 " calls stand on the wrong side of others, the first one {" +
                 text_of(record(owner_[first_inversion_])) + "} with {" +
                 text_of(record(first_inversion_)) + "}");
    }

  private:
    struct Lane {
        size_t next = 0; /* record, among those of the lane */
        uint64_t allocations = 0;
    };

    const Options &options_;
    const Truth &truth_;
    const Instructions &in_;
    std::vector<Lane> lanes_;
    std::vector<ObjectId> registers_;
    bool cut_lanes_ = false;                       /* not all of some lanes is in the stream */
    std::vector<uint32_t> position_;               /* of each record in the output */
    std::vector<bool> placed_;                     /* records that were taken */
    std::vector<uint32_t> sequences_[kStructures]; /* in the stream, by number */
    std::vector<uint32_t> index_in_structure_;     /* of each record that is a sequence number */
    std::vector<uint32_t> owner_; /* of each sequence number: the call it was made for */
    std::vector<uint32_t> sequences_of_owner_; /* how many that has, by record */
    size_t next_sequence_[kStructures] = {};
    uint32_t first_inversion_ = 0; /* a sequence number */
    std::vector<uint32_t> latest_; /* windows, by record */
    uint64_t ticks_ = 0, index_ = 0, begun_ = 0, lost_ = 0;
    uint64_t last_tick_ = 0;
    uint64_t kinds_[48] = {};
    std::vector<uint32_t> stack_;

    const Record &record(uint32_t index) const { return truth_.records[index]; }

    /* Whether the sequence number's call is there, and no tick stands between the two. */
    bool may_be_whole(uint32_t sequence) const
    {
        uint32_t owner = owner_[sequence];
        return owner != kNever && position_[owner] != kNever &&
               sequences_of_owner_[owner] <= kSequencesOfWhole &&
               record(owner).window == record(sequence).window;
    }

    [[noreturn]] void fail(const std::string &what, const Instruction *i = nullptr) const
    {
        std::string text = what + "\n  at instruction " + std::to_string(index_);
        if (i != nullptr)
            text += " (number " + std::to_string(i->number) + ", lane " + std::to_string(i->lane) +
                    ", register " + std::to_string(i->object) + ", size " +
                    std::to_string(i->size) + ")";
        throw Violation(text);
    }

    static std::string text_of(const Record &r)
    {
        return "number " + std::to_string(r.number) + " of lane " + std::to_string(r.lane) +
               ", structure " + std::to_string(r.structure) + ", size " + std::to_string(r.size) +
               ", window " + std::to_string(r.window);
    }

    /* ---- what the truth implies ---- */

    void find_sequences()
    {
        index_in_structure_.resize(truth_.records.size());
        owner_.assign(truth_.records.size(), kNever);
        for (uint32_t i = 0; i < truth_.records.size(); i++) {
            const Record &r = record(i);
            if (!is_sequence(r) || !r.in_stream) continue;
            index_in_structure_[i] = static_cast<uint32_t>(sequences_[r.structure].size());
            sequences_[r.structure].push_back(i);
        }
        for (const std::vector<uint32_t> &lane : truth_.lanes) {
            uint32_t latest = kNever;
            std::vector<uint32_t> waiting;
            for (uint32_t i : lane) {
                const Record &r = record(i);
                if (!r.in_stream) continue;
                if (r.number == kSequenceAfter) owner_[i] = latest;
                if (r.number == kSequenceBefore) waiting.push_back(i);
                if (!is_visible(r)) continue;
                latest = i;
                if (!is_call(r)) continue;
                for (uint32_t sequence : waiting)
                    owner_[sequence] = i;
                waiting.clear();
            }
        }
        sequences_of_owner_.assign(truth_.records.size(), 0);
        for (uint32_t owner : owner_)
            if (owner != kNever) sequences_of_owner_[owner]++;
    }

    /* The records that must come before `index`: of its lane, of its structure, of the lane that
     * had its object. */
    template <class Visit>
    void each_before(uint32_t index, uint32_t before_in_lane, Visit visit) const
    {
        const Record &r = record(index);
        if (before_in_lane != kNever) visit(before_in_lane);
        if (is_sequence(r) && index_in_structure_[index] > 0)
            visit(sequences_[r.structure][index_in_structure_[index] - 1]);
        if (needed_[index] != kNever) visit(needed_[index]);
        if (r.after.empty()) return;
        for (uint32_t needed : needed_after_.at(index))
            visit(needed);
    }

    std::vector<uint32_t>
        needed_; /* the allocation that brings the lane of its object to the bound, or its loss */
    /* The same of what allocations are after, by record. */
    std::map<uint32_t, std::vector<uint32_t>> needed_after_;
    /* Of an opaque stream: who had the bytes of an object before, by object. */
    std::vector<std::vector<ObjectId>> predecessors_;
    std::vector<uint32_t> previous_;    /* records, in their lane */
    std::vector<uint64_t> allocations_; /* of each lane in the stream, lost ones included */
    std::vector<std::vector<uint64_t>> allocations_of_; /* their serials, without them */
    std::vector<bool> ended_; /* by object: in the order as far as it was read */

    bool is_foreign(const Record &r) const
    {
        return r.has_object && !r.unknown && truth_.objects[r.ends].lane != r.lane;
    }

    void find_allocations()
    {
        needed_.assign(truth_.records.size(), kNever);
        previous_.assign(truth_.records.size(), kNever);
        allocations_.assign(truth_.lanes.size(), 0);
        allocations_of_.resize(truth_.lanes.size());
        std::vector<std::vector<std::pair<uint64_t, uint32_t>>> allocations(truth_.lanes.size());
        for (size_t lane = 0; lane < truth_.lanes.size(); lane++) {
            uint32_t before = kNever;
            for (uint32_t i : truth_.lanes[lane]) {
                const Record &r = record(i);
                if (!r.in_stream || is_silent(r)) continue;
                previous_[i] = before;
                before = i;
                uint64_t count = counts_of(r);
                if (count == 0) continue;
                allocations_[lane] += count;
                allocations[lane].emplace_back(allocations_[lane], i);
                if (r.number != kLost) allocations_of_[lane].push_back(allocations_[lane]);
            }
        }
        for (uint32_t i = 0; i < truth_.records.size(); i++) {
            const Record &r = record(i);
            if (!r.in_stream) continue;
            const auto brings = [&](uint32_t lane, uint64_t bound) {
                const auto &of_lane = allocations[lane];
                auto found = std::lower_bound(of_lane.begin(), of_lane.end(),
                                              std::make_pair(bound, uint32_t{0}));
                return found != of_lane.end() ? found->second : kNever;
            };
            if (is_foreign(r)) needed_[i] = brings(truth_.objects[r.ends].lane, r.bound);
            for (const After &after : r.after) {
                uint32_t needed = brings(after.lane, after.calls);
                if (needed != kNever) needed_after_[i].push_back(needed);
            }
            if (!r.after.empty()) needed_after_[i];
        }
    }

    /* What bounds count: of an opaque stream calls. */
    uint64_t counts_of(const Record &r) const
    {
        return r.number == kLost ? r.alignment : counts(r, options_.opaque != 0);
    }

    /* Whether something that it waits for never comes, which only the end tells. */
    bool waits_forever(const Record &r) const
    {
        return is_foreign(r) && r.bound > allocations_[truth_.objects[r.ends].lane];
    }

    bool is_after_forever(const Record &r) const
    {
        return std::any_of(r.after.begin(), r.after.end(), [this](const After &after) {
            return after.calls > allocations_[after.lane];
        });
    }

    /* How late rules 1 to 3 make calls: through each chain of them, and through the sequence
     * numbers of a call, as if it were one. */
    void find_windows()
    {
        find_allocations();
        size_t count = truth_.records.size();
        latest_.resize(count);
        for (uint32_t i = 0; i < count; i++)
            latest_[i] = record(i).window;
        missing_numbers();
        for (int round = 0; round < 20; round++)
            if (!spread_windows()) break;
    }

    void missing_numbers()
    {
        for (uint32_t structure = 0; structure < kStructures; structure++) {
            uint64_t expected = 1;
            for (uint32_t i : sequences_[structure]) {
                if (record(i).size != expected) latest_[i] = kNever;
                expected = record(i).size + 1;
            }
        }
    }

    bool spread_windows()
    {
        bool changed = false;
        const auto raise = [&](uint32_t &to, uint32_t value) {
            if (value > to) to = value, changed = true;
        };
        uint32_t count = static_cast<uint32_t>(truth_.records.size());
        for (uint32_t i = 0; i < count; i++) {
            if (!record(i).in_stream) continue;
            if (waits_forever(record(i)) || is_after_forever(record(i))) raise(latest_[i], kNever);
            each_before(i, previous_[i],
                        [&](uint32_t before) { raise(latest_[i], latest_[before]); });
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t owner = owner_[i];
            if (owner == kNever) continue;
            raise(latest_[owner], latest_[i]);
            raise(latest_[i], latest_[owner]);
        }
        return changed;
    }

    /* ---- the output ---- */

    void one(const Instruction &i)
    {
        if (i.number == kInsTick) {
            tick(i);
        } else {
            uint32_t lane = i.number == kInsLost ? static_cast<uint32_t>(i.operands[0]) : i.lane;
            if (lane >= lanes_.size()) fail("a lane that there is not", &i);
            uint32_t next = take_next(lane, i);
            same_record(record(next), i);
            position_[next] = static_cast<uint32_t>(index_);
            lanes_[lane].allocations += counts_of(record(next));
            in_window(next, i);
        }
        index_++;
    }

    void tick(const Instruction &i)
    {
        if (ticks_ >= truth_.ticks.size()) fail("a tick too many", &i);
        const Tick &tick = truth_.ticks[ticks_++];
        if (i.operands[0] != tick.nanoseconds - last_tick_ || i.operands[1] != tick.rss ||
            i.operands[2] != tick.heap || i.has_usage != !tick.usage.empty() ||
            (i.has_usage && (!std::equal(i.usage, i.usage + 4, tick.usage.begin()) ||
                             !std::equal(tick.usage.begin() + 4, tick.usage.end(), i.statistics))))
            fail("another tick was expected", &i);
        last_tick_ = tick.nanoseconds;
    }

    /* The lane's next visible record, its sequence numbers before that being placed on the way. */
    uint32_t take_next(uint32_t lane, const Instruction &i)
    {
        const std::vector<uint32_t> &records = truth_.lanes[lane];
        for (size_t &next = lanes_[lane].next; next < records.size(); next++) {
            uint32_t index = records[next];
            const Record &r = record(index);
            if (!r.in_stream || is_silent(r)) continue;
            if (is_sequence(r)) {
                if (!placed_[index]) place(index, i);
                continue;
            }
            placed_[index] = true;
            next++;
            return index;
        }
        fail("the lane has no more records", &i);
    }

    /* Enters a sequence number, with whatever sequence numbers must be entered first. */
    void place(uint32_t first, const Instruction &i)
    {
        stack_.assign(1, first);
        while (!stack_.empty()) {
            uint32_t index = stack_.back();
            const Record &r = record(index);
            uint32_t needed = kNever;
            if (placed_[index]) {
                stack_.pop_back();
                continue;
            }
            uint32_t turn = sequences_[r.structure][next_sequence_[r.structure]];
            if (turn != index)
                needed = turn;
            else if (previous_[index] != kNever && !placed_[previous_[index]])
                needed = previous_[index];
            if (needed == kNever) {
                placed_[index] = true;
                next_sequence_[r.structure]++;
                stack_.pop_back();
                continue;
            }
            if (!is_sequence(record(needed)))
                fail("numbers do not ascend: sequence number {" + text_of(r) + "} needs {" +
                         text_of(record(needed)) + "}, which has not come yet",
                     &i);
            if (stack_.size() > truth_.records.size())
                fail("sequence numbers wait for each other in a circle", &i);
            stack_.push_back(needed);
        }
    }

    void same_record(const Record &r, const Instruction &i)
    {
        uint8_t number = 0;
        switch (r.number) {
        case kThreadBegin: number = kInsThreadBegin; break;
        case kThreadEnd: number = kInsThreadEnd; break;
        case kThreadCacheDeleted: number = kInsThreadCacheDeleted; break;
        case kLost: number = kInsLost; break;
        default: number = r.kind; break;
        }
        if (i.number != number)
            fail("the lane's next record is {" + text_of(r) + "}, which is another one", &i);
        if (r.number == kThreadBegin) {
            begun_++;
            if (i.operands[0] != r.size) fail("another thread", &i);
        } else if (r.number == kLost) {
            lost_ += r.size;
            if (i.operands[1] != r.size) fail("another number of lost events", &i);
        } else if (is_call(r)) {
            same_call(r, i);
        }
    }

    void same_call(const Record &r, const Instruction &i)
    {
        const KindTraits &traits = kind_traits[r.kind];
        kinds_[r.kind]++;
        if (i.failed != (r.number == kFailed)) fail("failed or not", &i);
        if (traits.sized && i.size != r.size)
            fail("the lane's next record is {" + text_of(r) + "}, which has another size", &i);
        if (traits.aligned && i.operands[0] != r.alignment) fail("another alignment", &i);
        if (traits.shape == kHeap &&
            (i.count != r.count || (r.count > 0 && i.operands[0] != r.size) ||
             (r.count > 1 && i.operands[1] != r.alignment)))
            fail("other numbers", &i);
        same_object(r, i);
        if (options_.addresses != 0 && r.begins != 0 &&
            i.address != truth_.objects[r.begins].address)
            fail("another address", &i);
        if (r.number == kFailed) return;
        if (i.stack != r.stack) fail("another call stack", &i);
        stack_is_known(r.stack, i);
    }

    /* All of the stack, unless a lane that defines some of it did not get that far. */
    void stack_is_known(uint32_t node, const Instruction &i) const
    {
        while (node >= kFirstNode) {
            auto found = in_.nodes.find(node);
            const StackNode &truly = truth_.nodes[node - kFirstNode];
            if (found == in_.nodes.end()) {
                if (!cut_lanes_) fail("a stack that is not defined", &i);
                return;
            }
            if (found->second != std::make_pair(truly.parent, truly.code))
                fail("a stack that is another one", &i);
            auto code = in_.codes.find(truly.code);
            if (code == in_.codes.end() ? !cut_lanes_ : code->second != truly.code * 16)
                fail("a code that is another one", &i);
            node = truly.parent;
        }
    }

    /* Allocations that were lost need not be waited for. */
    void bound_reached(const Record &r, const Instruction &i) const
    {
        if (!is_foreign(r) || waits_forever(r)) return;
        const auto &allocations = allocations_of_[truth_.objects[r.ends].lane];
        auto needed = std::upper_bound(allocations.begin(), allocations.end(), r.bound);
        uint64_t is = lanes_[truth_.objects[r.ends].lane].allocations;
        if (needed != allocations.begin() && is < *(needed - 1))
            fail("{" + text_of(r) + "} comes after " + std::to_string(is) +
                     " allocations of lane " + std::to_string(truth_.objects[r.ends].lane) +
                     ", not " + std::to_string(r.bound),
                 &i);
    }

    /* Whether a failed realloc comes after what ended its object, which nothing forbids. */
    bool comes_too_late(const Record &r) const { return r.number == kFailed && ended_[r.ends]; }

    bool may_be_unknown(const Record &r) const
    {
        return r.unknown || waits_forever(r) || comes_too_late(r);
    }

    /* Whether the object in the register is the record's. */
    bool is_meant(const Record &r, ObjectId held) const
    {
        return !r.unknown && !waits_forever(r) && held == r.ends && !comes_too_late(r);
    }

    /* Opaque streams: objects that had bytes of another one before, and whose end is recorded. Only
     * those directly before: they came after others. What was not recorded between two objects,
     * nobody knows; they need not be in order then. */
    void find_predecessors()
    {
        std::vector<bool> has_end(truth_.objects.size());
        std::vector<ObjectId> latest;
        for (const Record &r : truth_.records)
            if (r.in_stream && r.has_object && r.number != kFailed && !may_be_unknown(r))
                has_end[r.ends] = true;
        predecessors_.resize(truth_.objects.size());
        for (ObjectId id = 1; id < truth_.objects.size(); id++) {
            const Object &object = truth_.objects[id];
            uint64_t first = (object.address - (uint64_t{1} << 40)) / 8;
            uint64_t end = first + std::max<uint64_t>(1, (object.bytes + 7) / 8);
            if (end > latest.size()) latest.resize(std::max<uint64_t>(end, 2 * latest.size()));
            for (uint64_t at = first; at < end; at++) {
                ObjectId before = latest[at];
                latest[at] = id;
                if (!has_end[before] || !truth_.objects[before].recorded) continue;
                if (predecessors_[id].empty() || predecessors_[id].back() != before)
                    predecessors_[id].push_back(before);
            }
        }
    }

    /* No object begins on bytes of another one that has not ended. Where events were lost, a moved
     * realloc may wait for them for windows. It is let go before. */
    void has_bytes(ObjectId id, const Record &r, const Instruction &i) const
    {
        for (ObjectId before : predecessors_[id]) {
            const Object &object = truth_.objects[before];
            if (ended_[before] || truth_.lost_events > 0) continue;
            fail("{" + text_of(r) + "} begins on bytes of object " + std::to_string(object.lane) +
                     ":" + std::to_string(object.serial) + ", which has not ended",
                 &i);
        }
    }

    /* Whether the record is among what has to come before it and has not come yet. */
    bool waits_for_itself(uint32_t index) const
    {
        std::set<uint32_t> seen;
        std::vector<uint32_t> waited = needed_after_.at(index);
        while (!waited.empty()) {
            uint32_t at = waited.back();
            waited.pop_back();
            if (at == index) return true;
            if (at == kNever || placed_[at] || !seen.insert(at).second) continue;
            each_before(at, previous_[at], [&](uint32_t before) { waited.push_back(before); });
        }
        return false;
    }

    /* A realloc may be after more than has to be there. */
    void comes_after(uint32_t index, const Instruction &i) const
    {
        const Record &r = record(index);
        for (const After &after : r.after) {
            const auto &calls = allocations_of_[after.lane];
            uint64_t is = lanes_[after.lane].allocations;
            auto needed = std::upper_bound(calls.begin(), calls.end(), after.calls);
            if (needed == calls.begin() || is >= *(needed - 1)) continue;
            if (kind_traits[r.kind].shape == kRealloc && waits_for_itself(index)) continue;
            fail("{" + text_of(r) + "} comes after " + std::to_string(is) + " calls of lane " +
                     std::to_string(after.lane) + ", not " + std::to_string(after.calls),
                 &i);
        }
    }

    void same_object(const Record &r, const Instruction &i)
    {
        if (r.has_object) {
            bool held = !i.unknown && i.object < registers_.size();
            ObjectId object = held ? registers_[i.object] : 0;
            if (i.unknown && !may_be_unknown(r))
                fail("the object is known: {" + text_of(r) + "}", &i);
            if (!i.unknown && !is_meant(r, object))
                fail("wrong pairing: {" + text_of(r) + "} is about another object than register " +
                         std::to_string(i.object) + " holds",
                     &i);
            bound_reached(r, i);
            if (held && r.number != kFailed) ended_[object] = true;
            if (held && kind_traits[r.kind].shape == kFree) registers_[i.object] = 0;
        }
        if (r.begins == 0) return;
        const auto touched = truth_.touched.find(i.size);
        if (i.touched !=
            (touched == truth_.touched.end() ? std::vector<uint64_t>() : touched->second))
            fail("other touched pages were expected", &i);
        if (options_.opaque != 0) {
            comes_after(static_cast<uint32_t>(&r - truth_.records.data()), i);
            has_bytes(r.begins, r, i);
        }
        if (i.object >= registers_.size()) registers_.resize(i.object + 1);
        bool continues = r.has_object && !i.unknown;
        if (!continues && registers_[i.object] != 0) fail("the register's object still lives", &i);
        registers_[i.object] = r.begins;
    }

    void in_window(uint32_t index, const Instruction &i) const
    {
        const Record &r = record(index);
        if (r.number == kLost) return;
        if (ticks_ + 1 < r.window)
            fail("more than a window early: {" + text_of(r) + "} in window " +
                     std::to_string(ticks_),
                 &i);
        if (latest_[index] != kNever && ticks_ > uint64_t{latest_[index]} + 1)
            fail("more than a window late: {" + text_of(r) + "} in window " +
                     std::to_string(ticks_) + ", where rules allow " +
                     std::to_string(latest_[index]),
                 &i);
    }

    void nothing_left() const
    {
        for (size_t lane = 0; lane < lanes_.size(); lane++)
            for (size_t i = lanes_[lane].next; i < truth_.lanes[lane].size(); i++) {
                const Record &r = record(truth_.lanes[lane][i]);
                if (r.in_stream && is_visible(r)) fail("left out: {" + text_of(r) + "}");
            }
        if (ticks_ != truth_.ticks.size()) fail("ticks are left out");
    }

    void passed() const
    {
        size_t at = 0;
        for (const Passed &one : truth_.passed) {
            if (one.is_void) continue;
            if (at == in_.passed.size()) fail("mappings are left out");
            const Passed &is = in_.passed[at++];
            if (is.is_residency != one.is_residency || is.numbers != one.numbers ||
                is.name != one.name)
                fail("another mapping was expected: number " + std::to_string(at));
            if (is.window != one.window)
                fail("mapping " + std::to_string(at) + " of window " + std::to_string(one.window) +
                     " is in window " + std::to_string(is.window));
        }
        if (at != in_.passed.size()) fail("a mapping too many");
    }

    void equal(const char *what, uint64_t is, uint64_t should_be) const
    {
        if (is != should_be)
            fail(std::string(what) + " is " + std::to_string(is) + ", should be " +
                 std::to_string(should_be));
    }

    void totals() const
    {
        uint64_t live = 0;
        for (ObjectId object : registers_)
            live += object != 0;
        bool cut = !truth_.has_end || truth_.end_status == 2 || truth_.lost_events > 0;
        equal("status", in_.status, cut);
        equal("live objects", in_.live, live);
        equal("live objects as counted", in_.live_counted, live);
        equal("registers", in_.registers, in_.most_live);
        equal("threads", in_.threads, begun_);
        equal("objects freed twice", in_.freed_twice, 0); /* no program does that */
        equal("lost events", in_.lost, lost_);
        equal("lost events that were recorded", lost_, truth_.lost_events);
        for (unsigned kind = 0; kind < 48; kind++)
            equal(("calls of kind " + std::to_string(kind)).c_str(), in_.kinds[kind], kinds_[kind]);
        equal("feature bits", in_.features,
              options_.addresses + 2 * (options_.stacks != 0) + 4 * (options_.stacks > 1) +
                  8 * (options_.maps != 0 && truth_.has_header));
        if (!truth_.has_header) return;
        auto program = in_.metadata.find("program"), batch = in_.metadata.find("env.MODEL_BATCH");
        if (program == in_.metadata.end() || program->second != "/usr/bin/simulated" ||
            batch == in_.metadata.end() || batch->second != std::to_string(options_.batch))
            fail("metadata");
    }
};

} // namespace

CheckResult check(const Options &options, const Truth &truth, const Instructions &instructions)
{
    CheckResult result;
    try {
        Checker checker(options, truth, instructions);
        checker.run();
        result.inversions = checker.inversions();
        checker.whole_calls(result.inversions);
    } catch (const Violation &violation) {
        result.problem = violation.what();
    }
    for (const Instruction &i : instructions.all)
        result.calls += i.number < 48;
    return result;
}
