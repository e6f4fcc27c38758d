/* os_linux_process - what the system tells about the threads of this process. */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define STAT_BYTES_MAX   1024
/* Among the lines up to the one that is read, only that of the groups may be long. */
#define STATUS_BYTES_MAX 4096
#define NS_PER_S         UINT64_C(1000000000)
#define NS_PER_US        UINT64_C(1000)

/* The kernel's largest limit of thread ids (PID_MAX_LIMIT). */
#define THREAD_NUMBERS (1 << 22)

/* proc(5): fields of /proc/.../stat after the name, which may hold anything. */
enum { STAT_STATE = 3, STAT_THREADS = 20, STAT_EXIT_CODE = 52 };

/* Leaves `text` empty if there is no such file. */
static void os_linux_process_read_text(const char *path, char *text, size_t bytes)
{
    int file = os_file_open_read(path);
    long used = os_file_read_start(file, text, bytes - 1);
    os_file_close(file);
    text[used > 0 ? used : 0] = 0;
}

/* The fields from STAT_STATE on; NULL: there is no such file. */
static const char *read_stat(const char *path, char *text)
{
    os_linux_process_read_text(path, text, STAT_BYTES_MAX);
    const char *name_end = strrchr(text, ')');
    return name_end != NULL ? name_end + 2 : NULL;
}

static uint64_t stat_number(const char *fields, int field)
{
    for (int at = STAT_STATE; at < field && *fields; at++) {
        fields += strcspn(fields, " ");
        fields += *fields == ' ';
    }
    return text_read_decimal(fields);
}

bool os_program_file(int file, uint64_t *device, uint64_t *inode, char *name, size_t bytes)
{
    static const char directory[] = "/proc/self/fd/";
    char path[sizeof directory + 10], digits[10];
    struct stat status;
    size_t used = sizeof directory - 1, count = 0;
    if (system_call(SYS_fstat, file, (long)&status, 0, 0, 0, 0) != 0) return false;
    *device = status.st_dev;
    *inode = status.st_ino;
    memcpy(path, directory, used);
    for (unsigned rest = (unsigned)file; count == 0 || rest > 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (count > 0)
        path[used++] = digits[--count];
    path[used] = 0;
    const long length =
        system_call(SYS_readlinkat, AT_FDCWD, (long)path, (long)name, (long)bytes, 0, 0);
    name[length > 0 && (size_t)length < bytes ? length : 0] = 0;
    return true;
}

size_t os_stack_left(const void *address)
{
    stack_t stack = {.ss_flags = 0};
    const uintptr_t at = (uintptr_t)address;
    if (os_is_confined() || system_call(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0) != 0 ||
        !(stack.ss_flags & SS_ONSTACK) || at - (uintptr_t)stack.ss_sp > stack.ss_size)
        return SIZE_MAX;
    return at - (uintptr_t)stack.ss_sp;
}

unsigned os_process_threads(void)
{
    char text[STAT_BYTES_MAX];
    const char *fields = read_stat("/proc/self/stat", text);
    return fields != NULL ? (unsigned)stat_number(fields, STAT_THREADS) : 0;
}

/* A thread that has ended has no memory. The first one keeps its number until the process ends. */
static bool first_thread_has_ended(void)
{
    char from = 0, to;
    struct iovec remote = {&from, 1}, local = {&to, 1};
    return system_call(SYS_process_vm_readv, os_process_id(), (long)&local, 1, (long)&remote, 1,
                       0) == -ESRCH;
}

static void tell_number(void *number)
{
    *(int *)number = (int)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* Without /proc: asks about each thread id that has been assigned since the process began. They are
 * assigned cyclically; that of a process that begins now is the latest. */
static bool has_other_threads(unsigned own)
{
    const int first = (int)os_process_id();
    int latest = 0;
    unsigned found = 0;
    if (os_call_apart(tell_number, &latest, false) < 0) return true;
    for (int i = first; i != latest && found <= own; i = (i + 1) % THREAD_NUMBERS)
        if (i != first && i != 0) found += !os_thread_is_gone(i);
    return found > own;
}

bool os_process_is_abandoned(unsigned own)
{
    char text[STAT_BYTES_MAX];
    const char *fields = read_stat("/proc/self/stat", text);
    if (fields == NULL) return first_thread_has_ended() && !has_other_threads(own);
    /* The first thread is counted until the process has ended. */
    if (*fields != 'Z' || stat_number(fields, STAT_THREADS) > own + 1) return false;
    os_linux_exit_status = (int)(stat_number(fields, STAT_EXIT_CODE) >> 8 & 0xff);
    return true;
}

/* Valgrind recognizes this sequence of instructions and answers the request. On a processor it has
 * no effect, and the result is 0. */
bool os_process_is_emulated(void)
{
    enum { RUNNING_ON_VALGRIND = 0x1001 };
    const uint64_t request[6] = {RUNNING_ON_VALGRIND};
    return arch_ask_valgrind(request) != 0;
}

/* Of ThreadSanitizer's library, or of a program that is linked with it statically. */
extern void __tsan_init(void) __attribute__((weak));

bool os_process_is_sanitized(void)
{
    return __tsan_init != NULL;
}

static struct os_usage usage_of(int whom)
{
    struct rusage usage = {0};
    if (!os_is_confined()) system_call(SYS_getrusage, whom, (long)&usage, 0, 0, 0, 0);
    return (struct os_usage){
        (uint64_t)usage.ru_utime.tv_sec * NS_PER_S + (uint64_t)usage.ru_utime.tv_usec * NS_PER_US,
        (uint64_t)usage.ru_stime.tv_sec * NS_PER_S + (uint64_t)usage.ru_stime.tv_usec * NS_PER_US};
}

/* The kernel divides times into user and system by samples, so a part may exceed the whole. */
static uint64_t less(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

struct os_usage os_process_usage(bool without_caller)
{
    struct os_usage all = usage_of(RUSAGE_SELF);
    if (!without_caller) return all;
    struct os_usage own = usage_of(RUSAGE_THREAD);
    return (struct os_usage){less(all.user_ns, own.user_ns), less(all.system_ns, own.system_ns)};
}

/* getrusage(2) would include the peak from before the process executed this program. */
uint64_t os_process_peak_bytes(void)
{
    char text[STATUS_BYTES_MAX];
    os_linux_process_read_text("/proc/self/status", text, sizeof text);
    const char *peak = strstr(text, "\nVmHWM:");
    return peak != NULL ? text_read_decimal(peak + strcspn(peak, "0123456789")) * 1024 : 0;
}

static uint64_t clock_time_ns(long clock)
{
    struct timespec time = {0, 0};
    system_call(SYS_clock_gettime, clock, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

uint64_t os_thread_run_ns(void)
{
    return os_is_confined() ? 0 : clock_time_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t cpu_time_ns(int thread_id)
{
    /* The clock's id, as pthread_getcpuclockid(3) makes it: per thread, measured by the
     * scheduler. */
    return clock_time_ns((int)((~(unsigned long)thread_id << 3) | 6));
}

bool os_threads_barrier(void)
{
    return !os_is_confined() &&
           system_call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) ==
               0 &&
           system_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0) == 0;
}

void os_thread_look(int thread_id, struct os_thread_look *look)
{
    char room[64], text[STAT_BYTES_MAX];
    struct text path = {room, 0, sizeof room};
    *look = (struct os_thread_look){.is_gone = os_thread_is_gone(thread_id)};
    if (look->is_gone) return;
    look->cpu_ns = cpu_time_ns(thread_id);
    text_string(&path, "/proc/self/task/");
    text_decimal(&path, (unsigned)thread_id);
    text_string(&path, "/stat");
    text_end(&path);
    const char *fields = read_stat(room, text);
    /* Where there is no /proc, nothing better is known. */
    look->sleeps = fields == NULL || (*fields != 'R' && *fields != 'D');
}
