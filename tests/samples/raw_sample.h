/* raw_sample - a RawBuilder that is told where each chunk begins and ends. */
#ifndef TESTS_SAMPLES_RAW_SAMPLE_H
#define TESTS_SAMPLES_RAW_SAMPLE_H

#include <functional>
#include <string>
#include <vector>

#include "common/call_kind.h"
#include "tests/raw_builder.h"

class RawSample : public RawBuilder {
  public:
    static RawStreamHeader header()
    {
        RawStreamHeader header;
        header.metadata = "program=/usr/bin/sample\nallocator=gperftools 2.10\n";
        header.id.clear();
        for (char c = 0; c < 16; c++)
            header.id += c;
        header.start_ns = 1700000000123456789;
        return header;
    }

    explicit RawSample(const RawStreamHeader &header = RawSample::header()) : RawBuilder(header)
    {
        profile = make_profile({CALL_FREE, 0, 0, CALL_MALLOC, 0, 0, CALL_REALLOC_MOVED, 0});
        chunks_per_segment = chunk_units_max = UINT64_MAX;
    }

    /* Of which lane the records are. */
    uint32_t lane = 0;

    /* One chunk; a run begins with it. */
    void records(uint32_t number, const std::function<void()> &write)
    {
        end_segment(number);
        more(number, write);
    }
    /* One chunk of the present run. */
    void more(uint32_t number, const std::function<void()> &write)
    {
        lane = number;
        write();
        cut(number);
    }

    /* From the lane's cache if that has a place. */
    uint64_t allocate(int kind, uint64_t size, uint64_t alignment = 0, uint64_t address = 0)
    {
        if (has_cached(lane, size)) return allocation_cached(lane, kind, size, alignment, address);
        return allocation(lane, kind, size, alignment, address);
    }

    /* A call that ends or changes an object. */
    void end(int kind, const Object &object, uint64_t size, uint64_t alignment,
             uint64_t address = 0)
    {
        if (kind_traits[kind].shape != kRealloc) {
            freeing(lane, kind, object, size, alignment);
            return;
        }
        bool own_place = kind == CALL_REALLOC_MOVED && !has_cached(lane, size);
        realloc(lane, kind, object, size, own_place ? next_place++ : 0, 0, address);
    }

    Object object(uint64_t token) { return object_of(lane, token); }

    std::string finish(RawEnd says = RawEnd())
    {
        if (says.events == 0) says.events = events();
        says.nanoseconds = 50000000;
        RawBuilder::end(says);
        return bytes;
    }
};

#endif
