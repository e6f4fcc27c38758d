#include "tests/sim/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/faults.h"

static void check(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "simulate: the model is wrong: %s\n", what);
    abort();
}

Recorder::Lane &Recorder::lane(uint32_t number)
{
    if (number >= lanes_.size()) {
        lanes_.resize(number + 1);
        truth_.lanes.resize(number + 1);
    }
    return lanes_[number];
}

/* Into the truth; not yet into the stream. */
uint32_t Recorder::append(uint32_t number, const Record &record)
{
    uint32_t index = static_cast<uint32_t>(truth_.records.size());
    truth_.records.push_back(record);
    truth_.records.back().lane = static_cast<uint16_t>(number);
    truth_.lanes[number].push_back(index);
    if (lanes_[number].stopped) drop(truth_.records.back());
    return index;
}

/* It does not get into the stream. */
void Recorder::drop(Record &record)
{
    record.in_stream = false;
    if (record.begins != 0) truth_.objects[record.begins].recorded = false;
}

RawRecord Recorder::raw_of(uint32_t number, const Record &record, uint64_t allocations) const
{
    RawRecord raw;
    raw.number = record.number;
    raw.kind = record.number == kFailed ? record.kind : record.number;
    raw.count = record.count;
    raw.lane = number;
    raw.structure = record.structure;
    raw.size = record.size;
    raw.alignment = record.alignment;
    raw.has_object = record.has_object;
    raw.unknown = record.unknown;
    raw.allocations = allocations;
    raw.stack = record.stack;
    if (record.has_object) {
        const Object &ends = truth_.objects[record.ends];
        raw.object_lane = ends.lane;
        raw.object_serial = ends.serial;
        raw.bound = record.bound;
        raw.object_place = ends.place;
        raw.object_class = ends.place_class;
    }
    if (record.begins == 0) return raw;
    raw.address = truth_.objects[record.begins].address;
    raw.place = truth_.objects[record.begins].place;
    raw.place_class = truth_.objects[record.begins].place_class;
    raw.implied = record.implied && options_.opaque == 0;
    return raw;
}

void Recorder::write(uint32_t number, const Record &record, uint64_t allocations)
{
    if (lanes_[number].stopped) return;
    RawRecord raw = raw_of(number, record, allocations);
    if (options_.fault != kNoFault) spoil(raw);
    writer_.write(raw);
}

/* faults.h */
void Recorder::spoil(RawRecord &raw)
{
    bool foreign = raw.has_object && !raw.unknown && raw.object_lane != raw.lane;
    if (foreign && options_.fault == kBoundHigh) raw.bound++;
    if (foreign && options_.fault == kBoundLow && raw.bound > 1) raw.bound--;
    if (foreign && options_.fault == kLocal) raw.object_lane = raw.lane;
    if (foreign && options_.fault == kClassOfForeign && raw.object_class != 0) {
        for (uint32_t i = 1; i < kClasses; i++)
            if (i != raw.object_class && lanes_[raw.lane].announced[i]) {
                raw.object_class = i;
                break;
            }
    }
    if (raw.number == kAfter && options_.fault == kAfterLow && raw.after > 0) raw.after--;
    if (options_.fault == kImplied && raw.place_class != 0) raw.implied = true;
}

/* A record that only concerns the cache. */
void Recorder::say(uint32_t number, const RawRecord &raw)
{
    Record record;
    record.number = raw.number;
    append(number, record);
    if (!lanes_[number].stopped) writer_.write(raw);
}

void Recorder::thread_begin(uint32_t number, uint64_t thread)
{
    lane(number).cache_known = false;
    stop_losing(number);
    Record record;
    record.number = kThreadBegin;
    record.size = thread;
    append(number, record);
    write(number, record, 0);
}

void Recorder::thread_end(uint32_t number)
{
    stop_losing(number);
    Record record;
    record.number = kThreadEnd;
    append(number, record);
    write(number, record, 0);
}

void Recorder::thread_cache_deleted(uint32_t number)
{
    stop_losing(number);
    lane(number).cache_known = false;
    Record record;
    record.number = kThreadCacheDeleted;
    append(number, record);
    write(number, record, 0);
}

void Recorder::sequence(uint32_t number, bool before, uint32_t structure)
{
    if (!on) return;
    Lane &l = lane(number);
    /* What is lost takes no number, nor does a thread that has seen that recording is over. */
    if (l.losing || (l.stopped && random_.one_in(2))) return;
    if (random_.one_in(8)) inside(number, before, structure);
    uint64_t sequence = ++next_sequence_[structure];
    Record record;
    record.number = before ? kSequenceBefore : kSequenceAfter;
    record.structure = structure;
    record.size = sequence;
    append(number, record);
    write(number, record, 0);
}

/* The thread waited to enter the structure, or the allocator did something that has bytes. */
void Recorder::inside(uint32_t number, bool before, uint32_t structure)
{
    RawRecord raw;
    raw.number = kInside;
    raw.lane = number;
    raw.structure = random_.one_in(2) ? structure : random_.between(256, 261);
    raw.alignment = before ? 0 : 1;
    raw.size = random_.between(0, 100000);
    say(number, raw);
}

void Recorder::know_object(Record &record)
{
    const Object &ends = truth_.objects[record.ends];
    record.unknown = ends.serial == 0 || ends.lost;
    record.bound = lane(ends.lane).allocations;
}

/* ---- opaque streams ---- */

/* The granules of an object's bytes, at least one, from the first. */
Recorder::Granules Recorder::granules_of(ObjectId id)
{
    const Object &object = truth_.objects[id];
    uint64_t first = (object.address - (uint64_t{1} << 40)) / 8;
    uint64_t end = first + std::max<uint64_t>(1, (object.bytes + 7) / 8);
    if (end > owners_.size()) owners_.resize(std::max<uint64_t>(end, 2 * owners_.size()));
    return {first, end};
}

/* The lane has the bytes of the object from now on; 0: nobody. */
void Recorder::take_bytes(ObjectId id, uint32_t owner)
{
    Granules of = granules_of(id);
    std::fill(owners_.begin() + static_cast<int64_t>(of.first),
              owners_.begin() + static_cast<int64_t>(of.end), owner);
}

void Recorder::announce(uint32_t number, Record &record)
{
    Lane &l = lane(number);
    l.announced_on = on;
    if (!on) return;
    know_object(record);
    l.ending = l.allocations + 1;
    l.ending_granules = granules_of(record.ends);
    take_bytes(record.ends, number + 1);
}

/* Whether the call is recorded: a realloc is if it was when it began. */
bool Recorder::end_announcement(Lane &l, const Record &record)
{
    bool announced = options_.opaque != 0 && record.has_object && record.begins != 0;
    if (!announced) return on;
    l.ending_granules = {0, 0};
    return l.announced_on;
}

/* Whom what begins comes after: who had some of its bytes last. A realloc that is on the way may
 * have given them up, and is meant then. */
void Recorder::find_after(uint32_t number, Record &record)
{
    Granules of = granules_of(record.begins);
    if (options_.fault == kFirstOnly) of.end = of.first + 1;
    for (uint64_t at = of.first; at < of.end; at++) {
        uint32_t owner = owners_[at];
        if (owner == 0 || owner == number + 1) continue;
        const Lane &other = lanes_[owner - 1];
        bool is_ending = at >= other.ending_granules.first && at < other.ending_granules.end;
        After after = {owner - 1, is_ending ? other.ending : other.allocations};
        bool is_new = true;
        for (After &known : record.after)
            if (known.lane == after.lane) {
                known.calls = std::max(known.calls, after.calls);
                is_new = false;
            }
        if (is_new && options_.fault != kAfterDropped) record.after.push_back(after);
    }
}

/* Where the places of an object's page are, the first time. */
void Recorder::tell_page(uint32_t number, const Object &object)
{
    uint64_t in_page = object.address % kPageBytes;
    RawRecord raw;
    raw.number = kPage;
    raw.lane = number;
    raw.place = object.place - static_cast<uint32_t>(in_page / 16);
    raw.address = object.address - in_page + in_page % 16;
    if (lanes_[number].stopped || !pages_.insert(raw.place).second) return;
    say(number, raw);
}

/* What find_after() found, before the record. */
void Recorder::tell_after(uint32_t number, const Record &record)
{
    for (const After &after : record.after) {
        RawRecord raw;
        raw.number = kAfter;
        raw.lane = number;
        raw.after_lane = after.lane;
        raw.after = after.calls;
        raw.of_realloc = record.has_object;
        if (options_.fault != kNoFault) spoil(raw);
        say(number, raw);
    }
}

void Recorder::call(uint32_t number, Record record)
{
    Lane &l = lane(number);
    const bool opaque = options_.opaque != 0;
    bool recorded = end_announcement(l, record);
    if (opaque && record.begins != 0 && (!recorded || l.losing)) take_bytes(record.begins, 0);
    if (!recorded) {
        cache_deleted(number);
        return;
    }
    calls++;
    const bool frees = record.has_object && record.begins == 0;
    if (options_.stacks != 0 && calls % 7 != 0 &&
        (record.begins != 0 || record.number == kFailed || (options_.stacks > 1 && frees)))
        record.stack = writer_.choose_stack();
    bool announced = opaque && record.has_object && record.begins != 0;
    if (record.has_object && !announced) know_object(record);
    if (opaque && !l.losing && record.begins != 0) {
        tell_page(number, truth_.objects[record.begins]);
        find_after(number, record);
        tell_after(number, record);
    }
    if (opaque && !l.losing && record.number != kFailed &&
        (record.begins != 0 || record.has_object))
        take_bytes(record.begins != 0 ? record.begins : record.ends, number + 1);
    bool counted = counts(record, opaque);
    l.allocations += counted;
    if (record.begins != 0) {
        Object &object = truth_.objects[record.begins];
        object.lane = number;
        object.serial = l.allocations;
        object.recorded = !l.losing;
        object.lost = l.losing;
    }
    if (l.losing) {
        l.lost_events++;
        l.lost_allocations += counted;
        return;
    }
    if (!opaque) tell_call(number, record);
    append(number, record);
    write(number, record, counted);
    if (!opaque) follow(l, record);
}

/* ---- caches ---- */

void Recorder::announce_class(uint32_t number, uint32_t structure)
{
    Lane &l = lanes_[number];
    if (structure == 0 || (l.announced[structure] && !random_.one_in(500))) return;
    l.announced[structure] = true;
    RawRecord raw;
    raw.number = kClass;
    raw.lane = number;
    raw.structure = structure;
    raw.size = class_bytes_[structure];
    say(number, raw);
}

/* Before a record says the place with its class. */
void Recorder::tell_place(uint32_t number, uint32_t place, uint32_t structure)
{
    announce_class(number, structure);
    lanes_[number].blocks.insert(place / 64);
}

/* Which of its forms FORMAT.md 5.2 allows, and what classes it will mention. */
void Recorder::tell_call(uint32_t number, Record &record)
{
    Lane &l = lanes_[number];
    if (record.has_object) {
        const Object &ends = truth_.objects[record.ends];
        /* Where a lane says no class, it has said it before. */
        check(record.unknown || ends.lane != number || l.blocks.count(ends.place / 64) != 0,
              "a lane has a place that it never took");
        if (ends.lane != number || record.unknown) tell_place(number, ends.place, ends.place_class);
    }
    record.implied = record.implied && l.cache_known;
    if (record.begins == 0 || record.number == 19) return;
    const Object &begins = truth_.objects[record.begins];
    tell_place(number, begins.place, begins.place_class);
}

/* What a reader does with it. */
void Recorder::follow(Lane &l, const Record &record)
{
    if (!l.cache_known || record.number == kFailed || record.number == 19) return;
    if (record.begins != 0) {
        const Object &begins = truth_.objects[record.begins];
        std::deque<uint32_t> &list = l.lists[begins.place_class];
        bool first = !list.empty() && list.front() == begins.place;
        check(first || !record.implied || options_.fault != kNoFault, "a cache is no stack");
        if (first) list.pop_front();
    }
    if (!record.has_object) return;
    const Object &ends = truth_.objects[record.ends];
    if (ends.place_class != 0) l.lists[ends.place_class].push_front(ends.place);
}

bool Recorder::wants_cache(uint32_t number)
{
    const Lane &l = lane(number);
    return options_.opaque == 0 && speaks(l) &&
           (l.cache_known ? random_.one_in(2000) : random_.one_in(3));
}

void Recorder::cache_begin(uint32_t number, const Allocator &allocator, const ThreadCache &cache)
{
    Lane &l = lane(number);
    if (!speaks(l)) return;
    RawRecord raw;
    raw.number = kCacheBegin;
    raw.lane = number;
    say(number, raw);
    l.cache_known = true;
    for (std::deque<uint32_t> &list : l.lists)
        list.clear();
    for (uint32_t i = 0; i < cache.lists.size(); i++) {
        const std::vector<Place> &places = cache.lists[i].places;
        if (places.empty()) continue;
        cached(number, allocator.structure(i), {places.rbegin(), places.rend()});
    }
}

void Recorder::cache_deleted(uint32_t number)
{
    if (number < lanes()) lanes_[number].cache_known = false;
}

/* What happens to a cache while its thread says nothing is not known. */
bool Recorder::cache_is_known(uint32_t number)
{
    if (number >= lanes()) return false;
    Lane &l = lanes_[number];
    l.cache_known = l.cache_known && speaks(l);
    return l.cache_known;
}

void Recorder::cached(uint32_t number, uint32_t structure, const std::vector<Place> &places)
{
    if (!cache_is_known(number)) return;
    Lane &l = lanes_[number];
    announce_class(number, structure);
    RawRecord raw;
    raw.number = kCached;
    raw.lane = number;
    raw.structure = structure;
    uint64_t most = random_.one_in(3) ? random_.between(1, 16) : 16;
    for (size_t i = 0; i < places.size(); i++) {
        tell_place(number, places[i].number, structure);
        l.lists[structure].push_back(places[i].number);
        raw.places.push_back(places[i].number);
        if (raw.places.size() < most && i + 1 < places.size()) continue;
        if (options_.fault == kReversed) std::reverse(raw.places.begin(), raw.places.end());
        if (options_.fault != kNotCached || !random_.one_in(10)) say(number, raw);
        raw.places.clear();
    }
}

void Recorder::uncached(uint32_t number, uint32_t structure, uint64_t count)
{
    if (!cache_is_known(number)) return;
    Lane &l = lanes_[number];
    std::deque<uint32_t> &list = l.lists[structure];
    check(count <= list.size() || options_.fault != kNoFault, "less is cached than leaves");
    RawRecord raw;
    raw.number = kUncached;
    raw.lane = number;
    raw.structure = structure;
    while (count > 0) {
        raw.size = random_.one_in(4) ? random_.between(1, count) : count;
        count -= raw.size;
        list.erase(list.begin(),
                   list.begin() + static_cast<int64_t>(std::min<uint64_t>(raw.size, list.size())));
        if (options_.fault == kUncachedMore && !list.empty()) raw.size++;
        if (options_.fault != kNotUncached) say(number, raw);
    }
}

/* ---- losses ---- */

/* A `lost` record tells of what its thread did from here on, and nothing that it still says lies in
 * between: so this is where it stands in the true order, though it is written at the end. */
void Recorder::start_losing(uint32_t number)
{
    Lane &l = lane(number);
    if (l.losing || l.stopped) return;
    Record record;
    record.number = kLost;
    l.lost_index = append(number, record);
    l.losing = true;
    l.cache_known = false;
    l.lost_events = l.lost_allocations = 0;
}

void Recorder::stop_losing(uint32_t number)
{
    Lane &l = lane(number);
    if (!l.losing) return;
    l.losing = false;
    Record &lost = truth_.records[l.lost_index];
    lost.size = l.lost_events;
    lost.alignment = l.lost_allocations;
    if (!l.stopped) truth_.lost_events += l.lost_events;
    if (l.lost_events > 0)
        write(number, lost, l.lost_allocations);
    else
        drop(lost);
}

void Recorder::stop(uint32_t number)
{
    Lane &l = lane(number);
    if (l.stopped) return;
    stop_losing(number);
    l.stopped = true;
}

void Recorder::cut(uint32_t number, bool all)
{
    Lane &l = lane(number);
    uint64_t out = writer_.cut(number, all);
    if (truth_.has_end) mapper_.flush();
    uint32_t window = static_cast<uint32_t>(truth_.ticks.size());
    while (out > 0) {
        Record &record = truth_.records[truth_.lanes[number][l.chunked++]];
        if (!record.in_stream) continue; /* nothing was lost after all */
        record.window = window;
        out--;
    }
}

void Recorder::maybe_map(uint32_t number)
{
    mapper_.step(number, number < lanes_.size() ? lanes_[number].allocations : 0);
}

void Recorder::tick(const Tick &tick)
{
    mapper_.flush();
    writer_.tick(tick);
    truth_.ticks.push_back(tick);
}

void Recorder::finish(uint64_t nanoseconds)
{
    truth_.has_end = options_.end != 2 && options_.end != 3;
    uint32_t window = static_cast<uint32_t>(truth_.ticks.size());
    for (uint32_t number = 0; number < lanes(); number++) {
        Lane &l = lanes_[number];
        if (options_.end != 2) stop_losing(number);
        if (truth_.has_end) cut(number, true);
        std::vector<uint32_t> &records = truth_.lanes[number];
        for (size_t i = l.chunked; i < records.size(); i++) {
            Record &record = truth_.records[records[i]];
            if (options_.end == 3)
                record.window = window;
            else
                drop(record);
        }
    }
    for (uint32_t number = 0; options_.end == 2 && number < lanes(); number++)
        for (uint32_t index : truth_.lanes[number]) {
            const Record &record = truth_.records[index];
            if (record.number == kLost && !record.in_stream) truth_.lost_events -= record.size;
        }
    truth_.end_status = options_.end == 4 ? static_cast<uint32_t>(options_.seed % 3) : 0;
    uint64_t events = 0;
    for (const Record &record : truth_.records)
        events += record.in_stream && is_call(record);
    if (truth_.has_end)
        writer_.end(truth_.end_status, nanoseconds, events, truth_.lost_events);
    else if (random_.one_in(2))
        truth_.has_header = writer_.break_off();
}
