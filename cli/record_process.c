#include "cli/record_process.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/finish.h"
#include "cli/recordings.h"

enum { ANSWER_BYTES = 4096, LISTEN_TRIES = 500, LISTEN_WAIT_US = 10000 };
/* Libraries that the process loads meanwhile are looked for so often. */
#define LOOK_MS 500

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Those by which a user ends this, as a descriptor; -1: none. */
static int signals_open(void)
{
    static const int known[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        sigaddset(&set, known[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* How many mappings of files with code it has. */
static size_t libraries_count(pid_t process)
{
    char path[64], line[PATH_MAX + 128];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, " r-xp ") != NULL && strchr(line, '/') != NULL;
    fclose(file);
    return count;
}

/* Until it is to end. False: the process has ended. */
static bool wait_for_end(const struct record_process *record, bool is_attached, int signals,
                         int process)
{
    const double end = now_s() + record->seconds;
    size_t libraries = libraries_count(record->process);
    for (;;) {
        struct pollfd files[] = {{signals, POLLIN, 0}, {process, POLLIN, 0}};
        int ms = LOOK_MS;
        if (record->seconds > 0 && end - now_s() < LOOK_MS / 1e3)
            ms = end > now_s() ? (int)((end - now_s()) * 1e3) + 1 : 0;
        if (poll(files, 2, ms) < 0 && errno != EINTR) return true;
        if (files[1].revents != 0) return false;
        if (files[0].revents != 0 || (record->seconds > 0 && now_s() >= end)) return true;
        const size_t now = libraries_count(record->process);
        struct attached attached;
        char why[PATH_MAX + 256];
        if (is_attached && now > libraries)
            attach_to(record->process, record->library, record->stacks, &attached, why, sizeof why);
        libraries = now;
    }
}

/* The process has ended, or been killed. */
static int end_print(const struct record_process *record)
{
    struct finished finished;
    if (finish(record->output, &finished) && !record->quiet)
        recordings_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64
                        " bytes; finished here, as process %d has ended\n",
                        record->output, finished.events, finished.bytes, (int)record->process);
    else if (!record->quiet)
        recordings_tell("malloctape: %s: process %d has ended\n", record->output,
                        (int)record->process);
    return PROGRAM_OK;
}

/* Its thread has just been made, or is about to end. */
static void wait_for_thread(pid_t process, bool listens)
{
    char answer[ANSWER_BYTES];
    for (unsigned i = 0; i < LISTEN_TRIES && kill(process, 0) == 0; i++) {
        if ((ask_process(NULL, process, "status\n", answer, sizeof answer) > 0) == listens) return;
        usleep(LISTEN_WAIT_US);
    }
}

static void undo(const struct record_process *record)
{
    struct attached attached;
    char why[PATH_MAX + 256];
    if (!attach_undo(record->process, &attached, why, sizeof why)) {
        if (kill(record->process, 0) == 0)
            cli_fail(&cli_record, "process %d: its calls still pass the library: %s",
                     (int)record->process, why);
        return;
    }
    wait_for_thread(record->process, false);
    if (!record->quiet)
        recordings_tell("malloctape record: process %d is as before; one thread of it stood still "
                        "for %.1f ms\n",
                        (int)record->process, (double)attached.stopped_ns / 1e6);
}

/* A recording could not begin. */
static void rights_print(const struct record_process *record)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d", (int)record->process);
    if (stat(path, &status) == 0 && status.st_uid != geteuid())
        recordings_tell("malloctape record: process %d opens %s itself, as user %u\n",
                        (int)record->process, record->output, (unsigned)status.st_uid);
}

static int run_recording(const struct record_process *record, bool is_attached)
{
    char request[PATH_MAX + 16], answer[ANSWER_BYTES];
    const int signals = signals_open(), process = (int)syscall(SYS_pidfd_open, record->process, 0);
    snprintf(request, sizeof request, "start %s\n", record->output);
    if (ask_process(&cli_record, record->process, request, answer, sizeof answer) == 0) {
        rights_print(record);
        if (is_attached) undo(record);
        return PROGRAM_FAILED;
    }
    if (!record->quiet)
        recordings_tell("malloctape record: recording process %d to %s; Ctrl-C ends it\n",
                        (int)record->process, record->output);
    if (!wait_for_end(record, is_attached, signals, process)) return end_print(record);
    if (ask_process(NULL, record->process, "stop\n", answer, sizeof answer) == 0 &&
        kill(record->process, 0) != 0)
        return end_print(record);
    ask_make_printable(answer);
    answer[strcspn(answer, "\n")] = '\0';
    if (!record->quiet) recordings_tell("malloctape: %s: %s\n", record->output, answer);
    if (is_attached) undo(record);
    return PROGRAM_OK;
}

int record_process(const struct record_process *record)
{
    char answer[ANSWER_BYTES], why[PATH_MAX + 256];
    struct attached attached;
    if (ask_process(NULL, record->process, "status\n", answer, sizeof answer) > 0) {
        if (record->stacks != NULL)
            return cli_fail(&cli_record,
                            "process %d listens already: it has call stacks if it was started "
                            "with TCMALLOC_TRACE_STACKS, and else none",
                            (int)record->process);
        return run_recording(record, false);
    }
    if (!attach_to(record->process, record->library, record->stacks, &attached, why, sizeof why))
        return cli_fail(&cli_record, "cannot attach to process %d: %s", (int)record->process, why);
    if (!record->quiet)
        recordings_tell("malloctape record: attached to process %d by %d calls of its libraries; "
                        "one thread of it stood still for %.1f ms\n",
                        (int)record->process, attached.slots, (double)attached.stopped_ns / 1e6);
    wait_for_thread(record->process, true);
    return run_recording(record, true);
}
