/* hostile SEED PLUG-IN... - threads whose stacks lead anywhere while they allocate, decided by the
 * seed. The program itself does nothing wrong, and ends with status 0.
 *
 * Stacks lie side by side without guards, those of threads and of coroutines. Above them is memory
 * that another thread takes away and gives back all the time. Functions whose tables are wrong,
 * or that have none, and code made at run time, lead to frames there; these are linked to others, and
 * to addresses in plug-ins that come and go, in code that has been unmapped, in libraries and nowhere.
 * Signals are taken in the midst of it, also within signals, and on stacks beside that memory. */
#include "tests/code.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE   __attribute__((noinline, noclone))
#define AND_RETURN __asm__ volatile("" ::: "memory")

enum {
    PAGE_BYTES = 4096,
    STACK_BYTES = 64 << 10, /* one beside the other, below what comes and goes */
    STACKS = 16,
    THREADS = 4,
    SHIFTING_PAGES = 8,
    ADDRESSES = 64,
    STEPS = 120,
    FRAMES = 6
};

static char *stacks, *shifting; /* the latter begins where the former end */
static int shifting_file;
static _Atomic uintptr_t addresses[ADDRESSES]; /* of code, also of code that has gone */
static atomic_bool is_over;
static char **plug_ins;
static int plug_ins_count;

static _Thread_local uint64_t state;
static _Thread_local bool is_allocating; /* a handler must not, then */
static _Thread_local int depth;
static void *volatile sink;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static unsigned draw(unsigned count)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 32) % count;
}

static void remember_code(const void *code)
{
    addresses[draw(ADDRESSES)] = (uintptr_t)code + draw(64);
}

static void step(void);

/* --- allocations --- */

static NOINLINE void take(void)
{
    is_allocating = true;
    for (unsigned i = draw(3) + 1; i > 0; i--) {
        free(sink = malloc(draw(300)));
        free(sink = realloc(calloc(1, draw(100) + 1), draw(200) + 1));
        if (!draw(4)) sched_yield();
    }
    is_allocating = false;
    AND_RETURN;
}

static NOINLINE void recurse(unsigned left)
{
    volatile char *space = alloca(16 + draw(200));
    space[0] = 1;
    if (left == 0)
        take();
    else
        recurse(left - 1);
    space[1] = 2;
}

static void take_or_step(void)
{
    if (depth < 4 && draw(2))
        step();
    else
        take();
    AND_RETURN;
}

/* --- frames that are none --- */

static uintptr_t somewhere(void)
{
    switch (draw(8)) {
    case 0: return (uintptr_t)draw(UINT32_MAX) << draw(33);
    case 1: return (uintptr_t)&state;
    case 2: return (uintptr_t)__builtin_frame_address(0) + 8 * draw(4000);
    case 3: return (uintptr_t)sink;
    default: return (uintptr_t)shifting + 8 * draw(SHIFTING_PAGES * PAGE_BYTES / 8);
    }
}

/* Makes a chain of frames in the memory that comes and goes, by its file; returns the first one. */
static uintptr_t make_frames(void)
{
    const uintptr_t first = somewhere();
    uintptr_t at = first;
    for (unsigned i = 0; i < FRAMES; i++) {
        const uintptr_t next = draw(3) ? at + 16 + 8 * draw(600) : somewhere();
        const uintptr_t frame[] = {next, addresses[draw(ADDRESSES)]};
        const uintptr_t offset = at - (uintptr_t)shifting;
        if (offset <= SHIFTING_PAGES * PAGE_BYTES - sizeof frame &&
            pwrite(shifting_file, frame, sizeof frame, (off_t)offset) != sizeof frame)
            fail("pwrite");
        at = next;
    }
    return first;
}

/* --- code made at run time --- */

static void with_made_code(void)
{
    enum { BYTES = 64 };
    typedef void (*made_function)(void (*)(void), uintptr_t);
    char *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    char *at = memory + 64 * draw(60);
    const void *from = draw(2) ? (const void *)with_any_bp : (const void *)with_frame_pointer;
    memcpy(at, from, BYTES);
    __builtin___clear_cache(at, at + BYTES);
    remember_code(at);
    ((made_function)(uintptr_t)at)(take_or_step, make_frames());
    munmap(memory, PAGE_BYTES);
}

/* --- coroutines --- */

static _Thread_local ucontext_t of_caller, of_coroutine;
static atomic_bool is_taken[STACKS];

static char *take_stack(void)
{
    for (;;) {
        const unsigned at = draw(STACKS);
        if (!atomic_exchange(&is_taken[at], true)) return stacks + at * STACK_BYTES;
    }
}

static void give_stack(const char *stack)
{
    is_taken[(size_t)(stack - stacks) / STACK_BYTES] = false;
}

static void coroutine(void)
{
    for (unsigned i = draw(4) + 1; i > 0; i--)
        with_wrong_table(take, make_frames());
    recurse(draw(20));
}

/* One at a time in a thread. */
static void with_coroutine(void)
{
    static _Thread_local bool is_in_one;
    if (is_in_one) return take();
    is_in_one = true;
    char *stack = take_stack();
    if (getcontext(&of_coroutine) != 0) fail("getcontext");
    of_coroutine.uc_stack.ss_sp = stack;
    of_coroutine.uc_stack.ss_size = STACK_BYTES >> draw(3);
    of_coroutine.uc_link = &of_caller;
    makecontext(&of_coroutine, coroutine, 0);
    if (swapcontext(&of_caller, &of_coroutine) != 0) fail("swapcontext");
    give_stack(stack);
    is_in_one = false;
}

/* --- signals --- */

static void on_signal(int number)
{
    if (!is_allocating) with_wrong_table(take, make_frames());
    if (number == SIGUSR1 && draw(2)) raise(SIGUSR2);
}

static void handle_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
}

static void with_signal(void)
{
    raise(draw(2) ? SIGUSR1 : SIGUSR2);
}

/* --- plug-ins --- */

static void with_plug_in(void)
{
    void *plug_in = dlopen(plug_ins[draw((unsigned)plug_ins_count)], RTLD_NOW);
    if (!plug_in) fail("dlopen");
    void (*function)(void (*)(void));
    *(void **)&function = dlsym(plug_in, "plug_in");
    remember_code((const void *)(uintptr_t)function);
    for (unsigned i = draw(3); i > 0; i--)
        function(take);
    if (!draw(20)) return; /* it stays */
    dlclose(plug_in);
}

/* --- processes --- */

static void with_child(void)
{
    const pid_t child = fork();
    if (child < 0) return;
    if (child == 0) {
        with_wrong_table(take, make_frames());
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "hostile: a child ended with status %d\n", status);
        exit(1);
    }
}

/* --- threads --- */

static void step(void)
{
    depth++;
    switch (draw(12)) {
    case 0: with_made_code(); break;
    case 1: with_coroutine(); break;
    case 2: with_signal(); break;
    case 3: with_plug_in(); break;
    case 4: recurse(draw(60)); break;
    case 5: without_table(take_or_step); break;
    case 6: with_any_bp(take_or_step, make_frames()); break;
    case 7:
        if (!draw(40)) with_child();
        break;
    default: with_wrong_table(take_or_step, make_frames());
    }
    depth--;
    AND_RETURN;
}

static void run(void)
{
    char *stack = take_stack();
    const stack_t alternative = {.ss_sp = stack, .ss_size = STACK_BYTES};
    sigaltstack(&alternative, NULL);
    for (unsigned i = 0; i < STEPS; i++)
        step();
    const stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    give_stack(stack);
}

static void *run_thread(void *seed)
{
    state = (uintptr_t)seed;
    run();
    return NULL;
}

/* Takes pages away, so that reading is SIGSEGV or SIGBUS, and gives them back. None is left without
 * a mapping: a library may be loaded there. */
static void *shift(void *seed)
{
    state = (uintptr_t)seed;
    while (!is_over) {
        const unsigned at = draw(SHIFTING_PAGES), beyond_the_end = SHIFTING_PAGES;
        char *page = shifting + at * PAGE_BYTES;
        const off_t from = (at + (draw(3) ? 0 : beyond_the_end)) * (off_t)PAGE_BYTES;
        if (draw(3))
            mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shifting_file,
                 from);
        else
            mprotect(page, PAGE_BYTES, PROT_NONE);
    }
    return NULL;
}

static void map(void)
{
    const size_t below = STACKS * STACK_BYTES, above = SHIFTING_PAGES * PAGE_BYTES;
    stacks = mmap(NULL, below + above, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shifting_file = memfd_create("shifting", MFD_CLOEXEC);
    if (stacks == MAP_FAILED || shifting_file < 0 || ftruncate(shifting_file, (off_t)above) != 0)
        fail("map");
    shifting = stacks + below;
    mmap(shifting, above, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shifting_file, 0);
}

static void begin(pthread_t *thread, uintptr_t seed)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (draw(3)) pthread_attr_setstack(&attributes, take_stack(), STACK_BYTES);
    if (pthread_create(thread, &attributes, run_thread, (void *)seed) != 0) fail("pthread_create");
}

int main(int count, char **words)
{
    pthread_t threads[THREADS], shifter;
    if (count < 3) return 2;
    const uintptr_t seed = strtoull(words[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    state = seed;
    plug_ins = words + 2;
    plug_ins_count = count - 2;
    map();
    handle_signals();
    for (unsigned i = 0; i < ADDRESSES; i++)
        addresses[i] = i % 2 ? (uintptr_t)take + 16 : (uintptr_t)qsort + draw(200);
    if (pthread_create(&shifter, NULL, shift, (void *)(seed + 1)) != 0) fail("pthread_create");
    const unsigned threads_count = draw(THREADS) + 1;
    for (unsigned i = 0; i < threads_count; i++)
        begin(&threads[i], seed + 2 + i);
    run();
    for (unsigned i = 0; i < threads_count; i++)
        pthread_join(threads[i], NULL);
    is_over = true;
    pthread_join(shifter, NULL);
    return 0;
}
