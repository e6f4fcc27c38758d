/* os_linux_process - what the system tells about the threads of this process. */
#include "os.h"

#include "os_linux.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define STAT_BYTES_MAX   1024
/* The lines before the one that is read are short, but for that of the groups. */
#define STATUS_BYTES_MAX 4096
#define NS_PER_S         UINT64_C(1000000000)
#define NS_PER_US        UINT64_C(1000)

/* proc(5): the fields behind the name, which may hold anything, of /proc/.../stat. */
enum { STAT_STATE = 3, STAT_THREADS = 20, STAT_EXIT_CODE = 52 };

/* NULL: there is no such file. */
static const char *read_stat(const char *path, char *text)
{
    int file = os_file_open_read(path);
    if (file < 0) return NULL;
    long bytes = os_file_read_start(file, text, STAT_BYTES_MAX - 1);
    os_file_close(file);
    if (bytes <= 0) return NULL;
    text[bytes] = 0;
    for (long at = bytes; at-- > 0;)
        if (text[at] == ')') return text + at + 2;
    return NULL;
}

static unsigned long stat_number(const char *fields, int field)
{
    for (int at = STAT_STATE; at < field; at++) {
        while (*fields && *fields != ' ')
            fields++;
        if (*fields) fields++;
    }
    unsigned long number = 0;
    for (; *fields >= '0' && *fields <= '9'; fields++)
        number = number * 10 + (unsigned long)(*fields - '0');
    return number;
}

bool os_process_is_abandoned(unsigned own)
{
    char text[STAT_BYTES_MAX];
    const char *fields = read_stat("/proc/self/stat", text);
    /* The first thread is counted until the process has ended. */
    if (!fields || *fields != 'Z' || stat_number(fields, STAT_THREADS) > own + 1ul) return false;
    os_linux_exit_status = (int)(stat_number(fields, STAT_EXIT_CODE) >> 8 & 0xff);
    return true;
}

/* What runs a program of ours instruction by instruction answers this request of Valgrind's with
 * its depth; for the processor it does nothing, and the default stands. */
bool os_process_is_emulated(void)
{
    enum { RUNNING_ON_VALGRIND = 0x1001 };
    const uint64_t request[6] = {RUNNING_ON_VALGRIND};
    uint64_t result = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(request)
                     : "cc", "memory", "rdi");
    return result != 0;
}

static struct os_usage usage_of(int whom)
{
    struct rusage usage = {0};
    if (!os_is_confined()) system_call(SYS_getrusage, whom, (long)&usage, 0, 0, 0, 0);
    return (struct os_usage){
        (uint64_t)usage.ru_utime.tv_sec * NS_PER_S + (uint64_t)usage.ru_utime.tv_usec * NS_PER_US,
        (uint64_t)usage.ru_stime.tv_sec * NS_PER_S + (uint64_t)usage.ru_stime.tv_usec * NS_PER_US};
}

/* The kernel divides a time into user and system by samples, so a part may seem more than all. */
static uint64_t less(uint64_t all, uint64_t part)
{
    return all > part ? all - part : 0;
}

struct os_usage os_process_usage(void)
{
    return usage_of(RUSAGE_SELF);
}

struct os_usage os_process_usage_without_caller(void)
{
    struct os_usage all = usage_of(RUSAGE_SELF), own = usage_of(RUSAGE_THREAD);
    return (struct os_usage){less(all.user_ns, own.user_ns), less(all.system_ns, own.system_ns)};
}

/* getrusage(2) has also what the process had before it was replaced by this program. */
uint64_t os_process_peak_bytes(void)
{
    static const char name[] = "VmHWM:";
    char text[STATUS_BYTES_MAX];
    int file = os_file_open_read("/proc/self/status");
    if (file < 0) return 0;
    long bytes = os_file_read_start(file, text, sizeof text - 1);
    os_file_close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *at = text;
    while (*at && memcmp(at, name, sizeof name - 1) != 0) {
        while (*at && *at != '\n')
            at++;
        if (*at) at++;
    }
    uint64_t kib = 0;
    while (*at && *at != '\n' && (*at < '0' || *at > '9'))
        at++;
    for (; *at >= '0' && *at <= '9'; at++)
        kib = kib * 10 + (uint64_t)(*at - '0');
    return kib * 1024;
}

static uint64_t cpu_time_ns(int thread_id)
{
    /* As clock_getcpuclockid(3) makes it, for a thread and what the scheduler measures. */
    long clock = (long)((~(unsigned long)thread_id << 3) | 6);
    struct timespec time = {0, 0};
    system_call(SYS_clock_gettime, (int)clock, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void os_thread_look(int thread_id, struct os_thread_look *look)
{
    static const char before[] = "/proc/self/task/";
    static const char behind[] = "/stat";
    char path[64];
    char text[STAT_BYTES_MAX];
    *look = (struct os_thread_look){.is_gone = os_thread_is_gone(thread_id)};
    if (look->is_gone) return;
    look->cpu_ns = cpu_time_ns(thread_id);
    memcpy(path, before, sizeof before);
    memcpy(os_linux_put_number(path + sizeof before - 1, (unsigned)thread_id), behind,
           sizeof behind);
    const char *fields = read_stat(path, text);
    /* Where there is no /proc, nothing better is known. */
    look->sleeps = !fields || (*fields != 'R' && *fields != 'D');
}
