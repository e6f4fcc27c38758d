// relay - C++ threads that make objects of every kind and hand them to each other through one
// queue.
//
//   relay THREADS LIVES ROUNDS [pauses]
//
// What a thread takes from the queue it changes or releases, with the form of delete that belongs
// to the form of new. Each of THREADS lives LIVES times, one thread after another, with ROUNDS in
// each life. With "pauses" the recording of the program is paused and resumed meanwhile, 20 times
// in all, so that objects are made in one state and released in the other.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "common/atomic.h"
#include "tracing/process/malloctape.h"

namespace {

constexpr unsigned kPauses = 20;
constexpr size_t kQueueMax = 2000;

class Thing {
  public:
    virtual ~Thing() = default;
    virtual void change(unsigned random) = 0;
};

class Text : public Thing {
  public:
    explicit Text(unsigned random) : text_(random % 300, 'a') {}
    void change(unsigned random) override { text_.append(random % 50, 'b'); }

  private:
    std::string text_;
};

class Table : public Thing {
  public:
    explicit Table(unsigned random)
    {
        for (unsigned i = 0; i < random % 20; i++)
            rows_[i * 7].resize(i);
    }
    void change(unsigned random) override { rows_.erase(random % 140); }

  private:
    std::map<unsigned, std::vector<int>> rows_;
};

class Block : public Thing {
  public:
    explicit Block(unsigned random) : memory_(malloc(random % 2000)) {}
    ~Block() override { free(memory_); }
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    void change(unsigned random) override
    {
        void *grown = realloc(memory_, 1 + random % 5000);
        if (grown) memory_ = grown;
    }

  private:
    void *memory_;
};

// All the other ways to get memory, and to give it back.
class Odd : public Thing {
  public:
    explicit Odd(unsigned random) : way_(random % 9), size_(1 + random % 700)
    {
        switch (way_) {
        case 0: memory_ = operator new(size_, std::align_val_t(64)); break;
        case 1: memory_ = operator new[](size_, std::align_val_t(128), std::nothrow); break;
        case 2: memory_ = operator new(size_, std::nothrow); break;
        case 3: memory_ = operator new[](size_); break;
        case 4: memory_ = calloc(size_, 3); break;
        case 5: memory_ = aligned_alloc(32, size_ * 32); break;
        case 6: memory_ = memalign(256, size_); break;
        case 7:
            if (posix_memalign(&memory_, 64, size_) != 0) abort();
            break;
        default: memory_ = valloc(size_); break;
        }
    }
    ~Odd() override
    {
        switch (way_) {
        case 0: operator delete(memory_, size_, std::align_val_t(64)); break;
        case 1: operator delete[](memory_, std::align_val_t(128), std::nothrow); break;
        case 2: operator delete(memory_, std::nothrow); break;
        case 3: operator delete[](memory_, size_); break;
        default: free(memory_); break;
        }
    }
    Odd(const Odd &) = delete;
    Odd &operator=(const Odd &) = delete;
    // What fails must leave the object as it is.
    void change(unsigned) override
    {
        const size_t far_too_much = static_cast<size_t>(1) << 62;
        if (way_ < 4 || realloc(memory_, far_too_much)) return;
        try {
            operator delete(operator new(far_too_much));
        } catch (const std::bad_alloc &) {
            size_++;
        }
    }

  private:
    unsigned way_;
    size_t size_;
    void *memory_ = nullptr;
};

std::mutex mutex;
std::deque<std::unique_ptr<Thing>> queue;

std::unique_ptr<Thing> made(unsigned random)
{
    switch (random % 11) {
    case 0:
    case 1: return std::make_unique<Odd>(random / 11);
    case 2:
    case 3: return std::make_unique<Table>(random / 11);
    case 4:
    case 5:
    case 6: return std::make_unique<Block>(random / 11);
    default: return std::make_unique<Text>(random / 11);
    }
}

void put(std::unique_ptr<Thing> thing)
{
    std::lock_guard<std::mutex> hold(mutex);
    if (queue.size() < kQueueMax) queue.push_back(std::move(thing));
}

std::unique_ptr<Thing> taken()
{
    std::lock_guard<std::mutex> hold(mutex);
    if (queue.empty()) return nullptr;
    std::unique_ptr<Thing> thing = std::move(queue.front());
    queue.pop_front();
    return thing;
}

void work(unsigned number, unsigned rounds)
{
    unsigned state = number * 2654435761u + 1;
    auto random = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
    for (unsigned i = 0; i < rounds; i++) {
        put(made(random()));
        std::unique_ptr<Thing> thing = taken();
        if (!thing) continue;
        thing->change(random());
        if (random() % 3 == 0) put(std::move(thing));
    }
}

void run(unsigned number, unsigned lives, unsigned rounds)
{
    for (unsigned life = 0; life < lives; life++)
        std::thread(work, number * lives + life, rounds).join();
}

unsigned to_number(const char *word)
{
    return static_cast<unsigned>(strtoul(word, nullptr, 10));
}

// Each state for about as long.
void pause_and_resume(const bool *done)
{
    for (unsigned i = 0; i < kPauses && !atomic_load_acquire(done); i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        malloctape_pause();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        malloctape_resume();
    }
}

} // namespace

int main(int count, char **words)
{
    if (count < 4) {
        fputs("usage: relay THREADS LIVES ROUNDS [pauses]\n", stderr);
        return 2;
    }
    bool pauses = count > 4 && strcmp(words[4], "pauses") == 0;
    std::vector<std::thread> threads;
    bool done = false;
    std::thread pausing;
    if (pauses) pausing = std::thread(pause_and_resume, &done);
    for (unsigned i = 0; i < to_number(words[1]); i++)
        threads.emplace_back(run, i, to_number(words[2]), to_number(words[3]));
    for (std::thread &thread : threads)
        thread.join();
    atomic_store_release(&done, true);
    if (pausing.joinable()) pausing.join();
    printf("%zu left\n", queue.size());
    return 0;
}
