/* malloctape import - makes an instruction stream from another tool's file.
 *
 *   FILE... --source--> reader of the format --> call_writer --> OUT */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/json_file.h"
#include "common/numbers.h"
#include "convert/convert_files.h"
#include "convert/formats.h"

static const char import_help_text[] =
    "usage: malloctape import [--from FORMAT] [--quiet] [--json FILE] FILE... -o OUT\n"
    "\n"
    "Converts a file in which another tool has recorded calls of an allocator into an instruction\n"
    "stream, for `malloctape replay` and the other commands. A file may be compressed (lz4, gzip,\n"
    "zstd, xz, bzip2, zip); - is the standard input. Several files are parts of one recording, one\n"
    "after another.\n"
    "\n"
    "  -o, --output OUT   where the stream goes; compressed if the name ends in .lz4\n"
    "      --from FORMAT  the format of FILE (default: recognized by the first bytes)\n"
    "  -j, --json FILE    writes the summary as JSON\n"
    "  -q, --quiet        no summary\n"
    "\n"
    "FORMAT is one of\n"
#define FORMAT_HELP(identifier, name, title) "  " name ": " title "\n"
    FORMAT_LIST(FORMAT_HELP)
#undef FORMAT_HELP
        "ops is not recognized and needs --from.\n"
        "\n"
        "formats.md says what is kept of each. The exit status is 0, or 1 when a file violates its\n"
        "format; what precedes the mistake has been written, as a stream that was cut short.\n";

enum { WIDTH = 22 }; /* of the words in the summary */

struct options {
    const char *output, *from, *json;
    bool quiet;
    char **files;
    int files_count;
};

struct import {
    struct options options;
    const struct format_entry *format; /* of the first file */
    struct output output;
    struct call_writer writer;
    bool opened;
};

/* ---- options ---- */

static void formats_offer(program_add *add)
{
    for (const struct format_entry *entry = formats; entry->name != NULL; entry++)
        add(entry->name, entry->title);
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int import_words_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"output", 'o', .word = &options->output},
        {"from", .word = &options->from, .values = formats_offer},
        {"json", 'j', .word = &options->json},
        {"quiet", 'q', .flag = &options->quiet},
        {.name = NULL}};
    const int status =
        program_options(count, words, known, import_help_text, PROGRAM_ANYWHERE, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (optind == count) return cli_usage_error(&cli_import, "which file?");
    if (options->output == NULL) return cli_usage_error(&cli_import, "-o OUT is needed");
    if (options->from != NULL && format_find(options->from) == NULL)
        return cli_usage_error(&cli_import, "there is no format '%s'", options->from);
    options->files = words + optind;
    options->files_count = count - optind;
    const char *const outputs[] = {options->output, options->json};
    for (int i = 0; i < options->files_count; i++)
        for (size_t j = 0; j < sizeof outputs / sizeof *outputs; j++)
            if (outputs[j] != NULL && output_would_replace(outputs[j], options->files[i]))
                return cli_usage_error(&cli_import, "%s would be both read and written",
                                       outputs[j]);
    return PROGRAM_GO_ON;
}

/* ---- the stream ---- */

/* Opens the stream, once the first file has turned out to be good. */
static bool stream_open_for(struct import *import)
{
    char metadata[512];
    const char *path = import->options.output;
    const struct format_entry *format = import->format;
    if (!output_open(&import->output, path)) {
        cli_data_error(&cli_import, path, &import->output.error);
        return false;
    }
    if (isatty(import->output.fd)) {
        cli_usage_error(&cli_import, "the result is binary and is not written to a terminal");
        output_close(&import->output);
        return false;
    }
    if (output_is_lz4(path)) output_compress(&import->output);
    int bytes = snprintf(metadata, sizeof metadata, "source=%s\n", format->title);
    if (*format->format->lacks != '\0')
        snprintf(metadata + bytes, sizeof metadata - (size_t)bytes, "lacks=%s\n",
                 format->format->lacks);
    import->opened = true;
    call_writer_open(&import->writer, &import->output, metadata, format->format->stacks);
    import->writer.has_threads = format->format->threads;
    return true;
}

static bool stream_close_after(struct import *import, bool good)
{
    struct call_writer *writer = &import->writer;
    if (good)
        call_writer_finish(writer);
    else
        call_writer_cut(writer);
    bool closed = output_close(&import->output);
    const struct error *error = !closed ? &import->output.error : &writer->error;
    if (error_is_set(error)) cli_data_error(&cli_import, import->options.output, error);
    return closed && !error_is_set(error);
}

/* ---- one file ---- */

static const struct format_entry *format_of(const struct import *import, struct source *source,
                                            const char *path)
{
    if (import->options.from != NULL) return format_find(import->options.from);
    const struct format_entry *format = format_recognize(source);
    if (error_is_set(&source->error)) {
        cli_data_error(&cli_import, path, &source->error);
        return NULL;
    }
    const char *known =
        source_peek(source, 8) < 8                   ? NULL
        : memcmp(source->next, MAGIC_OF_RAW, 8) == 0 ? "a recording of malloctape already"
        : memcmp(source->next, INSTRUCTION_MAGIC, 8) == 0
            ? "an instruction stream of malloctape already"
        : memcmp(source->next, "Obj\1", 4) == 0 ? "Avro, which malloctape can write, but not read"
                                                : NULL;
    if (known != NULL)
        cli_fail(&cli_import, "%s: this is %s", path, known);
    else if (format == NULL)
        cli_fail(&cli_import, "%s: the format is not recognized: say --from FORMAT", path);
    return known != NULL ? NULL : format;
}

static bool import_read_file(struct import *import, struct source *source, const char *path)
{
    const struct format_entry *format = format_of(import, source, path);
    if (format == NULL) return false;
    if (import->options.files_count > 1 && !format->format->parts) {
        cli_fail(&cli_import,
                 "%s: a file of %s is a whole program and cannot be one of several parts", path,
                 format->title);
        return false;
    }
    if (import->format == NULL) {
        import->format = format;
        if (!stream_open_for(import)) return false;
    } else if (format != import->format) {
        cli_fail(&cli_import, "%s: %s, but the file before it is %s", path, format->title,
                 import->format->title);
        return false;
    }
    bool good = format->format->read(source, &import->writer);
    if (error_is_set(&source->error)) cli_data_error(&cli_import, path, &source->error);
    return good;
}

static bool import_file(struct import *import, const char *path)
{
    struct source source;
    bool good = source_open(&source, path);
    if (!good) cli_data_error(&cli_import, path, &source.error);
    source.part = import->options.files_count > 1;
    good = good && import_read_file(import, &source, path);
    source_close(&source);
    return good;
}

/* ---- the summary ---- */

/* The numbers after the kinds of calls: what was done because of the file's defects. */
static void import_figures(const struct import *import, numbers_use *use, void *of)
{
    const struct call_writer_counts *counts = &import->writer.counts;
    const struct instruction_totals *totals = &import->writer.instructions.totals;
    const struct number numbers[] = {
        NUMBER_COUNT_IF_ANY("failed", "failed", counts->failed),
        NUMBER_COUNT_IF_ANY("unknown_objects", "unknown objects", counts->unknown),
        NUMBER_COUNT_IF_ANY("held_back", "held back", counts->held),
        NUMBER_COUNT_IF_ANY("never_freed", "never freed", counts->never_freed),
        NUMBER_COUNT_IF_ANY("frees_of_null", "frees of NULL left out", counts->frees_of_null),
        NUMBER_COUNT_IF_ANY("of_other_processes", "of other processes", counts->others),
        NUMBER_COUNT_IF_ANY("beyond_count", "beyond its own count", counts->beyond),
        NUMBER_COUNT("live_at_end", "live at end", totals->live),
        NUMBER_COUNT("peak_live_bytes", "peak live bytes", import->writer.peak_live_bytes),
        NUMBER_COUNT("threads", "threads", totals->threads),
        NUMBER_COUNT("ticks", NULL, totals->ticks),
    };
    use(of, numbers, sizeof numbers / sizeof *numbers);
}

static void import_print_summary(const struct import *import)
{
    const struct instruction_totals *totals = &import->writer.instructions.totals;
    struct numbers_text text = {.to = stderr, .width = WIDTH};
    fprintf(stderr, "%-*s %s\n", WIDTH, "format", import->format->title);
    if (*import->format->format->lacks != '\0')
        fprintf(stderr, "%-*s %s\n", WIDTH, "it lacks", import->format->format->lacks);
    fprintf(stderr, "%-*s %" PRIu64 "\n", WIDTH, "events", totals->calls);
    numbers_print_kinds(&text, totals->by_kind);
    import_figures(import, numbers_print, &text);
}

static bool import_write_json(const struct import *import)
{
    const struct instruction_totals *totals = &import->writer.instructions.totals;
    struct error error = {0};
    json_t *object = json_object();
    json_put_text(object, "format", import->format->name);
    json_put_text(object, "lacks", import->format->format->lacks);
    json_put_number(object, "events", totals->calls);
    json_put_kinds(object, "by_kind", totals->by_kind);
    import_figures(import, numbers_put, object);
    bool written = json_file_write(object, import->options.json, &error);
    if (!written) cli_data_error(&cli_import, import->options.json, &error);
    json_decref(object);
    return written;
}

/* ---- all of it ---- */

static int import_run(int count, char **words)
{
    struct import import = {.format = NULL};
    const int status = import_words_parse(&import.options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    signal(SIGPIPE, SIG_IGN);
    bool good = true;
    for (int i = 0; i < import.options.files_count && good; i++)
        good = import_file(&import, import.options.files[i]);
    if (!import.opened) return PROGRAM_FAILED;
    good = stream_close_after(&import, good) && good;
    if (good && !import.options.quiet) import_print_summary(&import);
    if (good && import.options.json != NULL) good = import_write_json(&import);
    call_writer_close(&import.writer);
    return good ? PROGRAM_OK : PROGRAM_FAILED;
}

const struct cli_command cli_import = {"import", "", import_run, import_help_text};
