/* raw_writer - a raw stream and its spool (FORMAT.md), written from the document alone.
 *
 *   write(record)... --units--> the lane's run --cut()--> chunks of the stream
 *                                  \--spool()--> slots, for what a process leaves behind
 *
 * Where the format leaves a choice (profiles, which of several codes, where a chunk ends, packing, frames), it is
 * made at random, so readers meet all of them. Shares no code with the readers and writers of the product but the
 * library of the checksum. */
#ifndef TESTS_SIM_RAW_WRITER_H
#define TESTS_SIM_RAW_WRITER_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/truth.h"

/* A record as a stream says it: objects by place. */
struct RawRecord {
    uint8_t number = 0, kind = 0, count = 0;
    uint32_t lane = 0, structure = 0; /* or class */
    bool has_object = false, unknown = false;
    uint32_t object_lane = 0, object_place = 0, object_class = 0;
    uint64_t object_serial = 0, bound = 0;
    uint32_t place = 0, place_class = 0; /* of what begins */
    bool implied = false;                /* they need not be said */
    std::vector<uint32_t> places;        /* `cached` */
    uint64_t size = 0, alignment = 0;    /* as in Record */
    uint64_t address = 0;                /* of what begins */
    uint64_t allocations = 0;            /* it adds to its lane */
};

class RawWriter {
  public:
    RawWriter(const Options &options, Random &random);

    void write(const RawRecord &record);

    /* Makes chunks of what a lane has pending, all of it or a part. Returns how many records went out. */
    uint64_t cut(uint32_t lane, bool all);

    void tick(const Tick &tick);
    void end(uint32_t status, uint64_t nanoseconds, uint64_t events, uint64_t lost);

    /* A chunk that breaks off, as the last thing of a stream that was cut; or the header does when there is nothing else.
     * Then false. */
    bool break_off();

    /* The stream as a file has it, with or without frames. */
    std::string file();

    /* A line for each chunk: where it ends in the stream, type, lane, how many of its records an instruction stream shows. */
    const std::string &chunks() const { return chunks_; }

    /* What the lanes have pending, in slots; among others, and with some that are in the stream already. */
    std::string spool();

  private:
    struct Way {
        bool is_set = false;
        uint32_t lane = 0;
        uint64_t bound = 0;
    };
    /* What a code depends on and changes. */
    struct State {
        Way ways[8];
        uint64_t address = 0;
    };
    /* Units that say the place of an object, which a packed chunk may say by age (FORMAT.md 5.5). */
    struct Aged {
        size_t at = 0, count = 0; /* units of the run; 0: none */
        int slot = 0;             /* of the profile */
        uint64_t serial = 0, allocations = 0;
    };
    struct Run {
        uint64_t serial = 0, first_unit = 0, first_allocation = 0;
        uint8_t profile[8] = {};
        bool key = false, begun = false; /* `begun`: its first chunk is in the stream */
        std::vector<uint16_t> units;
        std::vector<uint32_t> ends;        /* of its records, in units */
        std::vector<bool> visible;         /* records that an instruction stream shows */
        std::vector<uint64_t> allocations; /* of the lane after each record */
        std::vector<Aged> aged;
        size_t out = 0; /* records that are in the stream */
    };
    struct Lane {
        uint64_t units = 0, allocations = 0, runs_count = 0, runs_since_key = 0;
        uint64_t packed_from = 1; /* from this allocation on all chunks are packed */
        uint64_t kinds[48] = {};
        uint64_t latest[kStructures] = {};
        State state;
        std::vector<Run>
            runs; /* the latest ones; those before the last may be wholly in the stream */
    };

    Lane &lane(uint32_t number);
    void begin_run(Lane &lane);
    void choose_profile(const Lane &lane, Run &run);
    void encode(const Lane &lane, const Run &run, const RawRecord &record);
    void encode_event(const Run &run, const RawRecord &record);
    void encode_allocation(const Run &run, const RawRecord &record);
    void encode_ending(const Run &run, const RawRecord &record);
    void encode_general(const RawRecord &record);
    void encode_object(const RawRecord &record);
    bool encode_foreign(const Run &run, const RawRecord &record);
    void add_operands(const RawRecord &record, bool with_size);
    void add_place(const RawRecord &record);
    void add(uint64_t unit) { code_.push_back(static_cast<uint16_t>(unit)); }
    void add_number(uint64_t value);
    void chunk_of(uint32_t number, Run &run, size_t records);
    void chunk(int type, int flags, uint32_t lane, const std::string &payload, uint64_t units,
               uint64_t first, uint64_t first_allocation, int64_t visible);
    std::string packed(const Lane &lane, const Run &run, size_t from, size_t to);
    void put_packed(std::string &to, unsigned unit);
    void slot(std::string &spool, uint32_t number, const Run &run);

    const Options &options_;
    Random &random_;
    std::string stream_, chunks_;
    std::vector<size_t> boundaries_; /* where chunks end */
    std::vector<Lane> lanes_;
    std::string run_id_;
    uint32_t pid_;
    uint64_t ticks_ = 0;
    std::vector<uint16_t> code_; /* of one record, and the state behind it: */
    State next_;
    Aged aged_; /* of it */
};

#endif
