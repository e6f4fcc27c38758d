#include "tests/sim/program.h"

#include <algorithm>

Program::Program(const Options &options, Random &random, Recorder &recorder, Truth &truth)
    : options_(options), random_(random), recorder_(recorder), truth_(truth), allocator_(options)
{
    threads_.resize(std::min<uint64_t>(64, std::max<uint64_t>(1, options.threads)));
    truth.whole_units = options.preempt == 0;
    recorder.on = options.unknown == 0;
    recorder.know_classes(allocator_.bytes_by_structure());
    next_tick_ = options.tick_every;
}

void Program::run()
{
    while (recorder_.calls < options_.events && steps_ < 100 * options_.events + 100000)
        step();
    if (options_.end == 1) stop();
    recorder_.finish(nanoseconds_ + 1);
}

/* Recording ends while threads run: one after another finds out. */
void Program::stop()
{
    uint64_t steps = random_.between(1, 300);
    for (uint64_t i = 0; i < steps; i++) {
        if (recorder_.lanes() > 0 && random_.one_in(1 + steps / 10))
            recorder_.stop(static_cast<uint32_t>(random_.below(recorder_.lanes())));
        choose_thread();
    }
}

/* ---- the world ---- */

void Program::step()
{
    maybe_record();
    choose_thread();
    recorder_.maybe_map(current_);
    maybe_cut();
    if (options_.tick_every != 0 && steps_ >= next_tick_) make_tick();
}

/* One step of a thread. */
void Program::choose_thread()
{
    steps_++;
    Thread *t = &threads_[current_];
    bool may_leave = options_.preempt != 0 || t->todo.empty();
    if (may_leave && (turn_ == 0 || t->stalled_until > steps_)) {
        for (int tries = 0; tries < 8; tries++) {
            current_ = static_cast<uint32_t>(random_.below(threads_.size()));
            if (threads_[current_].stalled_until <= steps_) break;
        }
        t = &threads_[current_];
        turn_ = 1 + random_.below(2 * options_.burst);
    }
    turn_ -= turn_ > 0;
    if (t->todo.empty()) {
        maybe_tell_cache(current_);
        act(current_);
        return;
    }
    Todo todo = t->todo.back();
    t->todo.pop_back();
    perform(current_, todo);
    if (options_.stall != 0 && options_.preempt != 0 && !t->todo.empty() && random_.one_in(2000))
        t->stalled_until = steps_ + random_.of_bits(14);
    if (options_.stall == 2 && options_.preempt != 0 && !t->todo.empty() && random_.one_in(100))
        t->stalled_until = steps_ + random_.below(3 * options_.tick_every + 100);
}

void Program::maybe_cut()
{
    if (options_.cut_every == 0 || !random_.one_in(options_.cut_every)) return;
    uint32_t lanes = recorder_.lanes();
    for (uint64_t i = 0; lanes > 0 && i < 1 + lanes / 4; i++)
        recorder_.cut(static_cast<uint32_t>(random_.below(lanes)), random_.one_in(2));
}

/* Recording begins late, pauses, loses. */
void Program::maybe_record()
{
    if (options_.unknown != 0 && steps_ == options_.unknown) recorder_.on = true;
    if (steps_ <= options_.unknown) return;
    if (options_.pauses != 0 && random_.one_in(1 + options_.events / options_.pauses))
        recorder_.on = !recorder_.on;
    if (!recorder_.on && random_.one_in(200)) recorder_.on = true;
    if (options_.losses == 0 || recorder_.lanes() == 0) return;
    if (random_.one_in(1 + options_.events / options_.losses))
        recorder_.start_losing(static_cast<uint32_t>(random_.below(recorder_.lanes())));
    if (random_.one_in(100))
        recorder_.stop_losing(static_cast<uint32_t>(random_.below(recorder_.lanes())));
}

/* The lanes are looked at one after another while threads run. */
void Program::make_tick()
{
    nanoseconds_ += random_.of_bits(30);
    for (uint32_t lane = 0; lane < recorder_.lanes(); lane++) {
        if (options_.long_losses == 0) recorder_.stop_losing(lane);
        recorder_.cut(lane, true);
        if (options_.tick_skew == 0) continue;
        for (uint64_t more = random_.below(1 + options_.tick_skew) / recorder_.lanes(); more > 0;
             more--)
            choose_thread();
    }
    const uint64_t rss = random_.of_bits(40);
    std::vector<uint64_t> usage;
    if (rss % 4 != 0)
        usage = {rss / 5, nanoseconds_ / 2, nanoseconds_ / 3,    rss % 3 == 0 ? rss : 0,
                 rss % 3, rss / 7,          UINT64_MAX - rss % 2};
    recorder_.tick({nanoseconds_, rss, allocator_.heap_bytes(), usage});
    next_tick_ = steps_ + 1 + random_.below(2 * options_.tick_every);
}

/* ---- decisions ---- */

void Program::begin_thread(uint32_t number)
{
    Thread &t = threads_[number];
    t = Thread();
    t.lives = true;
    t.id = !old_ids_.empty() && random_.one_in(2)
               ? take_out(old_ids_, random_.below(old_ids_.size()))
               : next_id_++;
    t.slots.resize(std::max<uint64_t>(1, options_.slots));
}

/* What it holds is left to others, or nobody. */
void Program::end_thread(Thread &t)
{
    for (ObjectId object : t.slots)
        if (object != 0 && !random_.one_in(4)) pool_.push_back(object);
    for (ObjectId object : t.mail)
        pool_.push_back(object);
    for (const Relayed &relayed : t.relayed)
        pool_.push_back(relayed.object);
    if (t.ball != 0) pool_.push_back(t.ball);
    t.slots.assign(t.slots.size(), 0);
    t.mail.clear();
    t.relayed.clear();
    t.ball = 0;
    t.ending = true;
    later(t, Step::EndThread);
    /* The cache goes first; what is freed after that goes to the central lists, or into a new
     * cache. */
    for (uint64_t last = random_.below(3); last > 0 && !pool_.empty(); last--) {
        ObjectId object = take_out(pool_, random_.below(pool_.size()));
        if (random_.one_in(2))
            later(t, Step::RecordFree, object);
        else
            pool_.push_back(object);
    }
    if (t.has_cache) later(t, Step::DeleteCache);
}

uint32_t Program::other_thread(uint32_t number)
{
    if (threads_.size() == 1) return number;
    return static_cast<uint32_t>((number + random_.between(1, threads_.size() - 1)) %
                                 threads_.size());
}

void Program::act(uint32_t number)
{
    Thread &t = threads_[number];
    if (!t.lives) {
        begin_thread(number);
        return;
    }
    const uint64_t weights[] = {options_.own,
                                options_.share,
                                options_.queue,
                                options_.mail,
                                options_.pingpong,
                                options_.relay,
                                1};
    uint64_t sum = 0, at = 0;
    for (uint64_t weight : weights)
        sum += weight;
    uint64_t chosen = random_.below(sum);
    while (chosen >= weights[at])
        chosen -= weights[at++];
    switch (at) {
    case 0: act_own(number); break;
    case 1: act_pool(number); break;
    case 2: act_queue(t); break;
    case 3: act_mail(number); break;
    case 4: act_pingpong(number); break;
    case 5: act_relay(number); break;
    default: act_seldom(number); break;
    }
}

void Program::act_own(uint32_t number)
{
    Thread &t = threads_[number];
    uint32_t slot = static_cast<uint32_t>(random_.below(t.slots.size()));
    ObjectId object = t.slots[slot];
    if (object == 0) {
        allocate(t, Way::Slot, slot);
        return;
    }
    t.slots[slot] = 0;
    if (options_.reallocs != 0 && random_.one_in(options_.reallocs))
        reallocate(number, object, Way::Slot, slot);
    else
        release(t, object);
}

void Program::act_pool(uint32_t number)
{
    Thread &t = threads_[number];
    if (pool_.size() < 64 && random_.one_in(2)) {
        allocate(t, Way::Pool, 0);
    } else if (!pool_.empty()) {
        ObjectId object = take_out(pool_, random_.below(pool_.size()));
        if (options_.reallocs != 0 && random_.one_in(options_.reallocs))
            reallocate(number, object, Way::Pool, 0);
        else
            release(t, object);
    }
}

void Program::act_queue(Thread &t)
{
    if (queue_.size() < 200 && random_.one_in(2)) {
        allocate(t, Way::Queue, 0);
    } else if (!queue_.empty()) {
        ObjectId object = queue_.front();
        queue_.pop_front();
        release(t, object);
    }
}

/* One way: to the next thread, which frees. */
void Program::act_mail(uint32_t number)
{
    Thread &t = threads_[number];
    if (!t.mail.empty() && random_.one_in(2)) {
        ObjectId object = t.mail.front();
        t.mail.pop_front();
        release(t, object);
        return;
    }
    uint32_t to = static_cast<uint32_t>((number + 1) % threads_.size());
    if (threads_[to].lives && threads_[to].mail.size() < 100) allocate(t, Way::Mail, to);
}

/* Whoever has the ball frees it, makes another of the same size, at the same address as a rule, and
 * passes it. */
void Program::act_pingpong(uint32_t number)
{
    Thread &t = threads_[number];
    uint32_t partner = number ^ 1u;
    if (partner >= threads_.size()) partner = number;
    if (t.ball == 0) {
        if (number < partner && threads_[partner].ball == 0)
            allocate(t, Way::PingPong, partner, 16);
        return;
    }
    ObjectId ball = t.ball;
    t.ball = 0;
    later(t, Step::Serve, partner);
    release(t, ball);
}

/* Made by one thread, passed on by others, freed by the last. */
void Program::act_relay(uint32_t number)
{
    Thread &t = threads_[number];
    if (t.relayed.empty()) {
        allocate(t, Way::Relay, other_thread(number));
        return;
    }
    Relayed relayed = t.relayed.front();
    t.relayed.pop_front();
    uint32_t to = other_thread(number);
    if (relayed.hops == 0 || !threads_[to].lives || threads_[to].ending) {
        release(t, relayed.object);
        return;
    }
    threads_[to].relayed.push_back({relayed.object, relayed.hops - 1});
}

void Program::act_seldom(uint32_t number)
{
    Thread &t = threads_[number];
    /* One of its own chances among so many; the weights of `act` are about a hundred. */
    const auto chance = [this](uint64_t actions) {
        return actions != 0 && random_.one_in(1 + actions / 100);
    };
    if (chance(options_.exits) && random_.one_in(4))
        end_thread(t);
    else if (chance(options_.failures) && random_.one_in(2))
        fail(t);
    else if (chance(options_.heap_calls))
        heap_call(t);
    else
        act_own(number);
}

/* ---- calls ---- */

uint64_t Program::random_size()
{
    if (options_.odd_sizes != 0 && random_.one_in(4))
        return random_.of_bits(random_.one_in(20) ? 63 : 20);
    if (options_.large != 0 && random_.one_in(50)) return random_.between(1, 20 * kPageBytes);
    return random_.below(allocator_.largest() + 1);
}

uint8_t Program::random_kind(Shape shape)
{
    if (options_.kinds == 0 || random_.one_in(2))
        return shape == kAllocation ? 1 : shape == kRealloc ? 18 : shape == kHeap ? 37 : 21;
    for (;;) {
        uint8_t kind = static_cast<uint8_t>(random_.between(1, 44));
        if (kind_traits[kind].shape == shape) return kind;
    }
}

/* The model gives room for what a program could really ask; the record has the size asked for. */
void Program::later_allocate(Thread &t, uint64_t size)
{
    t.allocating = true;
    /* Alignment may need a larger class. */
    bool other = random_.one_in(kind_traits[t.call.record.number].aligned ? 2 : 50);
    if (size <= allocator_.largest() && other)
        later(t, random_.one_in(2) ? Step::Allocate : Step::AllocateOne,
              random_.between(allocator_.class_of(size), allocator_.classes() - 1));
    else if (size <= allocator_.largest())
        later(t, Step::Allocate, allocator_.class_of(size));
    else
        later(t, Step::AllocateLarge, std::min<uint64_t>(size, 64 * kPageBytes));
}

void Program::allocate(Thread &t, Way way, uint32_t to, uint64_t size)
{
    t.call = Call();
    t.call.way = way;
    t.call.to = to;
    Record &record = t.call.record;
    record.number = record.kind = random_kind(kAllocation);
    record.size = size != UINT64_MAX ? size : random_size();
    if (kind_traits[record.number].aligned)
        record.alignment =
            options_.odd_sizes != 0 ? random_.of_bits(63) : uint64_t{1} << random_.between(3, 12);
    later(t, Step::RecordAllocation);
    later_allocate(t, record.size);
}

void Program::release(Thread &t, ObjectId object)
{
    later(t, Step::RecordFree, object);
}

void Program::reallocate(uint32_t number, ObjectId object, Way way, uint32_t to)
{
    Thread &t = threads_[number];
    t.call = Call();
    t.call.way = way;
    t.call.to = to;
    Record &record = t.call.record;
    record.has_object = true;
    record.ends = object;
    record.size = random_size();
    bool in_place = options_.kinds != 0 && random_.one_in(3);
    record.number = record.kind = in_place ? 19 : 18;
    later(t, Step::RecordRealloc);
    if (options_.opaque != 0) {
        make_known(number);
        recorder_.announce(number, record);
        if (!in_place) later(t, Step::GiveUp);
        if (in_place && allocator_.splits()) later(t, Step::Resize);
    }
    if (!in_place) later_allocate(t, record.size);
}

/* A call that fails has been to the page heap. */
void Program::fail(Thread &t)
{
    t.call = Call();
    Record &record = t.call.record;
    record.number = kFailed;
    record.size = options_.odd_sizes != 0 ? random_.next() : uint64_t{1} << 50;
    if (random_.one_in(4)) {
        record.kind = 18;
        record.has_object = true;
        for (ObjectId object : t.slots)
            if (object != 0) record.ends = object;
        if (!pool_.empty() && random_.one_in(2)) {
            t.call.way = Way::Pool; /* where it goes back to */
            record.ends = take_out(pool_, random_.below(pool_.size()));
        }
        if (record.ends == 0) return;
    } else {
        record.kind = random_kind(kAllocation);
        if (kind_traits[record.kind].aligned) record.alignment = random_.of_bits(63);
    }
    t.allocating = true;
    later(t, Step::RecordFailure);
    if (options_.sequences != 0) later(t, Step::SequenceHeap);
}

void Program::heap_call(Thread &t)
{
    uint8_t kind = random_kind(kHeap);
    if (t.has_cache && kind == 38) later(t, Step::DeleteCache);
    if (options_.sequences != 0 && random_.one_in(2)) later(t, Step::SequenceHeap);
    later(t, Step::Heap, kind);
}
