/* malloctape compare - replays a trace under several allocators; shows the results side by side. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/progress.h"
#include "compare/across.h"
#include "compare/compare_html.h"
#include "compare/compare_json.h"
#include "compare/compare_run.h"
#include "compare/compare_table.h"
#include "compare/compare_warnings.h"
#include "compare/contention.h"
#include "compare/expected.h"
#include "compare/library.h"
#include "compare/machine.h"
#include "compare/page_table.h"
#include "compare/recorded.h"
#include "compare/tune.h"
#include "compare/untouched.h"
#include "compare/verdict.h"
#include "compare/what_if.h"
#include "cut/thin.h"
#include "launch/installed.h"
#include "reading/linked.h"
#include "reading/ordered_file.h"

enum { ROUNDS_DEFAULT = 5, ROUNDS_MAX = 1000 };

#define ALLOCATOR_HELP(name, where, files, package, no_switching, help) \
    "                           " name ": " help "\n"
#define ALLOCATORS_HELP KNOWN_ALLOCATOR_LIST(ALLOCATOR_HELP)

static const char compare_help_text[] =
    "usage: malloctape compare TRACE... [OPTION]... [-- OPTION-OF-REPLAY...]\n"
    "\n"
    "Replays TRACE, a recording or an instruction stream, under several allocators, several times\n"
    "each, prints a table for memory and one for time, best first, and says which is best. Of\n"
    "several recordings of one program, it says what holds for all, and how sure that is.\n"
    "\n"
    "  -a, --allocators LIST  which, comma-separated (default: all installed):\n" ALLOCATORS_HELP
    "                           glibc:/DIR/libc.so.6: malloc of another glibc\n"
    "                           a path, or a file name with .so: another library\n"
    "                         ALLOCATOR:NAME=VALUE;NAME=VALUE sets environment variables for that\n"
    "                         one alone; a comma, semicolon or backslash in a value has a\n"
    "                         backslash before it\n"
    "      --what-if CHANGE   also replays the trace as it would be with changed code, such as\n"
    "                         'parse_json: remove', 'Cache::insert: until=60s', 'Row: size=-8',\n"
    "                         'append: reserve' (malloctape help change): under LIST, or the recorded\n"
    "                         allocator alone; may be given several times\n"
    "      --symbols DIR      for --what-if: where programs and libraries are looked for\n"
    "      --skip REGEX       for --what-if: functions that allocate for their callers\n"
    "      --tune             also tries settings of each allocator\n"
    "      --thp LIST         also tries each with transparent huge pages always, madvise (where\n"
    "                         it asks for them) or never\n"
    "  -e, --engine ENGINE    how to replay, see malloctape help replay (default: threads if more\n"
    "                         than one thread makes a call in 1000 or more, else switch)\n"
    "  -r, --runs N           how often under each allocator (default: 5)\n"
    "  -s, --sort BY          memory or time: sorts both tables by it (default: the first by\n"
    "                         memory, the second by time)\n"
    "      --no-latency       does not time single calls, which takes further replays\n"
    "      --no-series        leaves the curves over time, the bulk of the JSON, out of it\n"
    "      --time-limit SEC   stop a replay that takes longer (default: a minute and 200 times\n"
    "                         what a replay without an allocator takes); 0: never\n"
    "      --json FILE        write every number as JSON; - is the standard output, without the\n"
    "                         table\n"
    "      --html FILE        write a page with charts, for any browser (of one trace)\n"
    "\n"
    "  malloctape compare server.raw.lz4 --html server.html --allocators \\\n"
    "      'tcmalloc,jemalloc,jemalloc:MALLOC_CONF=background_thread:true\\,narenas:1'\n"
    "\n"
    "The exit status is 0 when all went well, 1 when something failed, even one allocator, 2 for\n"
    "a mistake on the command line, 3 when the trace had been cut short, 5 when a signal from\n"
    "outside ended replays of an allocator, three times: another try may succeed.\n";

/* ---- the command line ---- */

static int word_list_add(void *of, const char *text)
{
    struct compare_options *options = of;
    char why[256];
    if (!compare_list_add(&options->list, text, why, sizeof why))
        return cli_usage_error(&cli_compare, "--allocators: %s", why);
    for (size_t i = 0; i < options->list.count; i++) {
        const char *name = options->list.entries[i].allocator;
        if (!allocators_know(name))
            return cli_usage_error(
                &cli_compare, "there is no allocator '%s'; a library is named by its path", name);
    }
    return PROGRAM_GO_ON;
}

/* Adds all installed allocators except `none`. */
static int list_add_installed(struct compare_options *options)
{
    struct allocator_found found;
    int status = PROGRAM_GO_ON;
    for (const struct known_allocator *known = known_allocators; known->name != NULL; known++)
        if (status == PROGRAM_GO_ON && known->where != ALLOCATOR_NOTHING &&
            allocators_find(&found, known->name))
            status = word_list_add(options, known->name);
    return status;
}

static int rounds_parse(void *of, const char *text)
{
    struct compare_options *options = of;
    char *end;
    const long rounds = strtol(text, &end, 10);
    options->rounds = (unsigned)rounds;
    if (*text != '\0' && *end == '\0' && rounds >= 1 && rounds <= ROUNDS_MAX) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_compare, "--runs: '%s' is not a number from 1 to %d", text,
                           ROUNDS_MAX);
}

static int limit_parse(void *of, const char *text)
{
    struct compare_options *options = of;
    char *end;
    options->limit_s = strtod(text, &end);
    if (end != text && *end == '\0' && options->limit_s >= 0 && isfinite(options->limit_s))
        return PROGRAM_GO_ON;
    return cli_usage_error(&cli_compare, "--time-limit: '%s' is not a number of seconds", text);
}

static int what_if_take(void *of, const char *text)
{
    static struct change_list all[COMPARE_WHAT_IFS_MAX];
    struct compare_options *options = of;
    char why[512];
    options->what_ifs = all;
    if (options->what_ifs_count == COMPARE_WHAT_IFS_MAX)
        return cli_usage_error(&cli_compare, "--what-if: more than %d", COMPARE_WHAT_IFS_MAX);
    if (!change_list_parse(&all[options->what_ifs_count++], text, why, sizeof why))
        return cli_usage_error(&cli_compare, "--what-if: %s", why);
    return PROGRAM_GO_ON;
}

static struct change_places compare_places;

static int compare_symbols_take(void *of, const char *directory)
{
    char why[256];
    (void)of;
    if (change_places_add(&compare_places, directory, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_compare, "--symbols: %s", why);
}

static int compare_skip_take(void *of, const char *regex)
{
    char why[256];
    (void)of;
    if (change_places_skip(&compare_places, regex, why, sizeof why)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_compare, "--skip: %s", why);
}

/* Those of replay. */
static const char *const compare_engines[] = {"auto", "switch", "threads", "null", NULL};

static int compare_engine_take(void *of, const char *name)
{
    ((struct compare_options *)of)->engine = name;
    for (size_t i = 0; compare_engines[i] != NULL; i++)
        if (strcmp(name, compare_engines[i]) == 0) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_compare, "--engine: there is no engine '%s'", name);
}

/* Fills in the default list if there is none, and adds settings. Returns PROGRAM_GO_ON or an exit
 * status. */
static int list_complete(struct compare_options *options)
{
    char why[256];
    options->list_is_default = options->list.count == 0;
    const bool wants_installed = options->list_is_default && options->what_ifs_count == 0;
    if (options->tune && options->list_is_default && !wants_installed)
        return cli_usage_error(&cli_compare, "--tune with --what-if needs --allocators");
    const int status = wants_installed ? list_add_installed(options) : PROGRAM_GO_ON;
    if (status == PROGRAM_GO_ON && options->tune && !compare_tune(&options->list, why, sizeof why))
        return cli_usage_error(&cli_compare, "--tune: %s", why);
    if (status == PROGRAM_GO_ON && options->thp != NULL &&
        !compare_vary_huge_pages(&options->list, options->thp, why, sizeof why))
        return cli_usage_error(&cli_compare, "--thp: %s", why);
    return status;
}

/* Parses words that are not options: traces and, after "--", options of replay. Returns
 * PROGRAM_GO_ON or an exit status. */
static int compare_traces_parse(struct compare_options *options, char **words)
{
    if (words[0] == NULL) return cli_usage_error(&cli_compare, "which trace?");
    do {
        if (options->traces_count == COMPARE_RECORDINGS_MAX)
            return cli_usage_error(&cli_compare, "at most %d traces can be compared",
                                   COMPARE_RECORDINGS_MAX);
        options->traces[options->traces_count++] = *words++;
    } while (*words != NULL && **words != '-');
    options->trace = options->traces[0];
    options->places = &compare_places;
    options->replay_words = words; /* after "--" */
    if (options->traces_count > 1 && options->html != NULL)
        return cli_usage_error(&cli_compare, "--html takes one trace");
    return list_complete(options);
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int compare_words_parse(struct compare_options *options, int count, char **words)
{
    static const char *const measures[] = {
        [COMPARE_MEMORY] = "memory", [COMPARE_TIME] = "time", [COMPARE_MEASURES] = NULL};
    const struct program_option known[] = {
        {"allocators", 'a', .take = word_list_add, .values = allocators_offer},
        {"engine", 'e', .take = compare_engine_take, .choices = compare_engines},
        {"what-if", .take = what_if_take},
        {"symbols", .take = compare_symbols_take},
        {"skip", .take = compare_skip_take},
        {"tune", .flag = &options->tune},
        {"thp", .word = &options->thp, .choices = compare_huge_pages},
        {"no-latency", .flag = &options->no_latency},
        {"no-series", .flag = &options->no_series},
        {"runs", 'r', .take = rounds_parse},
        {"sort", 's', .choice = &options->sort, .choices = measures},
        {"json", .word = &options->json},
        {"html", .word = &options->html},
        {"time-limit", .take = limit_parse},
        {.name = NULL}};
    options->rounds = ROUNDS_DEFAULT;
    options->limit_s = -1;
    options->sort = COMPARE_MEASURES;
    const int status =
        program_options(count, words, known, compare_help_text, PROGRAM_ANYWHERE, options);
    if (status != PROGRAM_GO_ON) return status;
    words += optind;
    if (options->html != NULL && strcmp(options->html, "-") == 0)
        return cli_usage_error(&cli_compare, "--html needs a file; it cannot write to the "
                                             "standard output");
    return compare_traces_parse(options, words);
}

/* ---- rows ---- */

/* Makes a row for each entry, with room for one more (compare/recorded.h), and for those of changes. */
static bool rows_open(struct compare *compare)
{
    const struct compare_list *list = &compare->options.list;
    compare->rows =
        calloc(list->count + 1 + compare_what_if_rows(&compare->options), sizeof *compare->rows);
    if (compare->rows == NULL) return false;
    for (; compare->rows_count < list->count; compare->rows_count++)
        compare_row_open(&compare->rows[compare->rows_count], &list->entries[compare->rows_count]);
    return true;
}

static bool is_switching(const struct compare *compare)
{
    const json_t *switches = json_object_get(compare->null_report, "thread_switches");
    return strcmp(compare_engine(compare), "threads") != 0 && json_integer_value(switches) > 0;
}

/* Drops the rows without cache switching if there are no thread caches to switch: they would be the
 * same as others. */
static void rows_drop_no_switching(struct compare *compare)
{
    size_t kept = 0;
    if (!compare->options.list_is_default || is_switching(compare)) return;
    for (size_t i = 0; i < compare->rows_count; i++) {
        struct compare_row *row = &compare->rows[i];
        if (row->found.known != NULL && row->found.known->no_switching) {
            json_decref(row->reports);
            json_decref(row->timed);
        } else if (kept++ != i) {
            compare->rows[kept - 1] = *row;
        }
    }
    compare->rows_count = kept;
}

static void row_close(struct compare_row *row)
{
    json_decref(row->reports);
    json_decref(row->timed);
    json_decref(row->series);
}

static void rows_close(struct compare *compare)
{
    for (size_t i = 0; i < compare->rows_count + compare->rows_hidden; i++)
        row_close(&compare->rows[i]);
    row_close(&compare->uncleared);
    free(compare->rows);
    compare_recorded_close(compare);
    others_free(&compare->others);
    free(compare->program_has);
    compare_what_if_close(compare);
}

/* ---- from trace to numbers ---- */

static bool replay_find(struct compare *compare)
{
    struct installed installed;
    bool there = installed_find_program(&installed, COMPARE_REPLAY);
    memcpy(compare->replay, installed.path, sizeof compare->replay);
    if (!there) cli_fail(&cli_compare, "%s not found", installed.path);
    return there;
}

/* The trace as a file of instructions; of one that is thinned (cut --thin), what it stands for. */
static bool measure_prepare(struct compare *compare, char *why, size_t why_bytes)
{
    char expanded[PROCESS_PATH_BYTES];
    if (!ordered_file_prepare(&compare->directory, compare->options.trace, compare->ordered,
                              sizeof compare->ordered, why, why_bytes))
        return false;
    process_directory_path(&compare->directory, "expanded", expanded, sizeof expanded);
    if (!thin_is(compare->ordered)) return true;
    if (!thin_expand(compare->ordered, expanded, why, why_bytes)) return false;
    snprintf(compare->ordered, sizeof compare->ordered, "%s", expanded);
    return true;
}

/* What the recorded process had besides its allocator. False: no memory. */
static bool others_find(struct compare *compare)
{
    const char *allocator =
        json_string_value(json_object_get(compare->null_report, "recorded_allocator"));
    if (!others_read(&compare->others, compare->ordered, allocator != NULL ? allocator : ""))
        return false;
    compare->program_has = linked_list(&compare->others);
    return true;
}

/* Returns an exit status; what is wrong has been printed. */
static int measure(struct compare *compare)
{
    const char *trace = compare->options.trace;
    char why[1024];
    progress_text("reading the trace");
    if (!measure_prepare(compare, why, sizeof why) || !compare_run_null(compare, why, sizeof why)) {
        progress_text("");
        return process_interrupted() ? PROGRAM_FAILED
                                     : cli_fail(&cli_compare, "%s: %s", trace, why);
    }
    rows_drop_no_switching(compare);
    if (!compare_recorded_find(compare)) return cli_fail(&cli_compare, "no memory");
    if (!compare_what_if_open(compare, why, sizeof why)) {
        progress_text("");
        return process_interrupted() ? PROGRAM_FAILED
                                     : cli_fail(&cli_compare, "%s: %s", trace, why);
    }
    compare->lane_peaks_bytes = NAN;
    if (contention_is_possible(compare) && !compare_run_lane_peaks(compare, why, sizeof why))
        return process_interrupted() ? PROGRAM_FAILED
                                     : cli_fail(&cli_compare, "%s: %s", trace, why);
    if (!others_find(compare))
        return cli_fail(&cli_compare, "%s: no memory for what was resident", trace);
    compare_run_rows(compare);
    compare_recorded_hide(compare);
    compare_run_uncleared(compare);
    compare_page_table_correct(compare);
    compare_untouched_correct(compare);
    progress_text("");
    compare_expect(compare);
    contention_widen(compare);
    return process_interrupted() ? PROGRAM_FAILED : PROGRAM_OK;
}

/* ---- output ---- */

static bool write_html(const struct compare *compare, const char *path)
{
    char why[512];
    bool done = compare_html_write(compare, path, why, sizeof why);
    if (!done) cli_fail(&cli_compare, "no page: %s", why);
    return done;
}

static bool compare_is_complete(const struct compare *compare)
{
    for (size_t i = 0; i < compare->rows_count; i++)
        if (*compare->rows[i].why != '\0') return false;
    return true;
}

/* Whether the signal is one that a program causes itself, by a mistake that it would make again. */
static bool is_own_mistake(int number)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] == number) return true;
    return false;
}

/* Tells which rows a signal from outside has ended. Returns PROGRAM_OK if there are none. */
static int tell_killed(const struct compare *compare)
{
    int status = PROGRAM_OK;
    for (size_t i = 0; i < compare->rows_count; i++) {
        const struct compare_row *row = &compare->rows[i];
        if (row->end.signal == 0 || is_own_mistake(row->end.signal)) continue;
        cli_fail(&cli_compare, "%s: %s, also when it was tried again", row->label, row->why);
        status = PROGRAM_KILLED;
    }
    return status;
}

/* Writes the results of one trace, or of several together. Returns an exit status. */
static int compare_write_results(const struct compare *all)
{
    const struct compare_options *options = &all->options;
    const unsigned count = options->traces_count;
    bool good = true, whole = true, written = true;
    int status = PROGRAM_OK;
    for (unsigned i = 0; i < count; i++) {
        good = good && compare_is_complete(&all[i]);
        whole = whole && compare_is_whole(&all[i]);
    }
    if (options->json == NULL || strcmp(options->json, "-") != 0)
        count > 1 ? across_print(all, count, stdout) : compare_table_print(all, stdout);
    if (options->json != NULL)
        written = cli_write_json(
            &cli_compare, count > 1 ? across_json(all, count, true) : compare_json(all, true),
            options->json);
    if (options->html != NULL) written = write_html(all, options->html) && written;
    fflush(stdout);
    for (unsigned i = 0; i < count && written && status == PROGRAM_OK; i++)
        status = tell_killed(&all[i]);
    if (status != PROGRAM_OK) return status;
    if (!good || !written) return PROGRAM_FAILED;
    return whole ? PROGRAM_OK : PROGRAM_CUT;
}

/* Gets all numbers of one trace. Returns an exit status; errors have been printed. */
static int compare_trace(struct compare *compare)
{
    if (!replay_find(compare)) return PROGRAM_FAILED;
    compare->machine = machine_json();
    if (!process_directory_open(&compare->directory))
        return cli_fail(&cli_compare, "cannot make a directory in $TMPDIR or /tmp: %s",
                        strerror(errno));
    const bool opened = rows_open(compare), measured = opened && measure(compare) == PROGRAM_OK;
    process_directory_close(&compare->directory);
    const bool ranked = measured && compare_rank_rows(compare);
    if (!opened || (measured && !ranked)) return cli_fail(&cli_compare, "no memory");
    return ranked ? PROGRAM_OK : PROGRAM_FAILED;
}

static int compare_all(struct compare *all, const struct compare_options *options)
{
    const char *const paths[] = {options->html, options->json};
    const struct cli_outputs outputs = {paths, 2};
    int status = PROGRAM_GO_ON;
    for (unsigned i = 0; i < options->traces_count && status == PROGRAM_GO_ON; i++)
        status = cli_spare_input(&cli_compare, &outputs, options->traces[i]);
    if (status != PROGRAM_GO_ON) return status;
    status = cli_can_write(&cli_compare, &outputs) ? PROGRAM_OK : PROGRAM_FAILED;
    for (unsigned i = 0; i < options->traces_count; i++) {
        all[i].options = *options;
        all[i].options.trace = compare_places.trace = options->traces[i];
        if (status == PROGRAM_OK) status = compare_trace(&all[i]);
    }
    if (status == PROGRAM_OK) status = compare_write_results(all);
    for (unsigned i = 0; i < options->traces_count; i++) {
        compare_rank_end(&all[i]);
        rows_close(&all[i]);
        json_decref(all[i].null_report);
        json_decref(all[i].machine);
    }
    return status;
}

static int compare_command_run(int count, char **words)
{
    static struct compare all[COMPARE_RECORDINGS_MAX];
    static struct compare_options options;
    int status = compare_words_parse(&options, count, words);
    if (status == PROGRAM_GO_ON) status = compare_all(all, &options);
    compare_list_free(&options.list);
    change_places_free(&compare_places);
    for (unsigned i = 0; i < options.what_ifs_count; i++)
        change_list_free((struct change_list *)&options.what_ifs[i]);
    return status;
}

const struct cli_command cli_compare = {
    "compare", "replays a trace under several allocators and compares them", compare_command_run,
    compare_help_text};
