/* os_linux - the operating system layer of the capture core on Linux: memory, messages, clocks, threads.
 * Files: os_linux_files.c. */
#include "common/atomic.h"
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Some microseconds. */
#define SPINS 100

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define SIGBUS_BIT (UINT64_C(1) << (SIGBUS - 1))

/* Threads of ours find zero here; nobody stores to it, which the compiler must not know. */
static __thread volatile bool is_of_program __attribute__((tls_model("initial-exec"))) = true;
static bool program_is_confined;
int os_linux_exit_status;

void os_confine(void)
{
    atomic_store_release(&program_is_confined, true);
}

bool os_is_of_program(void)
{
    return is_of_program;
}

bool os_is_confined(void)
{
    return is_of_program && atomic_load_relaxed(&program_is_confined);
}

/* Replaces a wait where the thread must not make system calls. */
static int spin(void)
{
    for (unsigned i = 0; i < SPINS; i++)
        atomic_pause();
    return 0;
}

static void *os_linux_reserve(void *address, size_t bytes, int flags)
{
    if (os_is_confined()) return NULL;
    void *memory = os_linux_map(address, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    if (memory != NULL) {
        /* Sparse use: a huge page would cost 512 pages for the one that is touched. */
        os_linux_advise(memory, bytes, MADV_NOHUGEPAGE);
        os_linux_advise(memory, bytes, MADV_DONTDUMP);
        os_linux_own_add(memory, bytes, true);
    }
    return memory;
}

void *os_memory_reserve(size_t bytes)
{
    return os_linux_reserve(NULL, bytes, 0);
}

static void *hide_from_children(void *memory, size_t bytes)
{
    if (memory == NULL || os_linux_advise(memory, bytes, MADV_WIPEONFORK) == 0) return memory;
    os_memory_release(memory, bytes);
    return NULL;
}

void *os_memory_reserve_per_process(size_t bytes)
{
    return hide_from_children(os_linux_reserve(NULL, bytes, 0), bytes);
}

/* Linux before 4.17 does not know the flag and takes the address as a hint. */
void *os_memory_reserve_per_process_at(uintptr_t address, size_t bytes)
{
    void *memory = os_linux_reserve((void *)address, bytes, MAP_FIXED_NOREPLACE);
    if (memory == NULL || (uintptr_t)memory == address) return hide_from_children(memory, bytes);
    os_memory_release(memory, bytes);
    return NULL;
}

void os_memory_release(void *memory, size_t bytes)
{
    if (os_is_confined()) return;
    os_linux_own_remove(memory);
    system_call(SYS_munmap, (long)memory, (long)bytes, 0, 0, 0, 0);
}

void os_memory_clear(void *memory, size_t bytes)
{
    if (!os_is_confined()) os_linux_advise(memory, bytes, MADV_DONTNEED);
}

void os_memory_is_dense(void *memory, size_t bytes)
{
    if (!os_is_confined()) os_linux_advise(memory, bytes, MADV_HUGEPAGE);
}

/* The kernel reads the set of signals first, then refuses to do anything with it. */
bool os_memory_is_readable(const void *address)
{
    const int no_such_way = -1;
    return !os_is_confined() && system_call(SYS_rt_sigprocmask, no_such_way, (long)address, 0,
                                            sizeof(uint64_t), 0, 0) == -EINVAL;
}

/* The process's id would not do: its first thread may have ended. */
static long copy_memory(int thread_id, void *to, const void *from, size_t bytes)
{
    const size_t page_bytes = 4096, rest = page_bytes - (uintptr_t)from % page_bytes;
    const size_t first = bytes < rest ? bytes : rest;
    struct iovec local = {to, bytes};
    struct iovec remote[] = {{(void *)(uintptr_t)from, first},
                             {(char *)(uintptr_t)from + first, bytes - first}};
    return system_call(SYS_process_vm_readv, thread_id, (long)&local, 1, (long)remote,
                       bytes > first ? 2 : 1, 0);
}

size_t os_memory_copy(int thread_id, void *to, const void *from, size_t bytes)
{
    const long result = os_memory_can_be_copied() ? copy_memory(thread_id, to, from, bytes) : 0;
    return result > 0 ? (size_t)result : 0;
}

bool os_memory_copy_words(int thread_id, uint64_t *to, const uintptr_t *from, uint32_t count)
{
    const long bytes = (long)(count * sizeof *to);
    const struct iovec local = {to, (size_t)bytes};
    struct iovec remote[OS_WORDS_MAX];
    if (count > OS_WORDS_MAX || !os_memory_can_be_copied()) return false;
    for (uint32_t i = 0; i < count; i++)
        remote[i] = (struct iovec){(void *)from[i], sizeof *to};
    return system_call(SYS_process_vm_readv, thread_id, (long)&local, 1, (long)remote, count, 0) ==
           bytes;
}

/* Containers of old forbid it. */
bool os_memory_can_be_copied(void)
{
    enum { NOT_ASKED = 0, YES, NO };
    static uint8_t answer;
    if (os_is_confined()) return false;
    if (atomic_load_relaxed(&answer) == NOT_ASKED) {
        const uint8_t word = 1;
        uint8_t copy;
        atomic_store_relaxed(&answer,
                             copy_memory(os_thread_id(), &copy, &word, sizeof word) > 0 ? YES : NO);
    }
    return atomic_load_relaxed(&answer) == YES;
}

void os_current_directory(char *path, size_t bytes)
{
    long length = system_call(SYS_getcwd, (long)path, (long)bytes - 1, 0, 0, 0, 0);
    bool is_known = length > 0 && path[0] == '/';
    if (is_known) path[length - 1] = '/';
    path[is_known ? length : 0] = 0;
}

void os_program_path(char *path, size_t bytes)
{
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                              (long)bytes, 0, 0);
    path[length > 0 && (size_t)length < bytes ? length : 0] = 0;
}

/* ---- messages ---- */

static struct {
    bool known;
    dev_t device;
    ino_t inode;
} standard_error;

static bool look_at_standard_error(struct stat *status)
{
    return system_call(SYS_fstat, STDERR_FILENO, (long)status, 0, 0, 0, 0) == 0;
}

void os_message_begin(void)
{
    struct stat status;
    standard_error.known = look_at_standard_error(&status);
    if (!standard_error.known) return;
    standard_error.device = status.st_dev;
    standard_error.inode = status.st_ino;
}

/* The reader of a pipe may wait for the end of the process before it reads. */
static bool takes_a_message(void)
{
    struct pollfd one = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec no_time = {0, 0};
    return system_call(SYS_ppoll, (long)&one, 1, (long)&no_time, 0, 0, 0) == 1 &&
           one.revents == POLLOUT;
}

/* The reader may disappear before the write; the program must not get the SIGPIPE of that. */
static void write_without_signal(const char *text, size_t bytes)
{
    const uint64_t broken = UINT64_C(1) << (SIGPIPE - 1);
    const struct timespec no_time = {0, 0};
    uint64_t before = os_signals_block();
    if (os_file_write(STDERR_FILENO, text, bytes) == -EPIPE)
        system_call(SYS_rt_sigtimedwait, (long)&broken, 0, (long)&no_time, sizeof broken, 0, 0);
    os_signals_restore(before);
}

void os_message_write(const char *text, size_t bytes)
{
    struct stat now;
    if (os_is_confined()) return;
    if (!standard_error.known || !look_at_standard_error(&now) ||
        now.st_dev != standard_error.device || now.st_ino != standard_error.inode)
        return;
    if (S_ISSOCK(now.st_mode))
        system_call(SYS_sendto, STDERR_FILENO, (long)text, (long)bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                    0, 0);
    else if (takes_a_message())
        write_without_signal(text, bytes);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0, 0};
    if (os_is_confined()) return 0;
    system_call(SYS_clock_gettime, clock, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t os_clock_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t os_wall_clock_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

void os_host_name(char *name, size_t bytes)
{
    struct utsname system;
    size_t length = 0;
    if (system_call(SYS_uname, (long)&system, 0, 0, 0, 0, 0) == 0)
        for (; system.nodename[length] && length + 1 < bytes; length++)
            name[length] = system.nodename[length];
    name[length] = 0;
}

int os_process_id(void)
{
    return (int)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* libc knows the id, and stores it in a mutex that is locked. */
static int thread_id_of_libc(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    int thread_id = mutex.__data.__owner;
    pthread_mutex_unlock(&mutex);
    return thread_id;
}

int os_thread_id(void)
{
    if (os_is_confined()) return thread_id_of_libc();
    return (int)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

bool os_thread_is_gone(int thread_id)
{
    if (os_is_confined()) return false;
    return system_call(SYS_tgkill, os_process_id(), thread_id, 0, 0, 0, 0) == -ESRCH;
}

/* Sleeps that are interrupted, or over before they begin, count as sleeps. */
static int slept(long result)
{
    bool did = result >= 0 || result == -EAGAIN || result == -EINTR || result == -ETIMEDOUT;
    return did ? 0 : (int)result;
}

int os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = os_linux_timespec(timeout_ns);
    if (os_is_confined()) return spin();
    return slept(system_call(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, expected,
                             timeout_ns ? (long)&timeout : 0, 0, 0));
}

void os_wake(const uint32_t *word, uint32_t count)
{
    if (os_is_confined()) return;
    system_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0);
}

int os_sleep(uint64_t ns)
{
    struct timespec time = os_linux_timespec(ns);
    if (os_is_confined()) return spin();
    return slept(system_call(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0));
}

void os_random(void *bytes, size_t count)
{
    if (system_call(SYS_getrandom, (long)bytes, (long)count, 0, 0, 0, 0) == (long)count) return;
    uint64_t seed = os_wall_clock_ns() ^ ((uint64_t)os_process_id() << 32);
    for (size_t i = 0; i < count; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ((uint8_t *)bytes)[i] = (uint8_t)(seed >> 56);
    }
}

long os_system_call(long number, long a, long b, long c, long d, long e, long f)
{
    return system_call(number, a, b, c, d, e, f);
}

void os_process_exit(int status)
{
    for (;;)
        system_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* ---- threads of ours ---- */

uint64_t os_signals_block(void)
{
    const uint64_t all_but_faults = ~SIGBUS_BIT;
    uint64_t before = 0;
    if (!os_is_confined())
        system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all_but_faults, (long)&before,
                    sizeof before, 0, 0);
    return before;
}

void os_signals_restore(uint64_t before)
{
    if (!os_is_confined())
        system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
}

uint64_t os_signals_unblock(uint64_t signals)
{
    uint64_t before = 0;
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&signals, (long)&before, sizeof before, 0,
                0);
    return before;
}

void os_signal_send_again(siginfo_t *info, bool to_thread)
{
    const int process = os_process_id();
    if (to_thread)
        system_call(SYS_rt_tgsigqueueinfo, process, os_thread_id(), info->si_signo, (long)info, 0,
                    0);
    else
        system_call(SYS_rt_sigqueueinfo, process, info->si_signo, (long)info, 0, 0, 0);
}

#define THREAD_STACK_BYTES      (256u * 1024)
/* What compiled C code may touch of the thread's descriptor, on one side of the thread pointer: the
 * stack protector's guard, for example. */
#define THREAD_DESCRIPTOR_BYTES (8u * 1024)
/* Our thread-local variables lie within this distance of each other, and so do libc's. */
#define STORAGE_MARGIN_BYTES    4096u
/* About how long a thread takes from the end of its work until it has left its stack. */
#define THREAD_LEAVES_NS        UINT64_C(50000)

struct start {
    void (*function)(void *);
    void *argument;
    uint32_t *done;
    struct os_files kept;
};

/* And except standard error. */
static void close_files_except(struct os_files kept)
{
    const int all[] = {STDERR_FILENO, kept.stream, kept.spool};
    for (int from = 0, next = 0; next < INT_MAX; from = next + 1) {
        next = INT_MAX;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (all[i] >= from && all[i] < next) next = all[i];
        os_linux_close_files(from, next < INT_MAX ? next - 1 : INT_MAX);
    }
}

static int os_linux_thread_main(void *argument)
{
    struct start start = *(struct start *)argument;
    const uint64_t faults = SIGBUS_BIT;
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&faults, 0, sizeof faults, 0, 0);
    close_files_except(start.kept);
    system_call(SYS_prctl, PR_SET_NAME, (long)"malloctape", 0, 0, 0, 0);
    /* With SCHED_BATCH it does not preempt others when it wakes. (From a real-time policy it does
     * not change: it might starve.) A seccomp filter that the program was started under might kill
     * it for the call. */
    struct sched_param none = {0};
    if (system_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == 0 &&
        system_call(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0) == SCHED_OTHER)
        system_call(SYS_sched_setscheduler, 0, SCHED_BATCH, (long)&none, 0, 0, 0);
    start.function(start.argument);
    atomic_store_release(start.done, 1);
    os_wake_all(start.done);
    system_call(SYS_exit, os_linux_exit_status, 0, 0, 0, 0, 0);
    return 0;
}

static size_t distance_from_thread_pointer(const volatile void *variable)
{
    const uintptr_t pointer = (uintptr_t)__builtin_thread_pointer();
    return ARCH_STORAGE_IS_BELOW ? pointer - (uintptr_t)variable : (uintptr_t)variable - pointer;
}

/* What the same code may touch on the other side: our variables, and libc's (errno, were anything
 * to set it). Those of the program lie in between, and may take megabytes. */
static size_t storage_bytes(void)
{
    const size_t ours = distance_from_thread_pointer(&is_of_program);
    const size_t of_libc = distance_from_thread_pointer(&errno);
    const size_t bytes = (ours > of_libc ? ours : of_libc) + STORAGE_MARGIN_BYTES;
    return (bytes + STORAGE_MARGIN_BYTES - 1) / STORAGE_MARGIN_BYTES * STORAGE_MARGIN_BYTES;
}

int os_thread_start(struct os_thread *thread, void (*function)(void *), void *argument,
                    uint32_t *done, struct os_files kept)
{
    const size_t storage = storage_bytes();
    const size_t below = ARCH_STORAGE_IS_BELOW ? storage : THREAD_DESCRIPTOR_BYTES;
    const size_t bytes = THREAD_STACK_BYTES + storage + THREAD_DESCRIPTOR_BYTES;
    uint8_t *memory = os_memory_reserve(bytes);
    if (memory == NULL) return -ENOMEM;
    struct start *start = (struct start *)(void *)(memory + THREAD_STACK_BYTES - sizeof *start);
    *start = (struct start){function, argument, done, kept};
    *thread = (struct os_thread){.memory = memory, .bytes = bytes, .alive = 1};
    uint8_t *pointer = memory + THREAD_STACK_BYTES + below;
    arch_thread_storage(pointer);
    uint64_t signals = os_signals_block();
    /* Without CLONE_FILES the thread has its own copy of the descriptor table, without CLONE_FS
     * its own directories. */
    int flags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                CLONE_CHILD_CLEARTID;
    int result = clone(os_linux_thread_main, (void *)((uintptr_t)start & ~(uintptr_t)63), flags,
                       start, NULL, pointer, &thread->alive);
    os_signals_restore(signals);
    if (result > 0) return 0;
    os_memory_release(memory, bytes);
    *thread = (struct os_thread){0};
    return -EAGAIN;
}

struct apart {
    void (*function)(void *);
    void *argument;
    bool survives;
};

static int apart_main(void *argument)
{
    const struct apart *apart = argument;
    if (!apart->survives) system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    close_files_except(OS_NO_FILES);
    apart->function(apart->argument);
    os_process_exit(0);
}

int os_linux_run_apart(int (*run)(void *), void *argument)
{
    uint8_t *stack = os_memory_reserve(THREAD_STACK_BYTES);
    if (stack == NULL) return -ENOMEM;
    uint64_t signals = os_signals_block();
    int process = clone(run, stack + THREAD_STACK_BYTES, CLONE_VM | CLONE_VFORK, argument);
    if (process > 0)
        while (system_call(SYS_wait4, process, 0, __WCLONE, 0, 0, 0) == -EINTR)
            continue;
    os_signals_restore(signals);
    os_memory_release(stack, THREAD_STACK_BYTES);
    return process > 0 ? 0 : -EAGAIN;
}

int os_call_apart(void (*function)(void *), void *argument, bool survives)
{
    struct apart apart = {function, argument, survives};
    return os_linux_run_apart(apart_main, &apart);
}

void os_thread_release(struct os_thread *thread)
{
    if (thread->memory == NULL) return;
    while (atomic_load_acquire(&thread->alive))
        os_wait(&thread->alive, 1, THREAD_LEAVES_NS);
    os_memory_release(thread->memory, thread->bytes);
    thread->memory = NULL;
}
