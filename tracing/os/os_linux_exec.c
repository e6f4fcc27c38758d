/* os_linux_exec - whether an exec would succeed: another process tries it. That one is traced, so it
 * stops before the first instruction of the new program, and is killed there.
 *
 *   thread --clone, as vfork()--> the tracer --the same--> the trial: exec */
#include "tracing/os/os.h"

#include "tracing/os/os_linux.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK_BYTES ((size_t)32 << 10)

struct trial {
    int directory;
    const char *path;
    char *const *words, *const *environment;
    int flags;
    int result; /* 0, also if it cannot be tried; or the negative errno with which it failed */
};

/* Has a session of its own, so that no signal to the program's process group stops it. SIGTRAP, the
 * signal of a successful exec, is the only one that is not blocked. */
static int trial_main(void *argument)
{
    const uint64_t sigtrap = UINT64_C(1) << (SIGTRAP - 1);
    struct trial *trial = argument;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    system_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&sigtrap, 0, sizeof sigtrap, 0, 0);
    if (system_call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0) == 0)
        trial->result =
            (int)system_call(SYS_execveat, trial->directory, (long)trial->path, (long)trial->words,
                             (long)trial->environment, trial->flags, 0);
    os_process_exit(0);
}

static int tracer_main(void *argument)
{
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));
    int status = 0;
    system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0);
    int process = clone(trial_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK, argument);
    if (process > 0 && system_call(SYS_wait4, process, (long)&status, __WALL, 0, 0, 0) == process &&
        WIFSTOPPED(status)) {
        system_call(SYS_kill, process, SIGKILL, 0, 0, 0, 0);
        system_call(SYS_wait4, process, 0, __WALL, 0, 0, 0);
    }
    os_process_exit(0);
}

int os_exec_try(int directory, const char *path, char *const words[], char *const environment[],
                int flags)
{
    struct trial trial = {directory, path, words, environment, flags, 0};
    os_linux_run_apart(tracer_main, &trial);
    return trial.result;
}
