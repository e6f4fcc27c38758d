/* replay - carries out an instruction stream on the allocator that this process runs with. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/printable.h"
#include "common/program.h"
#include "replay/allocator.h"
#include "replay/engine_auto.h"
#include "replay/huge_pages.h"
#include "replay/main_thread.h"
#include "replay/run.h"

static int status_of(enum report_status status)
{
    switch (status) {
    case REPORT_COMPLETE: return PROGRAM_OK;
    case REPORT_CUT: return PROGRAM_CUT;
    default: return PROGRAM_FAILED;
    }
}

/* Writes the files that were asked for. */
static bool write_files(const struct options *options, const struct report *report)
{
    struct error error = {0};
    bool good = options->json == NULL || report_write_json(report, options->json, &error);
    if (!good) error_print(stderr, REPLAY_PROGRAM, options->json, &error);
    error = (struct error){0};
    if (options->csv == NULL || report_write_csv(report, options->csv, &error)) return good;
    error_print(stderr, REPLAY_PROGRAM, NULL, &error);
    return false;
}

/* Prints what was asked for, and the replay's own error last, because other errors may follow from
 * it. A replay that could not begin has no table. Returns the exit status. */
static int replay_finish(const struct options *options, const struct report *report, bool began)
{
    int status = status_of(report->status);
    const char *name =
        options->file != NULL && strcmp(options->file, "-") != 0 ? options->file : "standard input";
    bool table =
        began && !options->quiet && (options->json == NULL || strcmp(options->json, "-") != 0);
    if (promises_is_error(&report->error)) { /* no report can be made with such an allocator */
        error_print(stderr, REPLAY_PROGRAM, name, &report->error);
        _exit(PROGRAM_FAILED);
    }
    if (table && options->trace_run)
        report_print_trace_run(report, stdout);
    else if (table)
        report_print(report, stdout);
    if (!write_files(options, report)) status = PROGRAM_FAILED;
    status = program_end(REPLAY_PROGRAM, status);
    if (report->status == REPORT_CUT)
        printable_say(stderr, "%s: %s: the stream was cut short; what there is has been replayed",
                      REPLAY_PROGRAM, name);
    if (report->status != REPORT_COMPLETE)
        error_print(stderr, REPLAY_PROGRAM, name, &report->error);
    return status;
}

struct stream {
    const struct options *options;
    struct ahead *ahead;
    struct report *report;
    bool began;
};

static void replay_carry_out(void *of)
{
    struct stream *stream = of;
    stream->began = run_stream(stream->options, stream->ahead, stream->report);
}

int main(int argc, char **argv)
{
    static struct options options;
    static struct allocator allocator;
    static struct report report;
    static struct ahead ahead;
    const struct instruction_reader *reader = &ahead.reader;
    int status = options_parse(argc, argv, &options);
    if (status != PROGRAM_GO_ON) return program_end(REPLAY_PROGRAM, status);
    shown_clock_open();
    const char *refused = huge_pages_begin((enum huge_pages)options.policy.huge_pages);
    if (refused != NULL) {
        printable_say(stderr, "%s: --thp=%s: %s", REPLAY_PROGRAM,
                      huge_pages_names[options.policy.huge_pages], refused);
        return program_end(REPLAY_PROGRAM, PROGRAM_FAILED);
    }

    if (options.engine == NULL) options.engine = engine_auto(options.file);
    if (options.engine == NULL) {
        status = program_usage_error(REPLAY_PROGRAM, "--engine auto reads the stream twice, so it "
                                                     "needs a file");
        return program_end(REPLAY_PROGRAM, status);
    }
    allocator_find(&allocator);
    if (options.policy.uncleared) allocator_leave_uncleared(&allocator);
    report =
        (struct report){.options = &options, .engine = options.engine, .allocator = &allocator};
    measure_begin(&report.measurement);
    struct stream stream = {&options, &ahead, &report, false};
    if (ahead_open(&ahead, options.file, options.engine->indices)) {
        if (options.engine->drain != NULL)
            main_thread_run(replay_carry_out, &stream);
        else
            replay_carry_out(&stream);
    } else {
        measure_end(&report.measurement);
        report.status = REPORT_FAILED;
        report.error = reader->error;
    }
    ahead_end(&ahead);
    measure_end_of_reading(&report.measurement);
    report.header = &reader->header;
    report.recording = reader->end_status;
    report.peak_live_bytes = reader->objects.peak_bytes;
    status = replay_finish(&options, &report, stream.began);
    ahead_close(&ahead);
    /* What has ended a part of this replay has ended it: nothing is wrong with stream or allocator. */
    if (ahead.killed_by != 0) {
        signal(ahead.killed_by, SIG_DFL);
        raise(ahead.killed_by);
    }
    return status;
}
