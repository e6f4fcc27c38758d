#include "cli/attachment.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/attach.h"
#include "cli/ask.h"
#include "cli/recordings.h"
#include "cli/tell.h"
#include "common/printable.h"
#include "common/progress.h"

/* A signal this soon after the recording was to end is the same wish: timeout(1) sends each to its
 * program and then to its group, and a terminal's may come again from whoever passes it on. */
#define SAME_WISH_S 0.5

enum { LISTEN_TRIES = 500, LISTEN_WAIT_US = 10000, WHY_BYTES = PATH_MAX + 256 };

static bool attachment_is_there(const struct attachment *attachment)
{
    return kill(attachment->process, 0) == 0 || errno == EPERM;
}

static bool asks_giving(struct attachment *attachment, const struct cli_command *command,
                        const char *request, const int *given)
{
    /* A recording that may begin must not be left: no signal ends this wait. */
    const bool may_begin = given != NULL || strncmp(request, "start", 5) == 0;
    struct ask ask = {.command = command,
                      .process = attachment->process,
                      .signals = may_begin ? -1 : attachment->signals,
                      .heeds_s = attachment->heeds_s,
                      .given = {given != NULL ? given[0] : -1, given != NULL ? given[1] : -1}};
    const size_t bytes = ask_process(&ask, request, attachment->answer, sizeof attachment->answer);
    attachment->result = ask.result;
    return bytes > 0;
}

static bool asks(struct attachment *attachment, const struct cli_command *command,
                 const char *request)
{
    return asks_giving(attachment, command, request, NULL);
}

/* Whether somebody listens who has not answered the latest request. */
static bool is_late(const struct attachment *attachment)
{
    return attachment->result == ASK_SILENT || attachment->result == ASK_INTERRUPTED;
}

sigset_t attachment_block_signals(void)
{
    static const int known[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        sigaddset(&set, known[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return set;
}

/* The number of executable mappings of files in the process; *has_ours: one is the library. */
static size_t libraries_count(const struct attachment *attachment, bool *has_ours)
{
    char path[64], line[PATH_MAX + 128];
    size_t count = 0;
    *has_ours = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)attachment->process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, " r-xp ") == NULL || strchr(line, '/') == NULL) continue;
        count++;
        *has_ours = *has_ours || strstr(line, "/libmalloctape.so") != NULL ||
                    strstr(line, "/libtcmalloc_minimal_tracing.so") != NULL;
    }
    fclose(file);
    return count;
}

/* Waits until the process listens, or no longer does: the thread that listens has just been
 * created, or is about to end. */
static void wait_for_thread(struct attachment *attachment, bool listens)
{
    for (unsigned i = 0; i < LISTEN_TRIES && attachment_is_there(attachment); i++) {
        if (asks(attachment, NULL, "status\n") == listens || is_late(attachment)) return;
        usleep(LISTEN_WAIT_US);
    }
}

/* Whether a process listens though it was not started for that: whoever attached to it was
 * killed. */
static bool was_attached(const struct attachment *attachment)
{
    char path[64], *entry = NULL;
    size_t room = 0;
    bool is_started = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)attachment->process);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!is_started && getdelim(&entry, &room, '\0', file) > 0)
        is_started = strncmp(entry, "TCMALLOC_TRACE_CONTROL=", 23) == 0;
    free(entry);
    fclose(file);
    return !is_started;
}

static void undo(struct attachment *attachment)
{
    struct attached attached;
    char why[WHY_BYTES];
    if (!attach_undo(attachment->process, attachment->library, &attached, why, sizeof why)) {
        /* If is_abandoned, the guess was wrong: it was started for this after all. */
        if (attachment_is_there(attachment) && !attachment->is_abandoned)
            cli_fail(attachment->command, "process %d: its calls still go through the library: %s",
                     (int)attachment->process, why);
        return;
    }
    wait_for_thread(attachment, false);
    if (!attachment->quiet)
        cli_tell("malloctape %s: detached from process %d; one of its threads was stopped "
                 "for %.1f ms",
                 attachment->command->name, (int)attachment->process,
                 (double)attached.stopped_ns / 1e6);
}

/* Explains a recording that could not begin: the process may lack the right to open the file. */
static void rights_print(const struct attachment *attachment, const char *output)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d", (int)attachment->process);
    if (stat(path, &status) == 0 && status.st_uid != geteuid())
        cli_tell("malloctape %s: process %d itself opens %s, as user %u", attachment->command->name,
                 (int)attachment->process, output, (unsigned)status.st_uid);
}

static int attachment_attach(struct attachment *attachment)
{
    struct attached attached;
    char why[WHY_BYTES];
    if (!attach_to(attachment->process, attachment->library, attachment->settings, &attached, why,
                   sizeof why))
        return cli_fail(attachment->command, "cannot attach to process %d: %s",
                        (int)attachment->process, why);
    if (!attachment->quiet)
        cli_tell("malloctape %s: attached to process %d: changed %d pointers in its "
                 "libraries; one of its threads was stopped for %.1f ms",
                 attachment->command->name, (int)attachment->process, attached.slots,
                 (double)attached.stopped_ns / 1e6);
    wait_for_thread(attachment, true);
    attachment->is_attached = true;
    return PROGRAM_OK;
}

static bool is_recording(const struct attachment *attachment)
{
    return strncmp(attachment->answer, "recording", 9) == 0 ||
           strncmp(attachment->answer, "paused", 6) == 0;
}

/* "start OUTPUT", or "record OUTPUT" with open files. */
static bool attachment_begins(struct attachment *attachment, const char *output, const int *given)
{
    char request[PATH_MAX + 16];
    if (is_late(attachment)) {
        cli_fail(attachment->command,
                 attachment->result == ASK_INTERRUPTED
                     ? "interrupted before process %d answered: nothing is recorded"
                     : "process %d listens, but does not answer",
                 (int)attachment->process);
        return false;
    }
    char *name = given != NULL ? printable_copy(output, strlen(output)) : strdup(output);
    const bool fits = name != NULL && strchr(name, '\n') == NULL;
    snprintf(request, sizeof request, "%s %.*s\n", given != NULL ? "record" : "start", PATH_MAX - 1,
             fits ? name : "");
    free(name);
    if (!fits) cli_fail(attachment->command, "%s: this name cannot be sent to the process", output);
    return fits && asks_giving(attachment, attachment->command, request, given);
}

int attachment_begin(struct attachment *attachment, const char *output, const int *given)
{
    bool has_ours;
    attachment->ended = -1;
    const sigset_t set = attachment_block_signals(); /* before anything is done to the process */
    attachment->signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (asks(attachment, NULL, "status\n")) {
        if (attachment->may_be_recording && is_recording(attachment)) goto begun;
        if (attachment->settings != NULL)
            return cli_fail(attachment->command,
                            "process %d was started for control: its call stacks and limits cannot "
                            "be changed now",
                            (int)attachment->process);
        attachment->is_abandoned = was_attached(attachment);
    } else if (!is_late(attachment) && attachment_attach(attachment) != PROGRAM_OK) {
        return PROGRAM_FAILED;
    }
    if (!attachment_begins(attachment, output, given)) {
        if (given == NULL) rights_print(attachment, output);
        if (attachment->is_attached) undo(attachment);
        return PROGRAM_FAILED;
    }
    attachment->has_begun = true;
    attachment->is_attached = attachment->is_attached || attachment->is_abandoned;
begun:
    attachment->ended = (int)syscall(SYS_pidfd_open, attachment->process, 0);
    attachment->libraries = libraries_count(attachment, &has_ours);
    return PROGRAM_OK;
}

/* Whether the recording goes on, and whether the process has loaded libraries meanwhile. */
static enum attachment_state attachment_look(struct attachment *attachment)
{
    struct attached attached;
    char why[WHY_BYTES];
    bool has_ours;
    const bool answers = asks(attachment, NULL, "status\n");
    const size_t libraries = libraries_count(attachment, &has_ours);
    if (answers && !is_recording(attachment)) return ATTACHMENT_STOPPED;
    if (!attachment_is_there(attachment)) return ATTACHMENT_PROCESS_ENDED;
    if (!answers && libraries > 0 && !has_ours) return ATTACHMENT_OTHER_PROGRAM;
    if (attachment->is_attached && libraries > attachment->libraries)
        attach_to(attachment->process, attachment->library, attachment->settings, &attached, why,
                  sizeof why);
    attachment->libraries = libraries;
    return ATTACHMENT_GOES_ON;
}

enum attachment_state attachment_wait(struct attachment *attachment, int ms, int input)
{
    struct pollfd files[] = {
        {attachment->signals, POLLIN, 0}, {attachment->ended, POLLIN, 0}, {input, POLLIN, 0}};
    if (poll(files, sizeof files / sizeof *files, ms) < 0 && errno != EINTR)
        return ATTACHMENT_ASKED_TO_END;
    if (files[1].revents != 0) return ATTACHMENT_PROCESS_ENDED;
    if (files[0].revents != 0) {
        struct signalfd_siginfo taken; /* another one ends the wait for what follows */
        return read(attachment->signals, &taken, sizeof taken) < 0 ? ATTACHMENT_GOES_ON
                                                                   : ATTACHMENT_ASKED_TO_END;
    }
    if (files[2].revents != 0) return ATTACHMENT_INPUT;
    return attachment_look(attachment);
}

const char *attachment_stop(struct attachment *attachment)
{
    if (attachment->heeds_s == 0) attachment->heeds_s = seconds_now() + SAME_WISH_S;
    bool answers = asks(attachment, NULL, "stop\n");
    if (!answers && attachment->result == ASK_REFUSED) answers = asks(attachment, NULL, "status\n");
    attachment->is_silent = is_late(attachment);
    if (attachment->is_silent)
        cli_fail(
            attachment->command,
            "process %d does not answer: its recording goes on, until `malloctape ctl %d stop`",
            (int)attachment->process, (int)attachment->process);
    if (!answers) return NULL;
    attachment->answer[strcspn(attachment->answer, "\n")] = '\0';
    return attachment->answer;
}

void attachment_end(struct attachment *attachment, enum attachment_state state)
{
    const bool is_left = state != ATTACHMENT_PROCESS_ENDED && state != ATTACHMENT_OTHER_PROGRAM;
    if (is_left && attachment->has_begun && !attachment->is_silent) attachment_stop(attachment);
    if (is_left && attachment->is_attached && !attachment->is_silent) undo(attachment);
    if (attachment->signals >= 0) close(attachment->signals);
    if (attachment->ended >= 0) close(attachment->ended);
}
