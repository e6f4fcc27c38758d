/* allocator - a model of an allocator with thread caches, after tcmalloc.
 *
 *   ThreadCache --batches--> central list of a class --spans--> page heap
 *
 * Only the state and its changes, each of them done in one go under the lock of the structure it is
 * about. In which steps a thread goes through them, what other threads do in between, and where it
 * leaves its sequence numbers is the program's matter. A cache gives out last what it got first, so
 * addresses come back to a thread at once and to others through the central lists only. Where there
 * are no sequence numbers, threads share none of that: each has an arena of its own. Checks of its
 * own state that fail end the process: then the model is wrong.
 *
 * An opaque allocator may also split and merge: then spans and central lists have no memory of their
 * own, but take it, as large objects do, from one heap of blocks of any size. Who frees a block may
 * merge it with its neighbours, and who takes one may get a part of it.
 *
 * Places have numbers as FORMAT.md 2.5 wants them: 64 of one class in a row, and a span that
 * becomes one of another class gets others. */
#ifndef TESTS_SIM_ALLOCATOR_H
#define TESTS_SIM_ALLOCATOR_H

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tests/sim/options.h"
#include "tests/sim/random.h"

constexpr uint64_t kPageBytes = 8192;
constexpr uint32_t kClasses = 128; /* FORMAT.md 2.5 */

/* What a structure deals in: an address, the span it lies in, and its number in the stream. */
struct Place {
    uint64_t address = 0;
    uint32_t span = 0, number = 0;
};

struct ThreadCache {
    struct List {
        std::vector<Place> places; /* the last one is the first to be taken */
        uint32_t most = 1;         /* grows slowly, as tcmalloc's does */
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
    /* Its number in the stream, which is that of its structure too; 0 for large objects. Greater
     * ones need not have more bytes (FORMAT.md 2.6). */
    uint32_t structure(uint32_t size_class) const
    {
        if (size_class == classes()) return 0;
        return reversed_ ? 127 - size_class : 1 + size_class;
    }
    /* Bytes of its objects by that number, 0 where there is none. */
    std::vector<uint64_t> bytes_by_structure() const;

    ThreadCache new_cache() const;

    /* Up to `count` places of the central list. */
    std::vector<Place> central_take(uint32_t thread, uint32_t size_class, uint32_t count);
    void central_add_span(uint32_t thread, uint32_t size_class, uint32_t span);
    /* Returns the spans that are now wholly free and no longer the list's. */
    std::vector<uint32_t> central_put(uint32_t thread, uint32_t size_class,
                                      const std::vector<Place> &places);

    /* The page heap. */
    uint32_t new_span(uint32_t thread, uint64_t bytes);
    void delete_span(uint32_t thread, uint32_t span);
    /* Of a large object. */
    Place span_place(uint32_t span) { return {spans_[span].address, span, numbers(span, 0, 1)[0]}; }
    /* Splitting: a block; how many bytes it has; it goes back, or its end does, or it grows into
     * what is free behind it. False: that is not enough. */
    bool splits() const { return splits_; }
    Place take_block(uint64_t bytes);
    uint64_t block_bytes(uint64_t address) const { return blocks_taken_.at(address); }
    void give_block(uint64_t address);
    bool resize_block(uint64_t address, uint64_t bytes);
    /* Bytes of the place of an object, which is of this class. */
    uint64_t bytes_at(const Place &place, uint32_t size_class) const;

    /* Of an opaque stream: by the address. A page has a row for each half of 16 bytes. */
    uint32_t place_of(uint64_t address) const
    {
        uint64_t at = address - kHeapStart, row = 2 * (at / kPageBytes) + at / 8 % 2;
        return first_place_ + static_cast<uint32_t>(512 * row + at % kPageBytes / 16);
    }
    uint64_t heap_bytes() const { return top_ - kHeapStart; }

    /* To be told of every object, so that none lives twice at an address. */
    void becomes_live(const Place &place);
    void becomes_free(const Place &place);

  private:
    static constexpr uint64_t kHeapStart = uint64_t{1} << 40;

    struct Span {
        uint64_t address = 0, pages = 0;
        uint32_t objects = 0;
        std::vector<Place> free;                           /* in the central list */
        std::map<uint32_t, std::vector<uint32_t>> numbers; /* of its places, by class */
    };
    /* What threads share, or one thread has for itself. */
    struct Arena {
        std::vector<std::vector<uint32_t>> with_free; /* spans with free objects, by class */
        std::vector<std::vector<Place>> loose;        /* instead, where there are many arenas */
        std::map<uint64_t, std::vector<uint32_t>> free_spans; /* by pages */
    };
    struct Block {
        uint32_t next = 0, left = 0;
    };

    Arena &arena(uint32_t thread);
    const std::vector<uint32_t> &numbers(uint32_t span, uint32_t structure, uint32_t count);
    uint32_t new_number(uint32_t structure);
    uint32_t new_block();

    std::vector<uint64_t> sizes_;
    uint32_t batch_;
    bool reversed_, shared_, splits_;
    std::map<uint64_t, uint64_t> blocks_free_, blocks_taken_; /* bytes, by address */
    unsigned scattered_; /* blocks: bits of the gaps between them */
    Random random_;
    std::vector<Span> spans_{1};
    std::vector<Arena> arenas_;
    Block blocks_[kClasses]; /* numbers that are left, by class */
    std::set<uint32_t> used_blocks_;
    uint32_t next_block_ = 0, first_place_ = 1;
    uint64_t top_ = kHeapStart;
    std::vector<bool> live_; /* by address / 8 */
};

#endif
