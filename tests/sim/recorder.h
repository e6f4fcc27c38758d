/* recorder - what of a simulated program is recorded, and how it goes into the raw stream.
 *
 *   Program --calls, stamps--> Recorder --Record--> Truth
 *                                  \------RawRecord--> RawWriter
 *
 * Gives objects their serials and stamps their numbers. Recording may be off (before it begins, in a pause), a
 * lane may lose what it says for a while, and at the end the last words of some lanes may be missing. Then objects
 * and numbers are unknown to the stream just as FORMAT.md says. */
#ifndef TESTS_SIM_RECORDER_H
#define TESTS_SIM_RECORDER_H

#include <vector>

#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_writer.h"
#include "tests/sim/truth.h"

class Recorder {
  public:
    Recorder(const Options &options, Random &random, RawWriter &writer, Truth &truth)
        : options_(options), random_(random), writer_(writer), truth_(truth)
    {
    }

    bool on = true;     /* whether calls are recorded */
    uint64_t calls = 0; /* recorded so far, lost ones included */

    void thread_begin(uint32_t lane, uint64_t thread);
    void thread_end(uint32_t lane);
    void thread_cache_deleted(uint32_t lane);
    void stamp(uint32_t lane, bool before, uint32_t structure);
    /* A call that was carried out: what it ended or began is known by its shape. `record` has everything but lane
     * and number of windows. */
    void call(uint32_t lane, Record record);

    /* A part of what the lane has said goes into the stream. */
    void cut(uint32_t lane, bool all);
    void tick(const Tick &tick);
    void start_losing(uint32_t lane);
    void stop_losing(uint32_t lane);
    /* From now on what the lane says does not get into the stream. */
    void stop(uint32_t lane);

    /* The stream ends as options.end says. */
    void finish(uint64_t nanoseconds);

    uint32_t lanes() const { return static_cast<uint32_t>(lanes_.size()); }

  private:
    struct LostStamp {
        uint32_t structure;
        uint64_t number;
    };
    struct Lane {
        uint64_t births = 0;
        size_t chunked = 0; /* of its records, in the stream */
        bool stopped = false, losing = false;
        uint32_t lost_index = 0; /* of the `lost` record */
        uint64_t lost_events = 0, lost_births = 0;
        std::vector<LostStamp> lost_stamps;
    };

    Lane &lane(uint32_t number);
    uint32_t append(uint32_t lane, const Record &record);
    void write(uint32_t lane, const Record &record, uint64_t births);
    void drop(Record &record);

    const Options &options_;
    Random &random_;
    RawWriter &writer_;
    Truth &truth_;
    std::vector<Lane> lanes_;
    uint64_t next_stamp_[kStructures] = {};
};

#endif
