#include "cli/record_process.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/attachment.h"
#include "cli/cli.h"
#include "cli/made_names.h"
#include "cli/recording_files.h"
#include "cli/recordings.h"
#include "cli/tell.h"
#include "common/progress.h"

/* How often to check whether the recording goes on. */
#define LOOK_MS 500

/* Waits until the recording must end. */
static enum attachment_state wait_for_end(const struct record_process *record,
                                          struct attachment *attachment)
{
    const double end = seconds_now() + record->seconds;
    enum attachment_state state = ATTACHMENT_GOES_ON;
    while (state == ATTACHMENT_GOES_ON) {
        double left = record->seconds > 0 ? end - seconds_now() : LOOK_MS;
        if (left <= 0) return ATTACHMENT_ASKED_TO_END;
        if (record->kept != NULL) kept_look(record->kept);
        state =
            attachment_wait(attachment, left < LOOK_MS / 1e3 ? (int)(left * 1e3) + 1 : LOOK_MS, -1);
    }
    return state;
}

/* What a process did that has ended, been killed, or executed another program. */
struct result {
    bool is_finished; /* by us */
    bool is_complete;
    struct finished numbers;
};

/* Only files that this process has made can be finished: any other output is the process's. */
static struct result finish_own(struct recording_files *files, enum attachment_state state)
{
    struct result result = {0};
    if (files == NULL) return result;
    result.is_finished = recording_files_finish(files, &result.numbers);
    result.is_complete = result.is_finished || (state == ATTACHMENT_PROCESS_ENDED &&
                                                recording_files_read(files, &result.numbers));
    return result;
}

static void print_other_program(pid_t process)
{
    char path[64], program[PATH_MAX] = "another program";
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    const ssize_t bytes = readlink(path, program, sizeof program - 1);
    if (bytes > 0) program[bytes] = '\0';
    cli_tell("malloctape record: process %d now runs %s, which is not recorded", (int)process,
             program);
}

static void record_process_end_print(const struct record_process *record,
                                     const struct result *result, enum attachment_state state)
{
    const int process = (int)record->process;
    if (state == ATTACHMENT_OTHER_PROGRAM) print_other_program(record->process);
    if (result->is_complete)
        cli_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64 " bytes; %sprocess %d has "
                 "ended%s",
                 record->output, result->numbers.events, result->numbers.bytes,
                 result->is_finished ? "finished by record, as " : "", process,
                 state == ATTACHMENT_OTHER_PROGRAM ? " what it did" : "");
    else if (state == ATTACHMENT_PROCESS_ENDED)
        cli_tell("malloctape: %s: process %d has ended", record->output, process);
}

static bool record_process_has_stacks(const struct record_process *record)
{
    return record->settings != NULL && strstr(record->settings, "TCMALLOC_TRACE_STACKS=") != NULL;
}

/* Until the process is as it was before. Returns an exit status. */
static int record_process_watch(const struct record_process *record, struct attachment *attachment,
                                struct recording_files *files)
{
    if (!record->quiet)
        cli_tell("malloctape record: recording process %d to %s; Ctrl-C ends it",
                 (int)record->process, record->output);
    const double since_s = made_names_since(record->process);
    enum attachment_state state = wait_for_end(record, attachment);
    if (record_process_has_stacks(record))
        made_names_keep(record->process, since_s, record->output);
    bool is_left = state != ATTACHMENT_PROCESS_ENDED && state != ATTACHMENT_OTHER_PROGRAM;
    const char *said = is_left ? attachment_stop(attachment) : NULL;
    if (is_left && said == NULL && !attachment->is_silent)
        state = attachment_wait(attachment, 0, -1);
    is_left = state != ATTACHMENT_PROCESS_ENDED && state != ATTACHMENT_OTHER_PROGRAM;
    const struct result result = is_left ? (struct result){0} : finish_own(files, state);
    if (said != NULL && !record->quiet && record->kept == NULL)
        cli_tell("malloctape: %s: %s", record->output, said);
    else if (!is_left && !record->quiet)
        record_process_end_print(record, &result, state);
    attachment_end(attachment, state);
    return attachment->is_silent ? PROGRAM_FAILED : PROGRAM_OK;
}

/* With a keeper, which has the files that the process gets. */
static int record_process_keep(const struct record_process *record, struct attachment *attachment)
{
    int given[2];
    int status = kept_give(record->kept, given) ? PROGRAM_OK : PROGRAM_FAILED;
    if (status == PROGRAM_OK) {
        status = attachment_begin(attachment, record->output, given);
        close(given[0]); /* the process has them now */
        close(given[1]);
    }
    if (status == PROGRAM_OK) status = record_process_watch(record, attachment, NULL);
    return kept_end(record->kept) ? status : PROGRAM_FAILED;
}

int record_process(const struct record_process *record)
{
    struct attachment attachment = {.command = &cli_record,
                                    .process = record->process,
                                    .library = record->library,
                                    .settings = record->settings,
                                    .quiet = record->quiet};
    if (record->kept != NULL) return record_process_keep(record, &attachment);
    attachment_block_signals(); /* or files may be left */
    struct recording_files room, *files = recording_files_fit(record->output) ? &room : NULL;
    if (files != NULL && !recording_files_make(files, record->output)) return PROGRAM_FAILED;
    int status = files != NULL ? attachment_begin(&attachment, record->output, files->given)
                               : attachment_begin(&attachment, record->pattern, NULL);
    if (status != PROGRAM_OK) {
        if (files != NULL) recording_files_discard(files);
        return status;
    }
    if (files != NULL && !recording_files_settle(files)) {
        attachment_end(&attachment, ATTACHMENT_GOES_ON);
        recording_files_discard(files);
        return PROGRAM_FAILED;
    }
    status = record_process_watch(record, &attachment, files);
    if (files != NULL && status == PROGRAM_OK && !recording_files_end(files))
        status = PROGRAM_FAILED;
    return status;
}
