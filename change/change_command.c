/* malloctape change - writes the trace of a program as it would be with other code. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "change/change_text.h"
#include "cli/cli.h"
#include "common/output.h"
#include "common/printable.h"
#include "reading/ordered_file.h"

static const char change_help_text[] =
    "usage: malloctape change TRACE 'PATTERN: ACTION' -o OUT\n"
    "\n"
    "Writes TRACE, a recording or an instruction stream, as it would be if the program's code were\n"
    "changed: an instruction stream, to be replayed, reported on or verified like another.\n"
    "malloctape compare --what-if replays the same at once, and says what it gains.\n"
    "\n"
    "  PATTERN   a function, file:line, file or module on the call stack; * is any text;\n"
    "            OUTER > INNER: both, in this order; NAME itself: the one that allocates;\n"
    "            of SIZE, of SIZE-SIZE, alone or after that: objects made with that size\n"
    "  ACTION    remove, remove=75%  (all, or a share of) the objects are not needed\n"
    "            size=-8, size=+8, size=x0.5, size=24\n"
    "            until=60s (ms, us, min, h), until=1000calls, until=1000objects, until=64MiB\n"
    "                                they are freed that much later than they are made\n"
    "            reserve             one that grows is made with its last size at once\n"
    "            shared=75%          so many are equal to the one before that has their size and stack,\n"
    "                                is alive, and will do for both\n"
    "            pool, pool=64KiB    those of a size share chunks, with a list of free ones\n"
    "            arena, arena=64KiB  those of a call of the function, or with itself those of a thread,\n"
    "                                share chunks, given back when all have ended\n"
    "            separate, separate=64KiB\n"
    "                                they have a heap of their own\n"
    "\n"
    "Several changes are separated by ;. Of each object, the first one that matches counts.\n"
    "\n"
    "  -o, --output OUT  where it goes; compressed if the name ends in .lz4\n"
    "      --symbols DIR where files of programs and libraries are looked for, by build id or\n"
    "                    name, to name functions; may be given several times; none: nowhere\n"
    "      --skip REGEX  functions that match, or whose file does, allocate for their callers\n"
    "  -j, --json FILE   writes what matched as JSON\n"
    "  -q, --quiet       does not print what matched\n"
    "\n"
    "  malloctape change server.raw.lz4 'parse_json: remove' -o without.lz4\n"
    "\n"
    "The exit status is 0, 3 when the trace was cut short, 1 when it is damaged, a pattern matches\n"
    "nothing or OUT cannot be written, 2 for a mistake on the command line.\n";

struct change_options {
    const char *trace, *output, *json;
    struct change_list list;
    struct change_places places;
    bool quiet;
};

static int change_symbols_take(void *of, const char *directory)
{
    struct change_options *options = of;
    char why[256];
    if (change_places_add(&options->places, directory, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_change, "--symbols: %s", why);
}

static int change_skip_take(void *of, const char *regex)
{
    struct change_options *options = of;
    char why[256];
    if (change_places_skip(&options->places, regex, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_change, "--skip: %s", why);
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int change_words_parse(struct change_options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"symbols", .take = change_symbols_take},  {"skip", .take = change_skip_take},
        {"output", 'o', .word = &options->output}, {"json", 'j', .word = &options->json},
        {"quiet", 'q', .flag = &options->quiet},   {.name = NULL}};
    char why[512];
    const int status =
        program_options(count, words, known, change_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (optind + 2 != count)
        return cli_usage_error(&cli_change, "change takes one trace and one text, "
                                            "'PATTERN: ACTION'");
    if (options->output == NULL) return cli_usage_error(&cli_change, "-o OUT is needed");
    options->trace = options->places.trace = words[optind];
    if (!change_list_parse(&options->list, words[optind + 1], why, sizeof why))
        return cli_usage_error(&cli_change, "%s", why);
    if (options->json != NULL && strcmp(options->json, options->output) == 0)
        return cli_usage_error(&cli_change, "--json and -o have the same file, %s", options->json);
    const char *const outputs[] = {options->output, options->json};
    return cli_spare_input(&cli_change, &(struct cli_outputs){outputs, 2}, options->trace);
}

static bool change_show(const struct change_options *options, const struct change_result *result)
{
    char text[512];
    for (size_t i = 0; i < options->list.count && !options->quiet; i++) {
        change_count_text(&options->list.at[i], &result->of[i], text, sizeof text);
        printable_say(stderr, "%s: %s", options->list.at[i].text, text);
    }
    if (options->json == NULL) return true;
    if (output_would_replace(options->json, options->output)) {
        cli_fail(&cli_change, "%s: --json and -o have the same file", options->json);
        return false;
    }
    return cli_write_json(&cli_change, change_result_json(&options->list, result), options->json);
}

/* Where the trace is written first, so that a file that is there stays if it cannot be made: beside
 * it, with the same end of its name. What is no plain file is written at once. False: the name is too
 * long. */
static bool change_first_path(const char *output, char *path, size_t bytes)
{
    struct stat there;
    const char *name = strrchr(output, '/');
    name = name != NULL ? name + 1 : output;
    if (lstat(output, &there) != 0 || !S_ISREG(there.st_mode)) name = "";
    const int length = *name == '\0' ? snprintf(path, bytes, "%s", output)
                                     : snprintf(path, bytes, "%.*s.new-%d-%s", (int)(name - output),
                                                output, (int)getpid(), name);
    return length < (int)bytes;
}

static int change_ordered(const struct change_options *options, const char *ordered)
{
    struct change_trace trace;
    struct change_result result = {.output_failed = false};
    char why[1024], path[PATH_MAX];
    if (!change_first_path(options->output, path, sizeof path))
        return cli_fail(&cli_change, "%s: %s", options->output, strerror(ENAMETOOLONG));
    bool good = change_trace_open(&trace, ordered, &options->places, why, sizeof why) &&
                change_stream_write(&trace, &options->list, path, &result, why, sizeof why);
    change_trace_close(&trace);
    if (good && strcmp(path, options->output) != 0 && rename(path, options->output) != 0) {
        output_remove(path);
        return cli_fail(&cli_change, "%s: %s", options->output, strerror(errno));
    }
    if (!good)
        return cli_fail(&cli_change, "%s: %s",
                        result.output_failed ? options->output : options->trace, why);
    if (!change_show(options, &result)) return PROGRAM_FAILED;
    return result.is_cut ? PROGRAM_CUT : PROGRAM_OK;
}

static int change_trace_file(const struct change_options *options)
{
    struct process_directory directory;
    char ordered[PATH_MAX], why[1024];
    int status;
    if (!process_directory_open(&directory))
        return cli_fail(&cli_change, "cannot make a directory in $TMPDIR or /tmp: %s",
                        strerror(errno));
    if (ordered_file_prepare(&directory, options->trace, ordered, sizeof ordered, why, sizeof why))
        status = change_ordered(options, ordered);
    else
        status = cli_fail(&cli_change, "%s: %s", options->trace, why);
    process_directory_close(&directory);
    return status;
}

static int change_run(int count, char **words)
{
    struct change_options options = {.trace = NULL};
    int status = change_words_parse(&options, count, words);
    if (status == PROGRAM_GO_ON) status = change_trace_file(&options);
    change_list_free(&options.list);
    change_places_free(&options.places);
    return status;
}

const struct cli_command cli_change = {"change",
                                       "writes the trace of a program as if its code were changed",
                                       change_run, change_help_text};
