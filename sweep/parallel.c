#include "sweep/parallel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/progress.h"
#include "launch/process.h"
#include "sweep/sweep_run.h"
#include "sweep/tasks.h"

/* Writes the list of what is missing: recordings to be put in order, or tasks. Returns how many;
 * -1: a message has been printed. */
static int write_missing(const struct sweep *sweep, bool orders)
{
    const struct sweep_list *list = orders ? &sweep->orders : &sweep->tasks;
    FILE *file = fopen(sweep_path(sweep, "parallel.list", ""), "we");
    int count = 0;
    for (size_t i = orders ? 0 : sweep->round_begin; file != NULL && i < list->count; i++) {
        const struct sweep_job *job = &list->jobs[i];
        if (orders ? !sweep_is_needed(sweep, job) : sweep_is_done(sweep, job)) continue;
        fprintf(file, "%s\n", job->line);
        count++;
    }
    if (file != NULL && fclose(file) == 0) return count;
    cli_fail(&cli_sweep, "%s/parallel.list: %s", sweep->directory, strerror(errno));
    return -1;
}

static void parallel_show(const struct sweep *sweep)
{
    const size_t all = sweep->tasks.count - sweep->round_begin;
    char message[64];
    snprintf(message, sizeof message, "%zu of %zu done", all - sweep_round_missing(sweep), all);
    progress_text(message);
}

/* Waits for parallel. If interrupted, asks it to end: it then starts no more tasks and waits for
 * those that run. */
static void parallel_wait_for(const struct sweep *sweep, pid_t process)
{
    const struct timespec while_it_runs = {.tv_nsec = 200000000};
    bool asked = false;
    pid_t ended;
    while ((ended = waitpid(process, NULL, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (sweep_interrupted() && !asked) kill(process, SIGTERM);
        asked = sweep_interrupted();
        parallel_show(sweep);
        nanosleep(&while_it_runs, NULL);
    }
    progress_text("");
}

/* Runs the list to its end. False: a message has been printed. */
static bool parallel_run_list(const struct sweep *sweep, const char *hosts)
{
    char list[2 * PATH_MAX], log[2 * PATH_MAX];
    snprintf(list, sizeof list, "%s", sweep_path(sweep, "parallel.list", ""));
    snprintf(log, sizeof log, "%s", sweep_path(sweep, "parallel.log", ""));
    /* If its standard input were not /dev/null, it would wait for commands from there. */
    const char *const words[] = {"parallel", "--will-cite", "--jobs=1", "--sshloginfile",
                                 hosts,      "--retries",   "4",        "--joblog",
                                 log,        "--arg-file",  list,       NULL};
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct child child = {"parallel", (char *const *)words, none, -1, -1, NULL, NULL};
    pid_t process = 0;
    const int error = child_start(&child, &process);
    if (none >= 0) close(none);
    if (error != 0) {
        cli_fail(&cli_sweep, "parallel: %s", strerror(error));
        return false;
    }
    parallel_wait_for(sweep, process);
    return true;
}

bool sweep_run_parallel(struct sweep *sweep, const char *hosts)
{
    char *path = realpath(hosts, NULL);
    bool good = path != NULL;
    if (!good) cli_fail(&cli_sweep, "%s: %s", hosts, strerror(errno));
    sweep_catch_signals();
    for (int orders = 1; orders >= 0 && good && !sweep_interrupted(); orders--) {
        const int missing = write_missing(sweep, orders);
        good = missing >= 0 && (missing == 0 || parallel_run_list(sweep, path));
    }
    free(path);
    return good && !sweep_interrupted();
}
