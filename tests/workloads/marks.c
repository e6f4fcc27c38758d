/* marks KIND [WORD] - see marks.h. WORD: bytes of a stack, number of threads, ... */
#include "marks.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

static atomic_bool is_over;
static atomic_ulong made;

void marks_fail(const char *what, long number)
{
    char text[200];
    const int bytes =
        snprintf(text, sizeof text, "marks: %s: %ld (errno %d)\n", what, number, errno);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0) _exit(2);
    _exit(1);
}

double marks_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

unsigned marks_random(unsigned limit)
{
    static _Thread_local uint64_t state;
    if (state == 0) state = (uint64_t)(uintptr_t)&state ^ (uint64_t)getpid() << 32;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % limit;
}

static void compute(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++) {}
}

/* ---- small stacks: contexts in the middle of memory that nobody may write to ---- */

enum { CONTEXTS = 16, ROOM = 64 << 10, FILL = 0x5a };
static struct {
    ucontext_t context;
    unsigned char *memory;
    size_t bytes;
} contexts[CONTEXTS];
static ucontext_t outside;

static void context_body(unsigned low, unsigned high)
{
    const unsigned number = low | high << 16;
    for (;;) {
        compute(200000);
        if (swapcontext(&contexts[number].context, &outside) != 0) _exit(3);
    }
}

static void contexts_begin(const char *word)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        const size_t bytes = word ? (size_t)atoi(word) : (size_t)1024 << (i % 7);
        contexts[i].bytes = bytes;
        contexts[i].memory = malloc(2 * ROOM + bytes);
        memset(contexts[i].memory, FILL, 2 * ROOM + bytes);
        getcontext(&contexts[i].context);
        contexts[i].context.uc_stack.ss_sp = contexts[i].memory + ROOM;
        contexts[i].context.uc_stack.ss_size = bytes;
        makecontext(&contexts[i].context, (void (*)(void))context_body, 2, i & 0xffff, i >> 16);
    }
}

static void contexts_once(void)
{
    for (unsigned i = 0; i < CONTEXTS; i++) {
        swapcontext(&outside, &contexts[i].context);
        for (size_t at = 0; at < ROOM; at++)
            if (contexts[i].memory[at] != FILL ||
                contexts[i].memory[ROOM + contexts[i].bytes + at] != FILL)
                marks_fail("beside a stack something was written, bytes of the stack",
                           (long)contexts[i].bytes);
    }
}

/* The same on a part of the thread's own stack. */
static void inner_once(void)
{
    struct {
        unsigned char below[8192], stack[4096], above[8192];
    } own;
    memset(&own, FILL, sizeof own);
    getcontext(&contexts[0].context);
    contexts[0].context.uc_stack.ss_sp = own.stack;
    contexts[0].context.uc_stack.ss_size = sizeof own.stack;
    makecontext(&contexts[0].context, (void (*)(void))context_body, 2, 0, 0);
    for (int i = 0; i < 20; i++) {
        swapcontext(&outside, &contexts[0].context);
        for (size_t at = 0; at < sizeof own.below; at++)
            if (own.below[at] != FILL || own.above[at] != FILL)
                marks_fail("a local array was written to, at", (long)at);
    }
}

/* ---- registers and errno ---- */

#if defined(__x86_64__)
static void registers_once(void)
{
    static const uint64_t in[4] = {0x1111222233334444, 0x5555666677778888, 0x9999aaaabbbbcccc,
                                   0xddddeeeeffff0001};
    uint64_t out[4], below = 0;
    const uint32_t control = 0x5f80 | (uint32_t)marks_random(2) << 15;
    uint32_t before, after = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    __asm__ volatile("ldmxcsr %[control]\n\t"
                     "vmovdqu %[in], %%ymm7\n\t"
                     "movq %[in], %%r15\n\t"
                     "movq %%r15, -120(%%rsp)\n\t"
                     "mov $3000000, %%ecx\n\t"
                     "1: dec %%ecx\n\t"
                     "jnz 1b\n\t"
                     "vmovdqu %%ymm7, %[out]\n\t"
                     "movq -120(%%rsp), %[below]\n\t"
                     "stmxcsr %[after]\n\t"
                     "ldmxcsr %[before]\n\t"
                     : [out] "=m"(out), [below] "=r"(below), [after] "=m"(after)
                     : [in] "m"(in), [control] "m"(control), [before] "m"(before)
                     : "rcx", "r15", "xmm7", "memory");
    if (memcmp(in, out, sizeof in) != 0) marks_fail("a vector register has changed", 0);
    if (below != in[0]) marks_fail("the red zone has changed", 0);
    if (after != control) marks_fail("the rounding mode has changed", (long)after);
}
#else
static void registers_once(void)
{
    volatile double value = marks_random(1000);
    const double wanted = value * 1.5;
    compute(1000000);
    if (value * 1.5 != wanted) marks_fail("a register has changed", 0);
}
#endif

static void errno_once(void)
{
    errno = 4242;
    compute(1000000);
    if (errno != 4242) marks_fail("errno has changed", errno);
    dlsym(RTLD_DEFAULT, "a_function_that_does_not_exist");
    const char *text = dlerror();
    if (!text || !strstr(text, "a_function_that")) marks_fail("dlerror() has changed", 0);
}

/* ---- restartable sequences: a counter for two threads of one processor ---- */

#if defined(__x86_64__) && defined(__GLIBC__)
#include <sys/rseq.h>

static volatile uint64_t counter;
static uint64_t counted[2];

/* Adds 1 unless anything else runs on this processor meanwhile. */
static bool count_one(void)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    __asm__ goto volatile(
        ".pushsection __rseq_cs, \"aw\"\n\t"
        ".balign 32\n\t"
        "3: .long 0, 0\n\t"
        ".quad 1f, 2f - 1f, 4f\n\t"
        ".popsection\n\t"
        "lea 3b(%%rip), %%rax\n\t"
        "movq %%rax, %c[at](%[area])\n\t"
        "1: movq %[counter], %%rax\n\t"
        "inc %%rax\n\t"
        "mov $20000, %%ecx\n\t" /* long, to be met */
        "5: dec %%ecx\n\t"
        "jnz 5b\n\t"
        "movq %%rax, %[counter]\n\t"
        "2:\n\t"
        ".pushsection .text.unlikely, \"ax\"\n\t"
        ".byte 0x0f, 0xb9, 0x3d\n\t"
        ".long 0x53053053\n\t"
        "4: jmp %l[aborted]\n\t"
        ".popsection\n\t"
        :
        : [area] "r"(area), [at] "i"(offsetof(struct rseq, rseq_cs)), [counter] "m"(counter)
        : "rax", "rcx", "memory", "cc"
        : aborted);
    return true;
aborted:
    return false;
}

static void *count(void *of)
{
    uint64_t *mine = of;
    while (!is_over)
        *mine += count_one();
    return NULL;
}

static void counter_begin(const char *word)
{
    cpu_set_t one;
    pthread_t thread;
    (void)word;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (__rseq_size == 0) marks_fail("no restartable sequences", 0);
    sched_setaffinity(0, sizeof one, &one);
    pthread_create(&thread, NULL, count, &counted[1]);
}

static void counter_once(void)
{
    for (int i = 0; i < 500; i++)
        counted[0] += count_one();
}

static void counter_check(void)
{
    usleep(100000);
    if (counter != counted[0] + counted[1])
        marks_fail("counts were lost", (long)(counted[0] + counted[1] - counter));
}
#else
static void counter_once(void)
{
    compute(1000000);
}
#define counter_begin NULL
#define counter_check NULL
#endif

/* ---- children ---- */

static void await(pid_t child, const char *what)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) marks_fail("waitpid()", child);
    if (status != 0) marks_fail(what, status);
}

/* A child has 60 s to load a library and to allocate. */
static void *forks(void *unused)
{
    (void)unused;
    while (!is_over) {
        const pid_t child = fork();
        if (child < 0) marks_fail("fork()", 0);
        if (child == 0) {
            alarm(60);
            void *library = dlopen("libutil.so.1", RTLD_NOW), *more = malloc(1000);
            if (library) dlclose(library);
            free(more);
            _exit(!library || !more);
        }
        await(child, "a child could not load a library, status");
        made++;
    }
    return NULL;
}

static void threads_begin(void *(*function)(void *), const char *word, int usual)
{
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = word ? atoi(word) : usual; i > 0; i--)
        if (pthread_create(&thread, &small, function, NULL) != 0) marks_fail("pthread_create()", i);
}

static void forks_begin(const char *word)
{
    threads_begin(forks, word, 3);
}

static void nap(void)
{
    usleep(20000);
}

static void spawns_once(void)
{
    char name[] = "true", *words[] = {name, NULL};
    pid_t child;
    if (posix_spawnp(&child, "true", NULL, NULL, words, environ) != 0)
        marks_fail("posix_spawn()", 0);
    await(child, "true(1)");
}

static void execs_once(void)
{
    const pid_t child = vfork();
    if (child < 0) marks_fail("vfork()", 0);
    if (child == 0) {
        execlp("true", "true", NULL);
        _exit(9);
    }
    await(child, "true(1)");
}

/* ---- threads ---- */

static void *brief(void *of)
{
    char *volatile object = malloc(64 + marks_random(1000));
    (void)of;
    if (!object) marks_fail("malloc()", 0);
    object[0] = 1;
    free(object);
    return (void *)77;
}

static void threads_once(void)
{
    pthread_t threads[8];
    void *result;
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, brief, NULL) != 0) marks_fail("pthread_create()", i);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        if (result != (void *)77) marks_fail("a thread's result", (long)(intptr_t)result);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wakes = PTHREAD_COND_INITIALIZER;
static atomic_long turns;

static void *waiter(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&wakes, &lock);
        turns++;
        pthread_mutex_unlock(&lock);
        free(malloc(100));
    }
    return NULL;
}

static void many_begin(const char *word)
{
    threads_begin(waiter, word, 5000);
    usleep(500000);
}

static void many_once(void)
{
    pthread_cond_signal(&wakes);
    usleep(2000);
}

/* ---- libraries, in all threads ---- */

static void *loads(void *unused)
{
    static const char *const names[] = {"libutil.so.1", "libanl.so.1", "librt.so.1",
                                        "libBrokenLocale.so.1", "libnss_files.so.2"};
    (void)unused;
    while (!is_over) {
        void *library = dlopen(names[marks_random(5)], marks_random(2) ? RTLD_NOW : RTLD_LAZY);
        if (!library) marks_fail("dlopen()", 0);
        if (dlopen("a_library_that_does_not_exist.so", RTLD_NOW) || !dlerror())
            marks_fail("dlopen() of nothing", 0);
        dlclose(library);
        made++;
    }
    return NULL;
}

static void loads_begin(const char *word)
{
    threads_begin(loads, word, 4);
}

/* ---- whole writes to a pipe, to another process that reads slowly ---- */

static int into;
enum { BLOCK = 300000 };

static void pipe_begin(const char *word)
{
    static char block[BLOCK];
    int ends[2];
    (void)word;
    if (pipe(ends) != 0) marks_fail("pipe()", 0);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        while (read(ends[0], block, 1 + marks_random(20000)) > 0)
            if (marks_random(4) == 0) usleep(200);
        _exit(0);
    }
    into = ends[1];
}

static void pipe_once(void)
{
    static char block[BLOCK];
    const ssize_t bytes = write(into, block, sizeof block);
    if (bytes != sizeof block) marks_fail("a write was cut, bytes", bytes);
}

static const struct marks_kind kinds[] = {
    {.name = "contexts", .begin = contexts_begin, .once = contexts_once},
    {.name = "inner", .once = inner_once},
    {.name = "registers", .once = registers_once},
    {.name = "errno", .once = errno_once},
    {.name = "counter", .begin = counter_begin, .once = counter_once, .end = counter_check},
    {.name = "forks", .begin = forks_begin, .once = nap},
    {.name = "spawns", .once = spawns_once},
    {.name = "execs", .once = execs_once},
    {.name = "threads", .once = threads_once},
    {.name = "many", .begin = many_begin, .once = many_once},
    {.name = "loads", .begin = loads_begin, .once = nap},
    {.name = "pipe", .begin = pipe_begin, .once = pipe_once},
    {.name = NULL}};

static const struct marks_kind *kind_named(const struct marks_kind *of, const char *name)
{
    for (; of->name; of++)
        if (strcmp(of->name, name) == 0) return of;
    return NULL;
}

static bool has_input_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) == 1;
}

int main(int argc, char **argv)
{
    const struct marks_kind *kind = argc > 1 ? kind_named(kinds, argv[1]) : NULL;
    if (!kind && argc > 1) kind = kind_named(marks_waits, argv[1]);
    if (!kind) return 2;
    free(malloc(10));
    if (kind->begin) kind->begin(argc > 2 ? argv[2] : NULL);
    puts("ready");
    fflush(stdout);
    while (!has_input_ended()) {
        kind->once();
        made++;
        free(malloc(10 + marks_random(100)));
    }
    is_over = true;
    if (kind->end) kind->end();
    printf("done %lu\n", (unsigned long)made);
    fflush(stdout);
    _exit(0);
}
