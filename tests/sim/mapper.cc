#include "tests/sim/mapper.h"

#include <algorithm>

#include "tests/sim/bytes.h"

namespace {

constexpr uint64_t kHasFailed = 16, kOwn = 32, kFile = 64, kLane = 128;
constexpr uint64_t kUnmap = 2, kDetach = 8, kBreak = 9, kAreLost = 10, kFound = 11, kTouched = 12;
constexpr uint64_t kLargeBytes = 262144; /* 64 pages */

} // namespace

/* Of few pages, so that many calls are about the same ones. */
Passed Mapper::record(uint32_t lane, uint64_t calls)
{
    const uint64_t what = random_.between(1, kAreLost);
    uint64_t flags = (random_.one_in(8) ? kHasFailed : 0) + (random_.one_in(4) ? kOwn : 0);
    Passed one;
    if (what == kAreLost) {
        one.numbers = {what, 0, 0, random_.between(1, 100), 0, 0, 0};
        return one;
    }
    if (random_.one_in(2)) flags += kLane;
    if (what < kDetach && random_.one_in(6)) flags += kFile;
    uint64_t address = 0x10000000 + 4096 * random_.below(8), length = 4096 * random_.below(4);
    if (random_.one_in(10)) address = random_.of_bits(64);
    if (random_.one_in(10)) length = random_.of_bits(64);
    if (what == kDetach || what == kBreak) length = 0;
    one.numbers = {what + flags,     random_.between(1, 3), address, length,
                   random_.below(8), random_.of_bits(32),   0};
    if ((flags & kLane) != 0) one.numbers.insert(one.numbers.end(), {lane, calls});
    if ((flags & kFile) == 0) return one;
    one.name.assign(random_.one_in(3) ? 0 : random_.of_bits(8), 'n');
    one.numbers.insert(one.numbers.end(), {random_.of_bits(40), random_.of_bits(20),
                                           random_.of_bits(40), one.name.size()});
    return one;
}

Passed Mapper::residency()
{
    Passed one;
    one.is_residency = true;
    const uint64_t areas = random_.below(3);
    for (uint64_t number :
         {random_.of_bits(40), random_.below(4) + 8 * random_.below(2), uint64_t{4096}, areas})
        bytes::put_varint(one.name, number);
    for (uint64_t i = 0; i < areas; i++)
        for (uint64_t number :
             {uint64_t{3}, random_.of_bits(20), uint64_t{2}, uint64_t{8}, uint64_t{8}, uint64_t{8},
              uint64_t{8}, uint64_t{0}, uint64_t{0}, uint64_t{0}, uint64_t{0}})
            bytes::put_varint(one.name, number);
    return one;
}

/* Which pages of a large object were resident: of another object of its size, which no lane has made, so
 * that the latest such record counts for all objects of the size. False: there was no large one lately. */
bool Mapper::touched(uint32_t lane, Passed &one)
{
    const std::vector<Record> &records = truth_.records;
    for (size_t i = records.size(); i > 0 && records.size() - i < 200; i--) {
        const Record &made = records[i - 1];
        if (made.begins == 0 || made.size < kLargeBytes) continue;
        uint64_t resident = 0;
        for (uint64_t runs = random_.between(1, 3); runs > 0; runs--) {
            one.runs.insert(one.runs.end(), {random_.below(9), random_.between(1, 9)});
            resident += one.runs.back();
        }
        for (uint64_t number : one.runs)
            bytes::put_varint(one.name, number);
        one.numbers = {kTouched + kFile + kLane,
                       random_.between(1, 3),
                       0,
                       made.size,
                       0,
                       0,
                       0,
                       lane,
                       (uint64_t{1} << 30) + looks_++,
                       resident,
                       0,
                       0,
                       one.name.size()};
        return true;
    }
    return false;
}

void Mapper::step(uint32_t lane, uint64_t calls)
{
    if (options_.maps == 0 || !random_.one_in(options_.maps)) return;
    if (!begun_) {
        begun_ = true;
        Passed found;
        found.numbers = {kFound, 0, 0x20000000, 8192, 3, 0, 0};
        put(found);
        flush();
    }
    Passed look;
    if (random_.one_in(4) && touched(lane, look))
        pending_.push_back(look);
    else
        put(random_.one_in(10) ? residency() : record(lane, calls));
    if (random_.one_in(8)) flush();
}

/* An unmap that failed says that the latest one of its thread, of the same pages, was in vain. */
void Mapper::put(const Passed &one)
{
    pending_.push_back(one);
    if (one.is_residency || one.numbers[0] % kHasFailed != kUnmap ||
        (one.numbers[0] & kHasFailed) == 0)
        return;
    const auto voids = [&](Passed &earlier) {
        if (earlier.numbers[0] % kHasFailed != kUnmap || (earlier.numbers[0] & kHasFailed) != 0 ||
            earlier.is_void ||
            !std::equal(one.numbers.begin() + 1, one.numbers.begin() + 4,
                        earlier.numbers.begin() + 1))
            return false;
        earlier.is_void = true;
        return true;
    };
    for (size_t i = pending_.size() - 1; i > 0; i--)
        if (pending_[i - 1].is_residency || voids(pending_[i - 1])) return;
    for (size_t i = truth_.passed.size(); i > 0; i--) {
        Passed &earlier = truth_.passed[i - 1];
        if (earlier.window != truth_.ticks.size() || earlier.is_residency || voids(earlier)) return;
    }
}

void Mapper::flush()
{
    std::string payload;
    uint64_t latest = 0, records = 0;
    const auto end_chunk = [&] {
        if (records > 0) writer_.passed(4, payload, records);
        payload.clear();
        latest = records = 0;
    };
    for (Passed &one : pending_) {
        one.window = static_cast<uint32_t>(truth_.ticks.size());
        if (one.is_touched())
            truth_.touched[one.numbers[3]] = one.runs;
        else
            truth_.passed.push_back(one);
        if (one.is_residency || random_.one_in(10)) end_chunk();
        if (one.is_residency) {
            writer_.passed(5, one.name, 0);
            continue;
        }
        for (size_t i = 0; i < one.numbers.size(); i++)
            bytes::put_varint(payload,
                              i == 2 ? bytes::zigzag(static_cast<int64_t>(one.numbers[i] - latest))
                                     : one.numbers[i]);
        payload += one.name;
        latest = one.numbers[2];
        records++;
    }
    end_chunk();
    pending_.clear();
}
