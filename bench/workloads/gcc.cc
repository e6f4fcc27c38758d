// gcc - input for the compiler, to follow standard headers (bench/workloads.rb lists them). It is
// compiled and never run. No two functions are alike: a compiler that repeats its work repeats its
// calls, and a recording of that would be smaller than that of a real program.

#include <condition_variable>
#include <iterator>
#include <mutex>

struct place {
    int number;
    std::string name;
    std::vector<double> distances;
};

std::map<std::string, place> places_by_name;
std::unordered_map<int, std::vector<place>> places_by_number;
std::mutex places_lock;

bool place_add(const std::string &line)
{
    static const std::regex pattern("([0-9]+) +([A-Za-z ]+)((?: +[0-9.]+)*)");
    std::smatch match;
    if (!std::regex_match(line, match, pattern)) return false;
    place added{std::stoi(match[1]), match[2], {}};
    std::istringstream rest(match[3]);
    for (double distance; rest >> distance;)
        added.distances.push_back(distance);
    std::lock_guard<std::mutex> guard(places_lock);
    places_by_number[added.number].push_back(added);
    return places_by_name.emplace(added.name, std::move(added)).second;
}

std::vector<const place *> places_sorted(
    const std::function<bool(const place &, const place &)> &before)
{
    std::vector<const place *> sorted;
    for (const auto &[name, one] : places_by_name)
        sorted.push_back(&one);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const place *a, const place *b) { return before(*a, *b); });
    return sorted;
}

std::string words_reversed(std::string text)
{
    std::regex word("\\w+", std::regex::icase | std::regex::optimize);
    std::vector<std::string> words(std::sregex_token_iterator(text.begin(), text.end(), word), {});
    std::reverse(words.begin(), words.end());
    std::ostringstream joined;
    std::copy(words.begin(), words.end(), std::ostream_iterator<std::string>(joined, " "));
    return std::regex_replace(joined.str(), std::regex("(a|e|i|o|u)+"), std::string("$1"));
}

double simulated(unsigned seed, std::size_t rounds)
{
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal(0, 2);
    std::poisson_distribution<int> poisson(4.1);
    std::discrete_distribution<> choice{3, 2, 1};
    std::vector<std::future<double>> parts;
    for (std::size_t i = 0; i < rounds; i++) {
        parts.push_back(std::async(std::launch::async, [=]() mutable {
            return choice(generator) ? normal(generator) : poisson(generator);
        }));
    }
    double sum = 0;
    for (auto &part : parts)
        sum += part.get();
    return sum;
}

std::multimap<std::size_t, std::string> anagrams(const std::vector<std::string> &words)
{
    std::unordered_map<std::string, std::vector<std::string>> groups;
    for (auto letters : words) {
        std::string word = letters;
        std::sort(letters.begin(), letters.end());
        groups[letters].push_back(word);
    }
    std::multimap<std::size_t, std::string> by_size;
    for (auto &[letters, group] : groups) {
        std::partial_sort(group.begin(), group.begin() + 1, group.end(), std::greater<>());
        by_size.insert({group.size(), group.front() + ": " + letters});
    }
    return by_size;
}

int primes_below(int limit)
{
    std::vector<bool> composite(limit);
    std::vector<int> primes;
    for (int n = 2; n < limit; n++) {
        if (composite[n]) continue;
        primes.push_back(n);
        for (long multiple = (long)n * n; multiple < limit; multiple += n)
            composite[multiple] = true;
    }
    std::shuffle(primes.begin(), primes.end(), std::default_random_engine(limit));
    std::nth_element(primes.begin(), primes.begin() + primes.size() / 2, primes.end());
    return primes.empty() ? 0 : primes[primes.size() / 2];
}

class worker_pool {
  public:
    explicit worker_pool(unsigned workers)
    {
        while (workers-- > 0)
            threads_.emplace_back([this] { work(); });
    }

    ~worker_pool()
    {
        {
            std::unique_lock<std::mutex> guard(lock_);
            closed_ = true;
        }
        changed_.notify_all();
        for (auto &thread : threads_)
            thread.join();
    }

    std::future<std::string> ask(std::function<std::string(int)> question, int argument)
    {
        std::packaged_task<std::string()> task(std::bind(std::move(question), argument));
        auto answer = task.get_future();
        std::unique_lock<std::mutex> guard(lock_);
        tasks_.push_back(std::move(task));
        changed_.notify_one();
        return answer;
    }

  private:
    void work()
    {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            changed_.wait(guard, [this] { return closed_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            auto task = std::move(tasks_.back());
            tasks_.pop_back();
            guard.unlock();
            task();
            guard.lock();
        }
    }

    std::vector<std::packaged_task<std::string()>> tasks_;
    std::vector<std::thread> threads_;
    std::condition_variable changed_;
    std::mutex lock_;
    bool closed_ = false;
};

int main(int count, char **words)
{
    worker_pool pool(4);
    for (std::string line; std::getline(std::cin, line);)
        if (!place_add(line)) std::cerr << words_reversed(line) << std::endl;
    auto answer =
        pool.ask([](int n) { return std::to_string(simulated(n, 10)); }, primes_below(1000));
    for (const place *one : places_sorted([](auto &a, auto &b) { return a.number < b.number; }))
        std::cout << one->number << '\t' << one->name << '\n';
    for (const auto &[size, text] : anagrams(std::vector<std::string>(words, words + count)))
        std::wcout << size << L' ' << std::wstring(text.begin(), text.end()) << std::endl;
    std::cout << answer.get() << '\n';
}
