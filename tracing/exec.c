/* exec - a recording ends before another program takes the process over.
 *
 * The functions of libc stand behind these. They do what they would do anyway; what is added is
 * the end of the recording, if the exec will succeed: another process tries it first. That one is
 * traced, so it stops before the first instruction of the new program, and is killed there.
 *
 *   thread --clone, as vfork()--> the tracer --the same--> the trial: exec
 *
 * In a vfork child nothing is added: the recording is its parent's. system(), popen() and
 * posix_spawn() do not come here, and need not: their children are of that kind. */
#include "next_function.h"
#include "os.h"
#include "os_linux.h"
#include "recording.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* --- what libc has --- */

static struct {
    int (*execve)(const char *path, char *const words[], char *const environment[]);
    int (*execvpe)(const char *file, char *const words[], char *const environment[]);
    int (*fexecve)(int file, char *const words[], char *const environment[]);
    int (*execveat)(int directory, const char *path, char *const words[], char *const environment[],
                    int flags);
} libc;

/* In a constructor, because after a fork dlsym() might wait for a lock. */
__attribute__((constructor)) static void find_all(void)
{
    if (libc.execve) return;
    next_function(&libc.execve, "execve");
    next_function(&libc.execvpe, "execvpe");
    next_function(&libc.fexecve, "fexecve");
    next_function(&libc.execveat, "execveat");
}

/* --- whether it will succeed --- */

#define STACK_BYTES   ((size_t)32 << 10)
#define TRIAL_UNKNOWN (-1)

struct trial {
    int directory;
    const char *path;
    char *const *words, *const *environment;
    int flags;
    uint8_t *stacks; /* of the tracer and of the trial */
    int error;       /* TRIAL_UNKNOWN; 0: it runs; or with which it failed */
};

/* In a session of its own, so that no signal to the program's group stops it; all others but that
 * of a successful exec are blocked. */
static int trial_main(void *argument)
{
    const uint64_t sigtrap = UINT64_C(1) << (SIGTRAP - 1);
    struct trial *trial = argument;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    system_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&sigtrap, 0, sizeof sigtrap, 0, 0);
    if (system_call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0) == 0)
        trial->error =
            (int)-system_call(SYS_execveat, trial->directory, (long)trial->path, (long)trial->words,
                              (long)trial->environment, trial->flags, 0);
    os_process_exit(0);
}

static int tracer_main(void *argument)
{
    struct trial *trial = argument;
    int status = 0;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    int process = clone(trial_main, trial->stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK, trial);
    if (process > 0 && system_call(SYS_wait4, process, (long)&status, __WALL, 0, 0, 0) == process &&
        WIFSTOPPED(status)) {
        trial->error = 0;
        system_call(SYS_kill, process, SIGKILL, 0, 0, 0, 0);
        system_call(SYS_wait4, process, 0, __WALL, 0, 0, 0);
    }
    os_process_exit(0);
}

/* Whether it runs; also if that cannot be tried. `is_script_run`: by /bin/sh, if the system cannot
 * execute it. */
static bool runs(int directory, const char *path, char *const words[], char *const environment[],
                 int flags, bool is_script_run)
{
    struct trial trial = {.directory = directory,
                          .path = path,
                          .words = words,
                          .environment = environment,
                          .flags = flags,
                          .stacks = os_memory_reserve(2 * STACK_BYTES),
                          .error = TRIAL_UNKNOWN};
    if (!trial.stacks) return true;
    uint64_t signals = os_signals_block();
    int process =
        clone(tracer_main, trial.stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK, &trial);
    if (process > 0)
        while (system_call(SYS_wait4, process, 0, __WCLONE, 0, 0, 0) == -EINTR)
            continue;
    os_signals_restore(signals);
    os_memory_release(trial.stacks, 2 * STACK_BYTES);
    return trial.error <= 0 || (trial.error == ENOEXEC && is_script_run);
}

/* Whether one of the directories has it; as execvp(3), an empty one is the current one. `path` has
 * room for each. */
static bool is_in_one(const char *directories, const char *file, char *path)
{
    for (;;) {
        const char *end = strchrnul(directories, ':');
        size_t bytes = (size_t)(end - directories);
        memcpy(path, directories, bytes);
        path[bytes] = '/';
        memcpy(path + bytes + (bytes > 0), file, strlen(file) + 1);
        if (os_file_is_executable(path)) return true;
        if (!*end) return false;
        directories = end + 1;
    }
}

/* The stack may be a small one. */
static bool runs_from_path(const char *file, char *const words[], char *const environment[])
{
    const char *directories = getenv("PATH");
    if (!directories) directories = "/bin:/usr/bin";
    size_t bytes = strlen(directories) + strlen(file) + 2;
    char *path = os_memory_reserve(bytes);
    if (!path) return false;
    bool found =
        is_in_one(directories, file, path) && runs(AT_FDCWD, path, words, environment, 0, true);
    os_memory_release(path, bytes);
    return found;
}

static bool runs_from(const char *file, char *const words[], char *const environment[],
                      bool searched)
{
    if (!file || !*file) return false;
    if (searched && !strchr(file, '/')) return runs_from_path(file, words, environment);
    return os_file_is_executable(file) && runs(AT_FDCWD, file, words, environment, 0, searched);
}

/* The exec has failed. */
static int go_on(bool ended)
{
    int kept_errno = errno;
    if (ended) recording_go_on_after_exec();
    errno = kept_errno;
    return -1;
}

/* Whether there is a recording that would end. */
static bool is_recorded(void)
{
    find_all();
    return recording_is_at_exec();
}

/* --- the functions --- */

EXPORT int execve(const char *path, char *const words[], char *const environment[])
{
    bool ended =
        is_recorded() && runs_from(path, words, environment, false) && recording_end_at_exec();
    libc.execve(path, words, environment);
    return go_on(ended);
}

EXPORT int execvpe(const char *file, char *const words[], char *const environment[])
{
    bool ended =
        is_recorded() && runs_from(file, words, environment, true) && recording_end_at_exec();
    libc.execvpe(file, words, environment);
    return go_on(ended);
}

EXPORT int fexecve(int file, char *const words[], char *const environment[])
{
    bool ended = is_recorded() && runs(file, "", words, environment, AT_EMPTY_PATH, false) &&
                 recording_end_at_exec();
    libc.fexecve(file, words, environment);
    return go_on(ended);
}

EXPORT int execveat(int directory, const char *path, char *const words[], char *const environment[],
                    int flags)
{
    bool ended = is_recorded() && runs(directory, path, words, environment, flags, false) &&
                 recording_end_at_exec();
    libc.execveat(directory, path, words, environment, flags);
    return go_on(ended);
}

EXPORT int execv(const char *path, char *const words[])
{
    return execve(path, words, environ);
}

EXPORT int execvp(const char *file, char *const words[])
{
    return execvpe(file, words, environ);
}

typedef int exec_function(const char *file, char *const words[], char *const environment[]);

/* `list` goes on behind `first`, and behind NULL with an environment, if it brings one. */
static int run_list(exec_function *run, const char *file, const char *first, va_list list,
                    bool brings_environment)
{
    size_t count = 1;
    va_list counted;
    va_copy(counted, list);
    for (const char *word = first; word; word = va_arg(counted, char *))
        count++;
    va_end(counted);
    char **words = __builtin_alloca(count * sizeof *words), **last = words;
    *last = (char *)(uintptr_t)first;
    while (*last)
        *++last = va_arg(list, char *);
    return run(file, words, brings_environment ? va_arg(list, char **) : environ);
}

#define DEFINE_LIST(function, run, brings_environment)                     \
    EXPORT int function(const char *file, const char *first, ...)          \
    {                                                                      \
        va_list list;                                                      \
        va_start(list, first);                                             \
        int result = run_list(run, file, first, list, brings_environment); \
        va_end(list);                                                      \
        return result;                                                     \
    }
DEFINE_LIST(execl, execve, false)
DEFINE_LIST(execlp, execvpe, false)
DEFINE_LIST(execle, execve, true)
