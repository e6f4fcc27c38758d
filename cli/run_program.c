#include "cli/run_program.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/witness.h"
#include "launch/process.h"

/* How often meanwhile() is called while the program runs. */
enum { MEANWHILE_NS = 200000000 };

/* The same signal again within this time counts once: `timeout` sends it to us and then to the
 * group, service managers to each process. */
enum { SAME_SIGNAL_NS = 50000000 };

static const int passed_on[] = {SIGHUP,    SIGINT,   SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
                                SIGVTALRM, SIGWINCH, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on };

/* What the program inherits as we were given it. */
struct signals {
    sigset_t mask;
    struct sigaction child_ended;
};

/* Whoever started us sees whether the program is stopped by whether we are. */
struct job {
    struct running_program *program;
    struct witness witness;
    int stop; /* the signal that should stop the program, until SIGCONT comes; or 0 */
    bool is_stopped, has_ended;
};

static void signals_restore(void *before)
{
    const struct signals *signals = before;
    sigaction(SIGCHLD, &signals->child_ended, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

static bool is_stop(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

static void set_of_one(sigset_t *set, int number)
{
    sigemptyset(set);
    sigaddset(set, number);
}

/* Waits a little for the same signal again, and takes it if it has come. */
static void signal_gather(siginfo_t *signal)
{
    const struct timespec soon = {.tv_nsec = SAME_SIGNAL_NS}, no_time = {0};
    siginfo_t again;
    sigset_t one;
    set_of_one(&one, signal->si_signo);
    nanosleep(&soon, NULL);
    if (sigtimedwait(&one, &again, &no_time) > 0) *signal = again;
}

static void signal_take(struct job *job, siginfo_t *signal)
{
    const int number = signal->si_signo;
    if (number == SIGCHLD) return;
    if (number == SIGCONT) job->stop = 0;
    if (is_stop(number)) job->stop = number;
    signal_gather(signal);
    if (!witness_saw(&job->witness, signal)) kill(job->program->process, number);
}

static void program_look(struct job *job)
{
    int status;
    if (waitpid(job->program->process, &status, WNOHANG | WUNTRACED | WCONTINUED) <= 0) return;
    job->is_stopped = WIFSTOPPED(status);
    job->has_ended = WIFEXITED(status) || WIFSIGNALED(status);
    if (job->has_ended) job->program->status = status;
}

/* Uses the signal that was sent, not SIGSTOP: a shell shows which one it was, and the kernel
 * ignores it in an orphaned process group, which nobody could continue. */
static void stop_ourselves(struct job *job)
{
    sigset_t one, before;
    set_of_one(&one, job->stop);
    raise(job->stop);
    sigprocmask(SIG_UNBLOCK, &one, &before); /* here */
    sigprocmask(SIG_SETMASK, &before, NULL);
    job->stop = 0;
}

static void job_run(struct job *job, const sigset_t *waited, void (*meanwhile)(void *),
                    void *argument)
{
    const struct timespec patience = {.tv_nsec = MEANWHILE_NS};
    siginfo_t signal;
    meanwhile(argument);
    for (;;) {
        program_look(job);
        if (job->has_ended) return;
        if (job->is_stopped && job->stop != 0) stop_ourselves(job);
        if (sigtimedwait(waited, &signal, &patience) > 0)
            signal_take(job, &signal);
        else
            meanwhile(argument);
    }
}

int run_program(struct running_program *program, const char *path, char **words,
                void (*meanwhile)(void *), void *argument)
{
    struct signals before;
    struct job job = {.program = program};
    sigset_t waited;
    /* SIGCHLD may be ignored from our parent; then the program could not be waited for. */
    const struct sigaction by_default = {.sa_handler = SIG_DFL};
    set_of_one(&waited, SIGCHLD);
    for (int i = 0; i < PASSED_ON; i++)
        sigaddset(&waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, &waited, &before.mask);
    sigaction(SIGCHLD, &by_default, &before.child_ended);
    witness_begin(&job.witness);
    const struct child child = {path, words, -1, -1, -1, signals_restore, &before};
    int error = child_start(&child, &program->process);
    if (error == 0) job_run(&job, &waited, meanwhile, argument);
    witness_end(&job.witness);
    return error;
}

int run_program_status(const struct running_program *program)
{
    return WIFSIGNALED(program->status) ? 128 + WTERMSIG(program->status)
                                        : WEXITSTATUS(program->status);
}
