#include "tests/sim/recorder.h"

#include <algorithm>

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

void Recorder::write(uint32_t number, const Record &record, uint64_t births)
{
    if (lanes_[number].stopped) return;
    RawRecord raw;
    raw.number = record.number;
    raw.kind = record.number == kFailed ? record.kind : record.number;
    raw.count = record.count;
    raw.lane = number;
    raw.structure = record.structure;
    raw.size = record.size;
    raw.alignment = record.alignment;
    raw.has_object = record.has_object;
    raw.births = births;
    if (record.has_object) {
        raw.object_lane = truth_.objects[record.ends].lane;
        raw.serial = truth_.objects[record.ends].serial;
    }
    if (record.begins != 0) raw.address = truth_.objects[record.begins].address;
    writer_.write(raw);
}

void Recorder::thread_begin(uint32_t number, uint64_t thread)
{
    lane(number);
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
    Record record;
    record.number = kThreadCacheDeleted;
    append(number, record);
    write(number, record, 0);
}

void Recorder::stamp(uint32_t number, bool before, uint32_t structure)
{
    if (!on) return;
    Lane &l = lane(number);
    /* A thread that has seen that recording is over takes no number. */
    if (l.stopped && random_.one_in(2)) return;
    uint64_t stamp = ++next_stamp_[structure];
    if (l.losing) {
        l.lost_stamps.push_back({structure, stamp});
        return;
    }
    Record record;
    record.number = before ? kStampBefore : kStampAfter;
    record.structure = structure;
    record.size = stamp;
    append(number, record);
    write(number, record, 0);
}

void Recorder::call(uint32_t number, Record record)
{
    if (!on) return;
    Lane &l = lane(number);
    calls++;
    if (record.begins != 0) {
        Object &object = truth_.objects[record.begins];
        object.lane = number;
        object.serial = ++l.births;
        object.recorded = !l.losing;
    }
    if (l.losing) {
        l.lost_events++;
        l.lost_births += record.begins != 0;
        return;
    }
    append(number, record);
    write(number, record, record.begins != 0);
}

/* A `lost` record tells of what its thread did from here on, and nothing that it still says lies in between: so this is
 * where it stands in the true order, though it is written at the end. */
void Recorder::start_losing(uint32_t number)
{
    Lane &l = lane(number);
    if (l.losing || l.stopped) return;
    Record record;
    record.number = kLost;
    l.lost_index = append(number, record);
    l.losing = true;
    l.lost_events = l.lost_births = 0;
    l.lost_stamps.clear();
}

void Recorder::stop_losing(uint32_t number)
{
    Lane &l = lane(number);
    if (!l.losing) return;
    l.losing = false;
    Record &lost = truth_.records[l.lost_index];
    lost.size = l.lost_events;
    lost.alignment = l.lost_births;
    if (!l.stopped) truth_.lost_events += l.lost_events;
    if (l.lost_events > 0)
        write(number, lost, l.lost_births);
    else
        drop(lost);
    std::sort(
        l.lost_stamps.begin(), l.lost_stamps.end(), [](const LostStamp &a, const LostStamp &b) {
            return a.structure != b.structure ? a.structure < b.structure : a.number < b.number;
        });
    for (size_t i = 0; i < l.lost_stamps.size();) {
        Record record;
        record.number = kLostStamps;
        record.structure = l.lost_stamps[i].structure;
        record.size = l.lost_stamps[i].number;
        for (; i < l.lost_stamps.size() && l.lost_stamps[i].structure == record.structure &&
               l.lost_stamps[i].number == record.size + record.alignment;
             i++)
            record.alignment++;
        append(number, record);
        write(number, record, 0);
    }
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
    uint32_t window = static_cast<uint32_t>(truth_.ticks.size());
    while (out > 0) {
        Record &record = truth_.records[truth_.lanes[number][l.chunked++]];
        if (!record.in_stream) continue; /* nothing was lost after all */
        record.window = window;
        out--;
    }
}

void Recorder::tick(const Tick &tick)
{
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
            if (record.number == kLost && record.size > 0 && !record.in_stream &&
                !lanes_[number].losing)
                truth_.lost_events -= record.size;
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
