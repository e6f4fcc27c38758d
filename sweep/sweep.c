/* malloctape sweep - compares many traces, or many settings: here, on a cluster, or on other
 * machines. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/printable.h"
#include "sweep/collect.h"
#include "sweep/halving.h"
#include "sweep/parallel.h"
#include "sweep/slurm.h"
#include "sweep/sweep_run.h"
#include "sweep/tasks.h"

static const char sweep_help_text[] =
    "usage: malloctape sweep --plan TRACE... > PLAN\n"
    "       malloctape sweep PLAN [--dir DIR] [--on WHERE] [--halving BY]\n"
    "       malloctape sweep --status DIR\n"
    "       malloctape sweep --collect DIR [--json FILE] [--avro FILE] [--html FILE]\n"
    "\n"
    "Compares allocators and settings over many traces, as a plan says (sweep.md). Each trace is\n"
    "compared as malloctape compare does it; results are files in a directory, and what is there is\n"
    "not measured again: the same command continues where it was interrupted.\n"
    "\n"
    "      --plan       prints a first plan for the traces\n"
    "      --dir DIR    the sweep's directory (default: NAME.sweep beside NAME.json)\n"
    "      --on WHERE   what runs the comparisons: here (the default), slurm, or parallel (GNU\n"
    "                   parallel over ssh)\n"
    "      --partition NAME\n"
    "                   of Slurm (default: its own)\n"
    "      --hosts FILE for parallel: the other machines, as its --sshloginfile\n"
    "      --halving BY after each round, drop the worse half of each allocator's settings, by memory\n"
    "                   or time, until one is left\n"
    "      --status     says what is done, what runs, what failed and why\n"
    "      --collect    puts all results into one table\n"
    "      --json FILE  writes the table as JSON; - is the standard output\n"
    "      --avro FILE  writes all replays as Avro, a row for each\n"
    "      --html FILE  writes a page\n"
    "\n"
    "  malloctape sweep --plan raw/*.lz4 >plan.json && malloctape sweep plan.json\n"
    "\n"
    "The exit status is 0 when all results are there, 1 when some are missing, 2 for a mistake on the\n"
    "command line.\n";

enum where { HERE, ON_SLURM, ON_PARALLEL };
static const char *const where_names[] = {
    [HERE] = "here", [ON_SLURM] = "slurm", [ON_PARALLEL] = "parallel", NULL};
static const char *const by_names[] = {
    [HALVING_MEMORY] = "memory", [HALVING_TIME] = "time", [HALVING_WAYS] = NULL};

struct options {
    bool plan, status, collect;
    const char *directory, *partition, *hosts;
    unsigned where;
    unsigned halving; /* HALVING_WAYS: none */
    struct sweep_collect_options outputs;
};

/* Returns PROGRAM_GO_ON or an exit status. */
static int sweep_words_parse(struct options *options, int count, char **words)
{
    const struct program_option known[] = {
        {"plan", .flag = &options->plan},
        {"status", .flag = &options->status},
        {"collect", .flag = &options->collect},
        {"dir", .word = &options->directory},
        {"on", .choice = &options->where, .choices = where_names},
        {"partition", .word = &options->partition},
        {"hosts", .word = &options->hosts},
        {"halving", .choice = &options->halving, .choices = by_names},
        {"json", .word = &options->outputs.json},
        {"avro", .word = &options->outputs.avro},
        {"html", .word = &options->outputs.html},
        {.name = NULL}};
    options->halving = HALVING_WAYS;
    const int status =
        program_options(count, words, known, sweep_help_text, PROGRAM_ANYWHERE, NULL);
    const struct sweep_collect_options *outputs = &options->outputs;
    if (status != PROGRAM_GO_ON) return status;
    if (options->plan + options->status + options->collect > 1)
        return cli_usage_error(&cli_sweep, "one of --plan, --status, --collect");
    if (!options->collect &&
        (outputs->json != NULL || outputs->avro != NULL || outputs->html != NULL))
        return cli_usage_error(&cli_sweep, "--json, --avro and --html need --collect");
    if ((options->where == ON_PARALLEL) != (options->hosts != NULL))
        return cli_usage_error(&cli_sweep, "--on parallel and --hosts need each other");
    if (options->where != ON_SLURM && options->partition != NULL)
        return cli_usage_error(&cli_sweep, "--partition needs --on slurm");
    if (optind == count)
        return cli_usage_error(&cli_sweep, options->plan ? "which traces?" : "which plan?");
    if (!options->plan && optind + 1 < count)
        return cli_usage_error(&cli_sweep, "sweep takes one plan");
    return PROGRAM_GO_ON;
}

/* ---- what is there ---- */

/* For a task without a result: the last line that it printed, or else that of Slurm. */
static void read_last_words(const struct sweep *sweep, const char *id, char *words, size_t bytes)
{
    sweep_read_last_line(sweep_path(sweep, "logs", id), words, bytes);
    if (*words == '\0') slurm_read_last_line(sweep, id, words, bytes);
}

static void print_failure(const struct sweep *sweep, const char *id,
                          const struct slurm_state *state)
{
    char words[1024];
    read_last_words(sweep, id, words, sizeof words);
    if (state != NULL)
        printf("  %s: %s, %s%s%s\n", printable_text(id), printable_text(state->state),
               printable_text(state->reason), *words != '\0' ? ": " : "", printable_text(words));
    else
        printf("  %s: %s\n", printable_text(id),
               *words != '\0' ? printable_text(words) : "not started, or not finished");
}

/* Returns an exit status. */
static int print_status(const struct sweep *sweep)
{
    char why[1024];
    size_t count, done = 0, run = 0, wait = 0;
    struct slurm_states states = {0};
    char **ids = sweep_read_results(sweep, &count);
    if (slurm_was_used(sweep) && !slurm_read_states(sweep, &states, why, sizeof why))
        cli_fail(&cli_sweep, "%s", why);
    for (size_t i = 0; i < count; i++) {
        const struct slurm_state *state = slurm_state_of(&states, ids[i]);
        const bool is_done = sweep_has_result(sweep, ids[i]);
        const bool runs = state != NULL && strcmp(state->state, "RUNNING") == 0;
        done += is_done;
        run += !is_done && runs;
        wait += !is_done && state != NULL && state->active && !runs;
    }
    printf("%zu of %zu done", done, count);
    if (run > 0) printf(", %zu run", run);
    if (wait > 0) printf(", %zu wait", wait);
    puts(sweep_is_running_here(sweep) ? ", a sweep is running here" : "");
    for (size_t i = 0; i < count; i++) {
        const struct slurm_state *state = slurm_state_of(&states, ids[i]);
        if (sweep_has_result(sweep, ids[i])) continue;
        if (state == NULL || !state->active)
            print_failure(sweep, ids[i], state);
        else if (strcmp(state->state, "RUNNING") == 0)
            printf("  %s: runs on %s\n", printable_text(ids[i]), printable_text(state->node));
        else
            printf("  %s: waits, %s\n", printable_text(ids[i]), printable_text(state->reason));
    }
    slurm_free_states(&states);
    sweep_free_results(ids, count);
    return done == count ? PROGRAM_OK : PROGRAM_FAILED;
}

/* ---- carrying it out ---- */

/* Carries out a round. Returns PROGRAM_OK if all its results are there, else an exit status; what
 * is missing has been printed. */
static int order_carry_out(struct sweep *sweep, const struct options *options)
{
    char words[1024];
    const bool went_on = options->where == ON_SLURM ? sweep_run_slurm(sweep, options->partition)
                         : options->where == ON_PARALLEL ? sweep_run_parallel(sweep, options->hosts)
                                                         : sweep_run_here(sweep);
    for (size_t i = sweep->round_begin; i < sweep->tasks.count && went_on; i++) {
        const struct sweep_job *task = &sweep->tasks.jobs[i];
        if (sweep_is_done(sweep, task)) continue;
        read_last_words(sweep, task->id, words, sizeof words);
        cli_fail(&cli_sweep, "%s failed%s%s", task->id, *words != '\0' ? ": " : "", words);
    }
    return sweep_round_missing(sweep) == 0 ? PROGRAM_OK : PROGRAM_FAILED;
}

/* Prints how far the sweep has come. */
static int sweep_tell(const struct sweep *sweep, int status)
{
    const size_t all = sweep->tasks.count - sweep->round_begin;
    const char *of = sweep->round_begin > 0 ? "of the round " : "";
    printf("%zu of %zu %sdone", all - sweep_round_missing(sweep), all, of);
    if (status == PROGRAM_OK)
        printf("; the table: malloctape sweep --collect %s\n", printable_text(sweep->directory));
    else
        printf("; to continue, run the same command again\n");
    return status;
}

static int sweep_all(struct sweep *sweep, const struct options *options)
{
    char why[1024];
    unlink(sweep_path(sweep, "halving.json", ""));
    if (!sweep_begin_round(sweep, &(struct sweep_round){0}, why, sizeof why))
        return cli_fail(&cli_sweep, "%s", why);
    return sweep_tell(sweep, order_carry_out(sweep, options));
}

static int sweep_by_halves(struct sweep *sweep, const struct options *options)
{
    struct halving halving;
    char why[1024] = "no memory";
    bool good = halving_open(&halving, sweep, (enum halving_by)options->halving);
    int status = PROGRAM_OK;
    for (unsigned round = 0; good && status == PROGRAM_OK && round <= halving.rounds; round++) {
        good = halving_begin_round(&halving, round, why, sizeof why);
        if (good) status = order_carry_out(sweep, options);
        if (good && status == PROGRAM_OK)
            good = halving_end_round(&halving, round, why, sizeof why);
    }
    halving_close(&halving);
    return good ? sweep_tell(sweep, status) : cli_fail(&cli_sweep, "%s", why);
}

static int plan_carry_out(const struct options *options, const char *plan)
{
    static struct sweep sweep;
    char why[1024];
    int status;
    if (options->status) {
        if (!sweep_find(&sweep, plan, options->directory, why, sizeof why))
            return cli_fail(&cli_sweep, "%s", why);
        return print_status(&sweep);
    }
    if (sweep_open(&sweep, plan, options->directory, why, sizeof why))
        status = options->halving == HALVING_WAYS ? sweep_all(&sweep, options)
                                                  : sweep_by_halves(&sweep, options);
    else
        status = cli_fail(&cli_sweep, "%s", why);
    sweep_close(&sweep);
    return status;
}

static int run(int count, char **words)
{
    struct options options = {0};
    char why[1024];
    struct sweep sweep;
    const int status = sweep_words_parse(&options, count, words);
    if (status != PROGRAM_GO_ON) return status;
    if (options.plan)
        return plan_print(words + optind, (size_t)(count - optind))
                   ? PROGRAM_OK
                   : cli_fail(&cli_sweep, "no memory");
    if (!options.collect) return plan_carry_out(&options, words[optind]);
    if (!sweep_find(&sweep, words[optind], options.directory, why, sizeof why))
        return cli_fail(&cli_sweep, "%s", why);
    return sweep_collect(sweep.directory, &options.outputs);
}

const struct cli_command cli_sweep = {
    "sweep", "compares many traces and settings, here or on many machines", run, sweep_help_text};
