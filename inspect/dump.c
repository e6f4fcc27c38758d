/* malloctape dump - prints either stream, one record a line.
 *
 * The lines are described in malloctape(1), LINES OF A DUMP. tests/reference/ prints the same from
 * an independent implementation of the format documents; both must agree on every stream. */
#include "inspect/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/printable.h"
#include "reading/stream.h"

static const char dump_help_text[] =
    "usage: malloctape dump [--only-calls] [--paths] [--lane NUMBER] FILE\n"
    "       malloctape dump --objects FILE\n"
    "\n"
    "Prints a raw stream or an instruction stream, one record a line; '-' is the standard input.\n"
    "\n"
    "  --only-calls   only the calls, without offset, lane and number\n"
    "  --paths        of a recording on malloctape's tcmalloc: only the calls, each with how far it\n"
    "                 went: T the thread's cache, C a central list, P the page heap, S the system;\n"
    "                 W waited for a lock, D divided a span, M merged spans\n"
    "  --lane NUMBER  only what belongs to this lane\n"
    "  --objects      one line for each object instead, as it ends; a recording is ordered for it\n"
    "\n"
    "malloctape(1) describes the lines.\n";

/* A dump writes millions of short lines. */
enum { OUTPUT_BUFFER_SIZE = 1 << 16 };

struct options {
    struct dump dump;
    bool objects;
    const char *path;
};

/* Returns PROGRAM_GO_ON or an exit status. */
static int dump_words_parse(struct options *options, int count, char **words)
{
    struct dump *dump = &options->dump;
    const struct program_option known[] = {{"only-calls", .flag = &dump->only_calls},
                                           {"paths", .flag = &dump->paths},
                                           {"lane", .count = &dump->lane},
                                           {"objects", .flag = &options->objects},
                                           {.name = NULL}};
    const int status = program_options(count, words, known, dump_help_text, PROGRAM_ANYWHERE, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (options->objects && (dump->only_calls || dump->paths || dump->lane != DUMP_ALL_LANES))
        return cli_usage_error(&cli_dump, "--objects cannot be combined with other options");
    if (dump->lane > UINT16_MAX && dump->lane != DUMP_ALL_LANES)
        return cli_usage_error(&cli_dump, "there is no lane %" PRIu64, dump->lane);
    if (optind + 1 != count) return cli_usage_error(&cli_dump, "dump takes one file");
    options->path = words[optind];
    return PROGRAM_GO_ON;
}

void dump_metadata(const struct dump *dump, uint64_t offset, const char *metadata, size_t bytes)
{
    const char *line = metadata, *end = metadata + bytes;
    while (line < end && dump_wants_general(dump)) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        dump_offset(dump, offset + (uint64_t)(line - metadata));
        fputs("metadata ", stdout);
        printable_print(stdout, line, (size_t)(line_end - line));
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

/* Prints one record a line. */
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
    if (stream_close(&stream)) return status;
    *error = (struct error){.kind = NULL};
    return PROGRAM_FAILED;
}

static int dump_run(int count, char **words)
{
    static char buffer[OUTPUT_BUFFER_SIZE];
    struct options options = {.dump.lane = DUMP_ALL_LANES};
    struct error error = {0};
    int status = dump_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    status = options.objects ? dump_objects(options.path, &error) : dump_records(&options, &error);
    if (error_is_set(&error)) cli_data_error(&cli_dump, options.path, &error);
    return status;
}

const struct cli_command cli_dump = {"dump", "prints a stream, one record a line", dump_run,
                                     dump_help_text};
