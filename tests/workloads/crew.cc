// crew - a server of eight threads that do nothing but allocate, until its input ends; unless
// MALLOCTAPE_LONG is in the environment, with pauses that leave the processor to others.
//
//     crew [THREADS]
//
// Each thread builds texts, tables and trees, hands them to the next thread, looks whether what it is
// handed is right, throws and catches, and is replaced by a new thread now and then. At the end
// "done", and how much was handed over.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Work {
    unsigned seed;
    std::vector<std::string> texts;
    std::map<unsigned, std::string> tree;
};

struct Queue {
    std::mutex lock;
    std::deque<std::unique_ptr<Work>> work;
};

std::atomic<bool> over{false};
std::atomic<unsigned long> handed{0};
std::vector<Queue> queues;
const bool has_pauses = std::getenv("MALLOCTAPE_LONG") == nullptr;

void fail(const char *what)
{
    std::fprintf(stderr, "crew: %s\n", what);
    _exit(1);
}

std::string text_of(unsigned number)
{
    return std::string(number % 300, static_cast<char>('a' + number % 26)) + std::to_string(number);
}

std::unique_ptr<Work> make(unsigned seed)
{
    std::unique_ptr<Work> work(new Work{seed, {}, {}});
    for (unsigned i = 0; i < 20; i++) {
        work->texts.push_back(text_of(seed + i));
        work->tree[seed ^ i] = text_of(seed * 7 + i);
    }
    return work;
}

void look(const Work &work)
{
    for (unsigned i = 0; i < 20; i++)
        if (work.texts[i] != text_of(work.seed + i) ||
            work.tree.at(work.seed ^ i) != text_of(work.seed * 7 + i))
            fail("what was handed over has changed");
}

// A thread's time; then another one takes its place.
void shift(unsigned number, unsigned seed)
{
    Queue &mine = queues[number], &next = queues[(number + 1) % queues.size()];
    for (unsigned i = 0; i < 2000 && !over; i++) {
        if (has_pauses) usleep(1000);
        std::unique_ptr<Work> work = make(seed + i);
        {
            std::lock_guard<std::mutex> guard(next.lock);
            if (next.work.size() < 100) next.work.push_back(std::move(work));
        }
        {
            std::lock_guard<std::mutex> guard(mine.lock);
            if (!mine.work.empty()) {
                work = std::move(mine.work.front());
                mine.work.pop_front();
                handed++;
            }
        }
        if (work) look(*work);
        try {
            if (i % 16 == 0) throw std::runtime_error(text_of(i));
        } catch (const std::exception &thrown) {
            if (thrown.what() != text_of(i)) fail("another exception was thrown");
        }
    }
}

void keep(unsigned number)
{
    for (unsigned round = 0; !over; round++) {
        std::thread one(shift, number, number * 1000003 + round * 2000);
        one.join();
    }
}

} // namespace

int main(int count, char **words)
{
    const unsigned threads = count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 8;
    char byte;
    queues = std::vector<Queue>(threads);
    std::vector<std::thread> keepers;
    for (unsigned i = 0; i < threads; i++)
        keepers.emplace_back(keep, i);
    while (read(STDIN_FILENO, &byte, 1) == 1) {}
    over = true;
    for (std::thread &keeper : keepers)
        keeper.join();
    std::printf("done %lu\n", handed.load());
    return 0;
}
