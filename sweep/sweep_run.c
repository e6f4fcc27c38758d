#include "sweep/sweep_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/progress.h"
#include "launch/process.h"
#include "sweep/tasks.h"

/* How many times, and how far apart, to check whether a task has ended: five seconds in all. */
#define GROUP_TRIES  500
#define GROUP_ASK_NS 10000000

/* State that the signal handler uses. */
static volatile sig_atomic_t sweep_signal; /* the signal, or 0 */
static volatile pid_t sweep_task_group;    /* the group of the task, or 0 */

static const int sweep_run_ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING_SIGNALS = sizeof sweep_run_ending_signals / sizeof *sweep_run_ending_signals };

/* ---- signals ---- */

static void sweep_run_on_signal(int number)
{
    sweep_signal = number;
    if (sweep_task_group > 0) kill(-sweep_task_group, SIGTERM);
}

/* Ignored signals stay ignored, as under nohup. No SA_RESTART, so that waiting calls return. */
void sweep_catch_signals(void)
{
    struct sigaction action = {.sa_handler = sweep_run_on_signal}, before;
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(sweep_run_ending_signals[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(sweep_run_ending_signals[i], &action, NULL);
    }
}

bool sweep_interrupted(void)
{
    return sweep_signal != 0;
}

/* ---- one at a time ---- */

/* Opens and takes the lock, which the task inherits. -1: failed. */
static int lock_open(const struct sweep *sweep)
{
    const int lock = open(sweep_path(sweep, "lock", ""), O_RDWR | O_CREAT, 0666);
    if (lock < 0) {
        cli_fail(&cli_sweep, "%s/lock: %s", sweep->directory, strerror(errno));
        return -1;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
    cli_fail(&cli_sweep, "waiting for another sweep of %s, or for a task that it left running",
             sweep->directory);
    while (flock(lock, LOCK_EX) != 0)
        if (errno != EINTR || sweep_signal != 0) {
            close(lock);
            return -1;
        }
    return lock;
}

bool sweep_is_running_here(const struct sweep *sweep)
{
    const int lock = open(sweep_path(sweep, "lock", ""), O_RDWR | O_CLOEXEC);
    if (lock < 0) return false;
    const bool held = flock(lock, LOCK_EX | LOCK_NB) != 0;
    close(lock);
    return held;
}

/* Called in the child. Its own process group keeps an interrupt at the terminal from killing the
 * processes of the task one by one; this process ends them instead. */
static void sweep_run_enter(void *unused)
{
    (void)unused;
    setpgid(0, 0);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        signal(sweep_run_ending_signals[i], SIG_DFL);
}

/* Waits until all processes of a group that was asked to end have ended, the shell of the line first:
 * the others remove their files before that. Not for ever: one of them may ignore the signal. */
static void wait_for_group(pid_t group)
{
    const struct timespec between = {.tv_nsec = GROUP_ASK_NS};
    for (int i = 0; i < GROUP_TRIES && kill(-group, 0) == 0; i++)
        nanosleep(&between, NULL);
}

/* Runs a line of the list to its end. */
static void run_line(const struct sweep_job *job)
{
    const char *const words[] = {"sh", "-c", job->line, NULL};
    const int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct child child = {"/bin/sh", (char *const *)words, none, none,
                                -1,        sweep_run_enter,      NULL};
    pid_t process = 0;
    const int error = child_start(&child, &process);
    if (none >= 0) close(none);
    if (error != 0) {
        cli_fail(&cli_sweep, "/bin/sh: %s", strerror(error));
        return;
    }
    sweep_task_group = process;
    if (sweep_signal != 0) kill(-process, SIGTERM);
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR)
        ;
    if (sweep_signal != 0) wait_for_group(process);
    sweep_task_group = 0;
}

static void sweep_run_show(const char *what, const char *id, size_t done, size_t all)
{
    char message[SWEEP_ID_BYTES + 128];
    snprintf(message, sizeof message, "%s %s, %zu of %zu", what, id, done + 1, all);
    progress_text(message);
}

static void run_orders(const struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->orders.count && sweep_signal == 0; i++) {
        const struct sweep_job *order = &sweep->orders.jobs[i];
        if (!sweep_is_needed(sweep, order)) continue;
        sweep_run_show("putting in order", order->id, i, sweep->orders.count);
        run_line(order);
    }
}

static void run_tasks(const struct sweep *sweep)
{
    const size_t all = sweep_round_missing(sweep);
    size_t done = 0;
    for (size_t i = sweep->round_begin; i < sweep->tasks.count && sweep_signal == 0; i++) {
        const struct sweep_job *task = &sweep->tasks.jobs[i];
        if (sweep_is_done(sweep, task)) continue;
        sweep_run_show("comparing", task->id, done++, all);
        run_line(task);
    }
}

bool sweep_run_here(struct sweep *sweep)
{
    sweep_catch_signals();
    const int lock = lock_open(sweep);
    if (lock < 0) return false;
    run_orders(sweep);
    run_tasks(sweep);
    progress_text("");
    close(lock);
    return sweep_signal == 0;
}
