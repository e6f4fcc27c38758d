#include "tests/sim/raw_writer.h"

#include <algorithm>
#include <cstring>

#include <lz4frame.h>

#include "tests/sim/bytes.h"
#include "tests/sim/faults.h"

using bytes::put;
using bytes::put_varint;
using bytes::zigzag;

namespace {

constexpr size_t kRunsKept = 3;
constexpr uint64_t kSlotHeaderBytes = 64;

/* Slots of a profile (FORMAT.md 5.1), and the first unit of their codes and what the main operand is less than (5.2). */
struct Range {
    int slot;
    uint64_t base, limit;
};
constexpr Range kFrees[] = {{0, 0x0000, 0xa000}, {1, 0xb000, 0x1000}};
constexpr Range kFarFrees[] = {
    {0, 0xd800, 0x8000000}, {1, 0xe000, 0x4000000}, {2, 0xe400, 0x4000000}};
constexpr Range kAllocations[] = {{3, 0xa000, 0x1000}, {4, 0xc000, 0x1000}, {5, 0xd000, 0x800}};
constexpr Range kReallocs = {6, 0xe800, 0x4000000};

} // namespace

RawWriter::RawWriter(const Options &options, Random &random) : options_(options), random_(random)
{
    std::string metadata = "program=/usr/bin/simulated\nallocator=model 1\nenv.MODEL_BATCH=" +
                           std::to_string(options.batch) +
                           "\nseed=" + std::to_string(options.seed) + "\n";
    put(run_id_, random_.next(), 8);
    put(run_id_, random_.next(), 8);
    pid_ = static_cast<uint32_t>(random_.between(1, 4000000));
    stream_ = "MTAPERAW";
    put(stream_, 4, 2);
    put(stream_, 0, 2);
    put(stream_, metadata.size(), 4);
    put(stream_, options.addresses, 8);
    put(stream_, 0, 8);
    stream_ += run_id_;
    put(stream_, 1700000000000000000, 8);
    put(stream_, pid_, 4);
    put(stream_, bytes::checksum(stream_ + metadata), 4);
    stream_ += metadata;
    boundaries_.push_back(stream_.size());
}

RawWriter::Lane &RawWriter::lane(uint32_t number)
{
    if (number >= lanes_.size()) lanes_.resize(number + 1);
    return lanes_[number];
}

/* ---- records into runs ---- */

void RawWriter::write(const RawRecord &record)
{
    Lane &l = lane(record.lane);
    if (l.runs.empty()) begin_run(l);
    encode(l, l.runs.back(), record);
    if (l.runs.back().units.size() + code_.size() > options_.slot_units ||
        random_.one_in(4 * options_.slot_units)) {
        begin_run(l);
        encode(l, l.runs.back(), record);
    }
    Run &run = l.runs.back();
    if (aged_.count != 0) {
        aged_.at = run.units.size();
        aged_.serial = record.object_serial;
        aged_.allocations = l.allocations;
        run.aged.push_back(aged_);
    }
    run.units.insert(run.units.end(), code_.begin(), code_.end());
    run.ends.push_back(static_cast<uint32_t>(run.units.size()));
    run.visible.push_back(record.number != kSequenceBefore && record.number != kSequenceAfter &&
                          record.number < kClass);
    l.units += code_.size();
    l.allocations += record.allocations;
    run.allocations.push_back(l.allocations);
    l.state = next_;
    if (record.number < 48) l.kinds[record.number]++;
    if (record.number == kSequenceBefore || record.number == kSequenceAfter)
        l.latest[record.structure] = record.size;
}

void RawWriter::begin_run(Lane &lane)
{
    Run run;
    run.serial = lane.runs_count++;
    run.first_unit = lane.units;
    run.first_allocation = lane.allocations;
    run.key = run.serial == 0 || ++lane.runs_since_key >= 16 || random_.one_in(5);
    if (run.key) {
        lane.runs_since_key = 0;
        memset(lane.latest, 0, sizeof lane.latest);
    }
    lane.state = State();
    choose_profile(lane, run);
    while (lane.runs.size() >= kRunsKept && lane.runs.front().out == lane.runs.front().ends.size())
        lane.runs.erase(lane.runs.begin());
    lane.runs.push_back(std::move(run));
}

/* Mostly the frequent kinds, but any will do, and none. */
void RawWriter::choose_profile(const Lane &lane, Run &run)
{
    static const Shape shapes[] = {kFree,       kFree,       kFree,   kAllocation,
                                   kAllocation, kAllocation, kRealloc};
    for (int slot = 0; slot < 7; slot++) {
        if (random_.one_in(20)) continue;
        unsigned best = 0;
        for (unsigned kind = 1; kind < 45; kind++) {
            if (kind_traits[kind].shape != shapes[slot]) continue;
            bool taken = slot % 3 != 0 && memchr(run.profile, static_cast<int>(kind), 7) != nullptr;
            if (best == 0 || (!taken && lane.kinds[kind] > lane.kinds[best]) || random_.one_in(40))
                best = kind;
        }
        run.profile[slot] = static_cast<uint8_t>(best);
    }
}

void RawWriter::add_number(uint64_t value)
{
    while (value > 0x7fff) {
        add(0x8000 | (value & 0x7fff));
        value >>= 15;
    }
    add(value);
}

void RawWriter::encode(const Lane &lane, const Run &run, const RawRecord &record)
{
    code_.clear();
    aged_ = Aged();
    next_ = lane.state;
    if (record.number == kSequenceBefore || record.number == kSequenceAfter) {
        add((record.number == kSequenceBefore ? 0xf100 : 0xf200) + record.structure);
        add_number(record.size - lane.latest[record.structure]);
        return;
    }
    encode_event(run, record);
    bool begins = record.number < 48 && (kind_traits[record.number].shape == kAllocation ||
                                         kind_traits[record.number].shape == kRealloc);
    if (!options_.addresses || !begins) return;
    add_number(zigzag(static_cast<int64_t>(record.address / 8 - next_.address)));
    next_.address = record.address / 8;
}

void RawWriter::encode_event(const Run &run, const RawRecord &record)
{
    Shape shape = record.number < 48 ? kind_traits[record.number].shape : kNoShape;
    if (random_.one_in(20) || shape == kNoShape || shape == kHeap)
        encode_general(record);
    else if (shape == kAllocation)
        encode_allocation(run, record);
    else
        encode_ending(run, record);
    if (code_.empty()) encode_general(record);
}

/* Leaves no code when no unit of the profile fits. */
void RawWriter::encode_allocation(const Run &run, const RawRecord &record)
{
    if (!record.implied) return;
    for (const Range &range : kAllocations) {
        if (run.profile[range.slot] != record.number || record.size >= range.limit) continue;
        add(range.base + record.size);
        add_operands(record, false);
        return;
    }
}

void RawWriter::encode_ending(const Run &run, const RawRecord &record)
{
    if (record.unknown) return;
    if (record.object_lane != record.lane) {
        if (encode_foreign(run, record)) add_operands(record, true);
        return;
    }
    const uint64_t place = record.object_place;
    bool is_realloc = kind_traits[record.number].shape == kRealloc, far = random_.one_in(20);
    for (const Range &range : kFrees) {
        if (is_realloc || far || run.profile[range.slot] != record.number || place >= range.limit)
            continue;
        add(range.base + place);
        aged_.count = 1;
        aged_.slot = range.slot;
        add_operands(record, true);
        return;
    }
    for (const Range &range : kFarFrees) {
        const Range &used = is_realloc ? kReallocs : range;
        if (run.profile[used.slot] != record.number || place >= used.limit) continue;
        add(used.base + (place >> 16));
        add(place & 0xffff);
        aged_.count = 2;
        aged_.slot = used.slot;
        add_operands(record, true);
        return;
    }
}

/* By what the way of its lane remembers. */
bool RawWriter::encode_foreign(const Run &run, const RawRecord &record)
{
    Way &way = next_.ways[record.object_lane % 8];
    if (run.profile[0] != record.number || !way.is_set || way.lane != record.object_lane ||
        way.bound > record.bound || record.object_place >= 1u << 23)
        return false;
    add(0xec00 | record.object_lane % 8 << 7 | record.object_place >> 16);
    add(record.object_place & 0xffff);
    add_number((record.bound - way.bound) * 128 + record.object_class);
    way.bound = record.bound;
    return true;
}

/* What follows the main operand, or the object. */
void RawWriter::add_operands(const RawRecord &record, bool with_size)
{
    const KindTraits &traits = kind_traits[record.kind];
    if (with_size && traits.sized) add_number(record.size);
    if (traits.aligned) add_number(record.alignment);
    if (record.number == 18) add_place(record);
}

void RawWriter::add_place(const RawRecord &record)
{
    if (record.implied && !random_.one_in(20)) {
        add_number(0);
        return;
    }
    add_number(record.place);
    add_number(record.place_class);
}

void RawWriter::encode_object(const RawRecord &record)
{
    if (record.unknown) {
        /* A large one has no place that a list could take; but what stays there does. */
        bool none = record.object_class == 0 && record.number != 19 && random_.one_in(2);
        add_number(none ? 0 : record.object_place);
        add_number(record.object_class);
        return;
    }
    if (record.object_lane == record.lane) {
        add_number(record.object_place);
        return;
    }
    add_number(record.object_lane);
    add_number(record.bound);
    add_number(record.object_place);
    add_number(record.object_class);
    next_.ways[record.object_lane % 8] = {true, record.object_lane, record.bound};
}

void RawWriter::encode_general(const RawRecord &record)
{
    uint64_t unit = 0xf000 | record.number;
    if (record.has_object && record.unknown)
        unit |= 0x80;
    else if (record.has_object && record.object_lane != record.lane)
        unit |= 0x40;
    add(unit);
    switch (record.number) {
    case kThreadBegin: add_number(record.size); return;
    case kThreadEnd:
    case kThreadCacheDeleted:
    case kCacheBegin: return;
    case kLost:
        add_number(record.size);
        add_number(record.alignment);
        return;
    case kClass:
    case kUncached:
        add_number(record.structure);
        add_number(record.size);
        return;
    case kCached:
        add_number(record.structure);
        add_number(record.places.size());
        add_number(record.places[0]);
        for (size_t i = 1; i < record.places.size(); i++)
            add_number(zigzag(int64_t{record.places[i]} - record.places[i - 1]));
        return;
    case kFailed: add_number(record.kind); break;
    default: break;
    }
    const KindTraits &traits = kind_traits[record.kind];
    if (traits.shape == kHeap) {
        add_number(record.count);
        if (record.count > 0) add_number(record.size);
        if (record.count > 1) add_number(record.alignment);
        return;
    }
    if (record.has_object) encode_object(record);
    add_operands(record, true);
    if (traits.shape == kAllocation && record.number != kFailed) add_place(record);
}

/* ---- runs into chunks ---- */

uint64_t RawWriter::cut(uint32_t number, bool all)
{
    Lane &l = lane(number);
    uint64_t pending = 0, out = 0;
    for (const Run &run : l.runs)
        pending += run.ends.size() - run.out;
    uint64_t wanted = all || pending == 0 ? pending : random_.below(pending + 1);
    for (Run &run : l.runs) {
        if (out < wanted && run.out < run.ends.size() && random_.one_in(50))
            chunk_of(number, run, 0);
        while (out < wanted && run.out < run.ends.size()) {
            uint64_t most = std::min<uint64_t>(run.ends.size() - run.out, wanted - out);
            uint64_t records = random_.one_in(3) ? random_.between(1, most) : most;
            chunk_of(number, run, records);
            out += records;
        }
    }
    return out;
}

void RawWriter::chunk_of(uint32_t number, Run &run, size_t records)
{
    std::string payload;
    size_t from = run.out == 0 ? 0 : run.ends[run.out - 1];
    size_t to = records == 0 ? from : run.ends[run.out + records - 1];
    int flags = 0;
    if (!run.begun) {
        run.begun = true;
        flags = 1 | (run.key ? 2 : 0);
        payload.assign(reinterpret_cast<const char *>(run.profile), sizeof run.profile);
    }
    if (options_.packed && !random_.one_in(8)) {
        flags |= 4;
        payload += packed(lanes_[number], run, from, to);
    } else {
        for (size_t i = from; i < to; i++)
            put(payload, run.units[i], 2);
        lanes_[number].packed_from =
            1 + (run.out + records == 0 ? run.first_allocation
                                        : run.allocations[run.out + records - 1]);
    }
    auto first = run.visible.begin() + static_cast<int64_t>(run.out);
    run.out += records;
    chunk(1, flags, number, payload, to - from, run.first_unit + from, run.first_allocation,
          std::count(first, first + static_cast<int64_t>(records), true));
}

/* FORMAT.md 5.5. Places are said by age where they can be, mostly. */
std::string RawWriter::packed(const Lane &lane, const Run &run, size_t from, size_t to)
{
    static const struct {
        int slot;
        uint64_t base, limit;
    } ages[] = {{0, 0xf7ff, 0x801}, {1, 0xf3ff, 0x201}, {2, 0xf5ff, 0x101}, {6, 0xf6ff, 0x101}};
    auto aged = std::lower_bound(run.aged.begin(), run.aged.end(), from,
                                 [](const Aged &a, size_t at) { return a.at < at; });
    bool by_age = !random_.one_in(4);
    std::string out;
    for (size_t i = from; i < to; i++) {
        if (aged == run.aged.end() || aged->at != i) {
            put_packed(out, run.units[i]);
            continue;
        }
        uint64_t age = aged->allocations + 1 - aged->serial;
        bool done = false;
        for (const auto &range : ages) {
            if (!by_age || range.slot != aged->slot || age >= range.limit ||
                aged->serial < lane.packed_from || random_.one_in(50))
                continue;
            if (options_.fault == kAge && age + 1 < range.limit) age++;
            put_packed(out, static_cast<unsigned>(range.base + age));
            i += aged->count - 1;
            done = true;
        }
        if (!done) put_packed(out, run.units[i]);
        aged++;
    }
    return out;
}

void RawWriter::put_packed(std::string &to, unsigned unit)
{
    static const struct {
        unsigned code, codes, base, step;
    } bytes_alone[] = {
        {0, 48, 0xf800, 1}, {48, 44, 0xa000, 8}, {92, 12, 0xf400, 1}, {104, 24, 0xc000, 8}};
    bool waste = random_.one_in(100);
    for (const auto &a : bytes_alone) {
        if (waste || unit < a.base || (unit - a.base) % a.step != 0 ||
            (unit - a.base) / a.step >= a.codes)
            continue;
        put(to, a.code + (unit - a.base) / a.step, 1);
        return;
    }
    if (unit < 256 && !waste) {
        put(to, 0xf3, 1);
        put(to, unit, 1);
        return;
    }
    if (unit >= 128 << 8 && unit < 255 << 8 && unit >> 8 != 0xf3 && !(waste && random_.one_in(2))) {
        put(to, unit >> 8, 1);
        put(to, unit, 1);
        return;
    }
    put(to, 255, 1);
    put(to, unit, 2);
}

void RawWriter::chunk(int type, int flags, uint32_t lane, const std::string &payload,
                      uint64_t units, uint64_t first, uint64_t first_allocation, int64_t visible)
{
    std::string header = "MTRC";
    put(header, static_cast<uint64_t>(type), 1);
    put(header, static_cast<uint64_t>(flags), 1);
    put(header, lane, 2);
    put(header, payload.size(), 4);
    put(header, units, 4);
    put(header, first, 8);
    put(header, first_allocation, 8);
    std::string whole = header + payload;
    put(header, bytes::checksum(whole), 4);
    stream_ += header + payload;
    boundaries_.push_back(stream_.size());
    chunks_ += std::to_string(stream_.size()) + " " + std::to_string(type) + " " +
               std::to_string(lane) + " " + std::to_string(visible) + "\n";
}

void RawWriter::tick(const Tick &tick)
{
    std::string payload;
    put_varint(payload, tick.nanoseconds);
    put_varint(payload, tick.rss);
    put_varint(payload, tick.heap);
    chunk(2, 0, 0, payload, 0, ticks_++, 0, 0);
    /* What a later version might add (4.2). */
    if (random_.one_in(50)) chunk(99, 0, 7, "whatever", 3, 5, 9, 0);
}

void RawWriter::end(uint32_t status, uint64_t nanoseconds, uint64_t events, uint64_t lost)
{
    std::string payload;
    for (uint64_t value : {uint64_t{status}, nanoseconds, events, lost, random_.of_bits(20),
                           random_.of_bits(40), uint64_t{lanes_.size()}})
        put_varint(payload, value);
    for (const Lane &l : lanes_) {
        uint64_t out = 0;
        for (const Run &run : l.runs)
            out = run.first_unit + (run.out == 0 ? 0 : run.ends[run.out - 1]);
        put_varint(payload, out);
    }
    chunk(3, 0, 0, payload, 0, ticks_, 0, 0);
}

bool RawWriter::break_off()
{
    if (boundaries_.size() == 1 && options_.end == 3 && random_.one_in(2)) {
        stream_.resize(random_.below(stream_.size()));
        boundaries_.clear();
        return false;
    }
    size_t before = stream_.size();
    std::string payload(random_.between(1, 300), 'x');
    chunk(1, 0, 0, payload, 1, 1, 1, 0);
    boundaries_.pop_back();
    stream_.resize(before + random_.below(stream_.size() - before));
    return true;
}

std::string RawWriter::file()
{
    if (!options_.frames) return stream_;
    std::string file;
    std::string buffer;
    size_t from = 0;
    for (size_t i = 0; from < stream_.size(); i++) {
        bool last = i >= boundaries_.size();
        size_t to = last ? stream_.size() : boundaries_[i];
        if (!last && !random_.one_in(8)) continue;
        if (random_.one_in(8)) { /* a skippable frame */
            put(file, 0x184d2a50 + random_.below(16), 4);
            put(file, 3, 4);
            file += "abc";
        }
        buffer.resize(LZ4F_compressFrameBound(to - from, nullptr));
        size_t size = LZ4F_compressFrame(&buffer[0], buffer.size(), stream_.data() + from,
                                         to - from, nullptr);
        file.append(buffer, 0, size);
        from = to;
    }
    return file;
}

/* ---- the spool ---- */

void RawWriter::slot(std::string &spool, uint32_t number, const Run &run)
{
    size_t start = spool.size();
    put(spool, 1, 4);
    put(spool, number, 4);
    put(spool, run.serial, 8);
    put(spool, run.first_allocation, 8);
    put(spool, run.first_unit, 8);
    spool.append(reinterpret_cast<const char *>(run.profile), sizeof run.profile);
    put(spool, run.key, 4);
    spool.append(20, '\0');
    for (uint16_t unit : run.units)
        put(spool, unit, 2);
    spool.resize(start + kSlotHeaderBytes + 2 * options_.slot_units);
    /* A record whose first unit was not stored yet. */
    if (run.units.size() + 4 <= options_.slot_units && random_.one_in(2))
        spool[start + kSlotHeaderBytes + 2 * run.units.size() + 2] = 'x';
}

std::string RawWriter::spool()
{
    std::string spool = "MTAPESPL";
    uint64_t slot_bytes = kSlotHeaderBytes + 2 * options_.slot_units;
    put(spool, 4, 2);
    put(spool, 0, 2);
    put(spool, slot_bytes, 4);
    spool += run_id_;
    put(spool, pid_, 4);
    put(spool, 0, 4);
    put(spool, options_.addresses, 8);
    put(spool, bytes::checksum(spool), 4);
    spool.resize(4096);
    std::vector<std::pair<uint32_t, const Run *>> slots;
    for (uint32_t number = 0; number < lanes_.size(); number++) {
        bool from_here = false; /* slots are freed in their order */
        for (const Run &run : lanes_[number].runs) {
            from_here = from_here || run.out < run.ends.size() || random_.one_in(2);
            if (from_here) slots.emplace_back(number, &run);
        }
    }
    for (size_t i = slots.size(); i > 1; i--)
        std::swap(slots[i - 1], slots[random_.below(i)]);
    for (const auto &one : slots) {
        if (random_.one_in(6)) /* a free one */
            spool.append(std::string(4, '\0') + std::string(slot_bytes - 4, 'z'));
        slot(spool, one.first, *one.second);
    }
    return spool;
}
