#include "cli/run_program.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "launch/process.h"

/* How often something else is done while the program runs. */
enum { MEANWHILE_NS = 200000000 };

/* What others send; those of the terminal's job control stop us as they stop the program. */
static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGTERM, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGVTALRM, SIGWINCH};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* What the program is to have as we were given it. */
struct signals {
    sigset_t mask;
    struct sigaction child_ended;
};

static void signals_restore(void *before)
{
    const struct signals *signals = before;
    sigaction(SIGCHLD, &signals->child_ended, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* The kernel sends what is typed to the whole group. */
static void signal_take(const struct running_program *program, const siginfo_t *signal)
{
    if (signal->si_signo != SIGCHLD && signal->si_code <= 0)
        kill(program->process, signal->si_signo);
}

int run_program(struct running_program *program, const char *path, char **words,
                void (*meanwhile)(void *), void *argument)
{
    const struct timespec patience = {.tv_nsec = MEANWHILE_NS};
    struct signals before;
    sigset_t waited;
    siginfo_t signal;
    /* Whoever started us may have ignored it; then nobody could wait for the program. */
    const struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    for (int i = 0; i < PASSED_ON; i++)
        sigaddset(&waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, &waited, &before.mask);
    sigaction(SIGCHLD, &by_default, &before.child_ended);
    const struct child child = {path, words, -1, -1, -1, signals_restore, &before};
    int error = child_start(&child, &program->process);
    while (error == 0 && waitpid(program->process, &program->status, WNOHANG) == 0) {
        if (sigtimedwait(&waited, &signal, &patience) > 0)
            signal_take(program, &signal);
        else
            meanwhile(argument);
    }
    return error;
}

int run_program_status(const struct running_program *program)
{
    return WIFSIGNALED(program->status) ? 128 + WTERMSIG(program->status)
                                        : WEXITSTATUS(program->status);
}
