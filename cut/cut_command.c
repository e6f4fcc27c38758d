/* malloctape cut - writes a part of a trace, as a trace. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "common/numbers.h"
#include "common/output.h"
#include "cut/anonymous.h"
#include "cut/cut.h"
#include "cut/cut_code.h"
#include "cut/minimize.h"
#include "cut/thin.h"
#include "reading/linked.h"
#include "reading/ordered.h"
#include "reading/ordered_file.h"

static const char cut_help_text[] =
    "usage: malloctape cut TRACE -o OUT [--from T] [--to T] [OPTION]...\n"
    "\n"
    "Writes a part of TRACE, a recording or an instruction stream, as an instruction stream that can\n"
    "be replayed, reported on or cut again. What was alive where the part begins is in its base\n"
    "(INSTRUCTIONS.md 4.9), with enough of what had died that its heap is as worn. TRACE and OUT may\n"
    "be -, the standard input and output.\n"
    "\n"
    "      --from T      where the part begins: a time since recording began (10m, 90s, 1.5s,\n"
    "                    500ms) or a number of calls (1000000calls)\n"
    "      --to T        where it ends\n"
    "      --lanes LIST  only objects that these lanes make: 0,3-5. Lanes are of threads; report has\n"
    "                    their numbers\n"
    "      --sizes LIST  only objects that are made with these sizes: 48,1024-\n"
    "      --code PATTERN\n"
    "                    only objects that this code makes: a function, file:line, file or module, or\n"
    "                    OUTER > INNER, as of malloctape change\n"
    "      --drop WHAT   stacks, addresses, statistics or mappings; may be given several times\n"
    "      --moments N   how many moments of the past leave their dead in the base, 0 to 512 (the\n"
    "                    default); 0: only what is alive\n"
    "      --anonymous   leaves out what names the machine, the user or the program: cut.md says what,\n"
    "                    field by field; what is left is printed\n"
    "      --keep WHAT   with --anonymous, keeps build-ids (of programs and libraries, with the places\n"
    "                    in them) or functions (of interpreters, by name); may be given twice\n"
    "      --blur WHAT   with --anonymous, rounds sizes (to three significant bits) or times (to\n"
    "                    0.1 s); may be given twice\n"
    "      --minimize WHAT\n"
    "                    leaves out calls, threads, sizes ... as long as the trace shows WHAT: a\n"
    "                    command with %s for the trace, whose exit status is 0 then, or one of\n"
    "                    'rss A B FACTOR' (peak RSS under allocator A is more than FACTOR times that\n"
    "                    under B), 'time A B FACTOR', 'crash A' (it crashes, hangs, or breaks a\n"
    "                    promise of malloc). After Ctrl-C the same command goes on\n"
    "      --thin N      leaves about one of N calls, chosen by the lives of objects so that memory stays\n"
    "                    the same: compare makes as many again of those that are left\n"
    "      --time S      with --minimize: stops after so many seconds\n"
    "  -o, --output OUT  where it goes; compressed if the name ends in .lz4\n"
    "  -q, --quiet       does not print what was written\n"
    "\n"
    "  malloctape cut raw.lz4 -o part.lz4 --from 10m --to 12m\n"
    "\n"
    "The exit status is 0, 3 when the trace was cut short, 1 when it is damaged or ends before the\n"
    "part begins, no object is of these lanes, sizes and code, or OUT cannot be written, 2 for a mistake\n"
    "on the command line.\n";

struct cut_options {
    const char *trace, *output, *code;
    struct cut_plan plan;
    struct anonymous anonymous;
    uint64_t moments;
    struct minimize_options minimize;
    struct thin_options thin;
    bool is_anonymous, quiet;
};

/* ---- options ---- */

static int cut_bound_take(struct cut_bound *bound, const char *option, const char *text)
{
    if (cut_bound_parse(bound, text)) return PROGRAM_GO_ON;
    return cli_usage_error(
        &cli_cut, "%s takes a time (10m, 90s, 500ms) or calls (1000calls), not '%s'", option, text);
}

static int cut_from_take(void *of, const char *text)
{
    return cut_bound_take(&((struct cut_options *)of)->plan.from, "--from", text);
}

static int cut_to_take(void *of, const char *text)
{
    return cut_bound_take(&((struct cut_options *)of)->plan.to, "--to", text);
}

static int cut_lanes_take(void *of, const char *text)
{
    if (cut_ranges_parse(&((struct cut_options *)of)->plan.lanes, text)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_cut, "--lanes takes numbers and ranges (0,3-5), not '%s'", text);
}

static int cut_sizes_take(void *of, const char *text)
{
    if (cut_ranges_parse(&((struct cut_options *)of)->plan.sizes, text)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_cut, "--sizes takes numbers and ranges (48,1024-), not '%s'", text);
}

static const char *const cut_drops[] = {"stacks", "addresses", "statistics", "mappings", NULL};

static int cut_drop_take(void *of, const char *text)
{
    struct cut_plan *plan = &((struct cut_options *)of)->plan;
    bool *const flags[] = {&plan->drops_stacks, &plan->drops_addresses, &plan->drops_statistics,
                           &plan->drops_mappings};
    for (size_t i = 0; cut_drops[i] != NULL; i++) {
        if (strcmp(text, cut_drops[i]) != 0) continue;
        *flags[i] = true;
        return PROGRAM_GO_ON;
    }
    return cli_usage_error(
        &cli_cut, "--drop takes stacks, addresses, statistics or mappings, not '%s'", text);
}

static const char *const cut_keeps[] = {"build-ids", "functions", NULL};
static const char *const cut_blurs[] = {"sizes", "times", NULL};

/* Sets the flag of one of two words. */
static int cut_word_take(const char *option, const char *const words[3], bool *const flags[2],
                         const char *text)
{
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *flags[i] = true;
        return PROGRAM_GO_ON;
    }
    return cli_usage_error(&cli_cut, "%s takes %s or %s, not '%s'", option, words[0], words[1],
                           text);
}

static int cut_keep_take(void *of, const char *text)
{
    struct anonymous *anonymous = &((struct cut_options *)of)->anonymous;
    bool *const flags[] = {&anonymous->keeps_build_ids, &anonymous->keeps_functions};
    return cut_word_take("--keep", cut_keeps, flags, text);
}

static int cut_blur_take(void *of, const char *text)
{
    struct anonymous *anonymous = &((struct cut_options *)of)->anonymous;
    bool *const flags[] = {&anonymous->blurs_sizes, &anonymous->blurs_times};
    return cut_word_take("--blur", cut_blurs, flags, text);
}

/* Whether anything is said about what the part is. */
static bool cut_is_part(const struct cut_plan *plan)
{
    return plan->from.unit != CUT_NOWHERE || plan->to.unit != CUT_NOWHERE ||
           plan->lanes.count > 0 || plan->sizes.count > 0 || plan->anonymous != NULL;
}

static bool cut_is_about_names(const struct anonymous *anonymous)
{
    return anonymous->keeps_build_ids || anonymous->keeps_functions || anonymous->blurs_sizes ||
           anonymous->blurs_times;
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int cut_words_parse(struct cut_options *options, int count, char **words)
{
    const struct program_option known[] = {{"from", .take = cut_from_take},
                                           {"to", .take = cut_to_take},
                                           {"lanes", .take = cut_lanes_take},
                                           {"sizes", .take = cut_sizes_take},
                                           {"code", .word = &options->code},
                                           {"drop", .take = cut_drop_take, .choices = cut_drops},
                                           {"moments", .count = &options->moments},
                                           {"minimize", .word = &options->minimize.what},
                                           {"thin", .count = &options->thin.divisor},
                                           {"time", .count = &options->minimize.limit_s},
                                           {"anonymous", .flag = &options->is_anonymous},
                                           {"keep", .take = cut_keep_take, .choices = cut_keeps},
                                           {"blur", .take = cut_blur_take, .choices = cut_blurs},
                                           {"output", 'o', .word = &options->output},
                                           {"quiet", 'q', .flag = &options->quiet},
                                           {.name = NULL}};
    struct cut_plan *plan = &options->plan;
    const int status =
        program_options(count, words, known, cut_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (optind + 1 != count) return cli_usage_error(&cli_cut, "cut takes one trace");
    if (options->output == NULL) return cli_usage_error(&cli_cut, "-o OUT is needed");
    options->trace = words[optind];
    if (options->is_anonymous) plan->anonymous = &options->anonymous;
    if (options->code != NULL && (options->minimize.what != NULL || options->thin.divisor > 0))
        return cli_usage_error(&cli_cut,
                               "--code goes with neither --minimize nor --thin: cut first");
    options->minimize.trace = options->trace;
    options->minimize.output = options->output;
    options->minimize.quiet = options->quiet;
    options->thin = (struct thin_options){options->trace, options->output, options->thin.divisor,
                                          options->quiet};
    if (options->thin.divisor > 0 && (cut_is_part(plan) || options->minimize.what != NULL))
        return cli_usage_error(&cli_cut, "--thin goes with no other choice: cut first, or after");
    if (options->minimize.what != NULL && cut_is_part(plan))
        return cli_usage_error(&cli_cut,
                               "--minimize goes with no other choice: cut first, or after");
    if (options->minimize.what == NULL && options->minimize.limit_s > 0)
        return cli_usage_error(&cli_cut, "--time needs --minimize");
    if (options->minimize.what != NULL && strcmp(options->output, "-") == 0)
        return cli_usage_error(&cli_cut, "--minimize needs a file, -o OUT");
    if (!options->is_anonymous && cut_is_about_names(&options->anonymous))
        return cli_usage_error(&cli_cut, "--keep and --blur need --anonymous");
    if (options->moments > BASE_MOMENTS_MAX)
        return cli_usage_error(&cli_cut, "--moments takes 0 to %u", BASE_MOMENTS_MAX);
    plan->moments = options->moments > 0 ? (unsigned)options->moments : CUT_NO_MOMENTS;
    if (plan->from.unit == plan->to.unit && plan->from.unit != CUT_NOWHERE &&
        plan->to.value <= plan->from.value)
        return cli_usage_error(&cli_cut, "--to is not after --from");
    return cli_spare_input(&cli_cut, &(struct cli_outputs){&options->output, 1}, options->trace);
}

/* ---- the work ---- */

static void cut_print(const struct cut_counts *counts)
{
    fprintf(stderr, "base: %" PRIu64 " objects, %.1f MiB, in %" PRIu64 " calls\n",
            counts->base_objects, (double)counts->base_bytes / MIB, counts->base_calls);
    fprintf(stderr, "part: %" PRIu64 " calls, after %" PRIu64 " calls and %.3f s\n", counts->calls,
            counts->before, (double)counts->before_ns / 1e9);
    if (counts->left_out > 0) fprintf(stderr, "left out: %" PRIu64 " calls\n", counts->left_out);
}

/* What --anonymous has left, in words. */
static void cut_print_left(const struct cut_options *options)
{
    const struct anonymous *anonymous = &options->anonymous;
    const struct cut_plan *plan = &options->plan;
    fprintf(stderr,
            "left: which calls, in which order, of which thread (numbered), %s sizes, alignments;\n"
            "      %s times since recording began, memory and processor time at ticks;\n"
            "      the allocator and its version, the architecture, libraries of C and C++\n",
            anonymous->blurs_sizes ? "rounded" : "exact",
            anonymous->blurs_times ? "rounded" : "exact");
    if (!plan->drops_addresses) fputs("      addresses of objects, if recorded\n", stderr);
    if (!plan->drops_statistics)
        fputs("      statistics of the allocator, if recorded, and their names\n", stderr);
    if (!plan->drops_mappings)
        fputs("      addresses and sizes of mappings, what was resident (files numbered)\n",
              stderr);
    if (plan->drops_stacks) return;
    fputs("      which call stacks are alike (codes numbered), if recorded\n", stderr);
    if (anonymous->keeps_build_ids) fputs("      build ids, and places in their files\n", stderr);
    if (anonymous->keeps_functions) fputs("      names of functions of interpreters\n", stderr);
}

/* Cuts what is open. Returns an exit status. */
static int cut_input(struct cut_options *options, struct input *input)
{
    struct cut_counts counts;
    char why[1024];
    const bool good =
        cut_stream_write(&options->plan, input, options->output, &counts, why, sizeof why);
    if (!good) return cli_fail(&cli_cut, "%s: %s", options->trace, why);
    if (!options->quiet) cut_print(&counts);
    if (options->is_anonymous && !options->quiet) cut_print_left(options);
    return counts.is_cut ? PROGRAM_CUT : PROGRAM_OK;
}

/* As the trace passes. */
static int cut_passing(struct cut_options *options)
{
    struct ordered ordered;
    struct error error = {0};
    if (!ordered_open(&ordered, options->trace, cli_cut.name, &error))
        return cli_data_error(&cli_cut, options->trace, &error);
    const int status = cut_input(options, ordered.input);
    const bool to_its_end = options->plan.to.unit == CUT_NOWHERE;
    const int ordering = ordered_close(&ordered, status != PROGRAM_FAILED && to_its_end);
    return status == PROGRAM_OK && to_its_end ? ordering : status;
}

/* By code: in a second pass over a file. */
static int cut_by_code(struct cut_options *options)
{
    struct process_directory directory;
    struct cut_code code = {.list = {.count = 0}};
    struct input input;
    char ordered[PATH_MAX], why[1024];
    int status = PROGRAM_FAILED;
    if (!process_directory_open(&directory))
        return cli_fail(&cli_cut, "cannot make a directory in $TMPDIR or /tmp: %s",
                        strerror(errno));
    if (!ordered_file_prepare(&directory, options->trace, ordered, sizeof ordered, why,
                              sizeof why) ||
        !cut_code_open(&code, ordered, options->code, why, sizeof why)) {
        cli_fail(&cli_cut, "%s: %s", options->trace, why);
    } else if (input_open(&input, ordered)) {
        options->plan.code = &code;
        status = cut_input(options, &input);
        input_close(&input);
    } else {
        cli_data_error(&cli_cut, options->trace, &input.error);
    }
    cut_code_close(&code);
    process_directory_close(&directory);
    return status;
}

/* What `compare` would see in what was resident, for a trace that will not have that, or no names: up to
 * the first look, of a file. */
static char *cut_linked(const char *path)
{
    struct instruction_reader reader;
    struct instruction_batch batch;
    struct ordered ordered;
    struct others others;
    struct error error = {0};
    struct stat about;
    char *line = NULL;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) ||
        !ordered_open(&ordered, path, cli_cut.name, &error))
        return NULL;
    instruction_reader_open(&reader, ordered.input);
    struct others_reading *const reading = others_begin(&others, &reader, "");
    instruction_reader_use_indices(&reader);
    while (reading != NULL && others.count == 0 && instruction_reader_next(&reader, &batch))
        ;
    if (reading != NULL && others_end(reading)) line = linked_line(&others);
    others_free(&others);
    instruction_reader_close(&reader);
    ordered_close(&ordered, false);
    return line;
}

static int cut_run(int count, char **words)
{
    struct cut_options options = {.trace = NULL, .moments = BASE_MOMENTS_MAX};
    int status = cut_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    if (options.minimize.what != NULL) return minimize_run(&options.minimize);
    if (options.thin.divisor > 0) return thin_run(&options.thin);
    if (options.is_anonymous || options.plan.drops_mappings)
        options.plan.linked = cut_linked(options.trace);
    status = options.code != NULL ? cut_by_code(&options) : cut_passing(&options);
    free(options.plan.linked);
    anonymous_close(&options.anonymous);
    return status;
}

const struct cli_command cli_cut = {"cut", "writes a part of a trace, as a trace", cut_run,
                                    cut_help_text};
