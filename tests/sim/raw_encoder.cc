#include "tests/sim/raw_encoder.h"

#include <algorithm>

#include "tests/sim/bytes.h"

using bytes::put;
using bytes::put_varint;
using bytes::zigzag;

namespace {

/* Slots of a profile (FORMAT.md 5.1), the first unit of their codes, and what the main operand is
 * less than (5.2). */
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

void RawEncoder::add_number(uint64_t value)
{
    while (value > 0x7fff) {
        add(0x8000 | (value & 0x7fff));
        value >>= 15;
    }
    add(value);
}

RawCode RawEncoder::encode(const RawSegment &segment, const RawRecord &record)
{
    code_.units.clear();
    code_.aged = RawAged();
    code_.placed = RawPlaced();
    code_.memory = segment.memory;
    if (record.number == kSequenceBefore || record.number == kSequenceAfter) {
        add((record.number == kSequenceBefore ? 0xf100 : 0xf200) + record.structure);
        add_number(record.size - segment.latest[record.structure]);
        return code_;
    }
    if (record.number == kAfter) {
        encode_after(record);
        return code_;
    }
    if (record.number == kStack && record.size < 1u << 24 && !chance(20)) {
        add(0xf300 + (record.size >> 16));
        add(record.size & 0xffff);
        return code_;
    }
    if (record.number == kDefine) {
        encode_definition(record);
        return code_;
    }
    encode_event(segment, record);
    if (opaque_) note_call(record);
    bool begins = record.number < 48 && (kind_traits[record.number].shape == kAllocation ||
                                         kind_traits[record.number].shape == kRealloc);
    if (!addresses_ || !begins) return code_;
    add_number(zigzag(static_cast<int64_t>(record.address / 8 - code_.memory.address)));
    code_.memory.address = record.address / 8;
    return code_;
}

void RawEncoder::append(RawSegment &segment, const RawRecord &record, const RawCode &code,
                        uint64_t allocations)
{
    if (code.aged.count != 0) {
        segment.aged.push_back(code.aged);
        segment.aged.back().at = segment.units.size();
        segment.aged.back().serial = record.object_serial;
        segment.aged.back().allocations = allocations;
    }
    segment.placed.push_back(code.placed);
    segment.placed.back().at = segment.units.size();
    segment.placed.back().count = code.units.size();
    segment.units.insert(segment.units.end(), code.units.begin(), code.units.end());
    segment.memory = code.memory;
    if (record.number == kSequenceBefore || record.number == kSequenceAfter)
        segment.latest[record.structure] = record.size;
}

void RawEncoder::encode_event(const RawSegment &segment, const RawRecord &record)
{
    Shape shape = record.number < 48 ? kind_traits[record.number].shape : kNoShape;
    if (chance(20) || record.form == RawRecord::kGeneral || shape == kNoShape || shape == kHeap)
        encode_general(record);
    else if (shape == kAllocation)
        encode_allocation(segment, record);
    else
        encode_ending(segment, record);
    if (code_.units.empty()) encode_general(record);
}

/* FORMAT.md 5.6: whom the lane comes after. */
void RawEncoder::encode_after(const RawRecord &record)
{
    RawMemory::Entry &entry = code_.memory.entries[record.after_lane % 8];
    bool known = entry.is_set && entry.lane == record.after_lane && entry.bound <= record.after;
    if (known && !chance(20)) {
        add(0xf100 + record.after_lane % 8 + 0x10 * record.of_realloc);
        add_number(record.after - entry.bound);
    } else {
        add(0xf108 + 0x10 * record.of_realloc);
        add_number(record.after_lane);
        add_number(record.after);
    }
    entry = {record.after_lane != 0 || record.after != 0, record.after_lane, record.after};
}

/* FORMAT.md 5.8: what is `kind`, and m is `count`. Codes and nodes begin with the number `size`. */
void RawEncoder::encode_definition(const RawRecord &record)
{
    add(0xf03f);
    add_number(record.kind + 8u * record.count);
    if (record.kind >= 4) {
        uint64_t &next = code_.memory.next[record.kind - 4];
        add_number(zigzag(static_cast<int64_t>(record.size - next)));
        next = record.size + record.count;
    }
    for (uint64_t number : record.numbers)
        add_number(number);
    for (uint32_t unit : record.places) /* two bytes of a text each */
        add(unit);
}

/* What it does to places. */
void RawEncoder::note_call(const RawRecord &record)
{
    RawPlaced &placed = code_.placed;
    Shape shape = record.number < 48 ? kind_traits[record.number].shape : kNoShape;
    placed.begins = shape == kAllocation || shape == kRealloc;
    placed.place = record.place;
    placed.size = record.size;
    placed.ends = (shape == kFree || record.number == 18) && !record.unknown &&
                  record.object_lane == record.lane;
    placed.ended = record.object_place;
}

/* Leaves no code when no unit of the profile fits. */
void RawEncoder::encode_allocation(const RawSegment &segment, const RawRecord &record)
{
    if (!record.implied && !opaque_) return;
    for (const Range &range : kAllocations) {
        if (segment.profile[range.slot] != record.number || record.size >= range.limit) continue;
        if (opaque_ && range.slot == 3 && record.size < 1279 && record.place < 1u << 21 &&
            !chance(4)) {
            uint64_t both = (record.size << 21) + record.place;
            add(1 + (both >> 16));
            add(both & 0xffff);
            add_operands(record, false);
            code_.placed.compact = true;
            return;
        }
        add(range.base + record.size);
        add_operands(record, false);
        if (!opaque_) return;
        code_.placed.place_at = code_.units.size();
        add(record.place & 0xffff);
        add(record.place >> 16);
        return;
    }
}

void RawEncoder::encode_ending(const RawSegment &segment, const RawRecord &record)
{
    if (record.unknown) return;
    if (record.object_lane != record.lane) {
        if (encode_foreign(segment, record)) add_operands(record, true);
        return;
    }
    const uint64_t place = record.object_place;
    bool is_realloc = kind_traits[record.number].shape == kRealloc;
    bool far = chance(20) || record.form == RawRecord::kFar;
    for (const Range &range : kFrees) {
        if (opaque_ || is_realloc || far || segment.profile[range.slot] != record.number ||
            place >= range.limit)
            continue;
        add_object_at(record, range.base, false, range.slot);
        return;
    }
    for (const Range &range : kFarFrees) {
        const Range &used = is_realloc ? kReallocs : range;
        if (segment.profile[used.slot] != record.number || place >= used.limit) continue;
        add_object_at(record, used.base, true, used.slot);
        return;
    }
}

/* The place of the lane's own object in one unit or two, and the rest of the record. */
void RawEncoder::add_object_at(const RawRecord &record, uint64_t base, bool far, int slot)
{
    add(base + (far ? record.object_place >> 16 : record.object_place));
    if (far) add(record.object_place & 0xffff);
    if (record.form == RawRecord::kShortest) {
        code_.aged.count = far ? 2 : 1;
        code_.aged.slot = slot;
    }
    add_operands(record, true);
}

/* By what the entry of its lane remembers. */
bool RawEncoder::encode_foreign(const RawSegment &segment, const RawRecord &record)
{
    RawMemory::Entry &entry = code_.memory.entries[record.object_lane % 8];
    if (segment.profile[0] != record.number || !entry.is_set || entry.lane != record.object_lane ||
        entry.bound > record.bound || record.object_place >= 1u << 23)
        return false;
    add(0xec00 | record.object_lane % 8 << 7 | record.object_place >> 16);
    add(record.object_place & 0xffff);
    uint64_t more = record.bound - entry.bound;
    add_number(opaque_ ? more : more * 128 + record.object_class);
    entry.bound = record.bound;
    return true;
}

/* What follows the main operand, or the object. */
void RawEncoder::add_operands(const RawRecord &record, bool with_size)
{
    const KindTraits &traits = kind_traits[record.kind];
    if (with_size && traits.sized) add_number(record.size);
    if (traits.aligned) add_number(record.alignment);
    if (record.number == 18) add_place(record);
}

void RawEncoder::add_place(const RawRecord &record)
{
    if (record.implied && !chance(20)) {
        add_number(0);
        return;
    }
    add_number(record.place);
    if (!opaque_) add_number(record.place_class);
}

void RawEncoder::encode_object(const RawRecord &record)
{
    if (record.unknown) {
        /* A large one has no place that a list could take; but what stays there does. */
        bool none = record.object_class == 0 && record.number != 19 && chance(2);
        add_number(none ? 0 : record.object_place);
        if (!opaque_) add_number(record.object_class);
        return;
    }
    if (record.object_lane == record.lane) {
        add_number(record.object_place);
        return;
    }
    add_number(record.object_lane);
    add_number(record.bound);
    add_number(record.object_place);
    if (!opaque_) add_number(record.object_class);
    code_.memory.entries[record.object_lane % 8] = {true, record.object_lane, record.bound};
}

void RawEncoder::encode_general(const RawRecord &record)
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
    case kStack: add_number(record.size); return;
    case kLost:
        add_number(record.size);
        add_number(record.alignment);
        return;
    case kClass:
    case kUncached:
        add_number(record.structure);
        add_number(record.size);
        return;
    case kInside:
        add_number(2 * record.structure + record.alignment);
        add_number(record.size);
        return;
    case kCached:
        add_number(record.structure);
        add_number(record.places.size());
        add_number(record.places[0]);
        for (size_t i = 1; i < record.places.size(); i++)
            add_number(zigzag(int64_t{record.places[i]} - record.places[i - 1]));
        return;
    case kPage:
        add_number(zigzag(static_cast<int64_t>(record.place - code_.memory.page_place)));
        add_number(zigzag(static_cast<int64_t>(record.address / 8 - code_.memory.page_address)));
        code_.memory.page_place = record.place;
        code_.memory.page_address = record.address / 8;
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

/* --- payloads --- */

std::string RawEncoder::plain(const RawSegment &segment, size_t from, size_t to)
{
    std::string out;
    for (size_t i = from; i < to; i++)
        put(out, segment.units[i], 2);
    return out;
}

std::string RawEncoder::pack(const RawSegment &segment, size_t from, size_t to,
                             uint64_t packed_from, bool wrong_ages)
{
    static const struct {
        int slot;
        uint64_t base, limit;
    } ages[] = {{0, 0xf7ff, 0x801}, {1, 0xf3ff, 0x201}, {2, 0xf5ff, 0x101}, {6, 0xf6ff, 0x101}};
    auto aged = std::lower_bound(segment.aged.begin(), segment.aged.end(), from,
                                 [](const RawAged &a, size_t at) { return a.at < at; });
    bool by_age = !chance(4);
    std::string out;
    for (size_t i = from; i < to; i++) {
        if (aged == segment.aged.end() || aged->at != i) {
            put_packed(out, segment.units[i]);
            continue;
        }
        uint64_t age = aged->allocations + 1 - aged->serial;
        bool done = false;
        for (const auto &range : ages) {
            if (!by_age || range.slot != aged->slot || age >= range.limit ||
                aged->serial < packed_from || chance(50))
                continue;
            if (wrong_ages && age + 1 < range.limit) age++;
            put_packed(out, static_cast<unsigned>(range.base + age));
            i += aged->count - 1;
            done = true;
        }
        if (!done) put_packed(out, segment.units[i]);
        aged++;
    }
    return out;
}

/* ---- places that packed chunks leave out ---- */

namespace {

uint32_t entry_of(uint32_t place)
{
    return place * UINT32_C(2654435761) / (1u << 18);
}

} // namespace

uint64_t RawPlaces::age(uint32_t place) const
{
    for (uint64_t age = 1; age <= latest_.size() && age <= 2048; age++)
        if (latest_[latest_.size() - age] == place) return age;
    return 0;
}

int RawPlaces::find(uint64_t size, uint32_t place) const
{
    auto list = lists_.find(step(size));
    if (step(size) < 0 || list == lists_.end()) return -1;
    for (size_t i = 0; i < 16 && i < list->second.size(); i++)
        if (list->second[i] == place) return static_cast<int>(i);
    return -1;
}

void RawPlaces::take(uint64_t size, int index)
{
    std::deque<uint32_t> &list = lists_[step(size)];
    list.erase(list.begin() + index);
}

void RawPlaces::begin(uint32_t place, uint64_t size)
{
    latest_.push_back(place);
    if (latest_.size() > 8192) latest_.erase(latest_.begin(), latest_.end() - 2048);
    sizes_[entry_of(place)] = {place, step(size)};
}

void RawPlaces::end(uint32_t place)
{
    auto known = sizes_.find(entry_of(place));
    if (known == sizes_.end() || known->second.first != place || known->second.second < 0) return;
    std::deque<uint32_t> &list = lists_[known->second.second];
    list.push_front(place);
    if (list.size() > 64) list.pop_back();
}

/* What stands before an allocation. */
void RawEncoder::pack_place(std::string &out, const RawPlaced &placed, RawPlaces &places,
                            bool wrong)
{
    int index = places.find(placed.size, placed.place);
    int64_t more = int64_t{placed.place} - places.last();
    if (index >= 0 && !chance(20)) {
        places.take(placed.size, index);
        if (wrong) index++;
        if (index > 0 || chance(10)) put_packed(out, 0xf200 + static_cast<unsigned>(index));
        return;
    }
    if (more >= -4096 && more < 4096 && !chance(20)) {
        put_packed(out, static_cast<unsigned>(0x9000 + more));
        return;
    }
    put_packed(out, 0xf210);
    uint64_t value = zigzag(more);
    for (; value > 0x7fff; value >>= 15)
        put_packed(out, 0x8000 | (value & 0x7fff));
    put_packed(out, static_cast<unsigned>(value));
}

std::string RawEncoder::pack_opaque(const RawSegment &segment, size_t from, size_t to,
                                    RawPlaces &places, bool wrong_lists)
{
    static const struct {
        unsigned first, units, age, limit;
    } ages[] = {{0xd800, 0x800, 0xf7ff, 0x801},
                {0xe000, 0x400, 0xf3ff, 0x201},
                {0xe400, 0x400, 0xf5ff, 0x101},
                {0xe800, 0x400, 0xf6ff, 0x101}};
    std::string out;
    places.round(segment.profile[7]);
    for (const RawPlaced &placed : segment.placed) {
        if (placed.at < from || placed.at >= to) continue;
        const size_t own = placed.at, end = placed.at + placed.count;
        size_t i = own;
        if (placed.compact) {
            pack_place(out, placed, places, wrong_lists);
            put_packed(out, 0xa000 + static_cast<unsigned>(placed.size));
            i += 2;
        } else if (placed.place_at != 0) {
            pack_place(out, placed, places, wrong_lists);
            while (i < placed.at + placed.place_at)
                put_packed(out, segment.units[i++]);
            i += 2;
        }
        for (const auto &range : ages) {
            if (placed.compact) break;
            uint64_t age = i == own ? places.age(placed.ended) : 0;
            unsigned unit = i == own ? segment.units[own] : 0;
            if (age == 0 || age >= range.limit || unit - range.first >= range.units || chance(50))
                continue;
            put_packed(out, static_cast<unsigned>(range.age + age));
            i += 2;
        }
        while (i < end)
            put_packed(out, segment.units[i++]);
        if (placed.begins) places.begin(placed.place, placed.size);
        if (placed.ends) places.end(placed.ended);
    }
    return out;
}

void RawEncoder::put_packed(std::string &to, unsigned unit)
{
    static const struct {
        unsigned code, codes, base, step;
    } bytes_alone[] = {
        {0, 48, 0xf800, 1}, {48, 44, 0xa000, 8}, {92, 12, 0xf400, 1}, {104, 24, 0xc000, 8}};
    bool waste = chance(100);
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
    if (unit >= 128 << 8 && unit < 255 << 8 && unit >> 8 != 0xf3 && !(waste && chance(2))) {
        put(to, unit >> 8, 1);
        put(to, unit, 1);
        return;
    }
    put(to, 255, 1);
    put(to, unit, 2);
}

/* --- what is around units --- */

std::string encode_stream_header(const RawStreamHeader &header)
{
    std::string out = "MTAPERAW";
    put(out, 4, 2);
    put(out, header.minor, 2);
    put(out, header.metadata.size(), 4);
    put(out, header.features, 8);
    put(out, header.info, 8);
    out += header.id;
    put(out, header.start_ns, 8);
    put(out, header.pid, 4);
    put(out, bytes::checksum(out + header.metadata), 4);
    return out + header.metadata;
}

std::string encode_chunk(int type, int flags, uint32_t lane, const std::string &payload,
                         uint64_t units, uint64_t first, uint64_t first_allocation)
{
    std::string header = "MTRC";
    put(header, static_cast<uint64_t>(type), 1);
    put(header, static_cast<uint64_t>(flags), 1);
    put(header, lane, 2);
    put(header, payload.size(), 4);
    put(header, units, 4);
    put(header, first, 8);
    put(header, first_allocation, 8);
    put(header, bytes::checksum(header + payload), 4);
    return header + payload;
}

std::string encode_end(const RawEnd &end)
{
    std::string payload;
    for (uint64_t value : {end.status, end.nanoseconds, end.events, end.lost, end.waits, end.waited,
                           uint64_t{end.lane_units.size()}})
        put_varint(payload, value);
    for (uint64_t units : end.lane_units)
        put_varint(payload, units);
    return payload;
}

std::string encode_spool_header(uint64_t slot_bytes, const std::string &id, uint32_t pid,
                                uint64_t features)
{
    std::string spool = "MTAPESPL";
    put(spool, 4, 2);
    put(spool, 0, 2);
    put(spool, slot_bytes, 4);
    spool += id;
    put(spool, pid, 4);
    put(spool, 0, 4);
    put(spool, features, 8);
    put(spool, bytes::checksum(spool), 4);
    spool.resize(4096);
    return spool;
}

std::string encode_spool_slot(const SpoolSlot &slot, uint64_t slot_bytes)
{
    std::string out;
    put(out, slot.state, 4);
    put(out, slot.lane, 4);
    put(out, slot.serial, 8);
    put(out, slot.first_allocation, 8);
    put(out, slot.first_unit, 8);
    out += slot.profile;
    put(out, slot.key, 4);
    out.resize(kSlotHeaderBytes);
    out += slot.units;
    out.resize(slot_bytes);
    return out;
}
