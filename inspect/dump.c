/* malloctape dump - prints either stream, one record a line.
 *
 * The lines are described in malloctape(1), LINES OF A DUMP, and made a second time, from the
 * format documents alone, by tests/reference/; the two have to agree on every stream. */
#include "inspect/dump.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/stream.h"

static const char help_text[] =
    "usage: malloctape dump [--only-calls] [--paths] [--lane NUMBER] FILE\n"
    "       malloctape dump --objects FILE\n"
    "\n"
    "Prints a raw stream or an instruction stream, one record a line; '-' is the standard input.\n"
    "\n"
    "  --only-calls   only the calls, without offset, lane and number\n"
    "  --paths        of a recording that was made on our tcmalloc: only the calls, each with how\n"
    "                 far it went: T the thread's cache, C a central list, P the page heap, S the\n"
    "                 system; W waited for a lock, D divided a span, M merged spans\n"
    "  --lane NUMBER  only what belongs to this lane\n"
    "  --objects      one line an object instead, as it ends; a recording is ordered on the way\n"
    "\n"
    "malloctape(1) describes the lines.\n";

/* A dump writes short lines by the million. */
enum { OUTPUT_BUFFER_SIZE = 1 << 16 };

struct options {
    struct dump dump;
    bool objects;
    const char *path;
};

static bool lane_parse(const char *word, uint32_t *lane)
{
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    if (*word < '0' || *word > '9' || *end != '\0' || number > UINT16_MAX) return false;
    *lane = (uint32_t)number;
    return true;
}

/* Returns 0 to go on, or the exit status plus one. */
static int options_parse(struct options *options, int count, char **words)
{
    static const struct option known[] = {
        {"only-calls", no_argument, NULL, 'c'}, {"paths", no_argument, NULL, 'p'},
        {"lane", required_argument, NULL, 'l'}, {"objects", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, words, "h", known, NULL)) != -1) {
        switch (option) {
        case 'o': options->objects = true; break;
        case 'p': options->dump.paths = true; break;
        case 'c': options->dump.only_calls = true; break;
        case 'l':
            options->dump.one_lane = true;
            if (!lane_parse(optarg, &options->dump.lane))
                return cli_usage_error(&cli_dump, "'%s' is no lane", optarg) + 1;
            break;
        case 'h': return program_help(help_text) + 1;
        default: return cli_usage_error(&cli_dump, NULL) + 1;
        }
    }
    if (options->objects &&
        (options->dump.only_calls || options->dump.paths || options->dump.one_lane))
        return cli_usage_error(&cli_dump, "--objects stands alone") + 1;
    if (optind + 1 != count) return cli_usage_error(&cli_dump, "one file, please") + 1;
    options->path = words[optind];
    return 0;
}

void dump_metadata(const struct dump *dump, uint64_t offset, const char *metadata, size_t bytes)
{
    const char *line = metadata, *end = metadata + bytes;
    while (line < end && dump_wants_general(dump)) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        dump_offset(dump, offset + (uint64_t)(line - metadata));
        fputs("metadata ", stdout);
        fwrite(line, 1, (size_t)(line_end - line), stdout); /* may have any bytes in it */
        putchar('\n');
        line = line_end + 1;
    }
}

void dump_counts(const struct dump *dump, uint64_t offset, const uint64_t *counts)
{
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (counts[kind] == 0) continue;
        dump_offset(dump, offset);
        printf("end count %s %" PRIu64 "\n",
               call_names[kind] != NULL ? call_names[kind] : "an_undefined_kind", counts[kind]);
    }
}

/* One record a line. */
static int dump_records(const struct options *options, struct error *error)
{
    struct stream stream;
    if (!stream_open(&stream, options->path, error)) return PROGRAM_FAILED;
    int status;
    if (stream.format == STREAM_RAW)
        status = dump_raw(&options->dump, &stream, options->path, error);
    else if (options->dump.paths)
        status = cli_fail(&cli_dump, "%s: an ordered stream does not say how far calls went",
                          options->path);
    else
        status = dump_instructions(&options->dump, &stream, error);
    stream_close(&stream);
    return status;
}

static int run(int count, char **words)
{
    static char buffer[OUTPUT_BUFFER_SIZE];
    struct options options = {0};
    struct error error = {0};
    int status = options_parse(&options, count, words);
    if (status != 0) return status - 1;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    status = options.objects ? dump_objects(options.path, &error) : dump_records(&options, &error);
    if (error_is_set(&error)) cli_data_error(&cli_dump, options.path, &error);
    return status;
}

const struct cli_command cli_dump = {"dump", "prints a stream, one record a line", run, help_text};
