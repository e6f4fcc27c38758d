#include "sweep/slurm.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/array.h"
#include "common/error.h"
#include "common/progress.h"
#include "stream/checksum.h"
#include "sweep/sweep_command.h"
#include "sweep/sweep_run.h"

/* The most tasks of a job array: one less than the default of MaxArraySize. */
enum { ARRAY_MAX = 1000 };

/* Results are looked for each second. Slurm serves others, too, so it is asked soon after something
 * was submitted, and then less and less often. */
enum { ASK_EVERY_S_MAX = 10 };

/* The limit of memory: compared allocators may take more than the recorded one. */
#define MEMORY_TIMES    2.0
#define MEMORY_MORE_MIB 256.0
/* The limit of time: an event takes 20 to 200 ns; half as many more replays time single calls. */
#define EVENT_S         1e-6
#define REPLAY_S        5.0
#define RUNS_TIMES      1.5
#define MORE_MINUTES    10.0

static const char script[] = "#!/bin/sh\n"
                             "# slurm.sh LIST - one task of a job array: its line of the list\n"
                             "eval \"$(sed -n \"${SLURM_ARRAY_TASK_ID}p\" \"$1\")\"\n";

/* ---- what Slurm knows ---- */

void slurm_job_name(const struct sweep *sweep, char *name, size_t bytes)
{
    const uint8_t *directory = (const uint8_t *)sweep->directory;
    snprintf(name, bytes, "malloctape-%08x",
             checksum_of_two(directory, strlen(sweep->directory), NULL, 0));
}

static void list_path(const struct sweep *sweep, unsigned list, const char *suffix, char *path,
                      size_t bytes)
{
    char file[64];
    snprintf(file, sizeof file, "%u.%s", list, suffix);
    snprintf(path, bytes, "%s", sweep_path(sweep, "slurm", file));
}

bool slurm_was_used(const struct sweep *sweep)
{
    return access(sweep_path(sweep, "slurm", ""), F_OK) == 0;
}

/* The ID of a line, from 1. */
static bool read_id(const struct sweep *sweep, unsigned list, unsigned line, char *id, size_t bytes)
{
    char path[2 * PATH_MAX];
    list_path(sweep, list, "ids", path, sizeof path);
    FILE *file = fopen(path, "re");
    bool there = file != NULL;
    for (unsigned i = 0; there && i < line; i++)
        there = fgets(id, (int)bytes, file) != NULL;
    if (file != NULL) fclose(file);
    if (there) id[strcspn(id, "\n")] = '\0';
    return there;
}

/* Whether a job in this state runs or will. In any other, also one that a later Slurm has, its task
 * is submitted again: nothing is lost if it runs twice. */
static bool is_active(const char *state)
{
    static const char *const active[] = {"PENDING",     "RUNNING",      "SUSPENDED", "CONFIGURING",
                                         "COMPLETING",  "RESIZING",     "REQUEUED",  "REQUEUE_HOLD",
                                         "REQUEUE_FED", "SPECIAL_EXIT", "SIGNALING", "STAGE_OUT",
                                         "STOPPED"};
    for (size_t i = 0; i < sizeof active / sizeof *active; i++)
        if (strcmp(state, active[i]) == 0) return true;
    return false;
}

/* A line "LIST|INDEX|JOB|STATE|REASON|NODE". False: no memory. */
static bool slurm_take_line(const struct sweep *sweep, struct slurm_states *states,
                            const char *line)
{
    struct slurm_state state = {.list = 0};
    unsigned index;
    if (sscanf(line, "%u|%u|%lu|%31[^|]|%95[^|]|%63[^|\n]", &state.list, &index, &state.job,
               state.state, state.reason, state.node) < 5 ||
        !read_id(sweep, state.list, index, state.id, sizeof state.id))
        return true;
    state.active = is_active(state.state);
    for (size_t i = 0; i < states->count; i++) {
        if (strcmp(states->states[i].id, state.id) != 0) continue;
        if (states->states[i].list <= state.list) states->states[i] = state;
        return true;
    }
    if (!array_reserve(&states->states, &states->room, states->count + 1, sizeof state))
        return false;
    states->states[states->count++] = state;
    return true;
}

bool slurm_read_states(const struct sweep *sweep, struct slurm_states *states, char *why,
                       size_t why_bytes)
{
    char name[64], user[32], *next;
    *states = (struct slurm_states){0};
    slurm_job_name(sweep, name, sizeof name);
    /* Others may give their jobs any name. */
    snprintf(user, sizeof user, "--user=%ju", (uintmax_t)getuid());
    const char *const words[] = {"squeue", "--noheader", "--array",  "--states=all",      user,
                                 "--name", name,         "--format", "%k|%K|%F|%T|%r|%N", NULL};
    char *text = command_read(words, why, why_bytes);
    if (text == NULL) return false;
    bool good = true;
    for (char *line = strtok_r(text, "\n", &next); line != NULL && good;
         line = strtok_r(NULL, "\n", &next))
        good = slurm_take_line(sweep, states, line);
    free(text);
    if (good) return true;
    slurm_free_states(states);
    return error_explain(why, why_bytes, "no memory");
}

void slurm_free_states(struct slurm_states *states)
{
    free(states->states);
    *states = (struct slurm_states){0};
}

const struct slurm_state *slurm_state_of(const struct slurm_states *states, const char *id)
{
    for (size_t i = 0; i < states->count; i++)
        if (strcmp(states->states[i].id, id) == 0) return &states->states[i];
    return NULL;
}

/* The line of the list that has the ID, from 1; 0: none has it. */
static unsigned find_id(const struct sweep *sweep, unsigned list, const char *id)
{
    char there[SWEEP_ID_BYTES];
    for (unsigned line = 1; read_id(sweep, list, line, there, sizeof there); line++)
        if (strcmp(there, id) == 0) return line;
    return 0;
}

void slurm_read_last_line(const struct sweep *sweep, const char *id, char *line, size_t bytes)
{
    char path[2 * PATH_MAX], suffix[32];
    *line = '\0';
    for (unsigned list = 1;; list++) {
        list_path(sweep, list, "ids", path, sizeof path);
        if (access(path, F_OK) != 0) return;
        const unsigned at = find_id(sweep, list, id);
        if (at == 0) continue;
        snprintf(suffix, sizeof suffix, "%u.out", at);
        list_path(sweep, list, suffix, path, sizeof path);
        sweep_read_last_line(path, line, bytes);
    }
}

/* ---- limits ---- */

struct limits {
    unsigned mib; /* 0: not known */
    unsigned minutes;
    bool waits; /* the job must wait until the trace is in order */
};

struct submitting {
    struct sweep *sweep;
    const char *partition;
    struct sweep_facts *facts; /* of rows; events < 0: not read yet */
    unsigned *tries;           /* of the tasks of this round, and then of the orders */
    unsigned long *orders;     /* the job arrays that put traces in order */
    size_t orders_count, orders_room;
    bool any; /* the latest call has submitted something */
    char *why;
    size_t why_bytes;
};

/* Limits are rounded up to powers of two, so that tasks fit into few arrays. */
static unsigned power_of_two_above(double number)
{
    unsigned power = 1;
    while (power < number && power < 1u << 30)
        power *= 2;
    return power;
}

static struct limits limits_of(const struct sweep_facts *facts, const struct sweep_job *job,
                               unsigned tries)
{
    const double replays = (double)(job->entries_count + 1) * (job->runs > 0 ? job->runs : 1);
    const double seconds = (facts->events * EVENT_S + REPLAY_S) * replays * RUNS_TIMES;
    const double mib = facts->peak_bytes / (1 << 20) * MEMORY_TIMES + MEMORY_MORE_MIB;
    struct limits limits = {0, power_of_two_above(MORE_MINUTES + seconds / 60) << tries, false};
    if (facts->peak_bytes > 0) limits.mib = power_of_two_above(mib) << tries;
    return limits;
}

static const struct sweep_facts *facts_of(struct submitting *submitting, size_t row)
{
    struct sweep_facts *facts = &submitting->facts[row];
    if (facts->events >= 0) return facts;
    progress_text("reading traces for the limits of their jobs");
    *facts = sweep_read_facts(&submitting->sweep->plan.rows[row]);
    return facts;
}

/* ---- submitting ---- */

/* A number that no list has yet. */
static unsigned new_list(const struct sweep *sweep)
{
    unsigned list = 0;
    char path[2 * PATH_MAX];
    do
        list_path(sweep, ++list, "list", path, sizeof path);
    while (access(path, F_OK) == 0);
    return list;
}

static bool write_list(const struct sweep *sweep, unsigned list, const char *suffix,
                       const struct sweep_job *const *jobs, size_t count, char *why,
                       size_t why_bytes)
{
    char path[2 * PATH_MAX];
    list_path(sweep, list, suffix, path, sizeof path);
    FILE *file = fopen(path, "we");
    for (size_t i = 0; file != NULL && i < count; i++)
        fprintf(file, "%s\n", *suffix == 'i' ? jobs[i]->id : jobs[i]->line);
    if (file != NULL && fclose(file) == 0) return true;
    return error_explain(why, why_bytes, "%s: %s", path, strerror(errno));
}

static bool slurm_write_script(const struct sweep *sweep, char *why, size_t why_bytes)
{
    const char *path = sweep_path(sweep, "slurm.sh", "");
    FILE *file = fopen(path, "we");
    if (file != NULL) fputs(script, file);
    if (file != NULL && fclose(file) == 0 &&
        (mkdir(sweep_path(sweep, "slurm", ""), 0777) == 0 || errno == EEXIST))
        return true;
    return error_explain(why, why_bytes, "%s: %s", sweep->directory, strerror(errno));
}

/* Adds an array that puts traces in order, once. False: no memory. */
static bool orders_add(struct submitting *submitting, unsigned long job)
{
    for (size_t i = 0; i < submitting->orders_count; i++)
        if (submitting->orders[i] == job) return true;
    if (!array_reserve(&submitting->orders, &submitting->orders_room, submitting->orders_count + 1,
                       sizeof job))
        return error_explain(submitting->why, submitting->why_bytes, "no memory");
    submitting->orders[submitting->orders_count++] = job;
    return true;
}

/* "--dependency=afterany:JOB:JOB", to be freed. NULL: there are none, or no memory; then the tasks
 * fail, and are submitted again. */
static char *make_dependency(const struct submitting *submitting)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = submitting->orders_count > 0 ? open_memstream(&text, &bytes) : NULL;
    if (to == NULL) return NULL;
    fputs("--dependency=afterany", to);
    for (size_t i = 0; i < submitting->orders_count; i++)
        fprintf(to, ":%lu", submitting->orders[i]);
    fclose(to);
    return text;
}

enum { SUBMIT_WORDS = 32 };

/* Submits one job array. Returns its number; 0: see `why`. */
static unsigned long submit(struct submitting *submitting, const struct limits *limits,
                            const struct sweep_job *const *jobs, size_t count)
{
    const struct sweep *sweep = submitting->sweep;
    const unsigned list = new_list(sweep);
    const bool compares = jobs[0]->entries_count > 0;
    char name[64], comment[16], array[32], minutes[32], memory[32], partition[256],
        output[2 * PATH_MAX], file[2 * PATH_MAX], by[2 * PATH_MAX];
    const char *words[SUBMIT_WORDS], **next = words;
    slurm_job_name(sweep, name, sizeof name);
    snprintf(comment, sizeof comment, "%u", list);
    snprintf(array, sizeof array, "--array=1-%zu", count);
    snprintf(minutes, sizeof minutes, "--time=%u", limits->minutes);
    snprintf(memory, sizeof memory, "--mem=%uM", limits->mib);
    snprintf(partition, sizeof partition, "--partition=%s", submitting->partition);
    list_path(sweep, list, "%a.out", output, sizeof output);
    list_path(sweep, list, "list", file, sizeof file);
    snprintf(by, sizeof by, "%s", sweep_path(sweep, "slurm.sh", ""));
    *next++ = "sbatch";
    *next++ = "--parsable";
    *next++ = "--job-name";
    *next++ = name;
    *next++ = "--comment";
    *next++ = comment;
    *next++ = array;
    *next++ = minutes;
    *next++ = "--requeue";
    *next++ = "--open-mode=append";
    *next++ = "--output";
    *next++ = output;
    if (compares) *next++ = "--exclusive";
    if (limits->mib > 0) *next++ = memory;
    if (submitting->partition != NULL) *next++ = partition;
    char *const dependency = limits->waits ? make_dependency(submitting) : NULL;
    if (dependency != NULL) *next++ = dependency;
    *next++ = by;
    *next++ = file;
    *next = NULL;
    if (!write_list(sweep, list, "ids", jobs, count, submitting->why, submitting->why_bytes) ||
        !write_list(sweep, list, "list", jobs, count, submitting->why, submitting->why_bytes)) {
        free(dependency);
        return 0;
    }
    char *text = command_read(words, submitting->why, submitting->why_bytes);
    const unsigned long job = text != NULL ? strtoul(text, NULL, 10) : 0;
    if (text != NULL && job == 0)
        error_explain(submitting->why, submitting->why_bytes, "sbatch: %s", text);
    free(text);
    free(dependency);
    return job;
}

/* A job to submit: an order, or a task of the round. */
struct wanted {
    const struct sweep_job *job;
    unsigned *tries;
    struct limits limits;
};

static int by_limits(const void *one, const void *other)
{
    const struct limits *a = &((const struct wanted *)one)->limits,
                        *b = &((const struct wanted *)other)->limits;
    if (a->mib != b->mib) return a->mib < b->mib ? -1 : 1;
    if (a->minutes != b->minutes) return a->minutes < b->minutes ? -1 : 1;
    if (a->waits != b->waits) return a->waits ? 1 : -1;
    const struct sweep_job *x = ((const struct wanted *)one)->job,
                           *y = ((const struct wanted *)other)->job;
    return x < y ? -1 : x > y; /* in the order of the plan */
}

static bool slurm_is_equal(const struct limits *one, const struct limits *other)
{
    return one->mib == other->mib && one->minutes == other->minutes && one->waits == other->waits;
}

/* Submits jobs, those with the same limits in one array. */
static bool submit_all(struct submitting *submitting, struct wanted *wanted, size_t count)
{
    const struct sweep_job *jobs[ARRAY_MAX];
    qsort(wanted, count, sizeof *wanted, by_limits);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && end - begin < ARRAY_MAX &&
                          slurm_is_equal(&wanted[begin].limits, &wanted[end].limits);
             end++)
            jobs[end - begin] = wanted[end].job;
        const unsigned long job = submit(submitting, &wanted[begin].limits, jobs, end - begin);
        if (job == 0) return false;
        if (wanted[begin].job->entries_count == 0 && !orders_add(submitting, job)) return false;
        for (size_t i = begin; i < end; i++)
            (*wanted[i].tries)++;
    }
    return true;
}

/* Whether the trace of the task has not been put in order yet. */
static bool waits_for_order(const struct sweep *sweep, const struct sweep_job *task)
{
    for (size_t i = 0; i < sweep->orders.count; i++) {
        const struct sweep_job *order = &sweep->orders.jobs[i];
        if (strstr(task->line, order->id) != NULL && !sweep_is_done(sweep, order)) return true;
    }
    return false;
}

/* Submits everything that is missing and that Slurm does not have, unless it was tried too often.
 * *left: how many of the missing tasks Slurm has now. False: see `why`. */
static bool submit_missing(struct submitting *submitting, const struct slurm_states *states,
                           size_t *left)
{
    struct sweep *sweep = submitting->sweep;
    const size_t tasks = sweep->tasks.count - sweep->round_begin;
    struct wanted *orders = calloc(sweep->orders.count + 1, sizeof *orders),
                  *compares = calloc(tasks + 1, sizeof *compares);
    size_t orders_count = 0, compares_count = 0;
    bool good = (orders != NULL && compares != NULL) ||
                error_explain(submitting->why, submitting->why_bytes, "no memory");
    *left = 0;
    submitting->orders_count = 0;
    for (size_t i = 0; good && i < tasks; i++) {
        const struct sweep_job *task = &sweep->tasks.jobs[sweep->round_begin + i];
        const struct slurm_state *state = slurm_state_of(states, task->id);
        unsigned *tries = &submitting->tries[i];
        if (sweep_is_done(sweep, task)) continue;
        if (state != NULL && state->active) (*left)++;
        if ((state != NULL && state->active) || *tries > SLURM_AGAIN_MAX) continue;
        compares[compares_count] =
            (struct wanted){task, tries, limits_of(facts_of(submitting, task->row), task, *tries)};
        compares[compares_count++].limits.waits = waits_for_order(sweep, task);
    }
    for (size_t i = 0; good && i < sweep->orders.count; i++) {
        const struct sweep_job *order = &sweep->orders.jobs[i];
        const struct slurm_state *state = slurm_state_of(states, order->id);
        unsigned *tries = &submitting->tries[tasks + i];
        if (!sweep_is_needed(sweep, order) || *tries > SLURM_AGAIN_MAX) continue;
        if (state != NULL && state->active) {
            good = orders_add(submitting, state->job);
            continue;
        }
        orders[orders_count++] = (struct wanted){
            order, tries, limits_of(facts_of(submitting, order->row), order, *tries)};
    }
    progress_text("");
    submitting->any = orders_count + compares_count > 0;
    good = good && submit_all(submitting, orders, orders_count) &&
           submit_all(submitting, compares, compares_count);
    *left += compares_count;
    free(orders);
    free(compares);
    return good;
}

/* ---- waiting ---- */

/* Whether Slurm's controller cannot be reached, perhaps because it is being restarted. */
static bool is_away(const char *why)
{
    return strstr(why, "contact slurm controller") != NULL ||
           strstr(why, "onnection refused") != NULL || strstr(why, "timed out") != NULL;
}

static void tell_how_to_cancel(const struct sweep *sweep, const char *what)
{
    char name[64];
    slurm_job_name(sweep, name, sizeof name);
    progress_text("");
    printf("%s; the same command watches them again, scancel --name %s cancels them\n", what, name);
    fflush(stdout);
}

static void slurm_show(const struct sweep *sweep, const struct slurm_states *states)
{
    const size_t all = sweep->tasks.count - sweep->round_begin;
    char message[128];
    size_t running = 0;
    for (size_t i = 0; i < states->count; i++)
        running += strcmp(states->states[i].state, "RUNNING") == 0;
    snprintf(message, sizeof message, "%zu of %zu done, %zu run", all - sweep_round_missing(sweep),
             all, running);
    progress_text(message);
}

/* Waits a second, or until a signal comes. */
static void wait_a_second(void)
{
    const struct timespec second = {.tv_sec = 1};
    nanosleep(&second, NULL);
}

static bool slurm_watch(struct submitting *submitting)
{
    struct sweep *sweep = submitting->sweep;
    struct slurm_states states = {0};
    bool good = true, first = true, away = false;
    unsigned ask_in = 0, ask_every = 1; /* s */
    while (good && !sweep_interrupted() && sweep_round_missing(sweep) > 0) {
        if (ask_in > 0) {
            ask_in--;
            slurm_show(sweep, &states);
            wait_a_second();
            continue;
        }
        size_t left = 0;
        slurm_free_states(&states);
        good = slurm_read_states(sweep, &states, submitting->why, submitting->why_bytes) &&
               submit_missing(submitting, &states, &left);
        const bool was_away = away;
        away = !good && !first && is_away(submitting->why);
        if (away && !was_away) cli_fail(&cli_sweep, "%s; waiting for it", submitting->why);
        if (good && first) tell_how_to_cancel(sweep, "the jobs are submitted");
        if (good && left == 0) break;
        good = good || away;
        first = false;
        ask_every = submitting->any ? 1 : 2 * ask_every;
        if (ask_every > ASK_EVERY_S_MAX) ask_every = ASK_EVERY_S_MAX;
        ask_in = ask_every;
    }
    slurm_free_states(&states);
    progress_text("");
    if (!good) cli_fail(&cli_sweep, "%s", submitting->why);
    return good;
}

bool sweep_run_slurm(struct sweep *sweep, const char *partition)
{
    char why[1024] = "";
    const size_t tasks = sweep->tasks.count - sweep->round_begin;
    struct submitting submitting = {
        .sweep = sweep, .partition = partition, .why = why, .why_bytes = sizeof why};
    submitting.facts = calloc(sweep->plan.rows_count, sizeof *submitting.facts);
    submitting.tries = calloc(tasks + sweep->orders.count + 1, sizeof *submitting.tries);
    bool good = submitting.facts != NULL && submitting.tries != NULL;
    for (size_t i = 0; good && i < sweep->plan.rows_count; i++)
        submitting.facts[i].events = -1;
    sweep_catch_signals();
    if (!good) cli_fail(&cli_sweep, "no memory");
    if (good && !slurm_write_script(sweep, why, sizeof why)) {
        cli_fail(&cli_sweep, "%s", why);
        good = false;
    }
    good = good && slurm_watch(&submitting);
    if (good && sweep_interrupted()) tell_how_to_cancel(sweep, "the jobs keep running");
    free(submitting.facts);
    free(submitting.tries);
    free(submitting.orders);
    return good && !sweep_interrupted();
}
