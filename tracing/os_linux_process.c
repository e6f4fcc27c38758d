/* os_linux_process - what the system tells about the threads of this process. */
#include "os.h"

#include "os_linux.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define STAT_BYTES_MAX 1024

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
