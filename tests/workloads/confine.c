/* confine - a process that takes rights from itself, or has few. It makes CALLS objects of 777
 * bytes before and 2 CALLS after, prints "done", and ends with status 7.
 *
 *   confine filter SCOPE ACTION CALLS ...  a seccomp filter against the system calls named CALLS,
 *                       or "most": all but a few. SCOPE: thread (the calling one, by prctl()), all
 *                       (all threads, by syscall()), or hidden (all, without libc). ACTION: errno,
 *                       trap, thread or process, what the filter answers with
 *   confine family      a filter against calls of ours; then another thread makes CALLS objects of
 *                       778 bytes, and a child as many of 779
 *   confine grow        a filter as "thread process most", then 3 GiB of objects
 *   confine long        a filter as "thread process most", then calls that take a while
 *   confine zygote      looks whether it is alone in its process, also in children; 1 if not. It
 *                       has asked what the system can do
 *   confine root DIR    a child, which has made no call yet, changes its root directory and then
 *                       makes all CALLS
 *   confine stack FILE  calls execvp(FILE) on a stack of 4 KiB
 *   confine refuse ERRNO PROGRAM ...  runs PROGRAM where fallocate() ends with that number
 *   confine forbid PROGRAM ...  runs PROGRAM, which is killed if it asks for another scheduling */
#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "common/arch.h"

#include "allocate.h"

enum { CALLS = 10000, FEW_CALLS = 100, CHILDREN = 3, CODE_MAX = 64, STACK_BYTES = 4096 };

/* --- filters --- */

static const struct {
    const char *name;
    unsigned number;
} names[] = {
    {"futex", SYS_futex},         {"clock_gettime", SYS_clock_gettime},
    {"getpid", SYS_getpid},       {"gettid", SYS_gettid},
    {"nanosleep", SYS_nanosleep}, {"fstat", SYS_fstat},
    {"write", SYS_write},         {"openat", SYS_openat},
    {"pread64", SYS_pread64},     {"tgkill", SYS_tgkill},
    {"munmap", SYS_munmap},
};

static const unsigned needed[] = {SYS_write, SYS_brk,        SYS_mmap,         SYS_munmap,
                                  SYS_exit,  SYS_exit_group, SYS_rt_sigreturn, SYS_madvise};

static struct sock_filter code[CODE_MAX];
static unsigned short code_length;

static void put(struct sock_filter step)
{
    code[code_length++] = step;
}

static void put_answer(unsigned call, unsigned answer)
{
    put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static unsigned answer_of(const char *action)
{
    if (strcmp(action, "errno") == 0) return SECCOMP_RET_ERRNO | EPERM;
    if (strcmp(action, "trap") == 0) return SECCOMP_RET_TRAP;
    if (strcmp(action, "thread") == 0) return SECCOMP_RET_KILL_THREAD;
    return SECCOMP_RET_KILL_PROCESS;
}

static void make_filter(unsigned answer, const char *const *calls)
{
    put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    if (strcmp(calls[0], "most") == 0) {
        for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
            put_answer(needed[i], SECCOMP_RET_ALLOW);
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
        return;
    }
    for (; *calls; calls++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(*calls, names[i].name) == 0) put_answer(names[i].number, answer);
    put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static long hidden_call(long number, long a, long b, const void *c)
{
    return arch_system_call(number, a, b, (long)c, 0, 0, 0);
}

static void install(const char *scope)
{
    struct sock_fprog filter = {code_length, code};
    long result;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no new privileges");
    if (strcmp(scope, "thread") == 0)
        result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    else if (strcmp(scope, "all") == 0)
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    else
        result =
            hidden_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (result != 0) fail("no filter");
}

static int work_confined(const char *scope, const char *action, const char *const *calls)
{
    static const char *const most[] = {"most", NULL};
    make_filter(answer_of(action), calls ? calls : most);
    allocate(CALLS);
    install(scope);
    allocate(CALLS);
    /* A writer that is to be killed gets to know. */
    if (strcmp(scope, "hidden") == 0) usleep(300000);
    allocate(CALLS);
    for (unsigned i = 0; !calls && i < 3072; i++)
        if (!malloc(1 << 20)) return 1;
    if (write(STDOUT_FILENO, "done\n", 5) != 5) return 1;
    return 7;
}

static int work_long(void)
{
    static const char *const most[] = {"most", NULL};
    make_filter(answer_of("process"), most);
    allocate(CALLS);
    install("thread");
    allocate(500 * CALLS);
    if (write(STDOUT_FILENO, "done\n", 5) != 5) return 1;
    return 7;
}

static void *allocate_in_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < CALLS; i++)
        free(malloc(778));
    return NULL;
}

static int work_in_family(void)
{
    static const char *const calls[] = {"clock_gettime", "getpid", "gettid",
                                        "tgkill",        "munmap", NULL};
    pthread_t thread;
    int status = 0;
    make_filter(SECCOMP_RET_KILL_PROCESS, calls);
    allocate(CALLS);
    install("thread");
    if (pthread_create(&thread, NULL, allocate_in_thread, NULL) != 0) fail("no thread");
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < CALLS; i++)
            free(malloc(779));
        _exit(5);
    }
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) return 1;
    allocate(CALLS);
    return write(STDOUT_FILENO, "done\n", 5) == 5 ? 7 : 1;
}

static int run_without(unsigned call, unsigned answer, char *const *words)
{
    put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    put_answer(call, answer);
    put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    install("thread");
    execvp(words[0], words);
    fail(words[0]);
    return 1;
}

/* --- zygote --- */

static unsigned tasks(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/task");
    if (!directory) fail("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static int be_zygote(void)
{
    allocate(FEW_CALLS);
    /* Asks whether there are filters. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0) return 1;
    if (tasks() != 1) return 1;
    for (int i = 0; i < CHILDREN; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            allocate(FEW_CALLS);
            exit(tasks() == 1 ? 0 : 1);
        }
        if (waitpid(child, &status, 0) != child || status != 0) return 1;
    }
    if (tasks() != 1) return 1;
    allocate(3 * CALLS);
    return tasks() == 2 ? 7 : 2;
}

/* --- root and stack --- */

static int change_root(const char *directory)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (chroot(directory) != 0 || chdir("/") != 0) fail(directory);
        allocate(3 * CALLS);
        exit(7);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static char *file_to_run;

static void run_file(void)
{
    char *words[] = {file_to_run, NULL};
    execvp(file_to_run, words);
    _exit(1);
}

/* Behind the stack comes memory that cannot be touched. */
static int run_on_small_stack(char *file)
{
    static ucontext_t context, back;
    char *memory =
        mmap(NULL, 4 * STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED ||
        mprotect(memory + 3 * STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
        fail("no stack");
    allocate(3 * CALLS);
    file_to_run = file;
    getcontext(&context);
    context.uc_stack.ss_sp = memory + 3 * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = &back;
    makecontext(&context, run_file, 0);
    swapcontext(&back, &context);
    return 1;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "filter") == 0 && count > 4)
        return work_confined(words[2], words[3], (const char *const *)words + 4);
    if (strcmp(mode, "grow") == 0) return work_confined("thread", "process", NULL);
    if (strcmp(mode, "long") == 0) return work_long();
    if (strcmp(mode, "family") == 0) return work_in_family();
    if (strcmp(mode, "zygote") == 0) return be_zygote();
    if (strcmp(mode, "root") == 0 && count == 3) return change_root(words[2]);
    if (strcmp(mode, "stack") == 0 && count == 3) return run_on_small_stack(words[2]);
    if (strcmp(mode, "refuse") == 0 && count > 3)
        return run_without(SYS_fallocate, SECCOMP_RET_ERRNO | (unsigned)atoi(words[2]), words + 3);
    if (strcmp(mode, "forbid") == 0 && count > 2)
        return run_without(SYS_sched_setscheduler, SECCOMP_RET_KILL_PROCESS, words + 2);
    fail("see the head of tests/workloads/confine.c");
    return 1;
}
