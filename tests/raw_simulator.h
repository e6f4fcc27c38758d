/* raw_simulator - small streams of threads that share objects, for tests that only need some
 * stream.
 *
 * It takes steps in one global order: a thread allocates, frees, reallocates or hands an object to
 * another thread. Caches of a class are filled from and emptied into central lists, which take
 * sequence numbers, and those now and then into the page heap. Chunks are cut at random; ticks come
 * now and then and are not simultaneous in all lanes. Whether streams are ordered rightly is the
 * business of tests/sim, which knows what happened and models an allocator. */
#ifndef TESTS_RAW_SIMULATOR_H
#define TESTS_RAW_SIMULATOR_H

#include <cstdint>
#include <vector>

#include "tests/raw_builder.h"

class RawSimulator {
  public:
    struct Options {
        uint64_t seed = 1;
        uint32_t lanes = 2;
        uint64_t steps = 10000;
        uint32_t slots = 100;       /* objects of a thread */
        uint32_t shared_slots = 64; /* objects of nobody */
        uint32_t share_every = 16;  /* one step in so many swaps with the shared ones */
        uint32_t tick_every = 2000; /* steps */
        uint32_t reallocs = 20;     /* one step in so many */
        uint32_t classes = 16;
        uint32_t batch = 16; /* objects a cache fetches or returns at once */
        bool random_cuts = true;
        bool central = true; /* whether there are sequence numbers */
    };

    RawBuilder raw;
    uint64_t calls = 0;
    uint64_t live = 0;

    explicit RawSimulator(const Options &options) : options_(options), random_(options.seed * 2 + 1)
    {
        shared_.resize(options.shared_slots);
        lanes_.resize(options.lanes);
        for (uint32_t lane = 0; lane < options.lanes; lane++) {
            lanes_[lane].slots.resize(options.slots);
            lanes_[lane].cached.resize(options.classes);
            raw.thread_begin(lane, 1000 + lane);
        }
        for (uint64_t i = 0; i < options.steps; i++) {
            step();
            if (options_.tick_every == 0 || (i + 1) % options_.tick_every != 0) continue;
            /* The lanes are not looked at all at the same time. */
            for (uint32_t lane = 0; lane < options_.lanes; lane++) {
                raw.cut(lane);
                for (uint32_t more = random(4); options_.random_cuts && more > 0; more--)
                    step();
            }
            raw.tick((i + 1) * 1000, live * 100, live * 200, false);
        }
    }

  private:
    struct Object {
        uint64_t token = 0;
        uint32_t size_class = 0;
    };
    struct Lane {
        std::vector<Object> slots;
        std::vector<uint32_t> cached;
    };

    Options options_;
    uint64_t random_;
    std::vector<Lane> lanes_;
    std::vector<Object> shared_;

    uint32_t random(uint32_t below)
    {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return static_cast<uint32_t>((random_ >> 20) % below);
    }

    /* The sequence numbers of taking one object of a class out of the allocator. */
    void take_from_cache(uint32_t lane, uint32_t size_class)
    {
        uint32_t &cached = lanes_[lane].cached[size_class];
        if (!options_.central) return;
        if (cached > 0) {
            cached--;
            return;
        }
        raw.sequence_before(lane, size_class);
        if (random(8) == 0) raw.sequence_before(lane, RawBuilder::kPageHeap);
        cached = options_.batch - 1;
    }

    void return_to_cache(uint32_t lane, uint32_t size_class)
    {
        uint32_t &cached = lanes_[lane].cached[size_class];
        if (!options_.central || ++cached <= 2 * options_.batch) return;
        raw.sequence_after(lane, size_class);
        if (random(8) == 0) raw.sequence_after(lane, RawBuilder::kPageHeap);
        cached -= options_.batch;
    }

    Object allocate(uint32_t lane)
    {
        uint64_t size = 16 + random(512);
        Object object;
        object.size_class = static_cast<uint32_t>(size * options_.classes / 528);
        take_from_cache(lane, object.size_class);
        object.token = raw.allocation(lane, RawBuilder::kMalloc, size);
        calls++;
        live++;
        return object;
    }

    void release(uint32_t lane, Object &object)
    {
        if (object.token == 0) return;
        raw.freeing(lane, RawBuilder::kFree, object.token);
        calls++;
        live--;
        return_to_cache(lane, object.size_class);
        object.token = 0;
    }

    void reallocate(uint32_t lane, Object &object)
    {
        uint64_t size = 16 + random(512);
        uint32_t before = object.size_class;
        object.size_class = static_cast<uint32_t>(size * options_.classes / 528);
        take_from_cache(lane, object.size_class);
        object.token = raw.realloc(lane, RawBuilder::kReallocMoved, object.token, size);
        calls++;
        return_to_cache(lane, before);
    }

    void step()
    {
        uint32_t lane = random(options_.lanes);
        Lane &l = lanes_[lane];
        Object &object = l.slots[random(static_cast<uint32_t>(l.slots.size()))];
        if (options_.reallocs != 0 && object.token != 0 && random(options_.reallocs) == 0) {
            reallocate(lane, object);
        } else {
            release(lane, object);
            object = allocate(lane);
        }
        if (options_.share_every != 0 && random(options_.share_every) == 0) {
            Object &shared = shared_[random(static_cast<uint32_t>(shared_.size()))];
            std::swap(shared, object);
            /* What came out is freed by whoever took it out, wherever it was made. */
            release(lane, object);
        }
        if (options_.random_cuts && random(50) == 0) raw.cut(lane);
    }
};

#endif
