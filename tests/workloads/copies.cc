// copies - looks at a string in a loop. Built twice: `copies_after` hands it over by value, which
// makes one copy of 61 bytes each time.
//
//   copies_before TIMES
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#ifdef COPIES_BY_VALUE
using Parameter = std::string;
#else
using Parameter = const std::string &;
#endif

__attribute__((noinline)) static size_t look(Parameter text)
{
    return text.find('y');
}

int main(int count, char **words)
{
    const long times = count > 1 ? std::atol(words[1]) : 1000;
    const std::string text(60, 'x');
    std::vector<std::unique_ptr<long>> found;
    for (long i = 0; i < times; i++)
        if (look(text) == std::string::npos && i % 4 == 0)
            found.push_back(std::make_unique<long>(i));
    return found.empty();
}
