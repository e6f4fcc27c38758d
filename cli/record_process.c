#include "cli/record_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/attachment.h"
#include "cli/cli.h"
#include "cli/finish.h"
#include "cli/made_names.h"
#include "cli/recordings.h"
#include "common/progress.h"

/* How often to check whether the recording goes on. */
#define LOOK_MS 500

/* ---- a process with another root directory, as in a container ---- */

/* The process records into its own /tmp, and the recording is copied here when it has ended. */
struct elsewhere {
    int directory;        /* the process's /tmp, valid after its end, too; -1: it has our root */
    char there[PATH_MAX]; /* the file's name in the process */
    char here[PATH_MAX];  /* and in this one */
};

/* The process controls that directory, so symbolic links in it are not followed. */
static bool elsewhere_open(struct elsewhere *elsewhere, const struct record_process *record)
{
    char path[64];
    struct stat ours, theirs;
    elsewhere->directory = -1;
    snprintf(path, sizeof path, "/proc/%d/root", (int)record->process);
    if (record->output[0] != '/' || strchr(record->output, '%') != NULL || stat("/", &ours) != 0 ||
        stat(path, &theirs) != 0 || (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino))
        return true;
    strcat(path, "/tmp");
    elsewhere->directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (elsewhere->directory < 0) {
        cli_fail(&cli_record,
                 "process %d has another root directory, whose /tmp cannot be opened: %s",
                 (int)record->process, strerror(errno));
        return false;
    }
    snprintf(elsewhere->there, sizeof elsewhere->there, "/tmp/malloctape.%d.raw.lz4",
             (int)record->process);
    snprintf(elsewhere->here, sizeof elsewhere->here, "/proc/self/fd/%d/malloctape.%d.raw.lz4",
             elsewhere->directory, (int)record->process);
    return true;
}

/* Copies the recording here. False: a message has been printed. */
static bool elsewhere_bring(const struct elsewhere *elsewhere, const struct record_process *record)
{
    struct stat status;
    off_t at = 0;
    const int from = open(elsewhere->here, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool good = from >= 0 && fstat(from, &status) == 0 && S_ISREG(status.st_mode);
    const int to = good ? open(record->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    good = good && to >= 0;
    while (good && at < status.st_size)
        good = sendfile(to, from, &at, (size_t)(status.st_size - at)) > 0;
    if (good)
        unlink(elsewhere->here);
    else
        cli_fail(&cli_record, "%s in the file system of process %d cannot be copied here: %s",
                 elsewhere->there, (int)record->process, strerror(errno));
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    return good;
}

/* ---- from the beginning to the end ---- */

/* Waits until the recording must end. */
static enum attachment_state wait_for_end(const struct record_process *record,
                                          struct attachment *attachment)
{
    const double end = seconds_now() + record->seconds;
    enum attachment_state state = ATTACHMENT_GOES_ON;
    while (state == ATTACHMENT_GOES_ON) {
        double left = record->seconds > 0 ? end - seconds_now() : LOOK_MS;
        if (left <= 0) return ATTACHMENT_ASKED_TO_END;
        state =
            attachment_wait(attachment, left < LOOK_MS / 1e3 ? (int)(left * 1e3) + 1 : LOOK_MS, -1);
    }
    return state;
}

/* Prints the result after the process has ended, been killed, or executed another program. */
static void end_print(const struct record_process *record, const char *path_here,
                      enum attachment_state state)
{
    struct finished finished;
    char path[64], program[PATH_MAX] = "another program";
    const bool is_finished = finish(path_here, &finished);
    if (record->quiet) return;
    if (state == ATTACHMENT_OTHER_PROGRAM) {
        snprintf(path, sizeof path, "/proc/%d/exe", (int)record->process);
        const ssize_t bytes = readlink(path, program, sizeof program - 1);
        if (bytes > 0) program[bytes] = '\0';
        recordings_tell("malloctape record: process %d now runs %s, which is not recorded\n",
                        (int)record->process, program);
    }
    if (is_finished)
        recordings_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64
                        " bytes; finished by record, as process %d has ended%s\n",
                        record->output, finished.events, finished.bytes, (int)record->process,
                        state == ATTACHMENT_OTHER_PROGRAM ? " what it did" : "");
    else if (state == ATTACHMENT_PROCESS_ENDED && finish_read(path_here, &finished))
        recordings_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64
                        " bytes; process %d has ended\n",
                        record->output, finished.events, finished.bytes, (int)record->process);
    else if (state == ATTACHMENT_PROCESS_ENDED)
        recordings_tell("malloctape: %s: process %d has ended\n", record->output,
                        (int)record->process);
}

int record_process(const struct record_process *record)
{
    struct attachment attachment = {.command = &cli_record,
                                    .process = record->process,
                                    .library = record->library,
                                    .settings = record->settings,
                                    .quiet = record->quiet};
    struct elsewhere elsewhere;
    if (!elsewhere_open(&elsewhere, record)) return PROGRAM_FAILED;
    const bool is_elsewhere = elsewhere.directory >= 0;
    const char *here = is_elsewhere ? elsewhere.here : record->output;
    int status = attachment_begin(&attachment, is_elsewhere ? elsewhere.there : record->output);
    if (status != PROGRAM_OK) return status;
    if (!record->quiet)
        recordings_tell("malloctape record: recording process %d to %s; Ctrl-C ends it\n",
                        (int)record->process, record->output);
    const double since_s = made_names_since(record->process);
    enum attachment_state state = wait_for_end(record, &attachment);
    if (record->settings != NULL && strstr(record->settings, "TCMALLOC_TRACE_STACKS=") != NULL &&
        strchr(record->output, '%') == NULL)
        made_names_keep(record->process, since_s, record->output);
    const bool is_left = state != ATTACHMENT_PROCESS_ENDED && state != ATTACHMENT_OTHER_PROGRAM;
    const char *said = is_left ? attachment_stop(&attachment) : NULL;
    if (is_left && said == NULL) state = attachment_wait(&attachment, 0, -1);
    if (said == NULL)
        end_print(record, here, state);
    else if (!record->quiet)
        recordings_tell("malloctape: %s: %s\n", record->output, said);
    attachment_end(&attachment, state);
    if (is_elsewhere && !elsewhere_bring(&elsewhere, record)) status = PROGRAM_FAILED;
    if (is_elsewhere) close(elsewhere.directory);
    return status;
}
