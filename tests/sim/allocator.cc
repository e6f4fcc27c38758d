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
      reversed_(options.seed % 4 == 0)
{
    uint64_t size = 8;
    for (uint64_t i = 0; i < options.classes; i++) {
        sizes_.push_back(size);
        size += size < 128 ? 16 - size % 16 : size / 64 * 16;
    }
    with_free_.resize(sizes_.size());
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

std::vector<Place> Allocator::central_take(uint32_t size_class, uint32_t count)
{
    std::vector<Place> taken;
    std::vector<uint32_t> &with_free = with_free_[size_class];
    while (taken.size() < count && !with_free.empty()) {
        Span &span = spans_[with_free.back()];
        taken.push_back(span.free.back());
        span.free.pop_back();
        if (span.free.empty()) with_free.pop_back();
    }
    return taken;
}

void Allocator::central_add_span(uint32_t size_class, uint32_t number)
{
    Span &span = spans_[number];
    span.objects = static_cast<uint32_t>(span.pages * kPageBytes / sizes_[size_class]);
    for (uint32_t i = span.objects; i > 0; i--)
        span.free.push_back({span.address + (i - 1) * sizes_[size_class], number});
    with_free_[size_class].push_back(number);
}

std::vector<uint32_t> Allocator::central_put(uint32_t size_class, const std::vector<Place> &places)
{
    std::vector<uint32_t> whole;
    std::vector<uint32_t> &with_free = with_free_[size_class];
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

uint32_t Allocator::new_span(uint64_t bytes)
{
    uint64_t pages = std::max<uint64_t>(1, (bytes + kPageBytes - 1) / kPageBytes);
    auto found = free_spans_.find(pages);
    if (found != free_spans_.end() && !found->second.empty()) {
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

void Allocator::delete_span(uint32_t number)
{
    spans_[number].objects = 0;
    free_spans_[spans_[number].pages].push_back(number);
}

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
