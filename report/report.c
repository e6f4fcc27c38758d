/* malloctape report - what a program asks of its allocator, and what holds its memory. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "report/by_code_source.h"
#include "report/change.h"
#include "report/interactive.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "report/text.h"
#include "report/time_word.h"
#include "report/under.h"
#include "report/words.h"

static const char report_help_text[] =
    "usage: malloctape report TRACE [OPTION]...\n"
    "       malloctape report BEFORE AFTER [OPTION]...\n"
    "\n"
    "Reads a trace (a recording or an instruction stream) and says what the program asked of its\n"
    "allocator and what held its memory; '-' is the standard input. Of two traces it says what\n"
    "changed.\n"
    "\n"
    "  -i, --interactive    of a trace with call stacks: tables and trees by code on the terminal, by\n"
    "                       any number, of any stretch of time\n"
    "      --json FILE      write every number as JSON; - is the standard output, without text\n"
    "      --html FILE      write a page with charts, for any browser\n"
    "      --call-sizes FILE\n"
    "                       write the size that each call asks for, one a line (of one trace)\n"
    "      --depths         of a recording on malloctape's tcmalloc, in a file: how many calls were\n"
    "                       served by the thread cache, a central list, the page heap, the system;\n"
    "                       waits for locks; which calls took memory from the system\n"
    "      --under[=ALLOCATOR]\n"
    "                       replay the trace under tcmalloc, glibc, jemalloc, mimalloc or a\n"
    "                       library (default: the recorded one), and say which objects keep its\n"
    "                       pages resident\n"
    "      --by WHAT        of a trace with call stacks: which code allocates, by function, line,\n"
    "                       file, module or stack, in tables of 20 rows\n"
    "      --source FUNCTION\n"
    "                       the source of the function, with numbers beside its lines\n"
    "      --sort HOW       tables of code by what a row makes itself (own) or with what it calls\n"
    "                       (total)\n"
    "      --top N          rows of each table of code\n"
    "      --focus REGEX    only call stacks with a function or a file that matches\n"
    "      --ignore REGEX   without call stacks with a function or a file that matches\n"
    "      --skip REGEX     functions that match, or whose file does, count for their caller, as do\n"
    "                       those of standard libraries and in headers of the system\n"
    "      --from T         what code allocated and freed from this time on, and what grew: seconds\n"
    "                       since recording began, or with a unit (1.5s, 300ms, 2min)\n"
    "      --to T           the same until this time\n"
    "      --suppressions FILE\n"
    "                       patterns of call stacks whose objects are known to stay until the end, as\n"
    "                       LeakSanitizer has them; may be given several times; none: shows also what\n"
    "                       libstdc++ and the loader keep\n"
    "      --frames WHICH   of call stacks with functions of an interpreter (Python, Ruby): all\n"
    "                       (without those of the interpreter between them), interpreted, or\n"
    "                       native\n"
    "      --depth N        counts call stacks with the same N innermost functions as one\n"
    "      --symbols DIR    to name functions, looks for programs and libraries in this directory,\n"
    "                       too, by build id or name; may be given several times; none: reads no\n"
    "                       file\n"
    "      --fail-if LIMIT  exits with status 6 if it holds: 'peak_live>100MiB', 'objects<1'; of two\n"
    "                       traces also 'calls>+5%', 'calls<+1000'; of a function, with what it\n"
    "                       calls, 'bytes@NAME>+5%'; may be given several times. report.md has the\n"
    "                       names of the numbers; for an unknown name, all are listed\n"
    "\n"
    "The exit status is 0 when all went well, 1 when something failed or a trace does not have the\n"
    "number of a limit, 2 for a mistake on the command line, 3 when a trace had been cut short, 6\n"
    "when a limit is broken.\n";

enum { TRACES_MAX = 2, LIMITS_MAX = 32, DIRECTORIES_MAX = 16, DEPTH_MAX = 1000, TOP_MAX = 5000 };

struct options {
    char **words; /* the command line */
    const char *paths[TRACES_MAX];
    unsigned traces;
    const char *json, *html, *call_sizes; /* NULL: none */
    bool is_under, is_interactive;
    const char *source;     /* a function; NULL: none */
    const char *under;      /* NULL: the recorded allocator */
    const char *under_word; /* the word after --under, an allocator or a trace; or NULL */
    struct report_limit limits[LIMITS_MAX];
    unsigned limits_count;
    bool depths;
    struct by_code_options code;
    regex_t focus, ignore, skip;
    bool is_sort_given;
    const char *symbols[DIRECTORIES_MAX];
    struct suppressions suppressions;
    bool all_is_shown; /* --suppressions none */
};

/* ---- the command line ---- */

static int by_take(void *of, const char *what)
{
    struct options *options = of;
    options->code.is_by_given = true;
    for (unsigned by = CODE_BY_FUNCTION; by <= CODE_BY_STACK; by++) {
        options->code.by = (enum code_by)by;
        if (strcmp(by_code_kinds[by], what) == 0) return PROGRAM_GO_ON;
    }
    return cli_usage_error(&cli_report,
                           "--by takes function, line, file, module or stack, not '%s'", what);
}

static void by_offer(program_add *add)
{
    for (unsigned by = CODE_BY_FUNCTION; by <= CODE_BY_STACK; by++)
        add(by_code_kinds[by], NULL);
}

static void frames_offer(program_add *add)
{
    for (enum code_view view = CODE_VIEW_ALL; view <= CODE_VIEW_NATIVE; view++)
        add(code_view_words[view], NULL);
}

/* False: said why. */
static bool regex_take(regex_t *regex, const char *option, const char *text)
{
    char why[256];
    const int wrong = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
    if (wrong == 0) return true;
    regerror(wrong, regex, why, sizeof why);
    cli_usage_error(&cli_report, "--%s: %s", option, why);
    return false;
}

static int focus_take(void *of, const char *text)
{
    struct options *options = of;
    if (!regex_take(&options->focus, "focus", text)) return PROGRAM_USAGE;
    options->code.focus = text;
    options->code.focused = &options->focus;
    return PROGRAM_GO_ON;
}

static int ignore_take(void *of, const char *text)
{
    struct options *options = of;
    if (!regex_take(&options->ignore, "ignore", text)) return PROGRAM_USAGE;
    options->code.ignore = text;
    options->code.ignored = &options->ignore;
    return PROGRAM_GO_ON;
}

static int frames_take(void *of, const char *text)
{
    struct options *options = of;
    if (code_view_parse(text, &options->code.view)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_report, "--frames takes all, interpreted or native, not '%s'",
                           text);
}

static int skip_take(void *of, const char *text)
{
    struct options *options = of;
    if (!regex_take(&options->skip, "skip", text)) return PROGRAM_USAGE;
    options->code.skip = &options->skip;
    return PROGRAM_GO_ON;
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int number_take(unsigned *number, const char *option, unsigned most, const char *text)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most)
        return cli_usage_error(&cli_report, "--%s takes a number from 1 to %u, not '%s'", option,
                               most, text);
    *number = (unsigned)value;
    return PROGRAM_GO_ON;
}

static int depth_take(void *of, const char *text)
{
    return number_take(&((struct options *)of)->code.depth, "depth", DEPTH_MAX, text);
}

static int top_take(void *of, const char *text)
{
    return number_take(&((struct options *)of)->code.top, "top", TOP_MAX, text);
}

static int sort_take(void *of, const char *how)
{
    struct options *options = of;
    options->code.sorts_total = strcmp(how, "total") == 0;
    options->is_sort_given = true;
    if (options->code.sorts_total || strcmp(how, "own") == 0) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_report, "--sort takes own or total, not '%s'", how);
}

static void sort_offer(program_add *add)
{
    add("own", "of what a row makes itself");
    add("total", "of what it makes with what it calls");
}

static int report_symbols_take(void *of, const char *directory)
{
    struct options *options = of;
    if (options->code.directories_count == DIRECTORIES_MAX)
        return cli_usage_error(&cli_report, "--symbols: too many directories");
    options->symbols[options->code.directories_count++] = directory;
    options->code.directories = options->symbols;
    return PROGRAM_GO_ON;
}

/* A time in ns. Returns PROGRAM_GO_ON or an exit status. */
static int time_take(uint64_t *ns, const char *option, const char *text)
{
    if (time_word_parse(text, ns)) return PROGRAM_GO_ON;
    return cli_usage_error(&cli_report, "--%s takes a time like 1.5s, 300ms or 2min, not '%s'",
                           option, text);
}

static int from_take(void *of, const char *text)
{
    struct by_code_options *code = &((struct options *)of)->code;
    code->has_range = true;
    return time_take(&code->from_ns, "from", text);
}

static int to_take(void *of, const char *text)
{
    struct by_code_options *code = &((struct options *)of)->code;
    code->has_range = true;
    return time_take(&code->to_ns, "to", text);
}

static int suppressions_take(void *of, const char *path)
{
    struct options *options = of;
    char why[256];
    if (strcmp(path, "none") == 0) {
        options->all_is_shown = true;
        return PROGRAM_GO_ON;
    }
    if (suppressions_read(&options->suppressions, path, why, sizeof why)) return PROGRAM_GO_ON;
    cli_fail(&cli_report, "%s: %s", path, why);
    return PROGRAM_FAILED;
}

static int limit_add(void *of, const char *text)
{
    struct options *options = of;
    char why[1024] = "too many limits";
    if (options->limits_count < LIMITS_MAX &&
        report_limit_parse(&options->limits[options->limits_count], text, why, sizeof why)) {
        options->limits_count++;
        return PROGRAM_GO_ON;
    }
    return cli_usage_error(&cli_report, "--fail-if: %s", why);
}

static int under_take(void *of, const char *allocator)
{
    struct options *options = of;
    options->under = allocator;
    options->under_word = allocator == NULL ? options->words[optind] : NULL;
    return PROGRAM_GO_ON;
}

/* "libx.so", "libx.so.2"; not "x.sorted". */
static bool report_is_library(const char *word)
{
    for (const char *at = word; (at = strstr(at, ".so")) != NULL; at++)
        if (at[3] == '\0' || (at[3] == '.' && isdigit((unsigned char)at[4]))) return true;
    return false;
}

/* If the word after --under is an allocator, removes it from the words. Returns how many are left.
 * A trace with the name of an allocator must be given as ./NAME. */
static int take_allocator(struct options *options, int count, char **words)
{
    const char *word = options->under_word;
    int at = 0;
    while (at < count && words[at] != word)
        at++;
    if (options->under != NULL || at == count) return count;
    const bool is_file = strchr(word, '/') != NULL || strstr(word, ".so") != NULL;
    if (!(is_file ? count > 1 && report_is_library(word) : under_knows(word))) return count;
    options->under = word;
    memmove(words + at, words + at + 1, (size_t)(count - at - 1) * sizeof *words);
    return count - 1;
}

/* Parses the words that are not options. Returns PROGRAM_GO_ON or an exit status. */
static int report_traces_parse(struct options *options, int count, char **words)
{
    count = take_allocator(options, count, words);
    if (count == 0 || count > TRACES_MAX)
        return cli_usage_error(&cli_report,
                               count == 0 ? "which trace?" : "report takes one or two traces");
    const bool of_one = options->is_under || options->call_sizes != NULL || options->depths ||
                        options->is_interactive || options->source != NULL;
    if (options->source != NULL) options->code.by = CODE_BY_LINE;
    options->code.source = options->source;
    options->code.is_compared = count == TRACES_MAX;
    if (count == TRACES_MAX && options->under_word != NULL && options->under == NULL &&
        access(options->under_word, F_OK) != 0)
        return cli_usage_error(&cli_report, "--under: there is no allocator '%s'",
                               options->under_word);
    if (of_one && count == TRACES_MAX)
        return cli_usage_error(&cli_report,
                               "--under, --depths, --call-sizes, --source and -i take one "
                               "trace");
    if (options->code.has_range && options->code.from_ns >= options->code.to_ns)
        return cli_usage_error(&cli_report, "--from must be before --to");
    if (options->depths && strcmp(words[0], "-") == 0)
        return cli_usage_error(&cli_report,
                               "--depths reads the recording twice, so it must be a file");
    if (options->under != NULL && !under_knows(options->under))
        return cli_usage_error(&cli_report, "--under: there is no allocator '%s'", options->under);
    if (options->html != NULL && strcmp(options->html, "-") == 0)
        return cli_usage_error(&cli_report, "--html needs a file; it cannot write to the "
                                            "standard output");
    for (int i = 0; i < count; i++)
        options->paths[options->traces++] = words[i];
    for (unsigned i = 0; i < options->limits_count; i++)
        if (options->limits[i].grown && count < TRACES_MAX)
            return cli_usage_error(&cli_report, "--fail-if %s needs two traces",
                                   options->limits[i].text);
    return PROGRAM_GO_ON;
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int report_words_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"interactive", 'i', .flag = &options->is_interactive},
        {"json", .word = &options->json},
        {"html", .word = &options->html},
        {"call-sizes", .word = &options->call_sizes},
        {"under", .flag = &options->is_under, .take = under_take, .values = allocators_offer},
        {"depths", .flag = &options->depths},
        {"by", .take = by_take, .values = by_offer},
        {"source", .word = &options->source},
        {"sort", .take = sort_take, .values = sort_offer},
        {"top", .take = top_take},
        {"focus", .take = focus_take},
        {"ignore", .take = ignore_take},
        {"skip", .take = skip_take},
        {"from", .take = from_take},
        {"to", .take = to_take},
        {"suppressions", .take = suppressions_take},
        {"frames", .take = frames_take, .values = frames_offer},
        {"depth", .take = depth_take},
        {"symbols", .take = report_symbols_take},
        {"fail-if", .take = limit_add},
        {.name = NULL}};
    options->words = words;
    const int status =
        program_options(count, words, known, report_help_text, PROGRAM_ANYWHERE, options);
    return status == PROGRAM_GO_ON ? report_traces_parse(options, count - optind, words + optind)
                                   : status;
}

/* ---- output ---- */

/* Writes the report of one trace, or of the changes between two. Returns an exit status. */
static int report_write_results(const struct options *options, const struct report_trace *traces)
{
    const bool two = options->traces == TRACES_MAX;
    const bool quiet = options->is_interactive || options->source != NULL ||
                       (options->json != NULL && strcmp(options->json, "-") == 0);
    const char *json = options->json, *html = options->html;
    struct change change = {0};
    char why[512];
    if (two && !change_open(&change, &traces[0], &traces[1]))
        return cli_fail(&cli_report, "no memory to compare sizes");
    if (!quiet) two ? change_print(&change, stdout) : report_print(traces, stdout);
    bool good = html == NULL || (two ? change_page_write(&change, html, why, sizeof why)
                                     : report_page_write(traces, html, why, sizeof why));
    if (!good) cli_fail(&cli_report, "no page: %s", why);
    if (good && json != NULL)
        good = cli_write_json(&cli_report, two ? change_json(&change) : report_json(traces), json);
    change_close(&change);
    return good ? PROGRAM_OK : PROGRAM_FAILED;
}

/* The value that a limit is about; below 0: the trace does not have it. */
static long double limit_value(const struct report_limit *limit, const struct report_trace *trace,
                               enum number_unit *unit)
{
    struct report_numbers numbers;
    if (limit->of != NULL) {
        const struct by_code_number *number = &by_code_numbers[limit->number];
        *unit = number->is_bytes ? UNIT_BYTES : UNIT_COUNT;
        return trace->code.is_known
                   ? by_code_value(&trace->code,
                                   by_code_find(&trace->code, limit->of, limit->of_bytes), number)
                   : -1;
    }
    report_numbers_list(&numbers, &trace->tally);
    *unit = numbers.at[limit->number].unit;
    return numbers.at[limit->number].value;
}

/* Whether a limit's function is in any of the traces; true if it names none, or stacks are
 * unknown. */
static bool limit_has_function(const struct report_limit *limit, const struct report_trace *traces,
                               unsigned count)
{
    bool has = limit->of == NULL;
    for (unsigned i = 0; i < count && !has; i++)
        has = !traces[i].code.is_known ||
              by_code_find(&traces[i].code, limit->of, limit->of_bytes) != CODE_GROUP_NONE;
    return has;
}

/* Prints which limits are broken, and which are about something that is not in a trace. Returns an
 * exit status. */
static int check_limits(const struct options *options, const struct report_trace *traces)
{
    const unsigned last = options->traces - 1;
    enum number_unit unit = UNIT_COUNT;
    long double values[TRACES_MAX];
    int status = PROGRAM_OK;
    char why[512];
    for (unsigned i = 0; i < options->limits_count; i++) {
        const struct report_limit *limit = &options->limits[i];
        if (!limit_has_function(limit, traces, last + 1))
            cli_fail(&cli_report, "--fail-if %s: no call stack has %.*s, so its number is 0",
                     limit->text, (int)limit->of_bytes, limit->of);
        unsigned known = limit->grown ? 0 : last;
        for (unsigned k = 0; k <= last; k++)
            values[k] = limit_value(limit, &traces[k], &unit);
        while (known <= last && values[known] >= 0)
            known++;
        if (known <= last)
            status = cli_fail(&cli_report, "--fail-if %s: %s does not have this number",
                              limit->text, options->paths[known]);
        else if (report_limit_is_broken(limit, unit, values[0], values[last], why, sizeof why)) {
            cli_fail(&cli_report, "%s", why);
            if (status == PROGRAM_OK) status = PROGRAM_LIMIT;
        }
    }
    return status;
}

/* Says where options about code have nothing to show. */
static void note_without_stacks(const struct options *options, const struct report_trace *traces)
{
    const struct by_code_options *code = &options->code;
    const char *const asked = code->is_by_given        ? "--by"
                              : options->is_sort_given ? "--sort"
                              : code->top > 0          ? "--top"
                              : code->focused != NULL  ? "--focus"
                              : code->ignored != NULL  ? "--ignore"
                              : code->skip != NULL     ? "--skip"
                              : code->has_range        ? "--from"
                                                       : NULL;
    for (unsigned i = 0; i < options->traces && asked != NULL; i++)
        if (!traces[i].code.is_known)
            cli_fail(&cli_report,
                     "%s: has no call stacks, so %s shows nothing (record --stacks has them)",
                     options->paths[i], asked);
}

/* False: a trace does not reach the time that was asked for; said so. */
static bool has_times(const struct options *options, const struct report_trace *traces)
{
    for (unsigned i = 0; i < options->traces && options->code.has_range; i++) {
        const uint64_t ns = traces[i].tally.ns;
        if (traces[i].code.is_known && ns <= options->code.from_ns) {
            cli_fail(&cli_report,
                     ns == 0 ? "%s: has no times, so there is no --from or --to"
                             : "%s: ends before the time of --from, after %s",
                     options->paths[i], words_ms(ns / 1000000));
            return false;
        }
    }
    return true;
}

/* Reads one trace and replays it. */
static int read_under(const struct options *options, struct report_trace *trace)
{
    static struct under under;
    const char *path = options->paths[0];
    char why[1024];
    if (!under_open(&under, options->under, path, why, sizeof why))
        return cli_fail(&cli_report, "%s: %s", path, why);
    int status = report_read(trace, path, under.ordered, options->call_sizes, &options->code);
    if (status != PROGRAM_FAILED && !under_find(&under, trace, why, sizeof why)) {
        status = PROGRAM_FAILED;
        if (!process_interrupted()) cli_fail(&cli_report, "%s: --under: %s", path, why);
    }
    under_close(&under);
    trace->under = &under;
    return status;
}

static int report_read_all(const struct options *options, struct report_trace *traces)
{
    int status = PROGRAM_OK;
    if (options->is_under) return read_under(options, traces);
    for (unsigned i = 0; i < options->traces && status != PROGRAM_FAILED; i++) {
        int one = report_read(&traces[i], options->paths[i], options->paths[i], options->call_sizes,
                              &options->code);
        if (one != PROGRAM_OK) status = one;
    }
    return status;
}

/* False: said why it cannot. */
static bool show_source(const struct options *options, const struct report_trace *trace)
{
    const char *const path = options->paths[0], *const name = options->source;
    if (!trace->code.is_known)
        cli_fail(&cli_report,
                 "%s: has no call stacks, so --source shows nothing (record --stacks has them)",
                 path);
    else if (!by_code_print_source(&trace->code, name, stdout))
        cli_fail(&cli_report, "%s: --source: no call stack has a function '%s'", path, name);
    else
        return true;
    return false;
}

/* False: said why it cannot. */
static bool show_interactive(const struct options *options, struct report_trace *trace)
{
    const char *why = "has no call stacks, so -i shows nothing (record --stacks has them)";
    if (trace->code.is_known) why = interactive_run(&trace->code, report_name(trace));
    if (why != NULL) cli_fail(&cli_report, "%s: %s", options->paths[0], why);
    return why == NULL;
}

static int report_all(const struct options *options, struct report_trace *traces)
{
    static struct depths depths;
    const char *const paths[] = {options->html, options->json, options->call_sizes};
    const struct cli_outputs outputs = {paths, 3};
    int status = PROGRAM_GO_ON;
    for (unsigned i = 0; i < options->traces && status == PROGRAM_GO_ON; i++)
        status = cli_spare_input(&cli_report, &outputs, options->paths[i]);
    if (status != PROGRAM_GO_ON) return status;
    if (!cli_can_write(&cli_report, &outputs)) return PROGRAM_FAILED;
    status = report_read_all(options, traces);
    if (status == PROGRAM_FAILED) return status;
    if (!has_times(options, traces)) return PROGRAM_FAILED;
    note_without_stacks(options, traces);
    if (options->depths) {
        if (depths_read(&depths, options->paths[0]) == PROGRAM_FAILED) return PROGRAM_FAILED;
        traces[0].depths = &depths;
    }
    if (report_write_results(options, traces) != PROGRAM_OK) return PROGRAM_FAILED;
    if (options->source != NULL && !show_source(options, traces)) return PROGRAM_FAILED;
    if (options->is_interactive && !show_interactive(options, traces)) return PROGRAM_FAILED;
    const int limits = check_limits(options, traces);
    return limits != PROGRAM_OK ? limits : status;
}

static int report_run(int count, char **words)
{
    struct options options = {.code.to_ns = UINT64_MAX};
    static struct report_trace traces[TRACES_MAX];
    int status = report_words_parse(&options, count, words);
    options.code.suppressions = &options.suppressions;
    if (!options.all_is_shown && !suppressions_add_known(&options.suppressions))
        status = cli_fail(&cli_report, "no memory");
    if (status == PROGRAM_GO_ON) status = report_all(&options, traces);
    suppressions_free(&options.suppressions);
    for (unsigned i = 0; i < TRACES_MAX; i++)
        report_close(&traces[i]);
    if (options.code.focused != NULL) regfree(&options.focus);
    if (options.code.ignored != NULL) regfree(&options.ignore);
    if (options.code.skip != NULL) regfree(&options.skip);
    return status;
}

const struct cli_command cli_report = {
    "report", "says what a program asks of its allocator, and what holds its memory", report_run,
    report_help_text};
