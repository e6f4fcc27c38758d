/* raw_writer - the raw stream and the spool of a simulated program.
 *
 *   write(record)... --RawEncoder--> the lane's segment --cut()--> chunks of the stream
 *                                       \--spool()--> slots, for what a process leaves behind
 *
 * Where the format leaves a choice (profiles, which of several codes, where a chunk ends, packing,
 * frames), it is made at random, so readers meet all of them. */
#ifndef TESTS_SIM_RAW_WRITER_H
#define TESTS_SIM_RAW_WRITER_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_encoder.h"
#include "tests/sim/truth.h"

class RawWriter {
  public:
    RawWriter(const Options &options, Random &random);

    void write(const RawRecord &record);

    /* A stack for a call, new or not. Lanes define what they use first. */
    uint32_t choose_stack();
    std::vector<StackNode> nodes; /* from kFirstNode on */

    /* Makes chunks of what a lane has pending, all of it or a part. Returns how many records of
     * write() went out. */
    uint64_t cut(uint32_t lane, bool all);

    void tick(const Tick &tick);
    /* A chunk of mappings (4) with so many cells, or of residency (5). */
    void passed(int type, const std::string &payload, uint64_t cells);
    void end(uint32_t status, uint64_t nanoseconds, uint64_t events, uint64_t lost);

    /* A chunk that breaks off, as the last thing of a stream that was cut; or the header does when
     * there is nothing else. Then false. */
    bool break_off();

    /* The stream as a file has it, with or without frames. */
    std::string file();

    /* A line for each chunk: where it ends in the stream, type, lane, how many of its records an
     * instruction stream shows. */
    const std::string &chunks() const { return chunks_; }

    /* What the lanes have pending, in slots; among others, and with some that are in the stream
     * already. */
    std::string spool();

  private:
    struct Segment : RawSegment {
        uint64_t serial = 0;
        bool begun = false;                /* its first chunk is in the stream */
        std::vector<uint32_t> ends;        /* of its records, in units */
        std::vector<bool> visible;         /* records that an instruction stream shows */
        std::vector<bool> written;         /* by write(): no definitions and stacks */
        std::vector<uint64_t> allocations; /* of the lane after each record */
        size_t out = 0;                    /* records that are in the stream */
    };
    struct Lane {
        uint64_t units = 0, allocations = 0, segments_count = 0, segments_since_key = 0;
        uint64_t packed_from = 1; /* from this allocation on all chunks are packed */
        uint64_t kinds[48] = {};
        bool packed = false; /* the latest chunk was */
        RawPlaces places;
        std::vector<Segment>
            segments; /* the latest ones; those before the last may be wholly in the stream */
    };

    Lane &lane(uint32_t number);
    void put(const RawRecord &record);
    void put_stack(uint32_t lane, uint32_t node);
    void define(uint32_t lane, uint32_t node);
    void begin_segment(Lane &lane);
    void choose_profile(const Lane &lane, Segment &segment);
    void chunk_of(uint32_t number, Segment &segment, size_t records);
    void chunk(int type, int flags, uint32_t lane, const std::string &payload, uint64_t units,
               uint64_t first, uint64_t first_allocation, int64_t visible);
    void slot(std::string &spool, uint32_t number, const Segment &segment);

    const Options &options_;
    Random &random_;
    std::string stream_, chunks_;
    std::vector<size_t> boundaries_; /* where chunks end */
    std::vector<Lane> lanes_;
    RawStreamHeader header_;
    RawEncoder encoder_;
    uint64_t ticks_ = 0, cells_ = 0;
    std::vector<bool> node_defined_, code_defined_;
    bool module_defined_ = false;
};

#endif
