#include "cli/record_process.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/attachment.h"
#include "cli/cli.h"
#include "cli/finish.h"
#include "cli/recordings.h"
#include "common/progress.h"

/* How often it is looked whether the recording goes on. */
#define LOOK_MS 500

/* Until it is to end. */
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

/* The process has ended, been killed, or begun another program. */
static void end_print(const struct record_process *record, enum attachment_state state)
{
    struct finished finished;
    char path[64], program[PATH_MAX] = "another program";
    const bool is_finished = finish(record->output, &finished);
    if (record->quiet) return;
    if (state == ATTACHMENT_OTHER_PROGRAM) {
        snprintf(path, sizeof path, "/proc/%d/exe", (int)record->process);
        const ssize_t bytes = readlink(path, program, sizeof program - 1);
        if (bytes > 0) program[bytes] = '\0';
        recordings_tell("malloctape record: process %d has begun %s, which is not recorded\n",
                        (int)record->process, program);
    }
    if (is_finished)
        recordings_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64
                        " bytes; finished here, as process %d has ended%s\n",
                        record->output, finished.events, finished.bytes, (int)record->process,
                        state == ATTACHMENT_OTHER_PROGRAM ? " what it did" : "");
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
    const int status = attachment_begin(&attachment, record->output);
    if (status != PROGRAM_OK) return status;
    if (!record->quiet)
        recordings_tell("malloctape record: recording process %d to %s; Ctrl-C ends it\n",
                        (int)record->process, record->output);
    enum attachment_state state = wait_for_end(record, &attachment);
    const bool is_left = state != ATTACHMENT_PROCESS_ENDED && state != ATTACHMENT_OTHER_PROGRAM;
    const char *said = is_left ? attachment_stop(&attachment) : NULL;
    if (is_left && said == NULL) state = attachment_wait(&attachment, 0, -1);
    if (said == NULL)
        end_print(record, state);
    else if (!record->quiet)
        recordings_tell("malloctape: %s: %s\n", record->output, said);
    attachment_end(&attachment, state);
    return PROGRAM_OK;
}
