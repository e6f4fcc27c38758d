#include "sweep/tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/error.h"
#include "common/json_file.h"
#include "launch/allocators.h"
#include "launch/installed.h"
#include "stream/checksum.h"
#include "sweep/sweep_command.h"

/* Two processes that do the same at the same time write two files; the one renamed last stays. A
 * file left by a killed one does no harm. */
static const char order_script[] =
    "#!/bin/sh\n"
    "# order.sh NAME RECORDING - puts the recording in order, as traces/NAME, unless that is there\n"
    "cd \"$(dirname \"$0\")\" || exit\n"
    "[ ! -e \"traces/$1\" ] || exit 0\n"
    "new=traces/new.$(uname -n).$$.$1\n"
    "rm -f traces/new.\"$(uname -n)\".*.\"$1\"\n"
    "trap 'rm -f \"$new\"' EXIT\n"
    "trap 'exit 1' HUP INT TERM\n"
    "%s order --quiet -- \"$2\" \"$new\" >\"logs/$1\" 2>&1\n"
    "status=$?\n"
    "# 3: the recording was cut short.\n"
    "case $status in\n"
    "0 | 3) mv \"$new\" \"traces/$1\" ;;\n"
    "*) echo \"order ended with status $status\" >>\"logs/$1\" && exit 1 ;;\n"
    "esac\n";
static const char compare_script[] =
    "#!/bin/sh\n"
    "# compare.sh ID WORD... - malloctape compare WORD..., with results/ID.json as its result, unless\n"
    "# that is there\n"
    "cd \"$(dirname \"$0\")\" || exit\n"
    "id=$1\n"
    "shift\n"
    "again=results/$id.again\n"
    "[ ! -e \"results/$id.json\" ] || [ -e \"$again\" ] || exit 0\n"
    "new=results/new.$(uname -n).$$.$id\n"
    "rm -f results/new.\"$(uname -n)\".*.\"$id\"\n"
    "trap 'rm -f \"$new\"' EXIT\n"
    "trap 'exit 1' HUP INT TERM\n"
    "%s compare --no-series --json \"$new\" \"$@\" >\"logs/$id\" 2>&1\n"
    "status=$?\n"
    "# 1: an allocator failed, which is a result, too; 3: the recording was cut short; 5: signals\n"
    "# ended replays, so there is only a part of the result.\n"
    "case $status in\n"
    "0 | 1 | 3) [ -s \"$new\" ] && mv \"$new\" \"results/$id.json\" && rm -f \"$again\" ;;\n"
    "5) : >\"$again\" && mv \"$new\" \"results/$id.json\"; exit 1 ;;\n"
    "*) echo \"compare ended with status $status\" >>\"logs/$id\" && exit 1 ;;\n"
    "esac\n";

const char *sweep_path(const struct sweep *sweep, const char *name, const char *file)
{
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s%s%s", sweep->directory, name, *file != '\0' ? "/" : "",
             file);
    return path;
}

/* ---- files of the directory ---- */

/* A new file for the caller to write, which replaces the old one when it is complete. */
struct new_file {
    FILE *to;
    char path[2 * PATH_MAX], new_path[2 * PATH_MAX + 8];
};

static bool new_file_open(struct new_file *file, const char *path)
{
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(file->new_path, sizeof file->new_path, "%s.new", path);
    file->to = fopen(file->new_path, "we");
    return file->to != NULL;
}

static bool new_file_close(struct new_file *file, char *why, size_t why_bytes)
{
    const bool written = file->to != NULL && !ferror(file->to);
    const bool closed = file->to != NULL && fclose(file->to) == 0;
    if (written && closed && rename(file->new_path, file->path) == 0) return true;
    return error_explain(why, why_bytes, "%s: %s", file->path, strerror(errno));
}

static bool tasks_write_script(const struct sweep *sweep, const char *name, const char *text,
                               char *why, size_t why_bytes)
{
    struct installed program;
    struct new_file file;
    char *quoted = NULL;
    size_t bytes;
    if (!installed_find_program(&program, "malloctape"))
        return error_explain(why, why_bytes, "%s not found", program.path);
    FILE *to = open_memstream(&quoted, &bytes);
    if (to == NULL) return error_explain(why, why_bytes, "no memory");
    command_put_quoted(to, program.path);
    const bool made = fclose(to) == 0;
    if (new_file_open(&file, sweep_path(sweep, name, ""))) {
        /* The constants above have %s exactly once. */
        const char *place = strstr(text, "%s");
        fprintf(file.to, "%.*s%s%s", (int)(place - text), text, made ? quoted : "",
                place + strlen("%s"));
    }
    free(quoted);
    return new_file_close(&file, why, why_bytes);
}

static bool make_directory(const char *path, char *why, size_t why_bytes)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
    return error_explain(why, why_bytes, "%s: %s", path, strerror(errno));
}

static bool make_directories(const struct sweep *sweep, char *why, size_t why_bytes)
{
    static const char *const names[] = {"traces", "results", "logs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!make_directory(sweep_path(sweep, names[i], ""), why, why_bytes)) return false;
    return tasks_write_script(sweep, "order.sh", order_script, why, why_bytes) &&
           tasks_write_script(sweep, "compare.sh", compare_script, why, why_bytes);
}

static bool write_plan(const struct sweep *sweep, char *why, size_t why_bytes)
{
    struct new_file file;
    if (new_file_open(&file, sweep_path(sweep, "plan.json", ""))) {
        if (json_dumpf(sweep->plan.json, file.to, JSON_INDENT(2)) == 0) fputc('\n', file.to);
    }
    return new_file_close(&file, why, why_bytes);
}

static bool write_lines(const struct sweep *sweep, const char *name, const struct sweep_list *list,
                        size_t begin, bool as_ids, char *why, size_t why_bytes)
{
    struct new_file file;
    const bool opened = new_file_open(&file, sweep_path(sweep, name, ""));
    for (size_t i = begin; opened && i < list->count; i++)
        fprintf(file.to, "%s\n", as_ids ? list->jobs[i].id : list->jobs[i].line);
    return new_file_close(&file, why, why_bytes);
}

/* ---- where it is ---- */

static bool tasks_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The default: NAME.sweep beside NAME.json. */
static int default_directory(const char *plan, char *path, size_t bytes)
{
    const size_t length = strlen(plan);
    const bool has_suffix = length > 5 && strcmp(plan + length - 5, ".json") == 0;
    return snprintf(path, bytes, "%.*s.sweep", (int)(has_suffix ? length - 5 : length), plan);
}

static bool tasks_find(struct sweep *sweep, const char *path, const char *directory, bool create,
                       char *why, size_t why_bytes)
{
    char given[PATH_MAX];
    int length = directory == NULL && !tasks_is_directory(path)
                     ? default_directory(path, given, sizeof given)
                     : snprintf(given, sizeof given, "%s", directory != NULL ? directory : path);
    if (length >= (int)sizeof given) return error_explain(why, why_bytes, "%s: too long", path);
    if (create && !make_directory(given, why, why_bytes)) return false;
    if (realpath(given, sweep->directory) == NULL || !tasks_is_directory(sweep->directory))
        return error_explain(why, why_bytes, "%s: not the directory of a sweep", given);
    if (strchr(sweep->directory, '\n') != NULL)
        return error_explain(why, why_bytes, "%s: the name has several lines", given);
    return true;
}

bool sweep_find(struct sweep *sweep, const char *path, const char *directory, char *why,
                size_t why_bytes)
{
    *sweep = (struct sweep){.orders = {0}};
    return tasks_find(sweep, path, directory, false, why, why_bytes);
}

bool sweep_open(struct sweep *sweep, const char *path, const char *directory, char *why,
                size_t why_bytes)
{
    char plan[PATH_MAX + 16];
    *sweep = (struct sweep){.orders = {0}};
    snprintf(plan, sizeof plan, "%s%s", path, tasks_is_directory(path) ? "/plan.json" : "");
    return plan_read(&sweep->plan, plan, why, why_bytes) &&
           tasks_find(sweep, path, directory, true, why, why_bytes) &&
           make_directories(sweep, why, why_bytes) && write_plan(sweep, why, why_bytes) &&
           (kept_read(&sweep->kept, sweep_path(sweep, "groups", "")) ||
            error_explain(why, why_bytes, "no memory"));
}

static void list_free(struct sweep_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->jobs[i].result);
        free(list->jobs[i].line);
        free(list->jobs[i].entries);
    }
    free(list->jobs);
}

void sweep_close(struct sweep *sweep)
{
    list_free(&sweep->orders);
    list_free(&sweep->tasks);
    kept_free(&sweep->kept);
    plan_free(&sweep->plan);
}

/* ---- names ---- */

/* The name of the file with the ordered recording. */
static void ordered_name(const struct plan_row *row, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s-%08x.p.lz4", row->name, row->checksum);
}

/* ---- commands ---- */

/* Adds a job that is complete except for its result and its line, and closes the line. Ownership of
 * everything passes to the list. */
static bool tasks_list_add(struct sweep_list *list, struct sweep_job *job, const char *result,
                           FILE *line)
{
    const bool ended = line != NULL && fclose(line) == 0;
    job->result = strdup(result);
    if (ended && job->result != NULL &&
        array_reserve(&list->jobs, &list->room, list->count + 1, sizeof *list->jobs)) {
        list->jobs[list->count++] = *job;
        return true;
    }
    free(job->result);
    free(job->line);
    free(job->entries);
    return false;
}

static bool has_job(const struct sweep_list *list, size_t begin, const char *id)
{
    for (size_t i = begin; i < list->count; i++)
        if (strcmp(list->jobs[i].id, id) == 0) return true;
    return false;
}

static bool add_order(struct sweep *sweep, size_t at)
{
    const struct plan_row *row = &sweep->plan.rows[at];
    struct sweep_job job = {.row = at};
    size_t bytes;
    ordered_name(row, job.id, sizeof job.id);
    if (!row->is_raw || has_job(&sweep->orders, 0, job.id)) return true;
    FILE *line = open_memstream(&job.line, &bytes);
    if (line == NULL) return false;
    fputs("sh ", line);
    command_put_quoted(line, sweep_path(sweep, "order.sh", ""));
    fprintf(line, " %s ", job.id);
    command_put_quoted(line, row->trace);
    return tasks_list_add(&sweep->orders, &job, sweep_path(sweep, "traces", job.id), line);
}

/* Puts the options that come before the trace. */
static bool put_options(const struct plan_row *row, const struct sweep_round *round,
                        const struct sweep_job *job, FILE *to)
{
    bool good = true;
    fprintf(to, "--runs %u", job->runs);
    if (row->engine != NULL) fprintf(to, " --engine %s", row->engine);
    if (row->limit_s >= 0) fprintf(to, " --time-limit %.15g", row->limit_s);
    if (!row->latency || round->no_latency) fputs(" --no-latency", to);
    for (size_t i = 0; i < job->entries_count; i++) {
        char *entry = plan_entry_text(&row->list.entries[job->entries[i]]);
        good = good && entry != NULL;
        fputs(" --allocators ", to);
        command_put_quoted(to, entry != NULL ? entry : "");
        free(entry);
    }
    return good;
}

/* Puts the options of replay, which come after it. */
static void put_replay_options(const struct plan_row *row, FILE *to)
{
    size_t at;
    json_t *word;
    if (json_array_size(row->words) > 0) fputs(" --", to);
    json_array_foreach(row->words, at, word)
    {
        fputc(' ', to);
        command_put_quoted(to, json_string_value(word));
    }
}

/* The checksum of everything that the result depends on, which does not include the trace's path.
 * For a job without entries: a key (sweep/kept.h). */
static bool checksum_of(const struct plan_row *row, const struct sweep_round *round,
                        const struct sweep_job *job, uint32_t *checksum)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL) return false;
    fprintf(to, "%llu %08x ", (unsigned long long)row->bytes, row->checksum);
    bool good = put_options(row, round, job, to);
    put_replay_options(row, to);
    good = fclose(to) == 0 && good;
    if (good) *checksum = checksum_of_two((const uint8_t *)text, bytes, NULL, 0);
    free(text);
    return good;
}

/* Makes the ID of a job whose row and entries are set. */
static bool make_id(const struct sweep *sweep, const struct sweep_round *round,
                    struct sweep_job *job, unsigned group)
{
    const struct plan_row *row = &sweep->plan.rows[job->row];
    uint32_t checksum;
    if (!checksum_of(row, round, job, &checksum)) return false;
    snprintf(job->id, sizeof job->id, "%s-%u-%08x", row->name, group, checksum);
    return true;
}

/* Adds a task that has an ID, and takes ownership of what it has. */
static bool add_task(struct sweep *sweep, const struct sweep_round *round, struct sweep_job *job)
{
    const struct plan_row *row = &sweep->plan.rows[job->row];
    char name[SWEEP_ID_BYTES], file[SWEEP_ID_BYTES + 8];
    size_t bytes;
    FILE *line = open_memstream(&job->line, &bytes);
    if (line == NULL) {
        free(job->entries);
        return false;
    }
    ordered_name(row, name, sizeof name);
    fputs("sh ", line);
    command_put_quoted(line, sweep_path(sweep, "compare.sh", ""));
    fprintf(line, " %s ", job->id);
    bool good = put_options(row, round, job, line);
    fputc(' ', line);
    command_put_quoted(line, row->is_raw ? sweep_path(sweep, "traces", name) : row->trace);
    put_replay_options(row, line);
    if (has_job(&sweep->tasks, sweep->round_begin, job->id)) { /* the same file under two names */
        fclose(line);
        free(job->line);
        free(job->entries);
        return good;
    }
    snprintf(file, sizeof file, "%s.json", job->id);
    return tasks_list_add(&sweep->tasks, job, sweep_path(sweep, "results", file), line) && good;
}

/* ---- rounds ---- */

/* State while tasks are made for a row. */
struct adding {
    struct sweep *sweep;
    const struct sweep_round *round;
    const struct plan_row *row;
    size_t at;       /* of it */
    bool *taken;     /* by entry: not wanted, or in a task already */
    size_t left;     /* entries not taken */
    unsigned groups; /* the highest group number so far, including kept ones */
    uint32_t key;
};

static struct sweep_job new_job(const struct adding *adding)
{
    const unsigned runs = adding->round->runs;
    return (struct sweep_job){.row = adding->at, .runs = runs > 0 ? runs : adding->row->runs};
}

static bool add_group(struct adding *adding, struct sweep_job *job)
{
    for (size_t i = 0; i < job->entries_count; i++)
        adding->taken[job->entries[i]] = true;
    adding->left -= job->entries_count;
    return kept_add(&adding->sweep->kept, adding->key, job->id, adding->row, job->entries,
                    job->entries_count) &&
           add_task(adding->sweep, adding->round, job);
}

/* The number in NAME-NUMBER-CHECKSUM. */
static unsigned tasks_group_of(const char *id)
{
    const char *last = strrchr(id, '-');
    while (last != NULL && last > id && *--last != '-')
        ;
    return last != NULL ? (unsigned)strtoul(last + 1, NULL, 10) : 0;
}

/* Keeps an earlier result with entries of the row. `whole`: only if it has all that are left; else
 * it must have the recorded allocator, through which the others are joined. */
static bool keep_group(struct adding *adding, const struct kept_group *group, bool whole)
{
    struct sweep_job job = new_job(adding);
    char file[SWEEP_ID_BYTES + 8];
    if (group->key != adding->key || !sweep_has_result(adding->sweep, group->id) ||
        (whole && group->entries_count != adding->left))
        return true;
    job.entries = kept_indexes(group, adding->row, adding->taken);
    if (job.entries == NULL) return true;
    job.entries_count = group->entries_count;
    snprintf(file, sizeof file, "%s.json", group->id);
    if (!make_id(adding->sweep, adding->round, &job, tasks_group_of(group->id)) ||
        strcmp(job.id, group->id) != 0 ||
        (!whole && !kept_has_recorded(sweep_path(adding->sweep, "results", file)))) {
        free(job.entries);
        return true;
    }
    if (adding->groups < tasks_group_of(job.id)) adding->groups = tasks_group_of(job.id);
    return add_group(adding, &job);
}

/* Keeps earlier results: first looks for one that has all entries, then for others. */
static bool keep_groups(struct adding *adding)
{
    const size_t count = adding->sweep->kept.count;
    for (int whole = 1; whole >= 0; whole--)
        for (size_t i = 0; i < count && adding->left > 0; i++)
            if (!keep_group(adding, &adding->sweep->kept.groups[i], whole)) return false;
    return true;
}

/* Adds tasks for the entries that are left, in groups of nearly equal size; compare adds the
 * recorded allocator to each. */
static bool add_others(struct adding *adding)
{
    const size_t most = adding->sweep->plan.entries_per_task, left = adding->left;
    const bool divided = left > most && sweep_read_facts(adding->row).recorded_is_known;
    const size_t parts = divided ? (left + most - 1) / most : 1;
    for (size_t part = 0, next = 0; part < parts; part++) {
        struct sweep_job job = new_job(adding);
        const size_t count = (part + 1) * left / parts - part * left / parts;
        job.entries = calloc(count, sizeof *job.entries);
        if (job.entries == NULL) return false;
        for (; job.entries_count < count; next++)
            if (!adding->taken[next]) job.entries[job.entries_count++] = next;
        if (!make_id(adding->sweep, adding->round, &job, ++adding->groups)) {
            free(job.entries);
            return false;
        }
        if (!add_group(adding, &job)) return false;
    }
    return true;
}

/* False: no memory. */
static bool tasks_add_row(struct sweep *sweep, size_t at, const struct sweep_round *round)
{
    const struct plan_row *row = &sweep->plan.rows[at];
    struct adding adding = {.sweep = sweep, .round = round, .row = row, .at = at};
    const struct sweep_job job = new_job(&adding);
    adding.taken = calloc(row->list.count, sizeof *adding.taken);
    bool good = adding.taken != NULL && checksum_of(row, round, &job, &adding.key);
    for (size_t i = 0; good && i < row->list.count; i++) {
        adding.taken[i] = round->wanted != NULL && !round->wanted[at][i];
        adding.left += !adding.taken[i];
    }
    const bool wanted = adding.left > 0;
    good = good && keep_groups(&adding) && (adding.left == 0 || add_others(&adding));
    free(adding.taken);
    return good && (!wanted || add_order(sweep, at));
}

bool sweep_begin_round(struct sweep *sweep, const struct sweep_round *round, char *why,
                       size_t why_bytes)
{
    sweep->round_begin = sweep->tasks.count;
    for (size_t i = 0; i < sweep->plan.rows_count; i++)
        if (!tasks_add_row(sweep, i, round)) return error_explain(why, why_bytes, "no memory");
    if (!kept_write(&sweep->kept, sweep_path(sweep, "groups", "")))
        return error_explain(why, why_bytes, "%s/groups: %s", sweep->directory, strerror(errno));
    return write_lines(sweep, "order", &sweep->orders, 0, false, why, why_bytes) &&
           write_lines(sweep, "tasks", &sweep->tasks, 0, false, why, why_bytes) &&
           write_lines(sweep, "results.list", &sweep->tasks, sweep->round_begin, true, why,
                       why_bytes);
}

/* Whether the result of the ID is to be made again, because a part of it is missing. */
static bool is_wanted_again(const struct sweep *sweep, const char *id)
{
    char file[SWEEP_ID_BYTES + 8];
    snprintf(file, sizeof file, "%s.again", id);
    return access(sweep_path(sweep, "results", file), F_OK) == 0;
}

bool sweep_is_done(const struct sweep *sweep, const struct sweep_job *job)
{
    return access(job->result, F_OK) == 0 && !is_wanted_again(sweep, job->id);
}

bool sweep_is_needed(const struct sweep *sweep, const struct sweep_job *order)
{
    char name[SWEEP_ID_BYTES];
    for (size_t i = sweep->round_begin; i < sweep->tasks.count; i++) {
        const struct sweep_job *task = &sweep->tasks.jobs[i];
        ordered_name(&sweep->plan.rows[task->row], name, sizeof name);
        if (!sweep_is_done(sweep, task) && strcmp(name, order->id) == 0)
            return !sweep_is_done(sweep, order);
    }
    return false;
}

size_t sweep_round_missing(const struct sweep *sweep)
{
    size_t missing = 0;
    for (size_t i = sweep->round_begin; i < sweep->tasks.count; i++)
        missing += !sweep_is_done(sweep, &sweep->tasks.jobs[i]);
    return missing;
}

/* ---- what is in a trace ---- */

struct sweep_facts sweep_read_facts(const struct plan_row *row)
{
    struct installed program;
    char why[400];
    installed_find_program(&program, "malloctape");
    const char *const words[] = {program.path, "info", "--json", "-", "--", row->trace, NULL};
    char *text = command_read(words, why, sizeof why);
    json_t *info = text != NULL ? json_loads(text, 0, NULL) : NULL;
    const char *allocator = json_string_value(json_object_get(info, "allocator"));
    const struct sweep_facts facts = {
        .recorded_is_known = allocators_name_recorded(allocator) != NULL,
        .events = json_number_value(json_object_get(info, "events")),
        .peak_bytes = json_number_value(json_object_get(info, "peak_rss_bytes"))};
    json_decref(info);
    free(text);
    return facts;
}

/* ---- what is told of it ---- */

char **sweep_read_results(const struct sweep *sweep, size_t *count)
{
    FILE *file = fopen(sweep_path(sweep, "results.list", ""), "re");
    char line[SWEEP_ID_BYTES + 2], **ids = NULL;
    size_t room = 0;
    *count = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!array_reserve(&ids, &room, *count + 1, sizeof *ids)) break;
        ids[*count] = strdup(line);
        if (ids[*count] == NULL) break;
        (*count)++;
    }
    if (file != NULL) fclose(file);
    return ids;
}

void sweep_free_results(char **ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(ids[i]);
    free(ids);
}

bool sweep_has_result(const struct sweep *sweep, const char *id)
{
    char file[SWEEP_ID_BYTES + 8];
    snprintf(file, sizeof file, "%s.json", id);
    return access(sweep_path(sweep, "results", file), F_OK) == 0 && !is_wanted_again(sweep, id);
}

void sweep_read_last_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "re");
    char next[1024];
    *line = '\0';
    while (file != NULL && fgets(next, sizeof next, file) != NULL) {
        next[strcspn(next, "\n")] = '\0';
        if (*next != '\0') snprintf(line, bytes, "%s", next);
    }
    if (file != NULL) fclose(file);
}
