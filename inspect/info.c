/* malloctape info - what a stream holds and where it comes from. */
#include "inspect/info.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help_text[] =
    "usage: malloctape info [--json FILE] FILE\n"
    "\n"
    "Reads all of a raw stream or an instruction stream and tells what is in it; '-' is the\n"
    "standard input.\n"
    "\n"
    "  --json FILE   writes the same as a JSON object; to '-', the standard output, instead of\n"
    "                the text\n"
    "\n"
    "The exit status is 0 when the stream is complete, 3 when it was cut short, 1 when it is\n"
    "damaged.\n";

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
        default: return cli_usage_error(&cli_info, NULL) + 1;
        }
    }
    if (optind + 1 != count) return cli_usage_error(&cli_info, "one file, please") + 1;
    options->path = words[optind];
    return 0;
}

void info_free(struct info *info)
{
    free(info->program);
    free(info->allocator);
    free(info->foreign_malloc);
    free(info->recording);
    free(info->pid);
    free(info->source);
    free(info->lacks);
    statistics_free(&info->names);
}

static bool info_show(const struct info *info, const struct options *options)
{
    bool json_instead = options->json != NULL && strcmp(options->json, "-") == 0;
    if (!json_instead) info_print(info, options->path);
    struct error error = {0};
    if (options->json == NULL || info_write_json(info, options->json, &error)) return true;
    cli_data_error(&cli_info, options->json, &error);
    return false;
}

static int run(int count, char **words)
{
    struct options options = {0};
    struct info info = {0};
    struct stream stream;
    struct error error = {0};
    int status = options_parse(&options, count, words);
    if (status != 0) return status - 1;
    if (!stream_open(&stream, options.path, &error))
        return cli_data_error(&cli_info, options.path, &error);
    info.format = stream.format;
    info.file_bytes = stream.file_bytes;
    status = stream.format == STREAM_RAW ? info_raw(&info, &stream, options.path, &error)
                                         : info_instructions(&info, &stream, &error);
    info.lz4 = stream.lz4;
    stream_close(&stream);
    if (error_is_set(&error)) cli_data_error(&cli_info, options.path, &error);
    bool begun = info.version_major > 0 || info.events > 0;
    if (begun && status != PROGRAM_FAILED && !info_show(&info, &options)) status = PROGRAM_FAILED;
    info_free(&info);
    return status;
}

const struct cli_command cli_info = {"info", "tells what a stream holds", run, help_text};
