/* The steps of calls: see program.h. */
#include "tests/sim/program.h"

#include <algorithm>

#include "tests/sim/faults.h"

void Program::perform(uint32_t number, const Todo &todo)
{
    Thread &t = threads_[number];
    const uint32_t a = static_cast<uint32_t>(todo.a);
    switch (todo.step) {
    case Step::CreateCache:
        sequence(number, kPageHeapStructure);
        t.cache = allocator_.new_cache();
        t.has_cache = true;
        if (t.begun && options_.opaque == 0 && !random_.one_in(8))
            recorder_.cache_begin(number, allocator_, t.cache);
        break;
    case Step::Allocate: perform_allocate(t, a); break;
    case Step::AllocateOne: perform_allocate_one(number, a); break;
    case Step::FetchMore: perform_fetch_more(number, a); break;
    case Step::Fetch: perform_fetch(number, a); break;
    case Step::PageHeap:
        sequence(number, kPageHeapStructure);
        later(t, Step::Carve, a, allocator_.new_span(number, 4 * allocator_.class_bytes(a)));
        break;
    case Step::Carve: /* the list's lock is taken up again */
        sequence(number, allocator_.structure(a));
        allocator_.central_add_span(number, a, static_cast<uint32_t>(todo.b));
        if (!take_batch(number, a)) later(t, Step::PageHeap, a);
        break;
    case Step::AllocateLarge:
        if (allocator_.splits()) {
            t.call.place = allocator_.take_block(todo.a);
            t.call.size_class = allocator_.classes();
            break;
        }
        sequence(number, kPageHeapStructure);
        t.call.place = allocator_.span_place(allocator_.new_span(number, todo.a));
        t.call.size_class = allocator_.classes();
        break;
    case Step::RecordAllocation:
    case Step::RecordRealloc: allocated(number); break;
    case Step::RecordFailure:
        t.allocating = false;
        record(number, t.call.record);
        if (t.call.way == Way::Pool) pool_.push_back(t.call.record.ends);
        break;
    case Step::RecordFree:
        t.call.record = Record();
        t.call.record.ends = a;
        dies(number);
        break;
    case Step::Serve: allocate(t, Way::PingPong, a, 16); break;
    case Step::Put: perform_put(number); break;
    case Step::GiveUp: perform_give_up(number); break;
    case Step::Resize: perform_resize(t); break;
    case Step::Release: perform_release(number, a, todo.b); break;
    case Step::DeleteSpan:
        sequence(number, kPageHeapStructure);
        allocator_.delete_span(number, a);
        break;
    case Step::SequenceHeap: sequence(number, kPageHeapStructure); break;
    case Step::Heap: perform_heap(number, a); break;
    case Step::DeleteCache: delete_cache(number); break;
    case Step::EndThread: perform_end_thread(number); break;
    }
}

void Program::perform_heap(uint32_t number, uint32_t kind)
{
    Record heap;
    heap.number = heap.kind = static_cast<uint8_t>(kind);
    heap.count = static_cast<uint8_t>(random_.below(3));
    if (heap.count > 0) heap.size = random_.of_bits(63);
    if (heap.count > 1) heap.alignment = random_.next();
    record(number, heap);
}

void Program::perform_end_thread(uint32_t number)
{
    Thread &t = threads_[number];
    if (t.begun) recorder_.thread_end(number);
    for (ObjectId object : t.mail) /* what came after it began to end */
        pool_.push_back(object);
    for (const Relayed &relayed : t.relayed)
        pool_.push_back(relayed.object);
    if (t.ball != 0) pool_.push_back(t.ball);
    old_ids_.push_back(t.id);
    t.lives = false;
    t.mail.clear();
    t.relayed.clear();
    t.ball = 0;
}

/* The first word of a thread that is recorded says who it is. */
void Program::make_known(uint32_t number)
{
    Thread &t = threads_[number];
    if (t.begun || !recorder_.on) return;
    t.begun = true;
    recorder_.thread_begin(number, t.id);
}

void Program::record(uint32_t number, const Record &record)
{
    make_known(number);
    recorder_.call(number, record);
}

void Program::sequence(uint32_t number, uint32_t structure)
{
    if (options_.sequences == 0 || options_.opaque != 0) return;
    make_known(number);
    recorder_.sequence(number, threads_[number].allocating, structure);
}

/* Now and then, between its calls. */
void Program::maybe_tell_cache(uint32_t number)
{
    Thread &t = threads_[number];
    if (t.lives && t.begun && t.has_cache && recorder_.wants_cache(number))
        recorder_.cache_begin(number, allocator_, t.cache);
}

/* ---- allocation ---- */

void Program::perform_allocate(Thread &t, uint32_t size_class)
{
    if (!t.has_cache) {
        later(t, Step::Allocate, size_class);
        later(t, Step::CreateCache);
        return;
    }
    ThreadCache::List &list = t.cache.lists[size_class];
    if (list.places.empty()) {
        later(t, Step::Fetch, size_class);
        return;
    }
    take(t, size_class);
    /* Before it is needed: it goes behind what is there. */
    if (!list.places.empty() && random_.one_in(30)) later(t, Step::FetchMore, size_class);
}

/* The first one of the cache. */
void Program::take(Thread &t, uint32_t size_class)
{
    ThreadCache::List &list = t.cache.lists[size_class];
    /* A fault takes the wrong one. */
    bool below = options_.fault == kBelow && random_.one_in(20);
    auto taken = below ? list.places.begin() : list.places.end() - 1;
    t.call.place = *taken;
    list.places.erase(taken);
    t.call.size_class = size_class;
    t.call.cached = true;
    t.cache.bytes -= allocator_.class_bytes(size_class);
}

void Program::perform_fetch(uint32_t number, uint32_t size_class)
{
    sequence(number, allocator_.structure(size_class));
    if (!take_batch(number, size_class)) later(threads_[number], Step::PageHeap, size_class);
}

void Program::perform_fetch_more(uint32_t number, uint32_t size_class)
{
    sequence(number, allocator_.structure(size_class));
    take_batch(number, size_class);
}

/* Not from the cache but from the central list, if that has one. */
void Program::perform_allocate_one(uint32_t number, uint32_t size_class)
{
    Thread &t = threads_[number];
    sequence(number, allocator_.structure(size_class));
    std::vector<Place> batch = allocator_.central_take(number, size_class, 1);
    if (batch.empty()) {
        later(t, Step::Allocate, size_class);
        return;
    }
    t.call.place = batch[0];
    t.call.size_class = size_class;
}

/* From the central list into the cache; the first one of them is for the caller that waits for it.
 * False: there is nothing, more must come from the page heap. */
bool Program::take_batch(uint32_t number, uint32_t size_class)
{
    Thread &t = threads_[number];
    ThreadCache::List &list = t.cache.lists[size_class];
    std::vector<Place> batch =
        allocator_.central_take(number, size_class, std::min(list.most, allocator_.batch()));
    if (batch.empty()) return false;
    recorder_.cached(number, allocator_.structure(size_class), batch);
    bool waits = list.places.empty();
    list.places.insert(list.places.begin(), batch.rbegin(), batch.rend());
    t.cache.bytes += batch.size() * allocator_.class_bytes(size_class);
    list.most++;
    if (waits) take(t, size_class);
    return true;
}

void Program::allocated(uint32_t number)
{
    Thread &t = threads_[number];
    Record &made = t.call.record;
    ObjectId id = static_cast<ObjectId>(truth_.objects.size());
    Object object;
    bool in_place = made.number == 19;
    if (made.has_object) {
        const Object &old = truth_.objects[made.ends];
        t.call.old = {old.address, old.span, old.number};
        t.call.old_class = old.size_class;
        if (in_place) t.call.place = t.call.old;
    }
    object.address = t.call.place.address;
    object.span = t.call.place.span;
    object.size_class = in_place ? t.call.old_class : t.call.size_class;
    if (in_place && allocator_.splits()) object.size_class = allocator_.classes(); /* no longer */
    object.bytes = std::min(made.size, allocator_.bytes_at(t.call.place, object.size_class));
    if (options_.opaque != 0) made.size = object.bytes; /* others begin behind them */
    object.place = object.number = t.call.place.number;
    object.place_class = allocator_.structure(object.size_class);
    if (options_.opaque != 0) {
        object.place = allocator_.place_of(object.address);
        object.place_class = 0;
    }
    made.implied = t.call.cached && object.size_class == allocator_.class_of(made.size);
    truth_.objects.push_back(object);
    made.begins = id;
    t.allocating = false;
    if (!in_place) allocator_.becomes_live(t.call.place);
    record(number, made);
    live_++;
    deliver(number, id);
    if (!made.has_object || in_place || options_.opaque != 0) return;
    allocator_.becomes_free(t.call.old);
    later(t, Step::Put);
}

void Program::deliver(uint32_t number, ObjectId object)
{
    Thread &t = threads_[number];
    Thread &other = threads_[t.call.way == Way::Slot ? number : t.call.to];
    bool there = other.lives && !other.ending;
    switch (t.call.way) {
    case Way::Slot:
        if (t.slots[t.call.to] == 0)
            t.slots[t.call.to] = object;
        else
            pool_.push_back(object);
        break;
    case Way::Pool: pool_.push_back(object); break;
    case Way::Queue: queue_.push_back(object); break;
    case Way::Mail:
        if (there)
            other.mail.push_back(object);
        else
            pool_.push_back(object);
        break;
    case Way::PingPong:
        if (there && other.ball == 0)
            other.ball = object;
        else
            pool_.push_back(object);
        break;
    case Way::Relay:
        if (there)
            other.relayed.push_back({object, static_cast<uint32_t>(random_.below(4))});
        else
            pool_.push_back(object);
        break;
    }
}

/* ---- release ---- */

void Program::dies(uint32_t number)
{
    Thread &t = threads_[number];
    Record &freeing = t.call.record;
    const Object &object = truth_.objects[freeing.ends];
    freeing.number = freeing.kind = random_kind(kFree);
    freeing.has_object = true;
    if (kind_traits[freeing.number].sized)
        freeing.size = options_.odd_sizes != 0 ? random_.next() : 100;
    if (kind_traits[freeing.number].aligned) freeing.alignment = uint64_t{1} << random_.below(64);
    record(number, freeing);
    t.call.old = {object.address, object.span, object.number};
    t.call.old_class = object.size_class;
    later(t, Step::Put);
    live_--;
    allocator_.becomes_free(t.call.old);
}

/* In the middle of a realloc in place, whose object may not grow as far as it should. */
void Program::perform_resize(Thread &t)
{
    uint64_t address = truth_.objects[t.call.record.ends].address;
    if (!allocator_.resize_block(address, t.call.record.size))
        t.call.record.size = allocator_.block_bytes(address);
}

/* In the middle of a realloc. */
void Program::perform_give_up(uint32_t number)
{
    Thread &t = threads_[number];
    const Object &old = truth_.objects[t.call.record.ends];
    t.call.old = {old.address, old.span, old.number};
    t.call.old_class = old.size_class;
    allocator_.becomes_free(t.call.old);
    later(t, Step::Put);
}

void Program::perform_put(uint32_t number)
{
    Thread &t = threads_[number];
    const uint32_t size_class = t.call.old_class;
    if (size_class == allocator_.classes() && allocator_.splits()) {
        allocator_.give_block(t.call.old.address);
        return;
    }
    if (size_class == allocator_.classes()) {
        later(t, Step::DeleteSpan, t.call.old.span);
        return;
    }
    if (!t.has_cache) { /* straight into the central list */
        sequence(number, allocator_.structure(size_class));
        for (uint32_t span : allocator_.central_put(number, size_class, {t.call.old}))
            later(t, Step::DeleteSpan, span);
        return;
    }
    ThreadCache::List &list = t.cache.lists[size_class];
    list.places.push_back(t.call.old);
    t.cache.bytes += allocator_.class_bytes(size_class);
    const uint64_t most =
        std::max<uint64_t>(list.most, allocator_.batch()) * options_.cache_batches;
    if (list.places.size() > most) later(t, Step::Release, size_class, allocator_.batch());
    if (t.cache.bytes < allocator_.largest() * 200) return;
    /* Too much altogether: half of every list goes, and the cache may grow. */
    if (random_.one_in(2)) later(t, Step::SequenceHeap);
    for (uint32_t i = 0; i < allocator_.classes(); i++)
        if (t.cache.lists[i].places.size() > 1)
            later(t, Step::Release, i, t.cache.lists[i].places.size() / 2);
}

void Program::perform_release(uint32_t number, uint32_t size_class, uint64_t count)
{
    Thread &t = threads_[number];
    std::vector<Place> &places = t.cache.lists[size_class].places;
    count = std::min<uint64_t>(count, places.size());
    if (count == 0) return;
    bool first = random_.one_in(3);
    if (first) recorder_.uncached(number, allocator_.structure(size_class), count);
    sequence(number, allocator_.structure(size_class));
    if (!first) recorder_.uncached(number, allocator_.structure(size_class), count);
    std::vector<Place> batch(places.end() - static_cast<int64_t>(count), places.end());
    places.resize(places.size() - count);
    t.cache.bytes -= count * allocator_.class_bytes(size_class);
    for (uint32_t span : allocator_.central_put(number, size_class, batch))
        later(t, Step::DeleteSpan, span);
}

void Program::delete_cache(uint32_t number)
{
    Thread &t = threads_[number];
    if (t.begun && recorder_.on && options_.opaque == 0) recorder_.thread_cache_deleted(number);
    recorder_.cache_deleted(number);
    later(t, Step::SequenceHeap);
    /* Everything first, so that nothing is put into a cache that is no more. */
    for (uint32_t i = 0; i < allocator_.classes(); i++) {
        std::vector<Place> places;
        places.swap(t.cache.lists[i].places);
        if (places.empty()) continue;
        sequence(number, allocator_.structure(i));
        for (uint32_t span : allocator_.central_put(number, i, places))
            later(t, Step::DeleteSpan, span);
    }
    t.has_cache = false;
    t.cache = ThreadCache();
}
