/* strain - a process that treats itself as daemons, sandboxes and careless programs do. CALLS
 * objects of 777 bytes come before, 2 CALLS after what is done; exit status 7.
 *
 *   strain leave              every thread ends by the system call, none by what libc has for it;
 *                             exit status 9
 *   strain interrupt MICROS   threads begin and end; after so long a signal handler calls _exit()
 *   strain kernel PROGRAM ... runs PROGRAM where madvise() does not know MADV_WIPEONFORK
 *   strain close              closes descriptors 0 to 1023 and gives them to an empty file, which
 *                             must stay empty; a million calls more
 *   strain user               becomes another user and group
 *   strain root DIRECTORY     changes its root directory, and then its current one
 *   strain limits             sets limits on files, their size and address space as low as can be
 *   strain signals            blocks and ignores all signals */
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "allocate.h"

enum { CALLS = 10000, MORE_CALLS = 1000000, NOBODY = 65534, WIPE_ON_FORK = 18, DESCRIPTORS = 1024 };

/* --- leave --- */

static void *leave_thread(void *unused)
{
    (void)unused;
    usleep(50000);
    allocate(CALLS);
    syscall(SYS_exit, 3);
    return NULL;
}

static int leave(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, leave_thread, NULL) != 0) fail("no thread");
    syscall(SYS_exit, 9);
    return 1;
}

/* --- interrupt --- */

static void end_now(int signal)
{
    (void)signal;
    _exit(7);
}

static void *allocate_a_little(void *unused)
{
    (void)unused;
    allocate(3);
    return NULL;
}

static int interrupt(long micros)
{
    struct itimerval timer = {.it_value = {micros / 1000000, micros % 1000000}};
    signal(SIGALRM, end_now);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, allocate_a_little, NULL) == 0) pthread_join(thread, NULL);
    }
    return 1;
}

/* --- kernel --- */

static int run_on_old_kernel(char **program)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIPE_ON_FORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        fail("no filter");
    execvp(program[0], program);
    fail(program[0]);
    return 1;
}

/* --- close and the rest --- */

static void close_all(void)
{
    char name[] = "strain.XXXXXX";
    int file = mkstemp(name);
    int high = fcntl(file, F_DUPFD, DESCRIPTORS);
    if (file < 0 || high < 0) fail("no file");
    unlink(name);
    for (int i = 0; i < DESCRIPTORS; i++)
        close(i);
    for (int i = 0; i < DESCRIPTORS; i++)
        dup2(high, i);
    allocate(MORE_CALLS);
    struct stat status;
    if (fstat(high, &status) != 0 || status.st_size != 0) _exit(1);
}

static void become_nobody(void)
{
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        fail("cannot become another user");
}

static void change_root(const char *directory)
{
    if (chroot(directory) != 0 || chdir("/") != 0) fail("cannot change the root");
}

static void limit_all(void)
{
    const struct rlimit none = {0, 0};
    struct rlimit memory = {200u << 20, 200u << 20};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0 || setrlimit(RLIMIT_CORE, &none) != 0 ||
        setrlimit(RLIMIT_AS, &memory) != 0)
        fail("cannot set a limit");
}

static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    if (strcmp(mode, "interrupt") == 0 && count == 3) return interrupt(atol(words[2]));
    if (strcmp(mode, "kernel") == 0 && count > 2) return run_on_old_kernel(words + 2);
    allocate(CALLS);
    if (strcmp(mode, "leave") == 0)
        return leave();
    else if (strcmp(mode, "close") == 0)
        close_all();
    else if (strcmp(mode, "user") == 0)
        become_nobody();
    else if (strcmp(mode, "root") == 0 && count == 3)
        change_root(words[2]);
    else if (strcmp(mode, "limits") == 0)
        limit_all();
    else if (strcmp(mode, "signals") == 0)
        block_signals();
    else
        fail("see the head of tests/workloads/strain.c");
    allocate(2 * CALLS);
    return 7;
}
