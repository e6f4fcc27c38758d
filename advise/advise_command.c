/* malloctape advise - which changes of code gain most, tried by replays. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advise/advise_text.h"
#include "cli/cli.h"
#include "common/progress.h"
#include "launch/installed.h"
#include "reading/ordered_file.h"
#include "stream/metadata.h"

static const char advise_help_text[] =
    "usage: malloctape advise TRACE [OPTION]...\n"
    "\n"
    "Says which changes of the program's code would gain most in memory, calls and time: leaks,\n"
    "objects that come in pairs or are soon gone, containers that grow, sizes just above a class,\n"
    "objects that end together, that are of one size, or that live long among others. Each is tried:\n"
    "the trace is changed (malloctape help change) and replayed, under the recorded allocator.\n"
    "At most 40 are tried, long traces in parts at first; the ten best are shown, and those that\n"
    "look good by sums of bytes, but are not. TRACE needs the call stacks of all calls:\n"
    "malloctape record --stacks=all.\n"
    "\n"
    "  -a, --allocator NAME  replays under this one (malloctape help compare) in place of the recorded\n"
    "      --html FILE       writes a page with the curves of the program as it is, and with each of\n"
    "                        the ten: malloctape compare --what-if, which replays them again\n"
    "  -j, --json FILE       writes all that were tried as JSON; - is the standard output, in place\n"
    "                        of the text\n"
    "      --symbols DIR     where files of programs and libraries are looked for, by build id or\n"
    "                        name, to name functions; may be given several times; none: nowhere\n"
    "      --skip REGEX      functions that match, or whose file does, allocate for their callers\n"
    "\n"
    "  malloctape advise server.raw.lz4 --skip '^xmalloc$'\n"
    "\n"
    "The exit status is 0, 3 when the trace was cut short, 1 when it is damaged or cannot be replayed,\n"
    "2 for a mistake on the command line.\n";

struct advise_options {
    const char *trace, *json, *html, *allocator;
    struct change_places places;
    const char *skip;
};

struct advising {
    const struct advise_options *options;
    struct process_directory directory;
    char ordered[PATH_MAX];
    struct change_trace trace;
    struct survey survey;
    struct groups groups;
    struct candidates candidates;
    struct allocator_found allocator;
    struct recorded_settings settings;
    struct trials trials;
    char *recorded; /* the allocator, as the recording calls it */
    bool is_cut;    /* the trace is */
};

static int advise_symbols_take(void *of, const char *directory)
{
    struct advise_options *options = of;
    char why[256];
    if (change_places_add(&options->places, directory, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_advise, "--symbols: %s", why);
}

static int advise_skip_take(void *of, const char *regex)
{
    struct advise_options *options = of;
    char why[256];
    options->skip = regex;
    if (change_places_skip(&options->places, regex, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_advise, "--skip: %s", why);
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int advise_words_parse(struct advise_options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"symbols", .take = advise_symbols_take},
        {"skip", .take = advise_skip_take},
        {"allocator", 'a', .word = &options->allocator, .values = allocators_offer},
        {"html", .word = &options->html},
        {"json", 'j', .word = &options->json},
        {.name = NULL}};
    const int status =
        program_options(count, words, known, advise_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    if (optind + 1 != count) return cli_usage_error(&cli_advise, "advise takes one trace");
    if (options->allocator != NULL && !allocators_know(options->allocator))
        return cli_usage_error(&cli_advise,
                               "there is no allocator '%s'; a library is named by its path",
                               options->allocator);
    options->trace = options->places.trace = words[optind];
    const char *const outputs[] = {options->html, options->json};
    return cli_spare_input(&cli_advise, &(struct cli_outputs){outputs, 2}, options->trace);
}

/* ---- what is needed to replay ---- */

static bool advise_read_header(struct advising *advising, char *why, size_t why_bytes)
{
    struct instruction_reader reader;
    struct input input;
    bool good = change_trace_read(&advising->trace, &reader, &input, NULL, NULL);
    if (!good) {
        error_text(&reader.error, why, why_bytes);
    } else {
        advising->recorded =
            metadata_copy(reader.header.metadata, reader.header.metadata_bytes, "allocator");
        good = advising->recorded != NULL &&
               recorded_settings_take(&advising->settings, reader.header.metadata);
        if (!good) error_explain(why, why_bytes, "no memory");
    }
    instruction_reader_close(&reader);
    input_close(&input);
    return good;
}

static bool advise_find_allocator(struct advising *advising, char *why, size_t why_bytes)
{
    const char *asked = advising->options->allocator,
               *recorded = allocators_name_recorded(advising->recorded);
    const char *name = asked != NULL ? asked : recorded;
    if (name == NULL)
        return error_explain(why, why_bytes,
                             "the recorded allocator is not known here: name one with --allocator");
    if (asked != NULL) recorded_settings_free(&advising->settings);
    return allocators_find(&advising->allocator, name) ||
           error_explain(why, why_bytes, "%s: %s", name, advising->allocator.why);
}

static const struct allocator_facts *advise_facts(const struct advising *advising)
{
    const struct known_allocator *known = advising->allocator.known;
    for (unsigned i = 0; known != NULL && i < ALLOCATORS; i++)
        if (strcmp(allocator_facts[i]->name, known->name) == 0) return allocator_facts[i];
    return NULL;
}

static bool advise_needs_stacks(const struct advising *advising, char *why, size_t why_bytes)
{
    if (advising->trace.has_stacks && !advising->trace.is_sampled) return true;
    return error_explain(why, why_bytes,
                         "advise needs the call stacks of all calls, and the trace has %s: "
                         "malloctape record --stacks=all",
                         advising->trace.has_stacks ? "those of samples" : "none");
}

/* ---- the whole ---- */

static bool advise_find_candidates(struct advising *advising, char *why, size_t why_bytes)
{
    const struct candidates_of of = {&advising->survey, &advising->groups, &advising->trace.names,
                                     advise_facts(advising)};
    progress_text("looking for what may be worth a change");
    if (!survey_read(&advising->survey, &advising->trace, why, why_bytes)) return false;
    return (groups_make(&advising->groups, &advising->survey, &advising->trace.names) &&
            candidates_find(&advising->candidates, &of)) ||
           error_explain(why, why_bytes, "no memory");
}

static bool advise_try(struct advising *advising, char *why, size_t why_bytes)
{
    struct trials *trials = &advising->trials;
    trials->directory = &advising->directory;
    trials->ordered = advising->ordered;
    trials->trace = &advising->trace;
    trials->allocator = &advising->allocator;
    trials->settings = &advising->settings;
    if (advising->options->allocator == NULL) trials->recorded = advising->recorded;
    trials->calls = advising->survey.calls;
    advising->is_cut = advising->survey.is_cut;
    survey_free(&advising->survey);
    groups_free(&advising->groups);
    return trials_run(trials, &advising->candidates, why, why_bytes);
}

static bool advise_all(struct advising *advising, char *why, size_t why_bytes)
{
    progress_text("reading the trace");
    return ordered_file_prepare(&advising->directory, advising->options->trace, advising->ordered,
                                sizeof advising->ordered, why, why_bytes) &&
           change_trace_open(&advising->trace, advising->ordered, &advising->options->places, why,
                             why_bytes) &&
           advise_needs_stacks(advising, why, why_bytes) &&
           advise_read_header(advising, why, why_bytes) &&
           advise_find_allocator(advising, why, why_bytes) &&
           advise_find_candidates(advising, why, why_bytes) && advise_try(advising, why, why_bytes);
}

/* The page: that of compare, for the changes that gain. */
static bool advise_write_page(const struct advising *advising, char *why, size_t why_bytes)
{
    enum { OWN_WORDS = 16 };
    const struct advise_options *options = advising->options;
    const struct trial *best[ADVICE_SHOWN];
    const size_t count = advise_best(&advising->trials, best);
    const char *words[OWN_WORDS + 2 * ADVICE_SHOWN + 2 * CHANGE_DIRECTORIES_MAX];
    size_t at = 0;
    struct installed installed;
    if (!installed_find_program(&installed, "malloctape"))
        return error_explain(why, why_bytes, "%s not found", installed.path);
    const char *first[] = {"malloctape",   "compare", options->trace, "--runs=3",
                           "--no-latency", "--html",  options->html};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        words[at++] = first[i];
    if (options->allocator != NULL) words[at++] = "--allocators", words[at++] = options->allocator;
    if (options->skip != NULL) words[at++] = "--skip", words[at++] = options->skip;
    for (size_t i = 0; i < options->places.count; i++)
        words[at++] = "--symbols", words[at++] = options->places.directories[i];
    for (size_t i = 0; i < count; i++)
        words[at++] = "--what-if", words[at++] = best[i]->candidate->text;
    words[at] = NULL;
    const struct process process = {
        .path = installed.path, .words = (char *const *)words, .input = -1};
    progress_text("replaying for the page");
    return process_run(&process, true, why, why_bytes);
}

static int advise_write(struct advising *advising)
{
    const struct advise_options *options = advising->options;
    char why[1024];
    if (options->json == NULL || strcmp(options->json, "-") != 0)
        advise_print(&advising->trials, options->trace, stdout);
    fflush(stdout);
    if (options->json != NULL &&
        !cli_write_json(&cli_advise, advise_json(&advising->trials, options->trace), options->json))
        return PROGRAM_FAILED;
    if (options->html != NULL && !advise_write_page(advising, why, sizeof why)) {
        progress_text("");
        return cli_fail(&cli_advise, "no page: %s", why);
    }
    progress_text("");
    return advising->is_cut ? PROGRAM_CUT : PROGRAM_OK;
}

static void advising_close(struct advising *advising)
{
    trials_close(&advising->trials);
    candidates_free(&advising->candidates);
    groups_free(&advising->groups);
    survey_free(&advising->survey);
    change_trace_close(&advising->trace);
    recorded_settings_free(&advising->settings);
    free(advising->recorded);
    process_directory_close(&advising->directory);
}

static int advise_trace(const struct advise_options *options)
{
    static struct advising advising;
    char why[1024];
    int status;
    const char *const outputs[] = {options->html, options->json};
    advising = (struct advising){.options = options};
    if (!cli_can_write(&cli_advise, &(struct cli_outputs){outputs, 2})) return PROGRAM_FAILED;
    if (!process_directory_open(&advising.directory))
        return cli_fail(&cli_advise, "cannot make a directory in $TMPDIR or /tmp: %s",
                        strerror(errno));
    const bool good = advise_all(&advising, why, sizeof why);
    progress_text("");
    if (good)
        status = advise_write(&advising);
    else
        status = process_interrupted() ? PROGRAM_FAILED
                                       : cli_fail(&cli_advise, "%s: %s", options->trace, why);
    advising_close(&advising);
    return status;
}

static int advise_run(int count, char **words)
{
    struct advise_options options = {.trace = NULL};
    int status = advise_words_parse(&options, count, words);
    if (status == PROGRAM_GO_ON) status = advise_trace(&options);
    change_places_free(&options.places);
    return status;
}

const struct cli_command cli_advise = {"advise",
                                       "says which changes of a program's code would gain most",
                                       advise_run, advise_help_text};
