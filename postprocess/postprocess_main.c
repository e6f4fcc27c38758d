/* postprocess - puts what the threads of a recorded program asked of their allocator into one
 * order. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/input.h"
#include "common/json_file.h"
#include "common/output.h"
#include "common/printable.h"
#include "common/program.h"
#include "common/progress.h"
#include "postprocess/order_trace.h"
#include "postprocess/postprocess_options.h"
#include "postprocess/summary.h"
#include "stream/raw_reader.h"
#include "stream/spool_reader.h"

/* In addition to those of enum program_status. */
#define STATUS_OUTPUT_FAILED 4
#define STATUS_SALVAGED      5

/* Sets where a spool may be; *path is to be freed afterwards. */
static void postprocess_find_spool(struct order_trace_options *how, const struct raw_reader *reader,
                                   const char *input, char **path)
{
    struct stat status;
    if (fstat(reader->fd, &status) != 0) return;
    const bool is_pipe = S_ISFIFO(status.st_mode);
    if (is_pipe) how->spool_directory = spool_scratch_directory();
    how->spool_completes = is_pipe;
    if (strcmp(input, "-") == 0 || !(is_pipe || S_ISREG(status.st_mode))) return;
    if (asprintf(path, "%s.spool", input) < 0) *path = NULL;
    if (*path != NULL && spool_is_there(*path)) how->spool_path = *path;
    if (!is_pipe) how->path = input;
}

static int exit_status(const struct order_trace_result *result, bool output_failed)
{
    if (output_failed) return STATUS_OUTPUT_FAILED;
    switch (result->status) {
    case ORDER_TRACE_COMPLETE: return PROGRAM_OK;
    case ORDER_TRACE_CUT: return PROGRAM_CUT;
    case ORDER_TRACE_SALVAGED: return STATUS_SALVAGED;
    default: return PROGRAM_FAILED;
    }
}

/* The worse of two exit statuses. */
static int postprocess_worse(int one, int other)
{
    static const int ranks[] = {
        [PROGRAM_OK] = 0,     [PROGRAM_CUT] = 1,   [STATUS_SALVAGED] = 2,
        [PROGRAM_FAILED] = 3, [PROGRAM_USAGE] = 4, [STATUS_OUTPUT_FAILED] = 5,
    };
    return ranks[one] > ranks[other] ? one : other;
}

static bool ran_out_of_memory(const struct order_trace_result *result)
{
    return result->status == ORDER_TRACE_FAILED &&
           strncmp(result->error.detail, "no memory", 9) == 0;
}

static void report(const struct summary *summary, const struct options *options)
{
    if (options->memory_bytes > 0 && ran_out_of_memory(&summary->result))
        fprintf(stderr,
                "%s: %s: ordering it takes more than the %" PRIu64
                " MiB that --max-memory allows\n",
                PROGRAM, printable_text(summary->input), options->memory_bytes >> 20);
    summary_print_problems(summary, stderr);
    const struct order_trace_result *result = &summary->result;
    const bool empty = result->bytes_in == 0 && result->spool != ORDER_TRACE_SPOOL_USED;
    /* It does not help against a block of LZ4 that cannot be decoded. */
    const bool salvage_helps = result->status == ORDER_TRACE_DAMAGED && !options->salvage &&
                               result->error.kind != &input_errors[INPUT_LZ4_DAMAGED];
    if (salvage_helps && !empty && !options->quiet)
        printable_say(stderr,
                      "%s: %s: to leave out what is damaged and order the rest, use --salvage",
                      PROGRAM, summary->input);
    if (options->quiet || empty) return;
    if (options->inputs_count > 1) printable_say(stderr, "%s", summary->input);
    summary_print(summary, stderr);
}

static void postprocess_show_progress(void *progress, uint64_t bytes_in, uint64_t instructions)
{
    progress_show(progress, instructions, bytes_in);
}

/* Orders one recording that has been opened. */
static int postprocess_run(const struct options *options, const char *input,
                           const char *output_path, struct raw_reader *reader,
                           struct summary *summary)
{
    struct output output;
    if (!output_open(&output, output_path)) {
        error_print(stderr, PROGRAM, output_path, &output.error);
        return PROGRAM_USAGE;
    }
    if (isatty(output.fd)) {
        output_close(&output);
        return program_usage_error(PROGRAM,
                                   "the result is binary and is not written to a terminal");
    }
    if (is_compressed(options, output_path)) output_compress(&output);
    struct progress progress;
    progress_open(&progress, PROGRAM, "instructions", reader->fd, !options->quiet);
    struct order_trace_options how = {
        .order = {.salvage = options->salvage, .patience_bytes = options->memory_bytes / 2},
        .progress = postprocess_show_progress,
        .context = &progress,
    };
    char *spool = NULL;
    postprocess_find_spool(&how, reader, input, &spool);
    order_trace(reader, &how, &output, &summary->result);
    free(spool);
    output.discards = summary->result.status >= ORDER_TRACE_DAMAGED;
    bool closed = output_close(&output);
    progress_close(&progress);
    summary->seconds = seconds_now() - progress.started_s;
    if (!closed && summary->result.status != ORDER_TRACE_FAILED) {
        summary->result.status = ORDER_TRACE_FAILED;
        summary->result.error = output.error;
    }
    /* The message is about what could not be written, not about what was read. */
    bool output_failed = error_is_set(&output.error);
    struct summary reported = *summary;
    if (output_failed) reported.input = output_path;
    if (!output.unread || !options->quiet) report(&reported, options);
    return exit_status(&summary->result, output_failed);
}

/* Everything that can be refused is refused before the output is touched. */
static int check_and_run(const struct options *options, const char *input,
                         struct raw_reader *reader, struct summary *summary)
{
    if (reader->state == RAW_STREAM_FAILED) {
        error_print(stderr, PROGRAM, input, &reader->error);
        return reader->error.kind == &error_system ? PROGRAM_USAGE : PROGRAM_FAILED;
    }
    if (!make_output_directory(options)) {
        printable_say(stderr, "%s: %s: cannot make the directory: %s", PROGRAM, options->output,
                      strerror(errno));
        return PROGRAM_USAGE;
    }
    char *output = output_name(options, input);
    if (output == NULL) {
        fprintf(stderr, "%s: no memory\n", PROGRAM);
        return PROGRAM_FAILED;
    }
    int status = output_would_replace(output, input)
                     ? program_usage_error(PROGRAM, "%s and %s are the same file", input, output)
                     : postprocess_run(options, input, output, reader, summary);
    free(output);
    return status;
}

static int run_input(const struct options *options, const char *input, json_t *results)
{
    struct summary summary = {.program = PROGRAM, .input = input, .is_quiet = options->quiet};
    struct raw_reader reader;
    raw_reader_open(&reader, input);
    int status = check_and_run(options, input, &reader, &summary);
    raw_reader_close(&reader);
    if (status != PROGRAM_USAGE) summary_add_json(&summary, results);
    return status;
}

/* ---- all of them ---- */

/* Before anything is ordered: checks whether the file for JSON can be written. */
static int check_json(const struct options *options)
{
    struct error error = {0};
    if (options->json == NULL) return PROGRAM_OK;
    if (strcmp(options->json, "-") == 0 && !options->many && strcmp(options->output, "-") == 0)
        return program_usage_error(PROGRAM, "OUT and --json cannot both be the standard output");
    for (int i = 0; i < options->inputs_count; i++)
        if (output_would_replace(options->json, options->inputs[i]))
            return program_usage_error(PROGRAM, "--json: %s would be both read and written",
                                       options->json);
    if (strcmp(options->json, "-") != 0 && strcmp(options->json, options->output) == 0)
        return program_usage_error(PROGRAM, "OUT and --json cannot both be %s", options->json);
    if (output_can_open(options->json, &error)) return PROGRAM_OK;
    error_print(stderr, PROGRAM, options->json, &error);
    return PROGRAM_USAGE;
}

/* Of one recording the object, of several an array. */
static int postprocess_write_json(const struct options *options, const json_t *results)
{
    struct error error = {0};
    const json_t *one = json_array_size(results) == 1 ? json_array_get(results, 0) : results;
    if (json_file_write(one, options->json, &error)) return PROGRAM_OK;
    error_print(stderr, PROGRAM, options->json, &error);
    return STATUS_OUTPUT_FAILED;
}

static int run_all(const struct options *options)
{
    int status = check_json(options);
    if (status != PROGRAM_OK) return status;
    json_t *results = json_array();
    for (int i = 0; i < options->inputs_count; i++)
        status = postprocess_worse(status, run_input(options, options->inputs[i], results));
    if (options->json != NULL)
        status = postprocess_worse(status, postprocess_write_json(options, results));
    json_decref(results);
    return status;
}

/* If the system refuses more memory, that is reported as no memory. */
static void limit_memory(uint64_t bytes)
{
    struct rlimit limit;
    if (bytes == 0 || getrlimit(RLIMIT_DATA, &limit) != 0) return;
    if (bytes < limit.rlim_max) limit.rlim_cur = bytes;
    setrlimit(RLIMIT_DATA, &limit);
}

int main(int argc, char **argv)
{
    struct options options;
    int status = options_parse(&options, argc, argv);
    if (status != PROGRAM_GO_ON) return program_end(PROGRAM, status);
    /* A reader that goes away is an error like others, with its own exit status. */
    signal(SIGPIPE, SIG_IGN);
    limit_memory(options.memory_bytes);
    return run_all(&options);
}
