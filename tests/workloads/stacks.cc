// stacks [PLUGIN...] - allocates on stacks of every kind, and writes down, by the C++
// runtime's unwinder, where each call came from: a line for each allocation, the size, and the
// addresses at which functions go on, from the one on that allocates. The line `cut` has the
// addresses beyond which nobody can unwind.
//
// Each call has a size of its own. With plug-ins, which have a function plug_in(), also from these,
// loaded one after the other, again and again, while other threads allocate.
//
// stacks -p PLUGIN_A PLUGIN_B - eight threads load these, one or the other, allocate from there, and
// unload them, till there are so many answers. The size of each is followed by a colon and the
// number, 0 or 1, of the plug-in that the thread was in.
//
// stacks -m PLUGIN PLUGIN... - two threads allocate 4999 bytes from each of these at the same time,
// both for the first time.
//
// stacks -c - makes 20 000 objects of 24 bytes and as many of 500 to 899, and frees them and NULL.
//
// stacks -t - prints how many nanoseconds of its thread an allocation takes with its free: where 100
// functions have called each other, where 300 have, and where the outer ones are cut off.
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "tests/code.h"

extern "C" void __register_frame(void *frames);

namespace {

#define NOINLINE   __attribute__((noinline, noclone))
#define AND_RETURN __asm__ volatile("" ::: "memory")

constexpr size_t kAnswers = 4000, kFrames = 300;
struct Answer {
    size_t size, frames;
    int plug_in;
    uintptr_t frame[kFrames];
};
Answer answers[kAnswers];
std::atomic<size_t> answers_count;
std::atomic<size_t> next_size{5000};
thread_local int within = -1; // a plug-in

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
    answers[at].plug_in = within;
    _Unwind_Backtrace(add_frame, &answers[at]);
    // Without this function.
    memmove(answers[at].frame, answers[at].frame + 1, --answers[at].frames * sizeof(uintptr_t));
    return answers[at].size;
}

NOINLINE void take()
{
    const size_t size = answer();
    errno = 77;
    void *object = malloc(size);
    if (errno != 77) abort();
    free(object);
    object = calloc(1, answer());
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

// without_table() and with_frame_pointer() in memory that belongs to no file.
using Made = void (*)(void (*)());
Made made_while_running, made_with_frame_pointer;

Made copy_of(char *memory, Made function)
{
    constexpr size_t kBytes = 64;
    memcpy(memory, reinterpret_cast<const void *>(function), kBytes);
    __builtin___clear_cache(memory, memory + kBytes);
    return reinterpret_cast<Made>(memory);
}

void make_code()
{
    void *memory =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    made_while_running = copy_of(static_cast<char *>(memory), without_table);
    made_with_frame_pointer = copy_of(static_cast<char *>(memory) + 1024, with_frame_pointer);
#if FOLLOWS_FRAME_POINTERS
    static FrameTable frames;
    frames.first = reinterpret_cast<uintptr_t>(made_with_frame_pointer);
    frames.count = 64;
    __register_frame(&frames);
#endif
}

// --- to and fro ---
//
// Calls functions of all kinds at random, and returns from them, so that a stack often has outer
// frames of the one before, and other frames in the same places.

unsigned random_state = 1;

unsigned draw(unsigned count)
{
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % count;
}

size_t wander_ends; // when there are so many answers
int wander_depth;

void wander();

NOINLINE void wander_plainly()
{
    wander();
    AND_RETURN;
}

NOINLINE void wander_in_alloca()
{
    volatile char *memory = static_cast<char *>(alloca(16 + 16 * draw(3)));
    memory[0] = 1;
    wander();
    AND_RETURN;
}

NOINLINE void wander_aligned()
{
    alignas(64) char memory[64];
    __asm__ volatile("" : : "r"(memory) : "memory");
    wander();
    AND_RETURN;
}

__attribute__((optimize("no-omit-frame-pointer"))) NOINLINE void wander_by_frame_pointer()
{
    wander();
    AND_RETURN;
}

NOINLINE int wander_with_registers(int a, int b, int c, int d, int e, int f)
{
    wander();
    AND_RETURN;
    return a * b + c * d + e * f;
}

NOINLINE void take_one()
{
    free(malloc(answer()));
    AND_RETURN;
}

void wander()
{
    constexpr int kLeast = 30, kMost = 90;
    wander_depth++;
    while (answers_count < wander_ends && wander_depth < kMost &&
           (wander_depth < kLeast || draw(2) == 0)) {
        if (draw(3) == 0) take_one();
        if (draw(20) == 0) draw(2) ? without_table(wander) : made_while_running(wander);
        if (draw(10) == 0) made_with_frame_pointer(wander);
        switch (draw(6)) {
        case 0: wander_in_alloca(); break;
        case 1: wander_aligned(); break;
        case 2: wander_by_frame_pointer(); break;
        case 3: wander_with_registers(1, 2, 3, 4, 5, 6); break;
        default: wander_plainly();
        }
    }
    wander_depth--;
}

void to_and_fro()
{
    wander_ends = answers_count + 800;
    wander();
}

// --- again and again ---
//
// A few stacks, each many times in the same place, which differ in one function or more, some of them
// with frames as large.

void again(unsigned path, int depth);

NOINLINE void again_here(unsigned path, int depth)
{
    again(path, depth);
    AND_RETURN;
}

NOINLINE void again_there(unsigned path, int depth)
{
    again(path, depth);
    AND_RETURN;
    __asm__ volatile("nop");
}

__attribute__((optimize("no-omit-frame-pointer"))) NOINLINE void again_by_frame_pointer(
    unsigned path, int depth)
{
    again(path, depth);
    AND_RETURN;
}

NOINLINE void again_in_alloca(unsigned path, int depth)
{
    volatile char *memory = static_cast<char *>(alloca(path % 2 ? 32 : 64));
    memory[0] = 1;
    again(path, depth);
    AND_RETURN;
}

void again(unsigned path, int depth)
{
    if (depth == 0) return take_one();
    switch (path % 4) {
    case 0: return again_here(path / 4, depth - 1);
    case 1: return again_there(path / 4, depth - 1);
    case 2: return again_by_frame_pointer(path / 4, depth - 1);
    default: return again_in_alloca(path / 4, depth - 1);
    }
}

void again_and_again()
{
    constexpr int kCalls = 700, kDepth = 3, kPaths = 4 * 4 * 4;
    for (int i = 0; i < kCalls; i++)
        again(draw(kPaths), kDepth);
}

// --- many threads, each of whose stacks is another one ---

constexpr int kDiffering = 4000, kDeepest = 40;

void differ(unsigned long path, int depth);

NOINLINE void differ_here(unsigned long path, int depth)
{
    differ(path, depth);
    AND_RETURN;
}

NOINLINE void differ_there(unsigned long path, int depth)
{
    differ(path, depth);
    AND_RETURN;
    __asm__ volatile("nop");
}

void differ(unsigned long path, int depth)
{
    if (depth == 0) {
        void *volatile object = malloc(4998);
        free(object);
    } else if (path % 2) {
        differ_here(path / 2, depth - 1);
    } else {
        differ_there(path / 2, depth - 1);
    }
}

void *differ_in_thread(void *seed)
{
    unsigned long state = reinterpret_cast<unsigned long>(seed);
    for (int i = 0; i < kDiffering; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        differ(state >> 20, static_cast<int>(state >> 60) + kDeepest - 15);
    }
    return nullptr;
}

void differ_at_once()
{
    pthread_t threads[4];
    unsigned long seed = 1;
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, differ_in_thread, reinterpret_cast<void *>(seed++));
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

// --- time ---

double now()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

NOINLINE void allocate_here()
{
    void *volatile object = malloc(100);
    free(object);
    AND_RETURN;
}

NOINLINE void allocate_further_in()
{
    allocate_here();
    AND_RETURN;
}

// The least of some rounds: others may have had the processor's caches.
void time_allocations()
{
    constexpr int kRounds = 7, kCalls = 4000;
    double least = 1e18;
    for (int round = 0; round < kRounds; round++) {
        const double begin = now();
        for (int i = 0; i < kCalls / 2; i++) {
            allocate_here();
            allocate_further_in();
        }
        const double took = (now() - begin) / kCalls;
        if (took < least) least = took;
    }
    printf("%.0f\n", least);
}

NOINLINE void time_in(int depth)
{
    if (depth > 0)
        time_in(depth - 1);
    else
        time_allocations();
    AND_RETURN;
}

void time_in_30()
{
    time_in(30);
}

void time_all()
{
    time_in(100);
    time_in(300);
    without_table(time_in_30);
    made_while_running(time_in_30);
}

void print()
{
    const size_t behind =
        static_cast<size_t>(behind_call - reinterpret_cast<const char *>(without_table));
    const size_t behind_framed = static_cast<size_t>(
        behind_framed_call - reinterpret_cast<const char *>(with_frame_pointer));
    printf("cut %lx %lx %lx\n", reinterpret_cast<unsigned long>(behind_call),
           reinterpret_cast<unsigned long>(made_while_running) + behind,
           reinterpret_cast<unsigned long>(made_with_frame_pointer) + behind_framed);
    for (size_t i = 0; i < answers_count; i++) {
        printf("%zu", answers[i].size);
        if (answers[i].plug_in >= 0) printf(":%d", answers[i].plug_in);
        for (size_t at = 0; at < answers[i].frames; at++)
            printf(" %lx", static_cast<unsigned long>(answers[i].frame[at]));
        printf("\n");
    }
}

// --- plug-ins ---

std::atomic<bool> plugged;
constexpr int kRounds = 40, kCalls = 3;

void *meanwhile(void *)
{
    for (int i = 0; i < 20000 && !plugged; i++) {
        void *object = malloc(100);
        free(object);
    }
    return nullptr;
}

void *open_plug_in(const char *name)
{
    void *plug_in = dlopen(name, RTLD_NOW);
    if (!plug_in) abort();
    return plug_in;
}

using PlugIn = void (*)(void (*of_ours)());

PlugIn function_of(void *plug_in)
{
    PlugIn function = nullptr;
    *reinterpret_cast<void **>(&function) = dlsym(plug_in, "plug_in");
    return function;
}

void call_plug_in(const char *name, void (*of_ours)())
{
    void *plug_in = open_plug_in(name);
    PlugIn function = function_of(plug_in);
    for (int i = 0; i < kCalls; i++)
        function(of_ours);
    dlclose(plug_in);
}

char **plug_in_names;

void *load_and_unload(void *)
{
    static std::atomic<unsigned> turn;
    while (answers_count < kAnswers - 8 * kCalls) {
        within = turn++ % 3 % 2;
        call_plug_in(plug_in_names[within], take_one);
        within = -1;
        for (int i = 0; i < 20; i++) {
            void *volatile object = malloc(100);
            free(object);
        }
    }
    return nullptr;
}

void load_all_at_once(char **names)
{
    pthread_t threads[8];
    plug_in_names = names;
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, load_and_unload, nullptr);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

std::atomic<unsigned> arrived;
std::vector<PlugIn> functions;

void allocate()
{
    void *volatile object = malloc(4999);
    free(object);
}

void *meet_in_each(void *)
{
    for (unsigned i = 0; i < functions.size(); i++) {
        for (arrived++; arrived < 2 * (i + 1);)
            continue;
        functions[i](allocate);
    }
    return nullptr;
}

void meet_in_all(char **names, int names_count)
{
    pthread_t thread;
    allocate();
    for (int i = 0; i < names_count; i++)
        functions.push_back(function_of(open_plug_in(names[i])));
    pthread_create(&thread, nullptr, meet_in_each, nullptr);
    meet_in_each(nullptr);
    pthread_join(thread, nullptr);
}

void make_for_chances()
{
    for (size_t i = 0; i < 20000; i++) {
        void *volatile usual = malloc(24);
        void *volatile rare = malloc(500 + i * 7 % 400);
        void *volatile none = nullptr;
        free(rare);
        free(usual);
        free(none);
    }
}

void with_plug_ins(char **names, int names_count, int rounds)
{
    pthread_t threads[3];
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, meanwhile, nullptr);
    for (int i = 0; i < rounds; i++) {
        call_plug_in(names[i % names_count], take);
    }
    plugged = true;
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

} // namespace

int main(int count, char **words)
{
    pthread_t threads[3];
    make_code();
    if (count == 2 && strcmp(words[1], "-d") == 0) {
        differ_at_once();
        return 0;
    }
    if (count == 2 && strcmp(words[1], "-c") == 0) {
        make_for_chances();
        return 0;
    }
    if (count == 2) {
        time_all();
        return 0;
    }
    if (count == 4 && strcmp(words[1], "-p") == 0) {
        load_all_at_once(words + 2);
        print();
        return 0;
    }
    if (count > 2 && strcmp(words[1], "-m") == 0) {
        meet_in_all(words + 2, count - 2);
        return 0;
    }
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
    made_while_running(take);
    made_with_frame_pointer(take);
    to_and_fro();
    again_and_again();
    for (pthread_t &thread : threads)
        pthread_create(&thread, nullptr, in_thread, nullptr);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    if (count > 2) with_plug_ins(words + 1, count - 1, kRounds);
    print();
}
