#include "cli/run_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/program.h"

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

/* Becomes the program, or tells why not. */
static void child_run(const char *path, char **words, const struct signals *signals, int errors)
{
    sigaction(SIGCHLD, &signals->child_ended, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
    execvp(path, words);
    int error = errno;
    ssize_t written = write(errors, &error, sizeof error);
    (void)written; /* nobody is left to tell */
    _exit(PROGRAM_CANNOT_EXECUTE);
}

/* The errno that the child tells before it ends; 0: it has become the program. */
static int error_read(int from)
{
    int error = 0;
    ssize_t bytes;
    do
        bytes = read(from, &error, sizeof error);
    while (bytes < 0 && errno == EINTR);
    return bytes == (ssize_t)sizeof error ? error : 0;
}

static int program_start(struct running_program *program, const char *path, char **words,
                         const struct signals *signals)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    program->process = fork();
    int error = program->process < 0 ? errno : 0;
    if (program->process == 0) child_run(path, words, signals, ends[1]);
    close(ends[1]);
    if (error == 0) error = error_read(ends[0]);
    close(ends[0]);
    if (error != 0 && program->process > 0) waitpid(program->process, NULL, 0);
    return error;
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
    int error = program_start(program, path, words, &before);
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
