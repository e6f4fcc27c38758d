// Fibers on stacks of 1.5 to 48 KiB, in the middle of memory that must not change.
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <signal.h>
#include <vector>
namespace ctx = boost::context;
struct Stack {
    size_t n;
    ctx::stack_context allocate()
    {
        char *p = (char *)malloc(n + 32768);
        memset(p, 0x5a, n + 32768);
        ctx::stack_context c;
        c.size = n;
        c.sp = p + 16384 + n;
        return c;
    }
    void deallocate(ctx::stack_context &) {}
};
int main()
{
    std::vector<ctx::fiber> fibers;
    std::vector<char *> low;
    std::vector<size_t> sizes;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    for (int i = 0; i < 16; i++) {
        size_t n = size_t(1536) << (i % 6);
        char *at = nullptr;
        fibers.emplace_back(std::allocator_arg, Stack{n}, [&at](ctx::fiber &&back) {
            char here;
            at = &here;
            for (;;) {
                for (volatile int k = 0; k < 300000; k++) {}
                back = std::move(back).resume();
            }
            return std::move(back);
        });
        fibers.back() = std::move(fibers.back()).resume();
        low.push_back(at);
        sizes.push_back(n);
    }
    puts("ready");
    fflush(stdout);
    pollfd in{0, POLLIN, 0};
    long made = 0;
    while (poll(&in, 1, 0) == 0)
        for (size_t i = 0; i < fibers.size(); i++) {
            fibers[i] = std::move(fibers[i]).resume();
            made++;
            for (char *p = low[i] - sizes[i] - 8192; p < low[i] - sizes[i] - 16; p++)
                if (*p != 0x5a) {
                    fprintf(stderr, "fiber %zu overwritten\n", sizes[i]);
                    _exit(1);
                }
        }
    printf("done %ld\n", made);
    fflush(stdout);
    _exit(0);
}
