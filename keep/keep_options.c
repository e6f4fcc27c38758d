#include "keep/keep_options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "common/amount.h"
#include "common/program.h"

#define PROGRAM "malloctape-keep"

static const char keep_help_text[] =
    "usage: malloctape-keep --keep TIME[,BYTES] -o FILE [OPTION]... DIRECTORY\n"
    "       malloctape-keep --keep TIME[,BYTES] -o FILE [OPTION]... --process N --program NAME\n"
    "\n"
    "Keeps the last minutes of a recording that comes through DIRECTORY/fifo, or from the standard\n"
    "input, and writes them to FILE when that ends. `malloctape record --keep` starts it.\n"
    "\n"
    "      --keep TIME[,BYTES]  how much is kept: 90s, 10m, 2h; and at most so many bytes\n"
    "  -o, --output FILE        where the kept trace goes\n"
    "      --when CONDITION     writes FILE.1, FILE.2, ... whenever this has become true\n"
    "      --listen ADDRESS     serves pages and profiles: HOST:PORT, or the path of a socket\n"
    "      --token FILE         requests must have its first line as a bearer token\n"
    "      --process N --program NAME\n"
    "                           whose recording comes from the standard input: for %p and %e in names\n"
    "      --report FILE        where `record` reads what is to be said\n"
    "      --rescue             writes what a keeper that was killed has left in DIRECTORY\n"
    "  -q, --quiet              prints only errors\n";

static int take_keep(void *of, const char *text)
{
    struct keep_options *options = of;
    options->has_keep = amount_parse_keep(text, &options->keep_ns, &options->max_bytes);
    return options->has_keep
               ? PROGRAM_GO_ON
               : program_usage_error(PROGRAM, "--keep %s: TIME or TIME,BYTES, as 10m,500M", text);
}

static int take_when(void *of, const char *text)
{
    struct keep_options *options = of;
    char why[128];
    if (triggers_add(&options->triggers, text, why, sizeof why)) return PROGRAM_GO_ON;
    return program_usage_error(PROGRAM, "--when %s: %s", text, why);
}

int keep_options_parse(struct keep_options *options, int count, char **words)
{
    const struct program_option known[] = {{"keep", .take = take_keep},
                                           {"output", 'o', .word = &options->output},
                                           {"when", .take = take_when},
                                           {"listen", .word = &options->listen},
                                           {"token", .word = &options->token},
                                           {"process", .word = &options->process},
                                           {"program", .word = &options->program},
                                           {"report", .word = &options->report},
                                           {"rescue", .flag = &options->rescue},
                                           {"quiet", 'q', .flag = &options->quiet},
                                           {.name = NULL}};
    const int status =
        program_options(count, words, known, keep_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (!(options->has_keep || options->rescue) || options->output == NULL)
        return program_usage_error(PROGRAM, "--keep (or --rescue) and -o are needed");
    if ((options->process != NULL) != (options->program != NULL))
        return program_usage_error(PROGRAM, "--process and --program go together");
    if (count - optind != (options->process == NULL))
        return program_usage_error(PROGRAM, "which directory?");
    options->directory = words[optind]; /* NULL if there is a process: not known yet */
    return PROGRAM_GO_ON;
}
