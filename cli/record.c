/* malloctape record - runs a program with the tracing library in front of its allocator.
 *
 * Everything is checked before the program starts. When it has ended, recordings that it left
 * unfinished are completed (finish.h), and the results of all are printed (recordings.h). */
#include "cli/adopted.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/destination.h"
#include "cli/executable.h"
#include "cli/finish.h"
#include "cli/kept.h"
#include "cli/kept_each.h"
#include "cli/made_names.h"
#include "cli/record_process.h"
#include "cli/recording_files.h"
#include "cli/recordings.h"
#include "cli/run_program.h"
#include "cli/tell.h"
#include "common/amount.h"
#include "common/output_name.h"
#include "common/printable.h"
#include "common/trace_variables.h"
#include "launch/installed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_VARIABLE "TCMALLOC_TRACE_OUTPUT"
#define REPORT_VARIABLE "TCMALLOC_TRACE_REPORT"
#define QUIET_VARIABLE  "TCMALLOC_TRACE_QUIET"

enum { STACKS_BYTES_MIN = 1024 };

/* The allocators under which a program can be recorded, and the library for each. */
enum { FRONT_END_PROGRAM = 1 };
static const char *const front_ends[] = {"tcmalloc", "program", NULL};
static const char *const libraries[] = {"libtcmalloc_minimal_tracing.so", "libmalloctape.so"};
static const char *const stacks_of[] = {"all", "all,frees", NULL};
static const char *const recorded_on[] = {"malloctape's tcmalloc (--allocator=program: its own)",
                                          "the program's own allocator"};

static const char record_help_text[] =
    "usage: malloctape record [OPTION]... [--] PROGRAM [ARGUMENTS...]\n"
    "       malloctape record --pid PROCESS [-o FILE] [--seconds N] [--max-bytes N] [--stacks]\n"
    "                         [--addresses] [--keep TIME ...] [-q]\n"
    "\n"
    "Runs PROGRAM and records every call of its allocator; or records a process that runs already,\n"
    "on the allocator that it has, until Ctrl-C, and lets it go on.\n"
    "\n"
    "  -o, --output FILE\n"
    "            where to write the recording: a file, a FIFO, fd:N for an open descriptor, or\n"
    "            |COMMAND for the standard input of a command. %p, %h, %t and %e in it stand for\n"
    "            the process id, the host, the time in seconds and the program, %% for %. An older\n"
    "            recording is replaced, any other file is not. Without -o: the name of PROGRAM\n"
    "            and .raw.lz4 (with --keep .kept.lz4), in the current directory; .2.raw.lz4 if that\n"
    "            is there, and so on\n"
    "  --follow  record the processes that PROGRAM forks and the programs that it starts, too:\n"
    "            each to a file of its own, so FILE must have a %p (default: %e.%p.raw.lz4, with\n"
    "            --keep %e.%p.kept.lz4, in the current directory). One line on standard error counts them\n"
    "  --allocator=NAME\n"
    "            tcmalloc (default) or program: see below\n"
    "  --seconds N\n"
    "            ends the recording, complete, after so many seconds (or 5m, 1h); PROGRAM goes on\n"
    "  --max-bytes N\n"
    "            ends it before it has more bytes (10k, 10M, 1G)\n"
    "  -p, --pid PROCESS\n"
    "            records this process, which is running already. Objects that it allocated before are\n"
    "            unknown, and its calls through pointers that it took before are missed\n"
    "  --stacks[=all|all,frees|BYTES]\n"
    "            records call stacks: of about one allocation for each BYTES allocated (default\n"
    "            512k), and of each of 1 MiB and more; all: of every allocation; always of some\n"
    "            frees, too, or with all,frees of every free\n"
    "  --keep TIME[,BYTES]\n"
    "            for days: FILE has only the last 90s, 10m or 2h, of at most so many bytes (500M), and\n"
    "            what was alive before; it is written at the end, and by `malloctape ctl PROCESS keep`.\n"
    "            With --follow, or a %p in FILE, each process has its own\n"
    "  --when CONDITION\n"
    "            with --keep: writes FILE.1, FILE.2, ... (the number before .lz4) when 'rss>4G',\n"
    "            'live>+20%/10m', 'heap>1G' or 'calls/s>2M' has become true; then rests for a\n"
    "            minute, two, ... a day; may be given several times\n"
    "  --listen ADDRESS\n"
    "            with --keep: an HTTP server at HOST:PORT or the path of a socket, with a page,\n"
    "            /metrics, /debug/pprof/heap, /debug/pprof/allocs and /trace; for this machine only\n"
    "  --token FILE\n"
    "            with --listen, for other machines: each request must have FILE's first line as a\n"
    "            bearer token\n"
    "  --python-objects\n"
    "            has Python ask malloc for each object (PYTHONMALLOC=malloc), not for arenas of\n"
    "            many: all of them are recorded, and memory and time differ\n"
    "  --addresses\n"
    "            records the address of each object, for `replay --verify-addresses`\n"
    "  --control `malloctape ctl` and `malloctape top` can ask and control the recording meanwhile: one\n"
    "            thread more in PROGRAM\n"
    "  --idle    the same, and records nothing until `malloctape ctl PROCESS start FILE` says so\n"
    "  -q, --quiet\n"
    "            prints only errors\n"
    "\n"
    "With tcmalloc, PROGRAM runs on malloctape's tcmalloc: recording costs least, and a replay\n"
    "can follow what each thread does inside that allocator. With program, PROGRAM keeps its own\n"
    "allocator, also a preloaded one, so the recording has the heap and memory of production.\n"
    "\n"
    "Signals that are sent to `record` alone are passed on to PROGRAM; those of the terminal and of\n"
    "the process group reach it anyway. If PROGRAM ends without finishing its recording, for example\n"
    "because a signal kills it, `record` finishes it.\n"
    "\n"
    "The exit status is that of PROGRAM, or 128 and the number of the signal that killed it; 126\n"
    "when it cannot be run, 127 when it is not found; 125 when it ended with 0, but nothing was\n"
    "recorded: because something was wrong, or because its malloc is not the one of the tracing\n"
    "library.\n"
    "\n"
    "MALLOCTAPE_LIBDIR names the directory of the tracing libraries, if they are not found.\n";

struct record {
    const char *output;              /* as given, or NULL */
    const char *seconds, *max_bytes; /* NULL: no limit */
    const char *process;             /* NULL: a program is run */
    const char *stacks;              /* as the library understands it, or NULL */
    bool follow, quiet, control, idle, has_stacks, addresses, python_objects;
    struct kept kept;
    double start_s; /* since the epoch */
    unsigned front_end;
    char **program; /* PROGRAM and its arguments */
    struct destination to;
    char expanded[PATH_MAX];  /* the same for a running process */
    char kept_file[PATH_MAX]; /* FILE of --keep */
};

/* Checks that the library will understand the name. Returns PROGRAM_GO_ON or an exit status. */
static int output_check(const struct record *record)
{
    static const struct output_names names = {.host = "", .program = ""};
    const char *output = record->output;
    char expanded[PATH_MAX];
    if (output == NULL) return PROGRAM_GO_ON;
    if (*output == '\0') return cli_usage_error(&cli_record, "-o: the name is empty");
    if (strcmp(output, "-") == 0)
        return cli_usage_error(&cli_record,
                               "-o -: the standard output belongs to PROGRAM; to write to it "
                               "anyway, use fd:1");
    if (output_name_expand(output, &names, expanded, sizeof expanded) == -EINVAL)
        return cli_usage_error(&cli_record, "-o %s: %% must be one of %%p %%h %%t %%e %%%%",
                               output);
    if (record->follow && !output_name_has_process(output))
        return cli_usage_error(
            &cli_record, "--follow: %s names one file for all processes; add %%p to it", output);
    if (record->idle)
        return cli_usage_error(&cli_record,
                               "--idle takes no -o: `malloctape ctl` says where to record to");
    return PROGRAM_GO_ON;
}

/* Whether a text is a number, optionally followed by one of the letters. */
static bool is_amount(const char *text, const char *letters)
{
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && (text[digits] == '\0' ||
                          (strchr(letters, text[digits]) != NULL && text[digits + 1] == '\0'));
}

static int stacks_take(void *of, const char *argument)
{
    struct record *record = of;
    record->stacks = argument == NULL ? "1" : argument;
    if (argument == NULL || strcmp(argument, "all") == 0 || strcmp(argument, "all,frees") == 0)
        return PROGRAM_GO_ON;
    if (!is_amount(argument, "kKMG"))
        return cli_usage_error(&cli_record, "--stacks=%s: neither all nor a number", argument);
    const unsigned long number = strtoul(argument, NULL, 10);
    if (number > 1 && number < STACKS_BYTES_MIN && strpbrk(argument, "kKMG") == NULL)
        return cli_usage_error(&cli_record, "--stacks=%s: at least %d bytes", argument,
                               STACKS_BYTES_MIN);
    return PROGRAM_GO_ON;
}

static int when_take(void *of, const char *argument)
{
    struct kept *kept = &((struct record *)of)->kept;
    if (kept->when_count == KEPT_WHEN_MAX)
        return cli_usage_error(&cli_record, "--when: at most %d", KEPT_WHEN_MAX);
    kept->when[kept->when_count++] = argument;
    return PROGRAM_GO_ON;
}

/* A keeper keeps one recording, in a file. Returns PROGRAM_GO_ON or an exit status. */
static int kept_check_options(struct record *record)
{
    const char *output = record->output, *listen = record->kept.listen;
    if (record->kept.keep == NULL) return kept_check(&record->kept);
    const bool has_process = output != NULL && output_name_has_process(output);
    if (record->idle) return cli_usage_error(&cli_record, "--keep cannot be used with --idle");
    if (output != NULL && (!destination_is_file(output) || (has_process && record->process)))
        return cli_usage_error(&cli_record, "--keep needs the name of one file: -o %s", output);
    if (has_process) record->follow = true;
    record->kept.is_each = record->follow;
    if (record->follow && listen != NULL &&
        (strchr(listen, '/') == NULL || !output_name_has_process(listen)))
        return cli_usage_error(&cli_record,
                               "--listen %s: with --follow each process needs a socket of its own, "
                               "as /run/server/%%p",
                               listen);
    return kept_check(&record->kept);
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int record_words_parse(struct record *record, int count, char **words)
{
    const struct program_option known[] = {
        {"output", 'o', .word = &record->output},
        {"follow", .flag = &record->follow},
        {"allocator", .choice = &record->front_end, .choices = front_ends},
        {"seconds", .word = &record->seconds},
        {"max-bytes", .word = &record->max_bytes},
        {"addresses", .flag = &record->addresses},
        {"python-objects", .flag = &record->python_objects},
        {"stacks", .flag = &record->has_stacks, .take = stacks_take, .choices = stacks_of},
        {"keep", .word = &record->kept.keep},
        {"when", .take = when_take},
        {"listen", .word = &record->kept.listen},
        {"token", .word = &record->kept.token},
        {"control", .flag = &record->control},
        {"idle", .flag = &record->idle},
        {"pid", 'p', .word = &record->process},
        {"quiet", 'q', .flag = &record->quiet},
        {.name = NULL}};
    /* Our options end at the first word that is not one; the rest is the program's. */
    const int status =
        program_options(count, words, known, record_help_text, PROGRAM_IN_FRONT, record);
    if (status != PROGRAM_GO_ON) return status;
    if (record->process != NULL && optind < count)
        return cli_usage_error(
            &cli_record, "--pid records a running process; it cannot also run %s", words[optind]);
    if (record->process != NULL &&
        (record->follow || record->idle || record->control || record->python_objects))
        return cli_usage_error(&cli_record, "--pid cannot be used with %s",
                               record->follow    ? "--follow"
                               : record->idle    ? "--idle"
                               : record->control ? "--control"
                                                 : "--python-objects");
    if (record->process == NULL && optind == count)
        return cli_usage_error(&cli_record, "which program?");
    if (record->seconds != NULL && !is_amount(record->seconds, "smh"))
        return cli_usage_error(&cli_record, "--seconds %s: not a whole number", record->seconds);
    if (record->max_bytes != NULL && !is_amount(record->max_bytes, "kKMG"))
        return cli_usage_error(&cli_record, "--max-bytes %s: not a whole number",
                               record->max_bytes);
    record->program = words + optind;
    const int checked = kept_check_options(record);
    return checked == PROGRAM_GO_ON ? output_check(record) : checked;
}

/* Returns PROGRAM_OK, or the exit status if the program would not run as it does alone. */
static int obstacle_print(const struct executable *executable)
{
    static const char *const texts[] = {
        [EXECUTABLE_STATIC] =
            "is statically linked: no library can be put in front of its allocator",
        [EXECUTABLE_SANITIZER] =
            "is built with a sanitizer, whose allocator must come first: build it without",
        [EXECUTABLE_PRIVILEGED] =
            "is setuid, setgid or has capabilities: the system ignores preloaded libraries for it",
        [EXECUTABLE_OTHER_LIBC] = "has another C library than glibc",
        [EXECUTABLE_OTHER_SYSTEM] = "is built for another architecture than malloctape"};
    if (executable->obstacle == EXECUTABLE_FINE) return PROGRAM_OK;
    if (executable->obstacle == EXECUTABLE_SANITIZER) {
        cli_fail(&cli_record, "%s %s; it was not run", executable->runs,
                 texts[EXECUTABLE_SANITIZER]);
        return PROGRAM_CANNOT_EXECUTE;
    }
    cli_tell("malloctape record: warning: %s %s; it will not be recorded", executable->runs,
             texts[executable->obstacle]);
    return PROGRAM_OK;
}

/* Puts the library before those that are already preloaded, so that our allocator is used. */
static bool preload_set(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    bool alone = before == NULL || *before == '\0';
    char *value;
    if (asprintf(&value, "%s%s%s", library, alone ? "" : ":", alone ? "" : before) < 0)
        return false;
    bool done = setenv("LD_PRELOAD", value, 1) == 0;
    free(value);
    return done;
}

/* ---- what became of it ---- */

struct outcome {
    uint64_t recordings, events, other_malloc, unfinished;
};

/* Completes a recording that has no end, unless its process is still running. */
static void recording_finish(const struct record *record, const struct recording *recording,
                             struct outcome *outcome)
{
    struct finished finished;
    const bool speaks = !record->follow && !record->quiet;
    if (record->kept.keep != NULL) return; /* the keeper says what there is */
    bool goes_on = kill(recording->process, 0) == 0 || errno != ESRCH;
    if (goes_on || !destination_is_file(recording->output) ||
        !finish(recording->output, &recording->made, &finished)) {
        outcome->unfinished++;
        /* With --follow, one line counts them. */
        if (!goes_on && (speaks || record->quiet))
            cli_tell("malloctape: %s: cut short; see `malloctape info`", recording->output);
        return;
    }
    outcome->events += finished.events;
    if (finished.events == 0) outcome->other_malloc += finished.has_other_malloc;
    if (speaks)
        cli_tell("malloctape: %s: %" PRIu64 " events, %" PRIu64 " bytes; finished by record",
                 recording->output, finished.events, finished.bytes);
}

static void recordings_settle(const struct record *record, const struct recordings *recordings,
                              struct outcome *outcome)
{
    bool speaks = !record->follow && !record->quiet;
    for (size_t i = 0; i < recordings->count; i++) {
        const struct recording *recording = &recordings->list[i];
        if (recording->is_forgotten) continue;
        const char *output = record->kept.keep != NULL ? record->kept_file : recording->output;
        if (record->stacks != NULL && *output != '\0' && destination_is_file(output))
            made_names_keep(recording->process, record->start_s, output);
        outcome->recordings++;
        outcome->events += recording->events;
        if (recording->summary == NULL)
            recording_finish(record, recording, outcome);
        else if (speaks && *recording->summary != '\0' && record->kept.keep == NULL)
            cli_tell("%s", recording->summary);
        if (recording->summary != NULL && recording->events == 0)
            outcome->other_malloc += recording->has_other_malloc;
    }
}

static void outcome_print(const struct record *record, const struct outcome *outcome)
{
    char unfinished[64] = "", foreign[64] = "";
    if (!record->follow || record->quiet) return;
    if (outcome->unfinished > 0)
        snprintf(unfinished, sizeof unfinished, "; %" PRIu64 " %s cut short", outcome->unfinished,
                 outcome->unfinished == 1 ? "still runs or is" : "still run or are");
    if (outcome->other_malloc > 0)
        snprintf(foreign, sizeof foreign, "; in %" PRIu64 " another malloc is in use, with none",
                 outcome->other_malloc);
    cli_tell("malloctape record: %" PRIu64 " recording%s, %" PRIu64 " event%s%s%s%s: %s",
             outcome->recordings, outcome->recordings == 1 ? "" : "s", outcome->events,
             outcome->events == 1 ? "" : "s", foreign, unfinished,
             record->kept.is_each ? "; what is kept of them" : "",
             record->idle ? "where `malloctape ctl` said" : record->to.path);
}

/* Whether nothing was recorded, although the program ran. */
static bool nothing_is_recorded(const struct outcome *outcome)
{
    return outcome->recordings == 0 || outcome->other_malloc == outcome->recordings;
}

/* What is done while the program runs. */
struct watch {
    struct record *record;
    struct recordings recordings;
    struct running_program program;
    bool has_begun;
};

static void begin_print(const struct watch *watch)
{
    const struct record *record = watch->record;
    if (record->quiet) return;
    if (record->idle)
        cli_tell("malloctape record: not recording yet, on %s; `malloctape ctl %d start "
                 "FILE` starts it",
                 recorded_on[record->front_end], watch->program.process);
    else
        cli_tell("malloctape record: recording on %s to %s", recorded_on[record->front_end],
                 *record->kept_file != '\0' ? record->kept_file : record->to.path);
    if (record->python_objects)
        cli_tell("malloctape record: PYTHONMALLOC=malloc: Python asks malloc for each object "
                 "instead of taking arenas: up to 1 500 times the calls, other memory, 1.2 to 1.5 "
                 "times the time");
}

static void record_look(void *of)
{
    struct watch *watch = of;
    const pid_t ours[] = {watch->program.process, watch->record->kept.keeper};
    kept_look(&watch->record->kept);
    adopted_take(ours, sizeof ours / sizeof *ours);
    if (watch->record->idle && !watch->has_begun) begin_print(watch);
    if (watch->record->control && !watch->record->idle && !watch->record->quiet &&
        !watch->has_begun)
        cli_tell("malloctape record: `malloctape ctl %d` controls it", watch->program.process);
    watch->has_begun = true;
    recordings_look(&watch->recordings);
}

/* The recording's directory, which has space if there is any for the recording; or NULL. */
static char *output_directory(const struct record *record)
{
    const char *name = record->to.path, *end = strrchr(name, '/');
    if (!destination_is_file(name) || end == NULL) return NULL;
    return strndup(name, end > name ? (size_t)(end - name) : 1);
}

/* Has each process that is recorded start a keeper. Returns an exit status. */
static int keepers_set(struct record *record, const char *report)
{
    char output[KEPT_COMMAND_BYTES];
    record->kept.output = record->to.path;
    record->kept.quiet = record->quiet;
    const int status = kept_each_output(&record->kept, report, output, sizeof output);
    if (status != PROGRAM_OK || setenv(OUTPUT_VARIABLE, output, 1) == 0) return status;
    return cli_fail(&cli_record, "cannot set the environment: %s", strerror(errno));
}

/* Waits for keepers. False: a keeper has failed; of many: and none has written a FILE. */
static bool keepers_end(struct record *record, struct recordings *recordings,
                        struct outcome *outcome)
{
    size_t lost = 0, files = 0;
    if (record->kept.is_each) outcome->unfinished += kept_each_end(recordings, &lost);
    for (size_t i = 0; i < recordings->keepings_count; i++) {
        char file[PATH_MAX];
        if (*recordings->keepings[i].directory == '\0') continue;
        kept_each_file(&recordings->keepings[i], file);
        if (!destination_exists(file)) continue;
        files++;
        if (record->stacks != NULL)
            made_names_keep(recordings->keepings[i].process, record->start_s, file);
    }
    if (record->kept.is_each) return lost == 0 || files > 0;
    return record->kept.keep == NULL || kept_end(&record->kept);
}

static int program_run(struct record *record, const struct executable *executable)
{
    struct watch watch = {.record = record};
    struct recordings *recordings = &watch.recordings;
    char *directory = output_directory(record);
    bool listens = recordings_begin(recordings, directory) &&
                   setenv(REPORT_VARIABLE, recordings->path, 1) == 0;
    free(directory);
    if (!listens) unsetenv(REPORT_VARIABLE);
    if (record->kept.is_each) {
        const int status = keepers_set(record, listens ? recordings->path : "");
        if (status != PROGRAM_OK) return status;
    }
    if (!record->idle && (record->follow || executable->obstacle == EXECUTABLE_FINE))
        begin_print(&watch);
    record->start_s = (double)time(NULL);
    int error = run_program(&watch.program, executable->path, record->program, record_look, &watch);
    recordings_look(recordings);
    int status = PROGRAM_CANNOT_EXECUTE;
    if (error != 0 && record->kept.keep != NULL && !record->kept.is_each) kept_end(&record->kept);
    if (error != 0) {
        cli_fail(&cli_record, "%s: %s", executable->path, strerror(error));
        if (error == ENOENT) status = PROGRAM_NOT_FOUND;
    } else {
        struct outcome outcome = {0};
        const bool is_kept = keepers_end(record, recordings, &outcome);
        recordings_look(recordings);
        recordings_settle(record, recordings, &outcome);
        outcome_print(record, &outcome);
        if (!record->quiet && !record->idle) recordings_tell_unrecorded(recordings);
        status = run_program_status(&watch.program);
        if (listens && !record->idle && nothing_is_recorded(&outcome)) {
            cli_tell("malloctape record: nothing was recorded");
            if (status == 0) status = PROGRAM_NOTHING_RECORDED;
        }
        if (!is_kept && status == 0) status = PROGRAM_NOTHING_RECORDED;
    }
    destination_release(&record->to);
    recordings_end(recordings);
    return status;
}

/* Sets the environment variables that the library reads. Another dynamic linker than glibc's would
 * not start the program with the library. */
static bool variables_set(const struct record *record, const struct executable *executable,
                          const char *library)
{
    const struct {
        const char *name, *value; /* NULL: as it is */
    } variables[] = {{OUTPUT_VARIABLE, record->idle ? "" : record->to.path},
                     {"TCMALLOC_TRACE_MAX_SECONDS", record->seconds},
                     {"TCMALLOC_TRACE_MAX_BYTES", record->max_bytes},
                     {"TCMALLOC_TRACE_STACKS", record->stacks},
                     {"TCMALLOC_TRACE_ADDRESSES", record->addresses ? "1" : NULL},
                     {"PYTHONMALLOC", record->python_objects ? "malloc" : NULL},
                     {"TCMALLOC_TRACE_CONTROL", record->control || record->idle ? "1" : NULL},
                     {QUIET_VARIABLE, record->quiet ? "1" : NULL}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (variables[i].value != NULL && setenv(variables[i].name, variables[i].value, 1) != 0)
            return false;
    return executable->obstacle == EXECUTABLE_OTHER_LIBC || preload_set(library);
}

/* Prints unknown variables once; the library would do so in each process. */
static void unknown_variables_print(void)
{
    for (char **entry = environ; *entry != NULL; entry++)
        if (trace_variable_is_unknown(*entry))
            cli_tell("malloctape record: there is no variable %.*s", (int)strcspn(*entry, "="),
                     *entry);
}

/* A duration as seconds; 0 if `text` is NULL. */
static double record_seconds_of(const char *text)
{
    uint64_t ns;
    return text != NULL && amount_take_ns(text, &text, &ns) ? (double)ns / 1e9 : 0;
}

/* The settings for a running process, as lines; NULL: there are none. */
static const char *settings_lines(const struct record *record, char *lines, size_t bytes)
{
    const char *stacks = record->stacks, *max = record->max_bytes;
    snprintf(lines, bytes, "%s%s%s%s%s%s%s",
             record->addresses ? "TCMALLOC_TRACE_ADDRESSES=1\n" : "",
             stacks != NULL ? "TCMALLOC_TRACE_STACKS=" : "", stacks != NULL ? stacks : "",
             stacks != NULL ? "\n" : "", max != NULL ? "TCMALLOC_TRACE_MAX_BYTES=" : "",
             max != NULL ? max : "", max != NULL ? "\n" : "");
    return *lines != '\0' ? lines : NULL;
}

/* Starts the keeper: from now on the destination is its FIFO. Returns an exit status. */
static int keeper_begin(struct record *record)
{
    char host[HOST_NAME_MAX + 1] = "";
    const struct output_names names = {.process_id = 0,
                                       .host = host,
                                       .time_s = (uint64_t)time(NULL),
                                       .program = basename(record->program[0]),
                                       .program_number = 1};
    if (record->kept.keep == NULL || record->kept.is_each) return PROGRAM_OK;
    gethostname(host, sizeof host - 1);
    if (output_name_expand(record->to.path, &names, record->kept_file, sizeof record->kept_file) <
        0)
        return destination_fail();
    record->kept.quiet = record->quiet;
    const int status = kept_begin(&record->kept, record->kept_file);
    record->to.path[0] = '\0';
    if (status == PROGRAM_OK && destination_add(&record->to, record->kept.fifo, true))
        return PROGRAM_OK;
    destination_release(&record->to);
    return status != PROGRAM_OK ? status : destination_fail();
}

/* Fills names in. As in any recording, a name with the process in it replaces no file. Returns an
 * exit status. */
static int destination_expand(struct record *record, const struct record_process *process)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct output_names names = {.process_id = process->process,
                                 .host = host,
                                 .time_s = (uint64_t)time(NULL),
                                 .program = basename(record->program[0]),
                                 .program_number = 1};
    gethostname(host, sizeof host - 1);
    if (!destination_is_file(record->to.path)) {
        memcpy(record->expanded, record->to.path, sizeof record->expanded);
        return PROGRAM_OK;
    }
    do
        if (output_name_expand(record->to.path, &names, record->expanded, sizeof record->expanded) <
            0)
            return destination_fail();
    while (output_name_has_process(record->to.path) && destination_exists(record->expanded) &&
           names.program_number++ < DESTINATION_NUMBER_MAX);
    return PROGRAM_OK;
}

static void destination_of(struct record *record)
{
    record->to.output = record->output;
    record->to.program = record->program[0];
    record->to.follow = record->follow;
    record->to.idle = record->idle;
    record->to.is_kept = record->kept.keep != NULL;
}

/* The same with a keeper, which gets what a process records that runs already. */
static int process_keep(struct record *record, struct record_process *process, const char *library)
{
    int status = destination_check(&record->to);
    if (status == PROGRAM_OK) status = keeper_begin(record);
    if (status != PROGRAM_OK) return status;
    process->kept = &record->kept;
    process->output = record->kept_file;
    process->library = library;
    status = record_process(process);
    destination_release(&record->to);
    return status;
}

/* Records a running process: the recording gets the name of its program. */
static int process_run(struct record *record)
{
    struct record_process process = {.quiet = record->quiet,
                                     .seconds = record_seconds_of(record->seconds)};
    char settings[256];
    struct installed library;
    char path[64], program[PATH_MAX], why[PATH_MAX], *words[] = {program, NULL};
    process.settings = settings_lines(record, settings, sizeof settings);
    if (!ask_parse_process(&process.process, record->process))
        return cli_usage_error(&cli_record, "--pid %s: not a process id", record->process);
    if (!installed_find_library(&library, libraries[FRONT_END_PROGRAM], why, sizeof why))
        return cli_fail(&cli_record, "%s", why);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process.process);
    const ssize_t bytes = readlink(path, program, sizeof program - 1);
    snprintf(path, sizeof path, "%d", (int)process.process);
    program[bytes > 0 ? bytes : 0] = '\0';
    /* The name is another user's choice. */
    if (bytes <= 0 || !printable_is(basename(program), strlen(basename(program))))
        memcpy(program, path, strlen(path) + 1);
    record->program = words;
    destination_of(record);
    if (!destination_set(&record->to)) return destination_fail();
    int status = destination_expand(record, &process);
    if (record->kept.keep != NULL) return process_keep(record, &process, library.path);
    if (status == PROGRAM_OK && !recording_files_fit(record->expanded))
        status = destination_check(&record->to);
    if (status == PROGRAM_OK) {
        process.output = record->expanded;
        process.pattern = record->to.path;
        process.library = library.path;
        status = record_process(&process);
    }
    destination_release(&record->to);
    return status;
}

static int record_run(int count, char **words)
{
    struct record record = {0};
    struct executable executable;
    struct installed library;
    char why[PATH_MAX];
    int status = record_words_parse(&record, count, words);
    if (status != PROGRAM_GO_ON) return status;
    if (record.process != NULL) return process_run(&record);
    status = executable_find(&executable, record.program[0]);
    if (status != 0) {
        cli_fail(&cli_record, "%s: %s", record.program[0],
                 status == PROGRAM_CANNOT_EXECUTE ? "cannot be executed" : "not found");
        return status;
    }
    if (!installed_find_library(&library, libraries[record.front_end], why, sizeof why))
        return cli_fail(&cli_record, "%s", why);
    status = obstacle_print(&executable);
    if (status != PROGRAM_OK) return status;
    destination_of(&record);
    if (!destination_set(&record.to)) return destination_fail();
    status = destination_check(&record.to);
    if (status != PROGRAM_OK) return status;
    if (getenv(QUIET_VARIABLE) != NULL) record.quiet = true;
    if (!record.quiet) unknown_variables_print();
    status = keeper_begin(&record);
    if (status != PROGRAM_OK) return status;
    if (!variables_set(&record, &executable, library.path))
        return cli_fail(&cli_record, "cannot set the environment: %s", strerror(errno));
    return program_run(&record, &executable);
}

const struct cli_command cli_record = {"record",
                                       "runs a program and records every call of its allocator",
                                       record_run, record_help_text};
