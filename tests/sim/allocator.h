/* allocator - a model of an allocator with thread caches, after tcmalloc.
 *
 *   ThreadCache --batches--> central list of a class --spans--> page heap
 *
 * Only the state and its changes, each of them done in one go under the lock of the structure it is about. In which
 * steps a thread goes through them, what other threads do in between, and where it leaves its stamps is the program's
 * matter. A cache gives out last what it got first, so addresses come back to a thread at once and to others through
 * the central lists only. Checks of its own state that fail end the process: then the model is wrong. */
#ifndef TESTS_SIM_ALLOCATOR_H
#define TESTS_SIM_ALLOCATOR_H

#include <cstdint>
#include <map>
#include <vector>

#include "tests/sim/options.h"

constexpr uint64_t kPageBytes = 8192;

/* What a structure deals in: an address and the span it lies in. */
struct Place {
    uint64_t address = 0;
    uint32_t span = 0;
};

struct ThreadCache {
    struct List {
        std::vector<Place> places;
        uint32_t most = 1; /* grows slowly, as tcmalloc's does */
    };
    std::vector<List> lists;
    uint64_t bytes = 0;
};

class Allocator {
  public:
    explicit Allocator(const Options &options);

    /* The class of a size, or classes() for a large one. */
    uint32_t class_of(uint64_t size) const;
    uint32_t classes() const { return static_cast<uint32_t>(sizes_.size()); }
    uint64_t class_bytes(uint32_t size_class) const { return sizes_[size_class]; }
    uint64_t largest() const { return sizes_.back(); }
    uint32_t batch() const { return batch_; }
    /* Number of its structure in stamps. */
    uint32_t structure(uint32_t size_class) const
    {
        return reversed_ ? 127 - size_class : size_class;
    }

    ThreadCache new_cache() const;

    /* Up to `count` places of the central list. */
    std::vector<Place> central_take(uint32_t size_class, uint32_t count);
    void central_add_span(uint32_t size_class, uint32_t span);
    /* Returns the spans that are now wholly free and no longer the list's. */
    std::vector<uint32_t> central_put(uint32_t size_class, const std::vector<Place> &places);

    /* The page heap. */
    uint32_t new_span(uint64_t bytes);
    void delete_span(uint32_t span);
    Place span_place(uint32_t span) const { return {spans_[span].address, span}; }
    uint64_t heap_bytes() const { return top_ - kHeapStart; }

    /* To be told of every object, so that none lives twice at an address. */
    void becomes_live(const Place &place);
    void becomes_free(const Place &place);

  private:
    static constexpr uint64_t kHeapStart = uint64_t{1} << 40;

    struct Span {
        uint64_t address = 0, pages = 0;
        uint32_t objects = 0;
        std::vector<Place> free; /* in the central list */
    };

    std::vector<uint64_t> sizes_;
    uint32_t batch_;
    bool reversed_;
    std::vector<Span> spans_{1};
    std::vector<std::vector<uint32_t>> with_free_;         /* spans with free objects, by class */
    std::map<uint64_t, std::vector<uint32_t>> free_spans_; /* by pages */
    uint64_t top_ = kHeapStart;
    std::vector<bool> live_; /* by address / 8 */
};

#endif
