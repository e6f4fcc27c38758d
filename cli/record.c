/* malloctape record - runs a program with the tracing library in front of its allocator.
 *
 * Everything is checked before the program starts. When it has ended, recordings that it left
 * unfinished are completed (finish.h), and what became of all of them is said (recordings.h). */
#include "cli/cli.h"
#include "cli/executable.h"
#include "cli/finish.h"
#include "cli/recordings.h"
#include "cli/run_program.h"
#include "common/output_name.h"
#include "launch/installed.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_VARIABLE "TCMALLOC_TRACE_OUTPUT"
#define REPORT_VARIABLE "TCMALLOC_TRACE_REPORT"
#define QUIET_VARIABLE  "TCMALLOC_TRACE_QUIET"

/* Under which allocator a program is recorded, and the library that does it. */
static const char *const front_ends[] = {"tcmalloc", "program", NULL};
static const char *const libraries[] = {"libtcmalloc_minimal_tracing.so", "libmalloctape.so"};

static const char help_text[] =
    "usage: malloctape record [-o FILE] [--follow] [--allocator=NAME] [--] PROGRAM [ARGUMENTS...]\n"
    "\n"
    "Runs PROGRAM and records every call of its allocator.\n"
    "\n"
    "  -o FILE   where to write the recording (default: the name of PROGRAM and .raw.lz4, in the\n"
    "            current directory): a file, a FIFO, fd:N for an open descriptor, or |COMMAND for\n"
    "            the standard input of a command. %p, %h, %t and %e in it stand for the process,\n"
    "            the host, the time in seconds and the program, %% for %\n"
    "  --follow  record the processes that PROGRAM forks and the programs that it starts, too:\n"
    "            each to a file of its own, so FILE must have a %p (default: %e.%p.raw.lz4 in the\n"
    "            current directory), and without a word about each on standard error\n"
    "  --allocator=NAME\n"
    "            tcmalloc (default) or program: see below\n"
    "\n"
    "With tcmalloc, PROGRAM runs on malloctape's tcmalloc: recording costs least, and a replay\n"
    "can follow what each thread does inside that allocator. With program, PROGRAM keeps the\n"
    "allocator that it has, preloaded ones included: take that for the trace of a process as it\n"
    "is in production, with its own heap and memory beside the calls.\n"
    "\n"
    "Signals that are sent to `record` alone are passed on to PROGRAM; those of the terminal and of\n"
    "the process group reach it anyway. If PROGRAM ends without finishing its recording, because a\n"
    "signal kills it or for another reason, `record` finishes the recording.\n"
    "\n"
    "The exit status is that of PROGRAM, or 128 and the number of the signal that killed it; 126\n"
    "when it cannot be run, 127 when it is not found; 125 when it ended with 0, but nothing was\n"
    "recorded: because something was wrong, or because its malloc is not the one of the tracing\n"
    "library.\n"
    "\n"
    "MALLOCTAPE_LIBDIR names the directory of the tracing libraries, should it not be found by\n"
    "itself.\n";

struct record {
    const char *output; /* as given, or NULL */
    bool follow;
    unsigned front_end;
    char **program; /* PROGRAM and its arguments */
    char destination[PATH_MAX];
};

/* Whether the name is one that the library will understand: PROGRAM_GO_ON or an exit status. */
static int output_check(const struct record *record)
{
    static const struct output_names names = {.host = "", .program = ""};
    const char *output = record->output;
    char expanded[PATH_MAX];
    if (output == NULL) return PROGRAM_GO_ON;
    if (*output == '\0') return cli_usage_error(&cli_record, "-o: the name is empty");
    if (strcmp(output, "-") == 0)
        return cli_usage_error(&cli_record,
                               "-o -: the standard output is PROGRAM's; it would be fd:1");
    if (output_name_expand(output, &names, expanded, sizeof expanded) == -EINVAL)
        return cli_usage_error(&cli_record, "-o %s: a %% that is none of %%p %%h %%t %%e %%%%",
                               output);
    if (record->follow && !output_name_has_process(output))
        return cli_usage_error(
            &cli_record, "--follow: %s is one name for all processes; it needs a %%p", output);
    return PROGRAM_GO_ON;
}

/* Returns PROGRAM_GO_ON or an exit status. */
static int words_parse(struct record *record, int count, char **words)
{
    const struct program_option known[] = {
        {"output", 'o', .word = &record->output},
        {"follow", .flag = &record->follow},
        {"allocator", .choice = &record->front_end, .choices = front_ends},
        {NULL}};
    /* The first word that is no option ends ours; what follows is the program's. */
    const int status = program_options(count, words, known, help_text, PROGRAM_IN_FRONT, NULL);
    if (status != PROGRAM_GO_ON) return status;
    if (optind == count) return cli_usage_error(&cli_record, "which program?");
    record->program = words + optind;
    return output_check(record);
}

/* Outputs that are no file names: an open descriptor, a command. */
static bool is_file_name(const char *output)
{
    return strncmp(output, "fd:", 3) != 0 && output[0] != '|';
}

/* Adds to the destination; `literal`: no % in it is followed by a letter that stands for
 * something. */
static bool destination_add(struct record *record, const char *text, bool literal)
{
    size_t used = strlen(record->destination);
    for (; *text != '\0'; text++) {
        if (used + 2 >= sizeof record->destination) return false;
        if (literal && *text == '%') record->destination[used++] = '%';
        record->destination[used++] = *text;
    }
    record->destination[used] = '\0';
    return true;
}

/* The program may change its directory before the library opens the file, so the name has to be
 * absolute. */
static bool destination_set(struct record *record)
{
    const char *name = record->output;
    char here[PATH_MAX];
    if (name == NULL || (is_file_name(name) && name[0] != '/')) {
        if (getcwd(here, sizeof here) == NULL || !destination_add(record, here, true) ||
            !destination_add(record, "/", true))
            return false;
    }
    if (name == NULL && record->follow) name = "%e.%p.raw.lz4";
    if (name != NULL) return destination_add(record, name, false);
    return destination_add(record, basename(record->program[0]), true) &&
           destination_add(record, ".raw.lz4", true);
}

/* Whether the library will be able to create the file; a directory with % in it is known to the
 * library only. Returns an exit status. */
static int destination_check(const struct record *record)
{
    const char *destination = record->destination;
    struct stat status;
    if (!is_file_name(destination)) return PROGRAM_OK;
    if (stat(destination, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return cli_fail(&cli_record, "%s is a directory", destination);
        if (access(destination, W_OK) != 0)
            return cli_fail(&cli_record, "cannot write %s: %s", destination, strerror(errno));
    }
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", destination);
    *strrchr(directory, '/') = '\0';
    const char *checked = *directory != '\0' ? directory : "/";
    if (strchr(checked, '%') != NULL || access(checked, W_OK | X_OK) == 0) return PROGRAM_OK;
    return cli_fail(&cli_record, "cannot write into %s: %s", checked, strerror(errno));
}

/* Returns PROGRAM_OK, or the exit status if the program would not run as it does alone. */
static int obstacle_print(const struct executable *executable)
{
    static const char *const texts[] = {
        [EXECUTABLE_STATIC] =
            "is linked statically: no library can be put in front of its allocator",
        [EXECUTABLE_SANITIZER] =
            "is built with a sanitizer, whose allocator must be the first: build it without",
        [EXECUTABLE_PRIVILEGED] =
            "runs with privileges of its own: the system ignores preloaded libraries for it",
        [EXECUTABLE_OTHER_SYSTEM] = "is built for another kind of machine than malloctape"};
    if (executable->obstacle == EXECUTABLE_FINE) return PROGRAM_OK;
    if (executable->obstacle == EXECUTABLE_SANITIZER) {
        cli_fail(&cli_record, "%s %s; it was not run", executable->runs,
                 texts[EXECUTABLE_SANITIZER]);
        return PROGRAM_CANNOT_EXECUTE;
    }
    fprintf(stderr, "malloctape record: warning: %s %s; nothing will be recorded\n",
            executable->runs, texts[executable->obstacle]);
    return PROGRAM_OK;
}

/* In front of what is preloaded already, so that our allocator is the one that is used. */
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
    uint64_t recordings, events, foreign, unfinished;
};

/* Its process has left it; it may be another one's, which goes on. */
static void recording_finish(const struct recording *recording, bool speaks,
                             struct outcome *outcome)
{
    struct finished finished;
    bool goes_on = kill(recording->process, 0) == 0 || errno != ESRCH;
    if (goes_on || !is_file_name(recording->output) || !finish(recording->output, &finished)) {
        outcome->unfinished++;
        if (speaks && !goes_on)
            fprintf(stderr,
                    "malloctape: %s: cut short; `malloctape info` says what is known of it\n",
                    recording->output);
        return;
    }
    outcome->events += finished.events;
    if (finished.events == 0) outcome->foreign += finished.has_foreign_malloc;
    if (speaks)
        fprintf(stderr, "malloctape: %s: %" PRIu64 " events, %" PRIu64 " bytes; finished here\n",
                recording->output, finished.events, finished.bytes);
}

static struct outcome recordings_settle(const struct record *record,
                                        const struct recordings *recordings)
{
    struct outcome outcome = {0};
    bool speaks = !record->follow && getenv(QUIET_VARIABLE) == NULL;
    for (size_t i = 0; i < recordings->count; i++) {
        const struct recording *recording = &recordings->list[i];
        if (recording->is_forgotten) continue;
        outcome.recordings++;
        outcome.events += recording->events;
        if (recording->summary == NULL)
            recording_finish(recording, speaks, &outcome);
        else if (speaks && *recording->summary != '\0')
            fprintf(stderr, "%s\n", recording->summary);
        if (recording->summary != NULL && recording->events == 0)
            outcome.foreign += recording->has_foreign_malloc;
    }
    return outcome;
}

static void outcome_print(const struct record *record, const struct outcome *outcome)
{
    if (!record->follow || getenv(QUIET_VARIABLE) != NULL) return;
    fprintf(stderr, "malloctape record: %" PRIu64 " recordings, %" PRIu64 " events",
            outcome->recordings, outcome->events);
    if (outcome->unfinished > 0)
        fprintf(stderr, "; %" PRIu64 " go on or are cut short", outcome->unfinished);
    fprintf(stderr, ": %s\n", record->destination);
}

/* A program that was forked to be started counts as that program. */
static void unfollowed_print(const struct unfollowed *unfollowed)
{
    const char *name = unfollowed->program != NULL ? unfollowed->program : "a program";
    if (getenv(QUIET_VARIABLE) != NULL) return;
    if (unfollowed->programs > 1)
        fprintf(stderr,
                "malloctape record: it started %s and %zu more, which were not recorded: use "
                "--follow\n",
                name, unfollowed->programs - 1);
    else if (unfollowed->programs == 1)
        fprintf(stderr, "malloctape record: it started %s, which was not recorded: use --follow\n",
                name);
    else if (unfollowed->forks > 0)
        fprintf(stderr,
                "malloctape record: it forked; of the children (%zu) nothing was recorded: use "
                "--follow\n",
                unfollowed->forks);
}

/* Nothing, though the program has done what it should. */
static bool nothing_is_recorded(const struct outcome *outcome)
{
    return outcome->recordings == 0 || outcome->foreign == outcome->recordings;
}

static void look(void *recordings)
{
    recordings_look(recordings);
}

static int program_run(const struct record *record, const struct executable *executable)
{
    struct recordings recordings;
    struct running_program program = {0};
    bool listens =
        recordings_begin(&recordings) && setenv(REPORT_VARIABLE, recordings.path, 1) == 0;
    fprintf(stderr, "malloctape record: recording to %s\n", record->destination);
    int error = run_program(&program, executable->path, record->program, look, &recordings);
    recordings_look(&recordings);
    int status = PROGRAM_CANNOT_EXECUTE;
    if (error != 0) {
        cli_fail(&cli_record, "%s: %s", executable->path, strerror(error));
        if (error == ENOENT) status = PROGRAM_NOT_FOUND;
    } else {
        struct outcome outcome = recordings_settle(record, &recordings);
        outcome_print(record, &outcome);
        unfollowed_print(&recordings.unfollowed);
        status = run_program_status(&program);
        if (status == 0 && listens && nothing_is_recorded(&outcome)) {
            cli_fail(&cli_record, "nothing was recorded");
            status = PROGRAM_NOTHING_RECORDED;
        }
    }
    recordings_end(&recordings);
    return status;
}

static int run(int count, char **words)
{
    struct record record = {0};
    struct executable executable;
    struct installed library;
    char why[PATH_MAX];
    int status = words_parse(&record, count, words);
    if (status != PROGRAM_GO_ON) return status;
    status = executable_find(&executable, record.program[0]);
    if (status != 0) {
        cli_fail(&cli_record, "%s: %s", record.program[0],
                 status == PROGRAM_CANNOT_EXECUTE ? "cannot be executed" : "not found");
        return status;
    }
    if (!installed_find_library(&library, libraries[record.front_end], why, sizeof why))
        return cli_fail(&cli_record, "%s", why);
    if (!destination_set(&record))
        return cli_fail(&cli_record, "the name of the output is too long");
    status = destination_check(&record);
    if (status != PROGRAM_OK) return status;
    status = obstacle_print(&executable);
    if (status != PROGRAM_OK) return status;
    if (setenv(OUTPUT_VARIABLE, record.destination, 1) != 0 || !preload_set(library.path))
        return cli_fail(&cli_record, "cannot set the environment: %s", strerror(errno));
    return program_run(&record, &executable);
}

const struct cli_command cli_record = {
    "record", "runs a program and records every call of its allocator", run, help_text};
