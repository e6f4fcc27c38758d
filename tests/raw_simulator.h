/* raw_simulator - a seeded model of threads over an allocator with thread caches, for tests of ordering.
 *
 * It takes steps in one global order, the true one: a thread allocates, frees, reallocates or hands an object to
 * another thread. Caches of a class are filled from and emptied into central lists, which take sequence numbers, and
 * those now and then into the page heap. What happened goes into a RawBuilder; chunks are cut at random, ticks come
 * now and then and are not simultaneous in all lanes. */
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
        bool keep_truth = true;
    };

    /* What happened, in the true order. */
    struct Event {
        uint32_t lane;
        uint32_t number; /* of the record */
        uint64_t ends, begins;
        uint64_t size;
        std::vector<std::pair<uint32_t, uint64_t>> sequences; /* structure, number */
    };

    RawBuilder raw;
    std::vector<Event> truth;
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
    std::vector<std::pair<uint32_t, uint64_t>> sequences_before_; /* of the next event */

    void sequence_before(uint32_t lane, uint32_t structure)
    {
        raw.sequence_before(lane, structure);
        sequences_before_.emplace_back(structure, raw.next_sequence[structure]);
    }

    void sequence_after(uint32_t lane, uint32_t structure)
    {
        raw.sequence_after(lane, structure);
        if (options_.keep_truth)
            truth.back().sequences.emplace_back(structure, raw.next_sequence[structure]);
    }

    uint32_t random(uint32_t below)
    {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return static_cast<uint32_t>((random_ >> 20) % below);
    }

    void note(uint32_t lane, uint32_t number, uint64_t ends, uint64_t begins, uint64_t size)
    {
        if (options_.keep_truth)
            truth.push_back({lane, number, ends, begins, size, sequences_before_});
        sequences_before_.clear();
        live += (begins != 0) - (ends != 0);
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
        sequence_before(lane, size_class);
        if (random(8) == 0) sequence_before(lane, RawBuilder::kPageHeap);
        cached = options_.batch - 1;
    }

    void return_to_cache(uint32_t lane, uint32_t size_class)
    {
        uint32_t &cached = lanes_[lane].cached[size_class];
        if (!options_.central || ++cached <= 2 * options_.batch) return;
        sequence_after(lane, size_class);
        if (random(8) == 0) sequence_after(lane, RawBuilder::kPageHeap);
        cached -= options_.batch;
    }

    Object allocate(uint32_t lane)
    {
        uint64_t size = 16 + random(512);
        Object object;
        object.size_class = static_cast<uint32_t>(size * options_.classes / 528);
        take_from_cache(lane, object.size_class);
        object.token = raw.allocation(lane, RawBuilder::kMalloc, size);
        note(lane, RawBuilder::kMalloc, 0, object.token, size);
        return object;
    }

    void release(uint32_t lane, Object &object)
    {
        if (object.token == 0) return;
        raw.freeing(lane, RawBuilder::kFree, object.token);
        note(lane, RawBuilder::kFree, object.token, 0, 0);
        return_to_cache(lane, object.size_class);
        object.token = 0;
    }

    void reallocate(uint32_t lane, Object &object)
    {
        uint64_t size = 16 + random(512);
        uint32_t before = object.size_class;
        object.size_class = static_cast<uint32_t>(size * options_.classes / 528);
        take_from_cache(lane, object.size_class);
        uint64_t ends = object.token;
        object.token = raw.realloc(lane, RawBuilder::kReallocMoved, ends, size);
        note(lane, RawBuilder::kReallocMoved, ends, object.token, size);
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
