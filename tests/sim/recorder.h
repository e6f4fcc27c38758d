/* recorder - what of a simulated program is recorded, and how it goes into the raw stream.
 *
 *   Program --calls, sequence numbers--> Recorder --Record--> Truth
 *                                  \------RawRecord--> RawWriter
 *
 * Gives objects their serials, ends their bounds and sequence numbers their numbers. Recording may
 * be off (before it begins, in a pause), a lane may lose what it says for a while, and at the end
 * the last words of some lanes may be missing. Then objects and numbers are unknown to the stream
 * just as FORMAT.md says.
 *
 * Follows the cache of each lane as a reader of the stream does (FORMAT.md 2.6). Where the model's
 * own caches are not like that, the model is wrong, and the process ends. */
#ifndef TESTS_SIM_RECORDER_H
#define TESTS_SIM_RECORDER_H

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "tests/sim/allocator.h"
#include "tests/sim/mapper.h"
#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_writer.h"
#include "tests/sim/truth.h"

class Recorder {
  public:
    Recorder(const Options &options, Random &random, RawWriter &writer, Truth &truth)
        : options_(options), random_(random), writer_(writer), truth_(truth),
          mapper_(options, writer, truth)
    {
    }

    bool on = true;     /* whether calls are recorded */
    uint64_t calls = 0; /* recorded so far, lost ones included */

    void thread_begin(uint32_t lane, uint64_t thread);
    void thread_end(uint32_t lane);
    void thread_cache_deleted(uint32_t lane);
    void sequence(uint32_t lane, bool before, uint32_t structure);
    /* A call that was carried out: what it ended or began is known by its shape. `record` has
     * everything but lane, bound and number of windows. */
    void call(uint32_t lane, Record record);

    /* A realloc of an opaque allocator begins, whose record will be this: what is known before. */
    void announce(uint32_t lane, Record &record);

    /* Bytes of objects by class (Allocator::bytes_by_structure()). */
    void know_classes(const std::vector<uint64_t> &bytes) { class_bytes_ = bytes; }
    /* Whether the stream has to be told what is in the thread's cache. */
    bool wants_cache(uint32_t lane);
    /* What is in it, between calls: for each class of `allocator`, as ThreadCache has it. */
    void cache_begin(uint32_t lane, const Allocator &allocator, const ThreadCache &cache);
    /* Places came into the cache, behind what was there; the first of them will be the first to be
     * taken. */
    void cached(uint32_t lane, uint32_t structure, const std::vector<Place> &places);
    /* So many of those that would be taken first have left it. */
    void uncached(uint32_t lane, uint32_t structure, uint64_t count);
    void inside(uint32_t lane, bool before, uint32_t structure);
    void cache_deleted(uint32_t lane);

    /* A part of what the lane has said goes into the stream. */
    void cut(uint32_t lane, bool all);
    /* The thread of the lane does perhaps something to the address space. */
    void maybe_map(uint32_t lane);
    void tick(const Tick &tick);
    void start_losing(uint32_t lane);
    void stop_losing(uint32_t lane);
    /* From now on what the lane says does not get into the stream. */
    void stop(uint32_t lane);

    /* The stream ends as options.end says. */
    void finish(uint64_t nanoseconds);

    uint32_t lanes() const { return static_cast<uint32_t>(lanes_.size()); }

  private:
    struct Granules {
        uint64_t first, end;
    };
    struct Lane {
        uint64_t allocations = 0; /* of an opaque stream calls */
        uint64_t ending = 0;      /* so many calls, with the one that is ending an object */
        Granules ending_granules = {0, 0}; /* that it may give up */
        bool announced_on = false;         /* whether that one is recorded */
        size_t chunked = 0;                /* of its records, in the stream */
        bool stopped = false, losing = false;
        uint32_t lost_index = 0; /* of the `lost` record */
        uint64_t lost_events = 0, lost_allocations = 0;
        /* As a reader has it. */
        bool cache_known = false;
        std::deque<uint32_t> lists[kClasses];
        bool announced[kClasses] = {}; /* classes */
        std::set<uint32_t> blocks;     /* of places, whose class has been said */
    };

    Lane &lane(uint32_t number);
    uint32_t append(uint32_t lane, const Record &record);
    void write(uint32_t lane, const Record &record, uint64_t allocations);
    void drop(Record &record);
    bool speaks(const Lane &lane) const { return on && !lane.losing && !lane.stopped; }
    void say(uint32_t lane, const RawRecord &raw);
    bool cache_is_known(uint32_t lane);
    void announce_class(uint32_t lane, uint32_t structure);
    void tell_place(uint32_t lane, uint32_t place, uint32_t structure);
    void tell_call(uint32_t lane, Record &record);
    void follow(Lane &lane, const Record &record);
    Granules granules_of(ObjectId id);
    void take_bytes(ObjectId id, uint32_t owner);
    void find_after(uint32_t lane, Record &record);
    void tell_after(uint32_t lane, const Record &record);
    void tell_page(uint32_t lane, const Object &object);
    void know_object(Record &record);
    bool end_announcement(Lane &lane, const Record &record);
    RawRecord raw_of(uint32_t lane, const Record &record, uint64_t allocations) const;
    void spoil(RawRecord &raw);

    const Options &options_;
    Random &random_;
    RawWriter &writer_;
    Truth &truth_;
    Mapper mapper_;
    std::vector<Lane> lanes_;
    uint64_t next_sequence_[kStructures] = {};
    std::vector<uint64_t> class_bytes_;
    /* Of an opaque stream, of each 8 bytes of the heap: the lane that had them last, plus one. */
    std::vector<uint32_t> owners_;
    std::set<uint32_t> pages_; /* first places that the stream knows */
};

#endif
