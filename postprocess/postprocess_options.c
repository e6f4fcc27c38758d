#include "postprocess/postprocess_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/output.h"
#include "common/program.h"

/* What the code itself, its thread and its buffers need. */
#define MEMORY_BYTES_MIN (UINT64_C(32) << 20)

static const char postprocess_options_help_text[] = /* %1$s: the program's name */
    "Usage: %1$s [OPTION]... IN OUT\n"
    "       %1$s [OPTION]... -o OUT IN...\n"
    "Put the allocator calls of a recording into one order that could have happened, as an\n"
    "instruction stream for replay. IN, a raw event stream, may be plain or lz4. Either may\n"
    "be - or a pipe.\n"
    "\n"
    "  %1$s raw.lz4 /dev/stdout | lz4 > p.lz4\n"
    "\n"
    "When the recorded process could not finish its recording, what is missing in IN is taken\n"
    "from IN.spool, where the process left it.\n"
    "\n"
    "  -o, --output=OUT       where the result goes; for several recordings a directory (made\n"
    "                         if the name ends in a slash)\n"
    "      --compress, --no-compress\n"
    "                         write an LZ4 frame, or none; without: if OUT ends in .lz4\n"
    "      --salvage          leave out what is damaged, and go on\n"
    "      --max-memory=SIZE  fail rather than use more memory (64M, 2G)\n"
    "  -j, --json=FILE        write the figures of the summary as JSON\n"
    "  -q, --quiet            no summary and no progress; problems are reported,\n"
    "                         but not a reader of the output that goes away\n"
    "  -h, --help             this text\n"
    "  -V, --version          the version\n"
    "\n"
    "Exit status: 0 complete; 1 the recording is damaged or cannot be read, and OUT is removed\n"
    "if it is a file; 2 wrong options, or IN or OUT cannot be opened; 3 all that there\n"
    "was has been written, but the recording was cut short or had lost events; 4 the output\n"
    "could not be written; 5 damage was left out (--salvage).\n";

/* A number, perhaps followed by K, M or G. */
static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || text[0] == '-') return false;
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    if ((*end != '\0' && (unit == NULL || end[1] != '\0')) || number > UINT64_MAX >> shift)
        return false;
    *bytes = (uint64_t)number << shift;
    return true;
}

static int memory_take(void *of, const char *text)
{
    struct options *options = of;
    if (parse_size(text, &options->memory_bytes) && options->memory_bytes >= MEMORY_BYTES_MIN)
        return PROGRAM_GO_ON;
    return program_usage_error(PROGRAM, "--max-memory=%s: a size from 32M on is needed", text);
}

static bool ends_in_slash(const char *path)
{
    size_t length = strlen(path);
    return length > 0 && path[length - 1] == '/';
}

static bool postprocess_options_is_directory(const char *path)
{
    struct stat status;
    return ends_in_slash(path) || (stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

/* IN OUT, or IN... with -o. */
static int parse_files(struct options *options, int count, char **words)
{
    options->inputs = words;
    options->inputs_count = count;
    if (options->output == NULL) {
        if (count != 2)
            return program_usage_error(
                PROGRAM, count < 2 ? "IN and OUT are needed"
                                   : "more words than IN and OUT; several recordings need -o");
        options->output = words[--options->inputs_count];
    } else if (count == 0) {
        return program_usage_error(PROGRAM, "IN is needed");
    } else {
        options->many = postprocess_options_is_directory(options->output);
        if (count > 1 && !options->many)
            return program_usage_error(PROGRAM, "several recordings: -o needs a directory");
    }
    options->output = plain_name(options->output);
    for (int i = 0; i < options->inputs_count; i++)
        options->inputs[i] = (char *)(uintptr_t)plain_name(options->inputs[i]);
    return PROGRAM_GO_ON;
}

int options_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {{"output", 'o', .word = &options->output},
                                           {"salvage", .flag = &options->salvage},
                                           {"max-memory", .take = memory_take},
                                           {"compress", .flag = &options->compress},
                                           {"no-compress", .flag = &options->no_compress},
                                           {"json", 'j', .word = &options->json},
                                           {"quiet", 'q', .flag = &options->quiet},
                                           {.name = NULL}};
    *options = (struct options){0};
    words[0] = PROGRAM; /* for messages */
    char help[sizeof postprocess_options_help_text + 256];
    snprintf(help, sizeof help, postprocess_options_help_text, PROGRAM);
    const int status = program_options(count, words, known, help, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (options->compress && options->no_compress)
        return program_usage_error(PROGRAM, "--compress and --no-compress exclude each other");
    return parse_files(options, count - optind, words + optind);
}

/* ---- names ---- */

bool is_compressed(const struct options *options, const char *output)
{
    return options->compress || (!options->no_compress && output_is_lz4(output));
}

bool make_output_directory(const struct options *options)
{
    if (!options->many || !ends_in_slash(options->output)) return true;
    return mkdir(options->output, 0777) == 0 || errno == EEXIST;
}

const char *plain_name(const char *path)
{
    return strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stdin") == 0 ? "-" : path;
}

/* The last part of the path, without the endings of a recording. */
static char *short_name(const char *path)
{
    static const char *const endings[] = {".lz4", ".raw"};
    char *name = strdup(strcmp(path, "-") == 0 ? "stdin" : basename(path));
    for (unsigned i = 0; name != NULL && i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0)
            name[length - ending] = '\0';
    }
    return name;
}

char *output_name(const struct options *options, const char *input)
{
    if (!options->many) return strdup(options->output);
    char *text = NULL, *name = short_name(input);
    if (name != NULL &&
        asprintf(&text, "%s%s%s.ins%s", options->output, ends_in_slash(options->output) ? "" : "/",
                 name, options->compress ? ".lz4" : "") < 0)
        text = NULL;
    free(name);
    return text;
}
