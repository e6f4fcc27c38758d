/* faults - a process that has faults: SIGBUS.
 *
 *   faults cut FILE HOW    four threads make objects of 777 bytes. In the middle of that FILE is cut
 *                          to nothing; exit status 7. HOW: plain; blocked (all signals are);
 *                          handled (a fault that the program hears of ends it with status 1);
 *                          alone (no threads, and few objects)
 *   faults own HOW         a fault in a file of its own, and the same signal from elsewhere, while
 *                          four threads make objects; HOW:
 *                            handled  in every way that handlers are installed; exit status 7
 *                            before   the handler is installed, then recording begins; exit
 *                                     status 7
 *                            default, ignored, blocked   the fault ends it
 *                            sent     the signal alone, by kill(): as above; exit status 7, or the
 *                                     signal ends it at last */
#include "allocate.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREADS = 4, CALLS = 100000, STACK_BYTES = 1 << 16, PAGE_BYTES = 4096 };

static atomic_bool half_done[THREADS];
static atomic_bool stopping;

static void *work(void *half)
{
    allocate(CALLS / 2);
    atomic_store((atomic_bool *)half, true);
    allocate(CALLS / 2);
    return NULL;
}

static void *work_until_stopped(void *unused)
{
    while (!atomic_load(&stopping))
        allocate(100);
    return unused;
}

/* --- of another file --- */

static void heard(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    _exit(1);
}

static void cut_alone(const char *path)
{
    allocate(100);
    if (truncate(path, 0) != 0) fail(path);
    allocate(100);
}

static void cut(const char *path, const char *how)
{
    pthread_t threads[THREADS];
    const struct sigaction action = {.sa_sigaction = heard, .sa_flags = SA_SIGINFO};
    sigset_t all;
    sigfillset(&all);
    if (strcmp(how, "alone") == 0) return cut_alone(path);
    if (strcmp(how, "handled") == 0) sigaction(SIGBUS, &action, NULL);
    if (strcmp(how, "blocked") == 0) sigprocmask(SIG_SETMASK, &all, NULL);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &half_done[i]) != 0) fail("no thread");
    for (int i = 0; i < THREADS; i++)
        while (!atomic_load(&half_done[i]))
            usleep(100);
    if (truncate(path, 0) != 0) fail(path);
    allocate(CALLS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* --- of its own --- */

static sigjmp_buf back;
static volatile sig_atomic_t calls;
static void *volatile address;
static volatile uintptr_t local;
static char *file;

static void handle(int number, siginfo_t *info, void *context)
{
    char here;
    (void)number, (void)context;
    calls++;
    address = info->si_addr;
    local = (uintptr_t)&here;
    if (info->si_code > 0) siglongjmp(back, 1);
}

static void handle_plainly(int number)
{
    (void)number;
    calls++;
    siglongjmp(back, 1);
}

static void map_file(void)
{
    int number = open(".", O_TMPFILE | O_RDWR, 0600);
    if (number < 0 || ftruncate(number, PAGE_BYTES) != 0) fail("no file");
    file = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    if (file == MAP_FAILED || ftruncate(number, 0) != 0) fail("no mapping");
    close(number);
}

static void touch(void)
{
    if (sigsetjmp(back, 1) == 0) *(volatile char *)(file + 5) = 1;
}

static void expect(bool good, const char *what)
{
    if (!good) fail(what);
}

enum { ALL_FLAGS = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (int)SA_RESETHAND | SA_RESTART };

static void faults_come_to(int flags)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | flags}, now;
    calls = 0;
    sigaddset(&action.sa_mask, SIGUSR1);
    expect(sigaction(SIGBUS, &action, NULL) == 0, "sigaction");
    touch();
    expect(calls == 1 && address == file + 5, "a fault does not come");
    expect(sigaction(SIGBUS, NULL, &now) == 0, "sigaction");
    if (flags & (int)SA_RESETHAND)
        expect(now.sa_handler == SIG_DFL, "the handler stays");
    else
        expect(now.sa_sigaction == handle && (now.sa_flags & ALL_FLAGS) == (SA_SIGINFO | flags) &&
                   sigismember(&now.sa_mask, SIGUSR1) && !sigismember(&now.sa_mask, SIGUSR2),
               "another action");
}

static bool is_within(const char *stack, uintptr_t at)
{
    return at > (uintptr_t)stack && at < (uintptr_t)stack + STACK_BYTES;
}

static void handled(void)
{
    static char alternative[STACK_BYTES];
    const stack_t stack = {.ss_sp = alternative, .ss_size = sizeof alternative};
    expect(signal(SIGBUS, handle_plainly) == SIG_DFL, "there is a handler");
    touch();
    touch();
    expect(calls == 2, "a fault does not come");
    expect(signal(SIGBUS, SIG_DFL) == handle_plainly, "another handler");
    expect(sigaltstack(&stack, NULL) == 0, "sigaltstack");
    faults_come_to(0);
    expect(!is_within(alternative, local), "the stack");
    faults_come_to(SA_ONSTACK);
    expect(is_within(alternative, local), "the stack");
    faults_come_to(SA_NODEFER);
    faults_come_to((int)SA_RESETHAND);
}

static void sent(void)
{
    sigset_t set, before, waits;
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    expect(signal(SIGBUS, SIG_IGN) == SIG_DFL, "there is a handler");
    kill(getpid(), SIGBUS);
    sigaction(SIGBUS, &action, NULL);
    raise(SIGBUS);
    expect(calls == 1, "the signal does not come");
    expect(pthread_sigmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGBUS) &&
               sigprocmask(SIG_BLOCK, NULL, &before) == 0 && sigismember(&before, SIGBUS),
           "the mask");
    raise(SIGBUS);
    sigpending(&waits);
    expect(calls == 1 && sigismember(&waits, SIGBUS), "it does not wait");
    expect(sigwait(&set, &number) == 0 && number == SIGBUS, "it is not found");
    raise(SIGBUS);
    expect(sigprocmask(SIG_UNBLOCK, &set, &before) == 0 && sigismember(&before, SIGBUS) &&
               sigprocmask(SIG_BLOCK, NULL, &before) == 0 && !sigismember(&before, SIGBUS),
           "the mask");
    expect(calls == 2, "it does not come later");
    signal(SIGBUS, SIG_DFL);
}

static void begin_recording(void)
{
    int (*start)(const char *);
    void *found = dlsym(RTLD_DEFAULT, "malloctape_library_start");
    memcpy(&start, &found, sizeof start);
    expect(start && start("late.lz4") == 0, "cannot begin");
}

static void own(const char *how)
{
    const struct rlimit no_core = {0, 0};
    const struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    pthread_t threads[THREADS];
    sigset_t all;
    sigfillset(&all);
    setrlimit(RLIMIT_CORE, &no_core);
    map_file();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work_until_stopped, NULL) != 0) fail("no thread");
    if (strcmp(how, "sent") == 0) sent();
    if (strcmp(how, "handled") == 0) handled();
    if (strcmp(how, "before") == 0) sigaction(SIGBUS, &action, NULL), begin_recording();
    if (strcmp(how, "ignored") == 0) signal(SIGBUS, SIG_IGN);
    if (strcmp(how, "blocked") == 0) sigprocmask(SIG_SETMASK, &all, NULL);
    if (strcmp(how, "default") == 0 || strcmp(how, "ignored") == 0 || strcmp(how, "blocked") == 0)
        *(volatile char *)file = 1;
    if (strcmp(how, "before") == 0) {
        touch();
        expect(calls == 1 && address == file + 5, "a fault does not come");
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "cut") == 0 && count == 4)
        cut(words[2], words[3]);
    else if (strcmp(mode, "own") == 0 && count == 3)
        own(words[2]);
    else
        fail("see the head of tests/workloads/faults.c");
    return 7;
}
