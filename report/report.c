/* malloctape report - what a program asks of its allocator, and what holds its memory. */
#include "report/report.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/json_file.h"

static const char help_text[] =
    "usage: malloctape report TRACE [OPTION]...\n"
    "\n"
    "Reads TRACE, a recording or an instruction stream, once and says what the program asked of its\n"
    "allocator and what held its memory; '-' is the standard input.\n"
    "\n"
    "      --json FILE   write every number as JSON; - is the standard output, without the text\n"
    "\n"
    "The exit status is 0 when all went well, 1 when something failed, 2 for a mistake on the\n"
    "command line, 3 when the trace had been cut short.\n";

struct options {
    const char *path, *json;
};

/* Returns 0 to go on, or the exit status plus one. */
static int options_parse(struct options *options, int count, char **words)
{
    static const struct option known[] = {{"json", required_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, words, "h", known, NULL)) != -1) {
        switch (option) {
        case 'j': options->json = optarg; break;
        case 'h': return program_help(help_text) + 1;
        default: return cli_usage_error(&cli_report, NULL) + 1;
        }
    }
    if (optind == count) return cli_usage_error(&cli_report, "which trace?") + 1;
    if (optind + 1 != count) return cli_usage_error(&cli_report, "one trace, please") + 1;
    options->path = words[optind];
    return 0;
}

static bool write_json(const struct report_trace *trace, const char *path)
{
    struct error error = {0};
    json_t *object = report_json(trace);
    bool done = json_file_write(object, path, &error);
    if (!done) cli_data_error(&cli_report, path, &error);
    json_decref(object);
    return done;
}

static int tell(const struct report_trace *trace, const struct options *options, int status)
{
    const bool json_instead = options->json != NULL && strcmp(options->json, "-") == 0;
    if (!json_instead) report_print(trace, stdout);
    if (options->json != NULL && !write_json(trace, options->json)) return PROGRAM_FAILED;
    return status;
}

static int run(int count, char **words)
{
    struct options options = {0};
    static struct report_trace trace;
    int status = options_parse(&options, count, words);
    if (status != 0) return status - 1;
    status = report_read(&trace, options.path);
    if (status != PROGRAM_FAILED) status = tell(&trace, &options, status);
    report_close(&trace);
    return status;
}

const struct cli_command cli_report = {
    "report", "says what a program asks of its allocator, and what holds its memory", run,
    help_text};
