/* postprocess - puts what the threads of a recorded program asked of their allocator into one order. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/output.h"
#include "common/program.h"
#include "postprocess/run.h"
#include "postprocess/summary.h"
#include "tracing/raw_reader.h"

#define PROGRAM "postprocess"

/* Beside those of enum program_status. */
#define STATUS_OUTPUT_FAILED 4

struct options {
    const char *input, *output, *json;
    bool quiet;
};

static int help(void)
{
    return program_help(
        "Usage: postprocess [OPTION]... IN OUT\n"
        "Put the allocator calls of a recording into one order that could have happened, as an\n"
        "instruction stream for replay. IN, a raw event stream, may be plain or lz4. Either may be\n"
        "- or a pipe.\n"
        "\n"
        "  postprocess raw.lz4 /dev/stdout | lz4 > p.lz4\n"
        "\n"
        "When the recorded process could not finish its recording, what is missing in IN is taken\n"
        "from IN.spool, where the process left it.\n"
        "\n"
        "  -j, --json=FILE   write the figures of the summary as JSON\n"
        "  -q, --quiet       do not print the summary; problems are still told\n"
        "  -h, --help        this text\n"
        "  -V, --version     the version\n"
        "\n"
        "Exit status: 0 complete; 1 the recording is damaged or cannot be read, what came before\n"
        "was written; 2 wrong options, or IN or OUT cannot be opened; 3 all there was was written, but\n"
        "the recording was cut short or had lost events; 4 the output could not be written.\n");
}

/* Returns -1 to go on, or an exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"json", required_argument, NULL, 'j'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    int option;
    *options = (struct options){0};
    while ((option = getopt_long(argc, argv, "j:qhV", names, NULL)) != -1) {
        switch (option) {
        case 'j': options->json = optarg; break;
        case 'q': options->quiet = true; break;
        case 'h': return help();
        case 'V': return program_version(PROGRAM);
        default: return program_usage_error(PROGRAM, NULL);
        }
    }
    if (argc - optind != 2)
        return program_usage_error(PROGRAM, argc - optind < 2 ? "IN and OUT are needed"
                                                              : "more than IN and OUT");
    options->input = argv[optind];
    options->output = argv[optind + 1];
    return -1;
}

/* Whether the file at `path` is the one that is open as `fd`, and writing to it would destroy it. */
static bool is_same_file(int fd, const char *path)
{
    struct stat input, output;
    if (fstat(fd, &input) != 0 || !S_ISREG(input.st_mode)) return false;
    int found = strcmp(path, "-") == 0 ? fstat(STDOUT_FILENO, &output) : stat(path, &output);
    return found == 0 && input.st_dev == output.st_dev && input.st_ino == output.st_ino;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The descriptors' other names: opening those again would truncate or fail. */
static const char *plain_name(const char *path)
{
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stdin") == 0 ? "-" : path;
}

static bool has_spool(const struct raw_reader *reader, const char *input)
{
    struct stat status;
    return strcmp(input, "-") != 0 && fstat(reader->fd, &status) == 0 && S_ISREG(status.st_mode);
}

static int exit_status(const struct run_result *result, bool output_failed)
{
    if (output_failed) return STATUS_OUTPUT_FAILED;
    switch (result->status) {
    case RUN_COMPLETE: return PROGRAM_OK;
    case RUN_CUT: return PROGRAM_CUT;
    default: return PROGRAM_FAILED;
    }
}

static int report(const struct summary *summary, const struct options *options, FILE *json,
                  bool output_failed)
{
    summary_print_problems(summary, stderr);
    if (!options->quiet) summary_print(summary, stderr);
    if (json != NULL) {
        bool written = summary_write_json(summary, json);
        if ((json == stdout ? fflush(json) : fclose(json)) != 0 || !written) {
            fprintf(stderr, "%s: %s: cannot write: %s\n", PROGRAM, options->json, strerror(errno));
            return STATUS_OUTPUT_FAILED;
        }
    }
    return exit_status(&summary->result, output_failed);
}

static int run(const struct options *options, struct raw_reader *reader, FILE *json)
{
    struct output output;
    if (!output_open(&output, options->output)) {
        error_print(stderr, PROGRAM, options->output, &output.error);
        return PROGRAM_USAGE;
    }
    struct summary summary = {.program = PROGRAM, .input = options->input};
    char *spool = NULL;
    if (has_spool(reader, options->input) && asprintf(&spool, "%s.spool", options->input) < 0)
        spool = NULL;
    double start = seconds_now();
    run_order(reader, spool, &output, &summary.result);
    free(spool);
    bool closed = output_close(&output);
    summary.seconds = seconds_now() - start;
    if (!closed && summary.result.status != RUN_FAILED) {
        summary.result.status = RUN_FAILED;
        summary.result.error = output.error;
    }
    /* The message is about what could not be written, not about what was read. */
    bool output_failed = error_is_set(&output.error);
    if (output_failed) summary.input = options->output;
    return report(&summary, options, json, output_failed);
}

/* Everything that can be refused is refused before OUT is touched. */
static int check_and_run(const struct options *options, struct raw_reader *reader)
{
    if (reader->state == RAW_STREAM_FAILED) {
        error_print(stderr, PROGRAM, options->input, &reader->error);
        return reader->error.kind == &error_system ? PROGRAM_USAGE : PROGRAM_FAILED;
    }
    if (is_same_file(reader->fd, options->output))
        return program_usage_error(PROGRAM, "%s and %s are the same file", options->input,
                                   options->output);
    if (options->json != NULL && strcmp(options->json, "-") == 0 &&
        strcmp(options->output, "-") == 0)
        return program_usage_error(PROGRAM, "OUT and --json cannot both be the standard output");
    FILE *json = NULL;
    if (options->json != NULL) {
        json = strcmp(options->json, "-") == 0 ? stdout : fopen(options->json, "we");
        if (json == NULL) {
            fprintf(stderr, "%s: %s: cannot open for writing: %s\n", PROGRAM, options->json,
                    strerror(errno));
            return PROGRAM_USAGE;
        }
    }
    return run(options, reader, json);
}

int main(int argc, char **argv)
{
    struct options options;
    int status = parse_options(argc, argv, &options);
    if (status >= 0) return status;
    options.input = plain_name(options.input);
    options.output = plain_name(options.output);
    /* A reader that goes away is an error like others, with its own exit status. */
    signal(SIGPIPE, SIG_IGN);
    struct raw_reader reader;
    raw_reader_open(&reader, options.input);
    status = check_and_run(&options, &reader);
    raw_reader_close(&reader);
    return status;
}
