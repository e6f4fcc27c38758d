// unwind_test - frames as rules find them are those that the C++ runtime's unwinder finds, and what
// has no rule or no memory ends a stack without a fault.
#include "tracing/stacks/unwind.h"

#include "tests/code.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#ifdef __SANITIZE_THREAD__
// Handlers allocate: the tests raise their signals where that is no harm.
extern "C" const char *__tsan_default_options()
{
    return "report_signal_unsafe=0";
}
#endif

// As os_linux.c has it.
extern "C" bool os_memory_is_readable(const void *address)
{
    return syscall(SYS_rt_sigprocmask, -1, address, nullptr, 8) != 0 && errno == EINVAL;
}

extern "C" size_t os_memory_copy(int thread_id, void *to, const void *from, size_t bytes)
{
    iovec remote = {const_cast<void *>(from), bytes}, local = {to, bytes};
    const ssize_t result = process_vm_readv(thread_id, &local, 1, &remote, 1, 0);
    return result > 0 ? static_cast<size_t>(result) : 0;
}

extern "C" int os_thread_id()
{
    return gettid();
}

extern "C" bool os_memory_can_be_copied()
{
    return true;
}

namespace {

#define NOINLINE __attribute__((noinline, noclone))

// Keeps a call from becoming a jump.
#define AND_RETURN __asm__ volatile("" ::: "memory")

uintptr_t here()
{
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
}

struct Walk {
    std::vector<uintptr_t> pcs;
    unwind_how end; // the rule of the last frame, if that is an end
};

Walk walk_from(unwind_frame frame, uintptr_t *bx, bool with_first)
{
    Walk walk{{}, UNWIND_UNKNOWN};
    unwind_memory memory{};
    unwind_memory_begin(&memory, here());
    if (with_first) walk.pcs.push_back(frame.pc);
    for (int i = 0; i < 1000; i++) {
        unwind_object object;
        unwind_frame caller{};
        unwind_rule rule = unwind_guess;
        if (unwind_find(frame.pc - 1, &object) && unwind_learn(&memory, &object))
            rule = unwind_compile(&memory, &object, frame.pc);
        walk.end = static_cast<unwind_how>(rule.how);
        if (!unwind_step(rule, &memory, &frame, &caller, bx)) break;
        frame = caller;
        walk.pcs.push_back(frame.pc);
    }
    return walk;
}

// The functions from the caller of this one on.
NOINLINE Walk walk_by_rules()
{
    unwind_frame frame;
    uintptr_t bx;
    unwind_here(&frame, &bx);
    return walk_from(frame, &bx, false);
}

_Unwind_Reason_Code add_frame(_Unwind_Context *context, void *pcs)
{
    int before = 0;
    const uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    static_cast<std::vector<uintptr_t> *>(pcs)->push_back(pc + (before != 0));
    return _URC_NO_REASON;
}

NOINLINE std::vector<uintptr_t> walk_by_runtime()
{
    std::vector<uintptr_t> pcs;
    _Unwind_Backtrace(add_frame, &pcs);
    pcs.erase(pcs.begin()); // where this function goes on
    while (!pcs.empty() && pcs.back() <= 1)
        pcs.pop_back();
    return pcs;
}

// Both stacks have the same frames but for the first, which goes on at two places. At least so many.
// Called with a function in between, so that the stacks are equal from there on.
NOINLINE void expect_same(size_t at_least)
{
    Walk ours = walk_by_rules();
    std::vector<uintptr_t> theirs = walk_by_runtime();
    ASSERT_GE(ours.pcs.size(), at_least);
    ASSERT_EQ(ours.pcs.size(), theirs.size());
    for (size_t i = 1; i < theirs.size(); i++)
        EXPECT_EQ(ours.pcs[i], theirs[i]) << "frame " << i;
    EXPECT_EQ(ours.end, UNWIND_OUTERMOST);
}

// --- programs ---

NOINLINE int recurse(int depth)
{
    if (depth == 0) expect_same(20);
    const int result = depth == 0 ? 0 : recurse(depth - 1) + 1;
    AND_RETURN;
    return result;
}

TEST(Unwind, recursion)
{
    EXPECT_EQ(recurse(20), 20);
}

NOINLINE void uses_alloca(size_t bytes, int depth)
{
    volatile char *memory = static_cast<char *>(alloca(bytes));
    memory[0] = 1;
    if (depth > 0)
        uses_alloca(bytes * 2, depth - 1);
    else
        expect_same(6);
    AND_RETURN;
}

TEST(Unwind, frames_of_a_size_that_is_not_known_before)
{
    uses_alloca(100, 8);
}

// GCC finds such a frame's end by a word that it has saved.
NOINLINE void is_aligned(size_t bytes, int depth)
{
    alignas(64) volatile char aligned[256];
    volatile char *memory = static_cast<char *>(alloca(bytes));
    aligned[bytes % 256] = memory[0] = 1;
    if (depth > 0)
        is_aligned(bytes + 24, depth - 1);
    else
        expect_same(6);
    aligned[1] = aligned[bytes % 256];
}

TEST(Unwind, aligned_frames)
{
    is_aligned(40, 5);
}

NOINLINE int many_registers(int a, int b, int c, int d, int e, int f, int g, int depth)
{
    if (depth == 0)
        expect_same(6);
    else
        a += many_registers(b, c, d, e, f, g, a, depth - 1);
    AND_RETURN;
    return a * b + c * d + e * f + g;
}

TEST(Unwind, functions_that_use_rbp_for_something_else)
{
    EXPECT_NE(many_registers(1, 2, 3, 4, 5, 6, 7, 8), 0);
}

NOINLINE void call_through(const std::function<void()> &function)
{
    function();
    AND_RETURN;
}

TEST(Unwind, through_libraries)
{
    static bool done;
    done = false;
    int numbers[] = {3, 2, 1};
    qsort(numbers, 3, sizeof *numbers, [](const void *a, const void *b) {
        if (!done) {
            done = true;
            call_through([] { expect_same(6); });
        }
        return *static_cast<const int *>(a) - *static_cast<const int *>(b);
    });
    EXPECT_TRUE(done);
}

void on_signal(int)
{
    expect_same(8);
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

void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(number, &action, nullptr), 0);
}

TEST(Unwind, signal_handler)
{
    handle(SIGUSR1, on_signal, 0);
    raise_deep(5);
}

TEST(Unwind, signal_handler_on_a_stack_of_its_own)
{
    std::vector<char> memory(256 << 10);
    stack_t stack{}, before{};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    ASSERT_EQ(sigaltstack(&stack, &before), 0);
    handle(SIGUSR1, on_signal, SA_ONSTACK);
    raise_deep(5);
    sigaltstack(&before, nullptr);
}

sigjmp_buf after_fault;
Walk of_fault;

void on_fault(int)
{
    of_fault = walk_by_rules();
    siglongjmp(after_fault, 1);
}

TEST(Unwind, interrupted_at_the_first_instruction)
{
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer calls the handler from a function of its own";
#endif
    handle(SIGSEGV, on_fault, 0);
    if (sigsetjmp(after_fault, 1) == 0) faults_at_once(nullptr);
    signal(SIGSEGV, SIG_DFL);
    ASSERT_GE(of_fault.pcs.size(), 5u);
    EXPECT_EQ(of_fault.pcs[2], reinterpret_cast<uintptr_t>(faults_at_once) + 1);
    EXPECT_EQ(of_fault.end, UNWIND_OUTERMOST);
}

ucontext_t of_main, of_coroutine;

void coroutine()
{
    recurse(20);
}

TEST(Unwind, coroutine_on_its_own_stack)
{
    std::vector<char> memory(256 << 10);
    ASSERT_EQ(getcontext(&of_coroutine), 0);
    of_coroutine.uc_stack.ss_sp = memory.data();
    of_coroutine.uc_stack.ss_size = memory.size();
    of_coroutine.uc_link = &of_main;
    makecontext(&of_coroutine, coroutine, 0);
    ASSERT_EQ(swapcontext(&of_main, &of_coroutine), 0);
}

// --- what has no rule ---

Walk walked;

NOINLINE void walk_here()
{
    walked = walk_by_rules();
    AND_RETURN;
}

TEST(Unwind, code_without_a_table_ends_the_stack)
{
    without_table(walk_here);
    ASSERT_EQ(walked.pcs.size(), 2u);
    EXPECT_EQ(walked.end, UNWIND_UNKNOWN);
    const uintptr_t start = reinterpret_cast<uintptr_t>(without_table);
    EXPECT_GT(walked.pcs[1], start);
    EXPECT_LT(walked.pcs[1], start + 16);
}

TEST(Unwind, frames_that_are_unusual)
{
    with_odd_frame([] {
        many_registers(1, 2, 3, 4, 5, 6, 7, 3);
        AND_RETURN;
    });
}

// --- guesses ---

class Guess : public testing::Test {
  protected:
    static constexpr size_t kWords = 64;

    // Words of a frame, those from its frame pointer on, and what is further out.
    alignas(16) uintptr_t words[kWords]{};
    uintptr_t behind; // a place in made code behind a call

    void SetUp() override
    {
        if (!FOLLOWS_FRAME_POINTERS) GTEST_SKIP() << "frame pointers are not followed here";
        behind = reinterpret_cast<uintptr_t>(behind_framed_call);
        words[8] = at(20);
        words[9] = behind;
    }

    uintptr_t at(size_t index) const { return reinterpret_cast<uintptr_t>(&words[index]); }

    bool step(uintptr_t pc, uintptr_t sp, uintptr_t bp, unwind_frame *caller)
    {
        unwind_memory memory{};
        memory.thread_id = gettid();
        const unwind_frame frame{pc, sp, bp};
        return unwind_step(unwind_guess, &memory, &frame, caller, nullptr);
    }

    bool step()
    {
        unwind_frame caller;
        return step(behind, at(0), at(8), &caller);
    }
};

TEST_F(Guess, goes_by_the_frame_pointer)
{
    unwind_frame caller;
    ASSERT_TRUE(step(behind, at(0), at(8), &caller));
    EXPECT_EQ(caller.pc, behind);
    EXPECT_EQ(caller.sp, at(10));
    EXPECT_EQ(caller.bp, at(20));
}

// Then that is of a function further out.
TEST_F(Guess, not_if_a_return_address_lies_below_the_frame_pointer)
{
    for (size_t i = 0; i < 8; i++) {
        words[i] = behind;
        EXPECT_FALSE(step()) << i;
        words[i] = at(i); // anything else
        EXPECT_TRUE(step()) << i;
    }
}

TEST_F(Guess, not_where_no_call_is_before)
{
    unwind_frame caller;
    EXPECT_FALSE(step(behind - 1, at(0), at(8), &caller));
    for (uintptr_t wrong : {uintptr_t{0}, uintptr_t{1}, behind - 1, behind + 1, at(3),
                            uintptr_t{0x7000000000000000}, UINTPTR_MAX}) {
        words[9] = wrong;
        EXPECT_FALSE(step()) << wrong;
    }
}

// As where it is a register like others.
TEST_F(Guess, not_by_any_frame_pointer)
{
    unwind_frame caller;
    for (uintptr_t wild : {uintptr_t{0}, uintptr_t{8}, at(8) + 4, at(0) - 8, at(0) + (1 << 20),
                           uintptr_t{0x7fffffffeff0}, uintptr_t{1} << 63, UINTPTR_MAX - 7})
        EXPECT_FALSE(step(behind, at(0), wild, &caller)) << wild;
    // Nor where it, or what it leads to, cannot be read.
    char *pages = static_cast<char *>(
        mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    ASSERT_EQ(munmap(pages + 4096, 4096), 0);
    const uintptr_t end = reinterpret_cast<uintptr_t>(pages) + 4096;
    for (uintptr_t bp = end - 16; bp <= end + 4096 + 16; bp += 8)
        EXPECT_FALSE(step(behind, end - 64, bp, &caller)) << bp - end;
    munmap(pages, 4096);
    munmap(pages + 8192, 4096);
}

// --- memory that is not there ---

unwind_rule rule_by(unwind_how how, int64_t offset, int64_t bp)
{
    unwind_rule rule{};
    rule.how = how;
    rule.offset = offset;
    rule.bp = bp;
    if (!UNWIND_RETURN_OFFSET) rule.bx = -1; // where the return address is
    return rule;
}

bool steps(unwind_rule rule, uintptr_t sp, uintptr_t bp)
{
    unwind_memory memory{};
    const unwind_frame frame{1, sp, bp};
    unwind_frame caller{};
    uintptr_t bx = 0;
    memory.thread_id = gettid();
    return unwind_step(rule, &memory, &frame, &caller, &bx);
}

constexpr size_t kStackBytes = 1 << 20; // enough for ThreadSanitizer, too

// Runs a thread on the lower one of two stacks.
void on_two_stacks(void *(*function)(void *))
{
    char *memory = static_cast<char *>(mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    pthread_attr_t attributes;
    pthread_t thread;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory, kStackBytes), 0);
    ASSERT_EQ(pthread_create(&thread, &attributes, function, memory + kStackBytes), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    munmap(memory, kStackBytes);
}

// The other one goes, between walks and within one.
void *above_the_stack(void *of)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(of) + 64;
    unwind_memory memory{};
    uintptr_t word = 0;
    unwind_memory_begin(&memory, here());
    EXPECT_EQ(memory.to, reinterpret_cast<uintptr_t>(__builtin_thread_pointer()));
    EXPECT_TRUE(unwind_memory_word(&memory, address, &word));
    EXPECT_EQ(munmap(of, kStackBytes), 0);
    EXPECT_FALSE(unwind_memory_word(&memory, address + UNWIND_COPY_BYTES, &word));
    unwind_memory_begin(&memory, here());
    EXPECT_FALSE(unwind_memory_word(&memory, address, &word));
    return nullptr;
}

TEST(Unwind, what_is_above_a_threads_stack_is_not_remembered)
{
    on_two_stacks(above_the_stack);
}

// A coroutine on a stack below another one: nobody knows where its own ends.
ucontext_t of_thread, of_lower;

void above_the_coroutine()
{
    unwind_memory memory{};
    uintptr_t word = 0;
    unwind_memory_begin(&memory, here());
    const uintptr_t above = memory.to;
    EXPECT_EQ(above % 4096, 0u);
    EXPECT_LE(above - here(), 4096u);
    EXPECT_TRUE(unwind_memory_word(&memory, above + 64, &word));
    EXPECT_EQ(munmap(reinterpret_cast<void *>(above), 4096), 0);
    unwind_memory_begin(&memory, here());
    EXPECT_FALSE(unwind_memory_word(&memory, above + 64, &word));
    EXPECT_TRUE(unwind_memory_word(&memory, above - 8, &word));
}

TEST(Unwind, what_is_above_a_coroutine_is_not_remembered)
{
    char *memory = static_cast<char *>(mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(getcontext(&of_lower), 0);
    of_lower.uc_stack.ss_sp = memory;
    of_lower.uc_stack.ss_size = kStackBytes;
    of_lower.uc_link = &of_thread;
    makecontext(&of_lower, above_the_coroutine, 0);
    ASSERT_EQ(swapcontext(&of_thread, &of_lower), 0);
    munmap(memory, 2 * kStackBytes);
}

// The first thread's stack grows.
NOINLINE void begin_further_in(unwind_memory *memory, uintptr_t end, int depth)
{
    volatile char space[4096];
    space[0] = static_cast<char>(depth);
    unwind_memory_begin(memory, here());
    EXPECT_EQ(memory->to, end);
    if (depth > 0) begin_further_in(memory, end, depth - 1);
    space[1] = space[0];
}

TEST(Unwind, the_first_threads_stack_is_known_to_its_end)
{
    unwind_memory memory{};
    uintptr_t word = 0;
    unwind_memory_begin(&memory, here());
    EXPECT_TRUE(unwind_memory_word(&memory, memory.to - 8, &word));
    begin_further_in(&memory, memory.to, 100);
}

TEST(Unwind, memory_that_cannot_be_read)
{
    const size_t page = 4096;
    char *memory = static_cast<char *>(
        mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    memset(memory, 1, 3 * page);
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory), end = start + page;
    ASSERT_EQ(munmap(memory + page, page), 0);
    ASSERT_EQ(mprotect(memory + 2 * page, page, PROT_NONE), 0);
    EXPECT_TRUE(steps(rule_by(UNWIND_SP, 16, -2), end - 16, 0));
    EXPECT_FALSE(steps(rule_by(UNWIND_SP, 24, 0), end - 16, 0));
    EXPECT_FALSE(steps(rule_by(UNWIND_SP, 16, 1), end - 16, 0));
    EXPECT_FALSE(steps(rule_by(UNWIND_SP, page + 24, 0), end - 8, 0)); // may not be read
    EXPECT_TRUE(steps(rule_by(UNWIND_BP, 16, 0), start + 8, start + 16));
    EXPECT_FALSE(steps(rule_by(UNWIND_BP, 16, 0), start + 8, 16));
    EXPECT_FALSE(steps(rule_by(UNWIND_BP, 16, 0), start + 8, ~uintptr_t(7)));
    EXPECT_FALSE(steps(rule_by(UNWIND_BP, 0, 0), start + 8, start + 8));   // no bytes
    EXPECT_FALSE(steps(rule_by(UNWIND_BP, 16, 0), start + 8, start + 17)); // between two words
    EXPECT_FALSE(steps(rule_by(UNWIND_BP_SAYS, 0, 0), start, end));
    EXPECT_FALSE(steps(rule_by(UNWIND_SIGNAL, 0, 0), end - 168, 0));
    EXPECT_FALSE(steps(rule_by(UNWIND_UNKNOWN, 0, 0), start, start));
    EXPECT_FALSE(steps(rule_by(UNWIND_OUTERMOST, 0, 0), start, start));
    munmap(memory, 3 * page);
}

// --- tables ---

struct Rules {
    size_t all, unknown;
};

// Each 61st byte of the code of an object, from its first function to its last one, by the sorted
// index of its table (unwind.c).
Rules rules_of(const void *of)
{
    Rules rules{0, 0};
    unwind_object object;
    unwind_memory memory{};
    unwind_memory_begin(&memory, here());
    EXPECT_TRUE(unwind_find(reinterpret_cast<uintptr_t>(of), &object));
    EXPECT_TRUE(unwind_learn(&memory, &object));
    const auto *table = reinterpret_cast<const int32_t *>(object.table), *index = table + 3;
    const uintptr_t start = reinterpret_cast<uintptr_t>(table);
    for (uintptr_t at = start + index[0]; at < start + index[2 * (table[2] - 1)]; at += 61) {
        rules.all++;
        rules.unknown += unwind_compile(&memory, &object, at + 1).how == UNWIND_UNKNOWN;
    }
    return rules;
}

TEST(Unwind, nearly_all_code_of_libraries_has_rules)
{
    for (const char *symbol : {"malloc", "_ZNSt8ios_base4InitC1Ev", "__tls_get_addr"}) {
        const Rules rules = rules_of(dlsym(RTLD_DEFAULT, symbol));
        EXPECT_GT(rules.all, 1000u) << symbol;
        EXPECT_LT(rules.unknown, rules.all / 20) << symbol;
    }
}

// It is not searched by halves alone.
TEST(Unwind, each_function_of_an_index_is_found)
{
    for (const char *symbol : {"malloc", "_ZNSt8ios_base4InitC1Ev"}) {
        unwind_object object;
        unwind_memory memory{};
        unsigned wrong = 0;
        unwind_memory_begin(&memory, here());
        EXPECT_TRUE(unwind_find(reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, symbol)), &object));
        EXPECT_TRUE(unwind_learn(&memory, &object));
        EXPECT_GT(object.functions, 3000u) << symbol;
        const auto *index = reinterpret_cast<const int32_t *>(object.table) + 3;
        for (uint32_t i = 0; i < object.functions; i++) {
            const uintptr_t at = object.table + static_cast<intptr_t>(index[2 * i]);
            uintptr_t start = 0, end = 0, same = 0;
            unwind_memory_begin(&memory, here());
            wrong += !unwind_function(&memory, &object, at, &start, &end) || start != at ||
                     !unwind_function(&memory, &object, end - 1, &same, &end) || same != at;
        }
        EXPECT_EQ(wrong, 0u) << symbol;
    }
}

TEST(Unwind, an_address_of_no_object)
{
    unwind_object object;
    int on_the_stack;
    EXPECT_FALSE(unwind_find(reinterpret_cast<uintptr_t>(&on_the_stack), &object));
    EXPECT_FALSE(unwind_find(0, &object));
}

} // namespace
