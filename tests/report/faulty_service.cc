// faulty_service - a shop's server with eight faults, as programs have them: a newcomer must find each
// by what `malloctape report` shows first. A fault's line has its name in a comment.
//
//   requests --> queue --> workers --> answer(): session, names, prices, page, statistics
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace shop {

struct Request {
    unsigned number = 0;
    std::string path, user;
};

// ---- the log: what each request did, for an audit that nobody reads ----

struct Entry {
    unsigned number;
    char text[120];
};

__attribute__((noinline)) Entry *note(const Request &request)
{
    Entry *entry = new Entry; /* fault: leak */
    entry->number = request.number;
    std::snprintf(entry->text, sizeof entry->text, "%s %s", request.user.c_str(),
                  request.path.c_str());
    return entry;
}

// ---- answers that were given, kept for the next time they are asked for ----

class Answers {
  public:
    __attribute__((noinline)) const std::string &keep(const std::string &path,
                                                      const std::string &page)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        return kept_[path] = page; /* fault: cache */
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::string> kept_;
};

// ---- sessions ----

struct Basket;

struct Session {
    std::string user;
    std::shared_ptr<Basket> basket;
    char rights[64] = {};
};

struct Basket {
    std::shared_ptr<Session> session; // would have to be a weak_ptr
    std::vector<int> articles;
    char address[2000] = {};
};

__attribute__((noinline)) std::shared_ptr<Session> open_session(const std::string &user)
{
    auto session = std::make_shared<Session>();
    session->user = user;
    session->basket = std::make_shared<Basket>(); /* fault: cycle */
    session->basket->session = session;
    return session;
}

// ---- names of users, as a library without debug information writes them ----

extern "C" char *folded(const char *name); // faulty_library.c

__attribute__((noinline)) size_t greet(const Request &request)
{
    size_t letters = 0;
    for (int i = 0; i < 60; i++) {
        char *name = folded(request.user.c_str()); /* fault: library */
        letters += std::strlen(name);
        std::free(name);
    }
    return letters;
}

// ---- prices ----

__attribute__((noinline)) std::vector<double> prices_of(unsigned seed)
{
    std::vector<double> prices;
    for (unsigned i = 0; i < 5000; i++)
        prices.push_back((seed * 7 + i * 13) % 100); /* fault: growing */
    return prices;
}

// ---- pages ----

__attribute__((noinline)) std::string cell(double price)
{
    return "<td class='price'>the price is " + std::to_string(price); /* fault: temporaries */
}

__attribute__((noinline)) std::string page_of(const Request &request,
                                              const std::vector<double> &prices)
{
    std::string page;
    page.reserve(16384);
    page += "<h1>" + request.path + "</h1>";
    for (size_t i = 0; i < prices.size(); i += 8)
        page += cell(prices[i]);
    return page;
}

// ---- what is sent is packed in a buffer ----

__attribute__((noinline)) size_t pack(const std::string &page)
{
    std::vector<char> buffer(1 << 20); /* fault: buffer */
    size_t used = 0;
    for (char letter : page)
        if (letter != ' ') buffer[used++] = letter;
    return used;
}

// ---- statistics: an index entry that stays, between texts that go ----

struct Visit {
    Visit *next = nullptr;
    unsigned number = 0;
    char rest[104] = {};
};

class Statistics {
  public:
    __attribute__((noinline)) void count(unsigned number)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        for (int i = 0; i < 24; i++)
            texts_.push_back(new char[112]);
        Visit *visit = new Visit; /* fault: fragments */
        visit->next = visits_;
        visit->number = number;
        visits_ = visit;
        if (texts_.size() > 20000) sweep();
    }
    void sweep()
    {
        for (char *text : texts_)
            delete[] text;
        texts_.clear();
    }

  private:
    std::mutex mutex_;
    std::deque<char *> texts_;
    Visit *visits_ = nullptr;
};

// ---- the server ----

class Queue {
  public:
    void put(Request request)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        waiting_.push_back(std::move(request));
        ready_.notify_one();
    }
    bool take(Request &request)
    {
        std::unique_lock<std::mutex> guard(mutex_);
        ready_.wait(guard, [this] { return closed_ || !waiting_.empty(); });
        if (waiting_.empty()) return false;
        request = std::move(waiting_.front());
        waiting_.pop_front();
        return true;
    }
    void close()
    {
        std::lock_guard<std::mutex> guard(mutex_);
        closed_ = true;
        ready_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable ready_;
    std::list<Request> waiting_;
    bool closed_ = false;
};

struct Server {
    Queue queue;
    Answers answers;
    Statistics statistics;
    size_t sent = 0;
    std::mutex mutex;

    void answer(const Request &request)
    {
        Entry *entry = note(request);
        std::shared_ptr<Session> session = open_session(request.user);
        const std::vector<double> prices = prices_of(request.number);
        const std::string page = page_of(request, prices);
        if (request.number % 32 == 0) answers.keep(request.path, page.substr(0, 6000));
        const size_t packed = pack(page) + greet(request);
        statistics.count(entry->number);
        std::lock_guard<std::mutex> guard(mutex);
        sent += packed;
    }
    void work()
    {
        for (Request request; queue.take(request);)
            answer(request);
    }
};

} // namespace shop

int main(int count, char **words)
{
    static shop::Server server;
    const unsigned requests = count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 300;
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < 2; i++)
        workers.emplace_back([] { server.work(); });
    for (unsigned i = 0; i < requests; i++) {
        shop::Request request;
        request.number = i;
        request.path = "/shop/articles/of/the/day/" + std::to_string(i);
        request.user = "a user with a long name, number " + std::to_string(i % 100);
        server.queue.put(std::move(request));
    }
    server.queue.close();
    for (std::thread &worker : workers)
        worker.join();
    server.statistics.sweep();
    std::printf("%zu\n", server.sent);
    std::_Exit(0);
}
