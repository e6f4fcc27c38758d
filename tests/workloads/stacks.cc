// stacks [PLUGIN_A PLUGIN_B] - allocates on stacks of every kind, and writes down, by the C++
// runtime's unwinder, where each call came from: a line for each allocation, the size, and the
// addresses at which functions go on, from the one on that allocates.
//
// Each call has a size of its own. With plug-ins, which have a function plug_in(), also from these,
// loaded one after the other, again and again, while other threads allocate.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

#include "tests/code.h"

namespace {

#define NOINLINE   __attribute__((noinline, noclone))
#define AND_RETURN __asm__ volatile("" ::: "memory")

constexpr size_t kAnswers = 3000, kFrames = 300;
struct Answer {
    size_t size, frames;
    uintptr_t frame[kFrames];
};
Answer answers[kAnswers];
std::atomic<size_t> answers_count;
std::atomic<size_t> next_size{5000};

_Unwind_Reason_Code add_frame(_Unwind_Context *context, void *to)
{
    Answer *answer = static_cast<Answer *>(to);
    int before = 0;
    const uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (pc == 0 || answer->frames == kFrames) return _URC_END_OF_STACK;
    answer->frame[answer->frames++] = pc + (before != 0);
    return _URC_NO_REASON;
}

// The caller is about to allocate; the size of that.
NOINLINE size_t answer()
{
    const size_t at = answers_count++;
    if (at >= kAnswers) abort();
    answers[at].size = next_size++;
    _Unwind_Backtrace(add_frame, &answers[at]);
    // Without this function.
    memmove(answers[at].frame, answers[at].frame + 1, --answers[at].frames * sizeof(uintptr_t));
    return answers[at].size;
}

NOINLINE void take()
{
    free(malloc(answer()));
    void *object = calloc(1, answer());
    object = realloc(object, answer());
    free(object);
    ::operator delete(::operator new(answer()));
    if (posix_memalign(&object, 64, answer()) == 0) free(object);
    AND_RETURN;
}

NOINLINE void recurse(int depth)
{
    if (depth % 5 == 0) take();
    if (depth > 0) recurse(depth - 1);
    AND_RETURN;
}

NOINLINE void uses_alloca(size_t bytes, int depth)
{
    volatile char *memory = static_cast<char *>(alloca(bytes));
    memory[0] = 1;
    if (depth > 0)
        uses_alloca(bytes * 2, depth - 1);
    else
        take();
    AND_RETURN;
}

NOINLINE int many_registers(int a, int b, int c, int d, int e, int f, int g, int depth)
{
    if (depth == 0)
        take();
    else
        a += many_registers(b, c, d, e, f, g, a, depth - 1);
    AND_RETURN;
    return a * b + c * d + e * f + g;
}

inline __attribute__((always_inline)) void inlined(int depth)
{
    std::function<void()> function = [depth] {
        take();
        if (depth > 0) recurse(depth);
    };
    function();
}

template <typename Kind> NOINLINE void of_template(Kind kind)
{
    inlined(static_cast<int>(kind));
    AND_RETURN;
}

int compare(const void *a, const void *b)
{
    static int calls;
    if (calls++ == 0) take();
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

void on_signal(int)
{
    take();
    AND_RETURN;
}

NOINLINE void raise_deep(int depth)
{
    if (depth > 0)
        raise_deep(depth - 1);
    else
        raise(SIGUSR1);
    AND_RETURN;
}

void with_signals(int flags)
{
    static char memory[64 << 10];
    stack_t stack{};
    struct sigaction action {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    sigaltstack(&stack, nullptr);
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, nullptr);
    raise_deep(7);
}

ucontext_t of_main, of_coroutine[2];

void coroutine(int which)
{
    for (int i = 0; i < 3; i++) {
        recurse(5 + i);
        swapcontext(&of_coroutine[which], &of_coroutine[1 - which]);
    }
}

void with_coroutines()
{
    static char memory[2][64 << 10];
    for (int i = 0; i < 2; i++) {
        getcontext(&of_coroutine[i]);
        of_coroutine[i].uc_stack.ss_sp = memory[i];
        of_coroutine[i].uc_stack.ss_size = sizeof memory[i];
        of_coroutine[i].uc_link = &of_main;
        makecontext(&of_coroutine[i], reinterpret_cast<void (*)()>(coroutine), 1, i);
    }
    swapcontext(&of_main, &of_coroutine[0]);
}

void *in_thread(void *)
{
    recurse(12);
    of_template(6L);
    return nullptr;
}

void print()
{
    for (size_t i = 0; i < answers_count; i++) {
        printf("%zu", answers[i].size);
        for (size_t at = 0; at < answers[i].frames; at++)
            printf(" %lx", static_cast<unsigned long>(answers[i].frame[at]));
        printf("\n");
    }
}

// --- plug-ins ---

std::atomic<bool> plugged;
constexpr int kRounds = 40;

void *meanwhile(void *)
{
    for (int i = 0; i < 20000 && !plugged; i++) {
        void *object = malloc(100);
        free(object);
    }
    return nullptr;
}

void with_plug_ins(char **names, int rounds)
{
    pthread_t threads[3];
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, meanwhile, nullptr);
    for (int i = 0; i < rounds; i++) {
        void *plug_in = dlopen(names[i % 2], RTLD_NOW);
        void (*function)(void (*)()) = nullptr;
        if (!plug_in) abort();
        *reinterpret_cast<void **>(&function) = dlsym(plug_in, "plug_in");
        function(take);
        dlclose(plug_in);
    }
    plugged = true;
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

} // namespace

int main(int count, char **words)
{
    pthread_t threads[3];
    take();
    recurse(30);
    recurse(200);
    uses_alloca(50, 6);
    many_registers(1, 2, 3, 4, 5, 6, 7, 6);
    of_template(3);
    of_template('\4');
    int numbers[] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    with_signals(0);
    with_signals(SA_ONSTACK);
    with_coroutines();
    without_table(take);
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, in_thread, nullptr);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    if (count > 2) with_plug_ins(words + 1, kRounds);
    print();
}
