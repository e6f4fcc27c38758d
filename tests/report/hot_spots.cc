/* hot_spots - compiled and recorded by tests/report/recorded_code_test.rb: each function asks for most
 * in one way, and COPIES builds ask for more in one of them. */
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#ifndef COPIES
#define COPIES 1
#endif
#define ALONE __attribute__((noinline))

static std::vector<void *> kept, handed;

ALONE static void *take(size_t bytes)
{
    return malloc(bytes); /* taken here */
}

ALONE void leaks()
{
    for (int i = 0; i < 2000; i++)
        kept.push_back(take(500));
}

ALONE size_t copies_text(const std::string &text)
{
    size_t bytes = 0;
    for (int i = 0; i < COPIES; i++)
        bytes += std::string(text).size(); /* copied here */
    return bytes;
}

ALONE void hands_over()
{
    for (int i = 0; i < 12000; i++)
        handed.push_back(malloc(40)); /* handed here */
}

ALONE void grows()
{
    char *text = nullptr;
    for (size_t i = 1; i < 300; i++)
        text = static_cast<char *>(realloc(text, 200 * i)); /* grown here */
    free(text);
}

int main()
{
    const std::string text(200, 'x');
    size_t bytes = 0;
    kept.reserve(2000);
    handed.reserve(12000);
    leaks();
    for (int i = 0; i < 10000; i++)
        bytes += copies_text(text);
    hands_over();
    std::thread([] {
        for (void *one : handed)
            free(one);
    }).join();
    grows();
    return bytes == 0;
}
