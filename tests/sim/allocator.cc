#include "tests/sim/allocator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

static void check(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "simulate: the model is wrong: %s\n", what);
    abort();
}

Allocator::Allocator(const Options &options)
    : batch_(static_cast<uint32_t>(std::max<uint64_t>(1, options.batch))),
      reversed_(options.seed % 4 == 0), shared_(options.sequences != 0),
      splits_(options.opaque != 0 && options.split != 0), scattered_(0),
      random_(options.seed ^ 0x91ace)
{
    uint64_t size = 8;
    for (uint64_t i = 0; i < options.classes; i++) {
        sizes_.push_back(size);
        size += size < 128 ? 16 - size % 16 : size / 64 * 16;
    }
    if (options.seed % 3 == 1) scattered_ = static_cast<unsigned>(random_.between(1, 14));
    if (options.seed % 3 == 2) next_block_ = static_cast<uint32_t>(random_.of_bits(26));
    if (options.opaque != 0) first_place_ += static_cast<uint32_t>(random_.of_bits(31));
}

uint32_t Allocator::class_of(uint64_t size) const
{
    return static_cast<uint32_t>(std::lower_bound(sizes_.begin(), sizes_.end(), size) -
                                 sizes_.begin());
}

ThreadCache Allocator::new_cache() const
{
    ThreadCache cache;
    cache.lists.resize(sizes_.size());
    return cache;
}

std::vector<uint64_t> Allocator::bytes_by_structure() const
{
    std::vector<uint64_t> bytes(kClasses);
    for (uint32_t i = 0; i < classes(); i++)
        bytes[structure(i)] = sizes_[i];
    return bytes;
}

Allocator::Arena &Allocator::arena(uint32_t thread)
{
    size_t index = shared_ ? 0 : thread;
    if (index >= arenas_.size()) arenas_.resize(index + 1);
    Arena &arena = arenas_[index];
    if (arena.with_free.empty()) {
        arena.with_free.resize(sizes_.size());
        arena.loose.resize(sizes_.size());
    }
    return arena;
}

/* ---- numbers of places ---- */

uint32_t Allocator::new_block()
{
    constexpr uint32_t blocks = 1u << 26; // of all that there can be
    if (scattered_ != 0) next_block_ += static_cast<uint32_t>(random_.of_bits(scattered_));
    next_block_ %= blocks;
    while (!used_blocks_.insert(next_block_).second)
        next_block_ = (next_block_ + 1) % blocks;
    return next_block_;
}

uint32_t Allocator::new_number(uint32_t structure)
{
    Block &block = blocks_[structure];
    if (block.left == 0) {
        block.next = new_block() * 64;
        block.left = 64;
        if (block.next == 0) block = {1, 63};
    }
    block.left--;
    return block.next++;
}

/* Those it had when it was of this class before, as a rule. */
const std::vector<uint32_t> &Allocator::numbers(uint32_t span, uint32_t structure, uint32_t count)
{
    std::vector<uint32_t> &numbers = spans_[span].numbers[structure];
    if (numbers.size() != count || random_.one_in(8)) {
        numbers.clear();
        for (uint32_t i = 0; i < count; i++)
            numbers.push_back(new_number(structure));
    }
    return numbers;
}

/* ---- central lists ---- */

std::vector<Place> Allocator::central_take(uint32_t thread, uint32_t size_class, uint32_t count)
{
    std::vector<Place> taken;
    while (splits_ && taken.size() < count)
        taken.push_back(take_block(sizes_[size_class]));
    std::vector<Place> &loose = arena(thread).loose[size_class];
    while (taken.size() < count && !loose.empty()) {
        taken.push_back(loose.back());
        loose.pop_back();
    }
    std::vector<uint32_t> &with_free = arena(thread).with_free[size_class];
    while (taken.size() < count && !with_free.empty()) {
        Span &span = spans_[with_free.back()];
        taken.push_back(span.free.back());
        span.free.pop_back();
        if (span.free.empty()) with_free.pop_back();
    }
    return taken;
}

void Allocator::central_add_span(uint32_t thread, uint32_t size_class, uint32_t number)
{
    Span &span = spans_[number];
    span.objects = static_cast<uint32_t>(span.pages * kPageBytes / sizes_[size_class]);
    const std::vector<uint32_t> &places = numbers(number, structure(size_class), span.objects);
    std::vector<Place> &to = shared_ ? span.free : arena(thread).loose[size_class];
    for (uint32_t i = span.objects; i > 0; i--)
        to.push_back({span.address + (i - 1) * sizes_[size_class], number, places[i - 1]});
    if (shared_) arena(thread).with_free[size_class].push_back(number);
}

std::vector<uint32_t> Allocator::central_put(uint32_t thread, uint32_t size_class,
                                             const std::vector<Place> &places)
{
    std::vector<uint32_t> whole;
    if (splits_) {
        for (const Place &place : places)
            give_block(place.address);
        return whole;
    }
    if (!shared_) {
        std::vector<Place> &loose = arena(thread).loose[size_class];
        loose.insert(loose.end(), places.begin(), places.end());
        return whole;
    }
    std::vector<uint32_t> &with_free = arena(thread).with_free[size_class];
    for (const Place &place : places) {
        Span &span = spans_[place.span];
        if (span.free.empty()) with_free.push_back(place.span);
        span.free.push_back(place);
        if (span.free.size() < span.objects) continue;
        with_free.erase(std::find(with_free.begin(), with_free.end(), place.span));
        span.free.clear();
        whole.push_back(place.span);
    }
    return whole;
}

/* ---- the page heap ---- */

uint32_t Allocator::new_span(uint32_t thread, uint64_t bytes)
{
    uint64_t pages = std::max<uint64_t>(1, (bytes + kPageBytes - 1) / kPageBytes);
    auto &free_spans = arena(thread).free_spans;
    auto found = free_spans.find(pages);
    if (found != free_spans.end() && !found->second.empty()) {
        uint32_t number = found->second.back();
        found->second.pop_back();
        return number;
    }
    Span span;
    span.address = top_;
    span.pages = pages;
    top_ += pages * kPageBytes;
    spans_.push_back(span);
    return static_cast<uint32_t>(spans_.size() - 1);
}

void Allocator::delete_span(uint32_t thread, uint32_t number)
{
    spans_[number].objects = 0;
    arena(thread).free_spans[spans_[number].pages].push_back(number);
}

/* ---- blocks of any size ---- */

static uint64_t rounded(uint64_t bytes)
{
    return std::max<uint64_t>(16, (bytes + 7) & ~uint64_t{7});
}

/* Of any that is large enough, its beginning or its end. */
Place Allocator::take_block(uint64_t bytes)
{
    bytes = rounded(bytes);
    for (int tries = 0; tries < 4 && !blocks_free_.empty(); tries++) {
        auto from = blocks_free_.lower_bound(kHeapStart + random_.below(top_ - kHeapStart));
        if (from == blocks_free_.end()) from = blocks_free_.begin();
        auto [address, has] = *from;
        if (has < bytes) continue;
        blocks_free_.erase(from);
        uint64_t taken = random_.one_in(4) ? address + has - bytes : address;
        if (taken != address)
            blocks_free_[address] = has - bytes;
        else if (has > bytes)
            blocks_free_[address + bytes] = has - bytes;
        blocks_taken_[taken] = bytes;
        return {taken, 0, 0};
    }
    blocks_taken_[top_] = bytes;
    top_ += bytes;
    return {top_ - bytes, 0, 0};
}

void Allocator::give_block(uint64_t address)
{
    uint64_t bytes = blocks_taken_.at(address);
    blocks_taken_.erase(address);
    auto next = blocks_free_.find(address + bytes);
    if (next != blocks_free_.end()) {
        bytes += next->second;
        blocks_free_.erase(next);
    }
    auto before = blocks_free_.lower_bound(address);
    if (before != blocks_free_.begin() && (--before)->first + before->second == address)
        before->second += bytes;
    else
        blocks_free_[address] = bytes;
}

bool Allocator::resize_block(uint64_t address, uint64_t bytes)
{
    uint64_t &has = blocks_taken_.at(address);
    bytes = rounded(bytes);
    if (bytes < has) {
        blocks_taken_[address + bytes] = has - bytes;
        has = bytes;
        give_block(address + bytes);
    } else if (bytes > has) {
        auto next = blocks_free_.find(address + has);
        if (next == blocks_free_.end() || next->second < bytes - has) return false;
        uint64_t left = next->second - (bytes - has);
        blocks_free_.erase(next);
        if (left > 0) blocks_free_[address + bytes] = left;
        has = bytes;
    }
    return true;
}

uint64_t Allocator::bytes_at(const Place &place, uint32_t size_class) const
{
    if (splits_) return block_bytes(place.address);
    return size_class < classes() ? sizes_[size_class] : spans_[place.span].pages * kPageBytes;
}

/* ---- objects ---- */

void Allocator::becomes_live(const Place &place)
{
    uint64_t index = (place.address - kHeapStart) / 8;
    if (index >= live_.size()) live_.resize(std::max<uint64_t>(2 * live_.size(), index + 1));
    check(!live_[index], "an address was given out twice");
    live_[index] = true;
}

void Allocator::becomes_free(const Place &place)
{
    uint64_t index = (place.address - kHeapStart) / 8;
    check(index < live_.size() && live_[index], "an object was freed twice");
    live_[index] = false;
}
