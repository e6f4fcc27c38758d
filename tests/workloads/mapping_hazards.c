/* mapping_hazards MODE - maps and unmaps where a recorder could be in the way:
 *
 *   many      20 000 times in a row, of many sizes
 *   vfork     the same in a child made by vfork()
 *   handler   in a signal handler, at stacks that are new each time, while malloc() is interrupted
 *   little    in a signal handler that has a stack of its own, of which little is left; prints how
 *             many bytes each call takes of it at most
 *   reset     in four threads, while the recording begins anew ten times: reset-1.raw and so on
 *   held      while another thread is held up within mremap(), which does nothing then, for 0.3 s
 */
#include "tracing/process/malloctape.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 20000, SIGNALS = 3000, CALLS_MAX = 5000000, DEPTH = 16 };

static volatile int is_over;

static void map_and_unmap(size_t bytes)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(mapped, bytes);
}

static void map_often(void)
{
    for (uint32_t i = 0; i < TIMES; i++)
        map_and_unmap(((size_t)(i * 2654435761u >> 20) + 1) * 4096);
}

static void one(unsigned depth, unsigned turns);
static void other(unsigned depth, unsigned turns);

#define DEFINE_TURN(name)                                                      \
    static __attribute__((noinline)) void name(unsigned depth, unsigned turns) \
    {                                                                          \
        if (depth == 0)                                                        \
            map_and_unmap(4096);                                               \
        else                                                                   \
            (turns & 1 ? one : other)(depth - 1, turns >> 1);                  \
        __asm__ volatile("");                                                  \
    }
DEFINE_TURN(one)
DEFINE_TURN(other)

static volatile unsigned handled;

static void handle(int number)
{
    (void)number;
    one(DEPTH, handled++ * 2654435761u >> 8);
}

static void *send_signals(void *to)
{
    const struct timespec pause = {0, 10000};
    prctl(PR_SET_TIMERSLACK, 1); /* or it is five times as long, and so is the recording */
    while (!is_over && handled < SIGNALS) {
        pthread_kill(*(pthread_t *)to, SIGUSR1);
        nanosleep(&pause, NULL);
    }
    is_over = 1;
    return NULL;
}

static void allocate_meanwhile(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    void *objects[16] = {NULL};
    pthread_t self = pthread_self(), sender;
    sigaction(SIGUSR1, &action, NULL);
    if (pthread_create(&sender, NULL, send_signals, &self) != 0) exit(1);
    for (size_t i = 0; !is_over && i < CALLS_MAX; i++) {
        free(objects[i % 16]);
        objects[i % 16] = malloc(24);
    }
    is_over = 1;
    pthread_join(sender, NULL);
}

/* ---- a stack of which little is left ---- */

enum { PAINT = 0x5a, LITTLE_BYTES = 4096, NOT_PAINTED = 512 };
static unsigned char *handlers_stack;
static size_t handlers_taken;

static void map_painted(int number)
{
    const unsigned char *here = __builtin_frame_address(0);
    const size_t left = (size_t)(here - handlers_stack) - NOT_PAINTED;
    size_t painted = 0;
    (void)number;
    memset(handlers_stack, PAINT, left);
    map_and_unmap(4096);
    while (painted < left && handlers_stack[painted] == PAINT)
        painted++;
    handlers_taken = (size_t)(here - handlers_stack) - painted;
}

static void map_with_little(void)
{
    const struct sigaction action = {.sa_handler = map_painted, .sa_flags = SA_ONSTACK};
    const size_t bytes = getauxval(AT_MINSIGSTKSZ) + LITTLE_BYTES;
    handlers_stack = malloc(bytes);
    const stack_t stack = {.ss_sp = handlers_stack, .ss_size = bytes};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) exit(1);
    map_and_unmap(4096);
    raise(SIGUSR1);
    printf("taken %zu\n", handlers_taken);
}

/* ---- recordings that follow one another ---- */

static void *map_and_move(void *unused)
{
    (void)unused;
    while (!is_over) {
        char *mapped =
            mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *moved = mremap(mapped, 65536, 131072, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED) exit(1);
        munmap(moved, 131072);
        free(malloc(100));
    }
    return NULL;
}

static void record_again_and_again(void)
{
    enum { THREADS = 4, RECORDINGS = 10 };
    pthread_t threads[THREADS];
    const struct timespec pause = {0, 5000000};
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, map_and_move, NULL) != 0) exit(1);
    for (int i = 1; i <= RECORDINGS; i++) {
        char name[32];
        snprintf(name, sizeof name, "reset-%d.raw", i);
        if (malloctape_reset(name) != 0) exit(1);
        nanosleep(&pause, NULL);
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- a thread that is held up ---- */

static volatile int is_held;

/* Whoever is interrupted by this is within mremap(), which does nothing and returns no error. */
static void hold_up(int number)
{
    const struct timespec pause = {0, 300000000};
    (void)number;
    is_held = 1;
    nanosleep(&pause, NULL);
}

/* mremap() of this thread makes a signal. libc's own syscall() is called: a recorder takes care of what
 * the program may call where it is confined. */
static void *move_and_be_held(void *mapped)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    long (*call)(long number, ...);
    *(void **)&call = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "syscall");
    if (call == NULL || call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        exit(1);
    (void)!mremap(mapped, 4096, 8192, MREMAP_MAYMOVE);
    is_held = 2;
    return NULL;
}

static void map_while_one_is_held(void)
{
    struct sigaction action = {.sa_handler = hold_up};
    pthread_t thread;
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSYS, &action, NULL);
    if (pthread_create(&thread, NULL, move_and_be_held, mapped) != 0) exit(1);
    while (is_held == 0)
        sched_yield();
    while (is_held == 1)
        map_and_unmap(4096);
    pthread_join(thread, NULL);
}

int main(int count, char **words)
{
    const char *mode = count == 2 ? words[1] : "";
    free(malloc(1));
    if (strcmp(mode, "many") == 0) {
        map_often();
    } else if (strcmp(mode, "handler") == 0) {
        allocate_meanwhile();
    } else if (strcmp(mode, "little") == 0) {
        map_with_little();
    } else if (strcmp(mode, "reset") == 0) {
        record_again_and_again();
    } else if (strcmp(mode, "held") == 0) {
        map_while_one_is_held();
    } else if (strcmp(mode, "vfork") == 0) {
        const pid_t child = vfork();
        if (child == 0) {
            map_often();
            _exit(0);
        }
        if (waitpid(child, NULL, 0) != child) return 1;
    } else {
        return 2;
    }
    puts("done");
    return 0;
}
