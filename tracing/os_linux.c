/* os_linux - the operating system layer of the capture core on Linux, x86-64 and AArch64.
 *
 * syscall() of libc sets errno, which belongs to the traced program, so the calls are made here. */
#include "os.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#if !defined(__x86_64__)
#error "os_linux.c: only x86-64 so far: system_call() and thread_storage_of() are to be written"
#endif

#define ERRNO_EOPNOTSUPP (-95)
#define ERRNO_ENOSYS     (-38)
#define ERRNO_EINTR      (-4)
#define ERRNO_ESRCH      (-3)

static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void *map(void *at, size_t bytes, int protection, int flags, int file, uint64_t offset)
{
    long result =
        system_call(SYS_mmap, (long)at, (long)bytes, protection, flags, file, (long)offset);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

void *os_memory_reserve(size_t bytes)
{
    void *memory = map(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory) {
        /* Sparse use: a huge page would cost 512 pages for the one that is touched. */
        system_call(SYS_madvise, (long)memory, (long)bytes, MADV_NOHUGEPAGE, 0, 0, 0);
        system_call(SYS_madvise, (long)memory, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    }
    return memory;
}

void *os_memory_reserve_per_process(size_t bytes)
{
    void *memory = os_memory_reserve(bytes);
    if (memory) system_call(SYS_madvise, (long)memory, (long)bytes, MADV_WIPEONFORK, 0, 0, 0);
    return memory;
}

void os_memory_release(void *memory, size_t bytes)
{
    system_call(SYS_munmap, (long)memory, (long)bytes, 0, 0, 0, 0);
}

void *os_zeros_reserve(size_t bytes)
{
    return map(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

size_t os_current_directory(char *path, size_t bytes)
{
    long length = system_call(SYS_getcwd, (long)path, (long)bytes, 0, 0, 0, 0);
    if (length <= 0 || path[0] != '/') return 0;
    path[length - 1] = '/';
    return (size_t)length;
}

static int open_file(const char *path, int flags)
{
    return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC | O_NOCTTY, 0600, 0,
                            0);
}

/* A file system may write out a file at its close that was truncated before, lest a crash lose both
 * versions; a new file in its place is not waited for. */
static void unlink_if_plain_file(const char *path)
{
    struct stat status;
    if (system_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&status, AT_SYMLINK_NOFOLLOW, 0,
                    0) == 0 &&
        S_ISREG(status.st_mode) && status.st_nlink == 1)
        os_file_remove(path);
}

int os_file_create(const char *path)
{
    unlink_if_plain_file(path);
    return open_file(path, O_RDWR | O_CREAT | O_TRUNC);
}

int os_file_open_read(const char *path)
{
    return open_file(path, O_RDONLY);
}

int os_file_remove(const char *path)
{
    return (int)system_call(SYS_unlink, (long)path, 0, 0, 0, 0, 0);
}

void os_file_close(int file)
{
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
}

long os_file_write(int file, const void *data, size_t bytes)
{
    long result;
    do
        result = system_call(SYS_write, file, (long)data, (long)bytes, 0, 0, 0);
    while (result == ERRNO_EINTR);
    return result;
}

long os_file_read_start(int file, void *data, size_t bytes)
{
    return system_call(SYS_pread64, file, (long)data, (long)bytes, 0, 0, 0);
}

/* Where the file system cannot preallocate, writing zeros does the same, more slowly. */
static int allocate_by_writing(int file, uint64_t bytes)
{
    static const char zeros[4096];
    long end = system_call(SYS_lseek, file, 0, SEEK_END, 0, 0, 0);
    if (end < 0) return (int)end;
    uint64_t at = (uint64_t)end;
    while (at < bytes) {
        size_t part = bytes - at < sizeof zeros ? (size_t)(bytes - at) : sizeof zeros;
        long result = system_call(SYS_pwrite64, file, (long)zeros, (long)part, (long)at, 0, 0);
        if (result < 0) return (int)result;
        at += (uint64_t)result;
    }
    return 0;
}

int os_file_allocate(int file, uint64_t bytes)
{
    int result = (int)system_call(SYS_fallocate, file, 0, 0, (long)bytes, 0, 0);
    if (result == ERRNO_EOPNOTSUPP || result == ERRNO_ENOSYS)
        result = allocate_by_writing(file, bytes);
    return result;
}

void *os_file_map(int file, uint64_t offset, size_t bytes)
{
    void *memory =
        map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, offset);
    if (memory) {
        system_call(SYS_madvise, (long)memory, (long)bytes, MADV_DONTFORK, 0, 0, 0);
        system_call(SYS_madvise, (long)memory, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    }
    return memory;
}

void os_message_write(const char *text, size_t bytes)
{
    os_file_write(2, text, bytes);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0, 0};
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

int os_thread_id(void)
{
    return (int)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

bool os_thread_is_gone(int thread_id)
{
    return system_call(SYS_tgkill, os_process_id(), thread_id, 0, 0, 0, 0) == ERRNO_ESRCH;
}

void os_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    system_call(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, expected,
                timeout_ns ? (long)&timeout : 0, 0, 0);
}

void os_wake_all(const uint32_t *word)
{
    system_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
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

void os_process_exit(int status)
{
    for (;;)
        system_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* --- the writer thread --- */

#define THREAD_STACK_BYTES   (256u * 1024)
/* What compiled C code may touch around the thread pointer: libc's static TLS below it (errno, were
 * anything to set it), the thread descriptor with the stack protector's guard above it. */
#define THREAD_STORAGE_BELOW (56u * 1024)
#define THREAD_STORAGE_ABOVE (8u * 1024)

struct thread {
    void (*function)(void *);
    void *argument;
    uint32_t *done;
};

static void keep_only_standard_error(void)
{
    system_call(SYS_close, 0, 0, 0, 0, 0, 0);
    system_call(SYS_close, 1, 0, 0, 0, 0, 0);
#ifdef SYS_close_range
    if (system_call(SYS_close_range, 3, ~0u, 0, 0, 0, 0) == 0) return;
#endif
    for (int file = 3; file < 65536; file++)
        os_file_close(file);
}

static int thread_main(void *argument)
{
    struct thread thread = *(struct thread *)argument;
    keep_only_standard_error();
    system_call(SYS_prctl, PR_SET_NAME, (long)"malloctape", 0, 0, 0, 0);
    thread.function(thread.argument);
    __atomic_store_n(thread.done, 1, __ATOMIC_RELEASE);
    os_wake_all(thread.done);
    system_call(SYS_exit, 0, 0, 0, 0, 0, 0);
    return 0;
}

/* A block that looks enough like a thread's storage: the thread pointer points to itself. */
static void *thread_storage_of(uint8_t *memory)
{
    uint8_t *pointer = memory + THREAD_STORAGE_BELOW;
    memcpy(pointer, &pointer, sizeof pointer);
    memcpy(pointer + 16, &pointer, sizeof pointer);
    return pointer;
}

int os_thread_start(void (*function)(void *), void *argument, uint32_t *done)
{
    size_t bytes = THREAD_STACK_BYTES + THREAD_STORAGE_BELOW + THREAD_STORAGE_ABOVE;
    uint8_t *memory = os_memory_reserve(bytes);
    if (!memory) return -12;
    struct thread *thread = (struct thread *)(memory + THREAD_STACK_BYTES - sizeof *thread);
    thread->function = function;
    thread->argument = argument;
    thread->done = done;
    uint64_t all = ~UINT64_C(0);
    uint64_t before = 0;
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof before, 0, 0);
    /* Without CLONE_FILES the thread has its own copy of the descriptor table. */
    int flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
    int result = clone(thread_main, (void *)((uintptr_t)thread & ~(uintptr_t)63), flags, thread,
                       NULL, thread_storage_of(memory + THREAD_STACK_BYTES), NULL);
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    if (result < 0) os_memory_release(memory, bytes);
    return result < 0 ? -11 : 0;
}
