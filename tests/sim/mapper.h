/* mapper - what a simulated program does to its address space: records that ordering passes on.
 *
 *   step() --Passed--> pending --flush()--> chunks of the stream, and the truth
 *
 * They mean nothing to the model's allocator: any record may come at any time. */
#ifndef TESTS_SIM_MAPPER_H
#define TESTS_SIM_MAPPER_H

#include <vector>

#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/raw_writer.h"
#include "tests/sim/truth.h"

class Mapper {
  public:
    Mapper(const Options &options, RawWriter &writer, Truth &truth)
        : options_(options), random_(options.seed ^ 0x3a9), writer_(writer), truth_(truth)
    {
    }

    /* Perhaps a call; of a thread that has this lane, and so many calls that bounds count. */
    void step(uint32_t lane, uint64_t calls);
    /* What is pending goes into the stream. */
    void flush();

  private:
    Passed record(uint32_t lane, uint64_t calls);
    Passed residency();
    bool touched(uint32_t lane, Passed &one);
    void put(const Passed &one);

    const Options &options_;
    Random random_;
    RawWriter &writer_;
    Truth &truth_;
    std::vector<Passed> pending_;
    bool begun_ = false;
    uint64_t looks_ = 0;
};

#endif
