#include "tests/sim/raw_writer.h"

#include <algorithm>
#include <cstring>

#include <lz4frame.h>

#include "tests/sim/bytes.h"
#include "tests/sim/faults.h"

using bytes::put_varint;
using bytes::zigzag;

namespace {

constexpr size_t kSegmentsKept = 3;

} // namespace

RawWriter::RawWriter(const Options &options, Random &random)
    : options_(options), random_(random),
      encoder_(options.addresses != 0, &random, options.opaque != 0)
{
    header_.metadata = "program=/usr/bin/simulated\nallocator=model 1\nenv.MODEL_BATCH=" +
                       std::to_string(options.batch) + "\nseed=" + std::to_string(options.seed) +
                       "\n";
    header_.features = options.addresses + 2 * options.opaque + 4 * (options.stacks != 0) +
                       8 * (options.stacks > 1);
    header_.info = options.maps != 0;
    header_.id.clear();
    bytes::put(header_.id, random_.next(), 8);
    bytes::put(header_.id, random_.next(), 8);
    header_.pid = static_cast<uint32_t>(random_.between(1, 4000000));
    stream_ = encode_stream_header(header_);
    boundaries_.push_back(stream_.size());
}

RawWriter::Lane &RawWriter::lane(uint32_t number)
{
    if (number >= lanes_.size()) lanes_.resize(number + 1);
    return lanes_[number];
}

/* ---- records into segments ---- */

void RawWriter::write(const RawRecord &record)
{
    if (options_.stacks != 0) {
        bool takes_back = record.number == kThreadBegin || record.number == kLost;
        if (takes_back || (record.stack != 0 && random_.one_in(8)))
            put_stack(record.lane, static_cast<uint32_t>(random_.between(1, (1 << 28) - 1)));
        if (record.stack != 0) {
            define(record.lane, record.stack);
            put_stack(record.lane, record.stack);
        }
    }
    put(record);
}

uint32_t RawWriter::choose_stack()
{
    constexpr uint32_t kCodes = 300;
    if (random_.one_in(50)) return static_cast<uint32_t>(random_.between(1, 2)); /* cut at once */
    if (!nodes.empty() && !random_.one_in(8))
        return kFirstNode + static_cast<uint32_t>(random_.below(nodes.size()));
    uint64_t parent = random_.below(nodes.size() + 3);
    if (parent >= 3) parent += kFirstNode - 3;
    for (uint64_t more = random_.one_in(20) ? 40 : random_.between(1, 4); more > 0; more--) {
        nodes.push_back(
            {static_cast<uint32_t>(parent), static_cast<uint32_t>(random_.between(1, kCodes))});
        parent = kFirstNode + nodes.size() - 1;
    }
    return static_cast<uint32_t>(parent);
}

void RawWriter::put_stack(uint32_t lane, uint32_t node)
{
    RawRecord stack;
    stack.number = stack.kind = kStack;
    stack.lane = lane;
    stack.size = node;
    put(stack);
}

/* All that the stack needs and no lane has said. Nodes that follow each other come in one record,
 * as a rule. */
void RawWriter::define(uint32_t lane, uint32_t node)
{
    if (node < kFirstNode) return;
    node_defined_.resize(nodes.size());
    if (node_defined_[node - kFirstNode]) return;
    RawRecord made;
    made.number = kDefine;
    made.lane = lane;
    if (!module_defined_) {
        made.kind = 1;
        made.numbers = {1, 0x7f0000000000, 0x100000, zigzag(-4096)};
        put(made);
        made.kind = 3;
        made.numbers = {1, 3, 0};
        made.places = {0x612f, 0x0062}; /* "/ab" */
        put(made);
        made.places.clear();
        module_defined_ = true;
    }
    uint32_t first = node;
    define(lane, nodes[node - kFirstNode].parent);
    if (node_defined_[node - kFirstNode]) return; /* with its parent */
    code_defined_.resize(1000);
    uint32_t code = nodes[node - kFirstNode].code;
    if (!code_defined_[code]) {
        made.kind = 4;
        made.count = 1;
        made.size = code;
        made.numbers = {1, zigzag(int64_t{code} * 16)};
        put(made);
        code_defined_[code] = true;
    }
    made.kind = 5;
    made.count = 1;
    made.size = first;
    made.numbers = {first - nodes[first - kFirstNode].parent, code};
    /* Those that continue it, if their codes are known. */
    while (made.count < 16 && first + made.count - kFirstNode < nodes.size() &&
           !random_.one_in(6)) {
        const StackNode &next = nodes[first + made.count - kFirstNode];
        if (next.parent != first + made.count - 1u || !code_defined_[next.code] ||
            node_defined_[first + made.count - kFirstNode])
            break;
        made.numbers.push_back(next.code);
        made.count++;
    }
    for (uint32_t i = 0; i < made.count; i++)
        node_defined_[first + i - kFirstNode] = true;
    put(made);
}

void RawWriter::put(const RawRecord &record)
{
    Lane &l = lane(record.lane);
    if (l.segments.empty()) begin_segment(l);
    RawCode code = encoder_.encode(l.segments.back(), record);
    if (l.segments.back().units.size() + code.units.size() > options_.slot_units ||
        random_.one_in(4 * options_.slot_units)) {
        begin_segment(l);
        code = encoder_.encode(l.segments.back(), record);
    }
    Segment &segment = l.segments.back();
    RawEncoder::append(segment, record, code, l.allocations);
    segment.ends.push_back(static_cast<uint32_t>(segment.units.size()));
    segment.written.push_back(record.number < kStack);
    segment.visible.push_back(record.number != kSequenceBefore && record.number != kSequenceAfter &&
                              record.number < kAfter);
    l.units += code.units.size();
    l.allocations += record.allocations;
    segment.allocations.push_back(l.allocations);
    if (record.number < 48) l.kinds[record.number]++;
}

void RawWriter::begin_segment(Lane &lane)
{
    Segment segment;
    segment.serial = lane.segments_count++;
    segment.first_unit = lane.units;
    segment.first_allocation = lane.allocations;
    segment.key = segment.serial == 0 || ++lane.segments_since_key >= 16 || random_.one_in(5);
    if (segment.key)
        lane.segments_since_key = 0;
    else
        std::copy_n(lane.segments.back().latest, kStructures, segment.latest);
    choose_profile(lane, segment);
    while (lane.segments.size() >= kSegmentsKept &&
           lane.segments.front().out == lane.segments.front().ends.size())
        lane.segments.erase(lane.segments.begin());
    lane.segments.push_back(std::move(segment));
}

/* Mostly the frequent kinds, but any will do, and none. */
void RawWriter::choose_profile(const Lane &lane, Segment &segment)
{
    static const Shape shapes[] = {kFree,       kFree,       kFree,   kAllocation,
                                   kAllocation, kAllocation, kRealloc};
    for (int slot = 0; slot < 7; slot++) {
        if (random_.one_in(20)) continue;
        unsigned best = 0;
        for (unsigned kind = 1; kind < 45; kind++) {
            if (kind_traits[kind].shape != shapes[slot]) continue;
            bool taken =
                slot % 3 != 0 && memchr(segment.profile, static_cast<int>(kind), 7) != nullptr;
            if (best == 0 || (!taken && lane.kinds[kind] > lane.kinds[best]) || random_.one_in(40))
                best = kind;
        }
        segment.profile[slot] = static_cast<uint8_t>(best);
    }
    if (options_.opaque != 0) segment.profile[7] = static_cast<uint8_t>(random_.below(16));
}

/* ---- segments into chunks ---- */

uint64_t RawWriter::cut(uint32_t number, bool all)
{
    Lane &l = lane(number);
    uint64_t pending = 0, out = 0, written = 0;
    for (const Segment &segment : l.segments)
        pending += segment.ends.size() - segment.out;
    uint64_t wanted = all || pending == 0 ? pending : random_.below(pending + 1);
    for (Segment &segment : l.segments) {
        if (out < wanted && segment.out < segment.ends.size() && random_.one_in(50))
            chunk_of(number, segment, 0);
        while (out < wanted && segment.out < segment.ends.size()) {
            uint64_t most = std::min<uint64_t>(segment.ends.size() - segment.out, wanted - out);
            uint64_t records = random_.one_in(3) ? random_.between(1, most) : most;
            auto first = segment.written.begin() + static_cast<int64_t>(segment.out);
            written += static_cast<uint64_t>(
                std::count(first, first + static_cast<int64_t>(records), true));
            chunk_of(number, segment, records);
            out += records;
        }
    }
    return written;
}

void RawWriter::chunk_of(uint32_t number, Segment &segment, size_t records)
{
    std::string payload;
    size_t from = segment.out == 0 ? 0 : segment.ends[segment.out - 1];
    size_t to = records == 0 ? from : segment.ends[segment.out + records - 1];
    int flags = 0;
    if (!segment.begun) {
        segment.begun = true;
        flags = 1 | (segment.key ? 2 : 0);
        payload.assign(reinterpret_cast<const char *>(segment.profile), sizeof segment.profile);
    }
    Lane &l = lanes_[number];
    bool was_packed = l.packed;
    l.packed = options_.packed && !random_.one_in(8);
    if (l.packed && options_.opaque != 0) {
        if (!was_packed || (flags & 2) != 0) l.places = RawPlaces();
        flags |= 4;
        payload += encoder_.pack_opaque(segment, from, to, l.places, options_.fault == kListed);
    } else if (l.packed) {
        flags |= 4;
        payload +=
            encoder_.pack(segment, from, to, lanes_[number].packed_from, options_.fault == kAge);
    } else {
        payload += RawEncoder::plain(segment, from, to);
        lanes_[number].packed_from =
            1 + (segment.out + records == 0 ? segment.first_allocation
                                            : segment.allocations[segment.out + records - 1]);
    }
    auto first = segment.visible.begin() + static_cast<int64_t>(segment.out);
    segment.out += records;
    chunk(1, flags, number, payload, to - from, segment.first_unit + from, segment.first_allocation,
          std::count(first, first + static_cast<int64_t>(records), true));
}

void RawWriter::chunk(int type, int flags, uint32_t lane, const std::string &payload,
                      uint64_t units, uint64_t first, uint64_t first_allocation, int64_t visible)
{
    stream_ += encode_chunk(type, flags, lane, payload, units, first, first_allocation);
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
    for (uint64_t number : tick.usage)
        put_varint(payload, number);
    chunk(2, 0, 0, payload, 0, ticks_++, 0, 0);
    /* What a later version might add (4.2). */
    if (random_.one_in(50)) chunk(99, 0, 7, "whatever", 3, 5, 9, 0);
}

void RawWriter::passed(int type, const std::string &payload, uint64_t cells)
{
    chunk(type, 0, 0, payload, cells, type == 4 ? cells_ : 0, 0, 0);
    cells_ += cells;
}

void RawWriter::end(uint32_t status, uint64_t nanoseconds, uint64_t events, uint64_t lost)
{
    RawEnd end = {status, nanoseconds, events, lost, 0, 0, {}};
    end.waits = random_.of_bits(20);
    end.waited = random_.of_bits(40);
    for (const Lane &l : lanes_) {
        uint64_t out = 0;
        for (const Segment &segment : l.segments)
            out = segment.first_unit + (segment.out == 0 ? 0 : segment.ends[segment.out - 1]);
        end.lane_units.push_back(out);
    }
    chunk(3, 0, 0, encode_end(end), 0, ticks_, 0, 0);
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
            bytes::put(file, 0x184d2a50 + random_.below(16), 4);
            bytes::put(file, 3, 4);
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

void RawWriter::slot(std::string &spool, uint32_t number, const Segment &segment)
{
    SpoolSlot slot = {
        1,           number, segment.serial, segment.first_allocation, segment.first_unit, "",
        segment.key, ""};
    slot.profile.assign(reinterpret_cast<const char *>(segment.profile), sizeof segment.profile);
    slot.units = RawEncoder::plain(segment, 0, segment.units.size());
    size_t start = spool.size();
    spool += encode_spool_slot(slot, kSlotHeaderBytes + 2 * options_.slot_units);
    /* A record whose first unit was not stored yet. */
    if (segment.units.size() + 4 <= options_.slot_units && random_.one_in(2))
        spool[start + kSlotHeaderBytes + 2 * segment.units.size() + 2] = 'x';
}

std::string RawWriter::spool()
{
    uint64_t slot_bytes = kSlotHeaderBytes + 2 * options_.slot_units;
    std::string spool = encode_spool_header(slot_bytes, header_.id, header_.pid, header_.features);
    std::vector<std::pair<uint32_t, const Segment *>> slots;
    for (uint32_t number = 0; number < lanes_.size(); number++) {
        bool from_here = false; /* slots are freed in their order */
        for (const Segment &segment : lanes_[number].segments) {
            from_here = from_here || segment.out < segment.ends.size() || random_.one_in(2);
            if (from_here) slots.emplace_back(number, &segment);
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
