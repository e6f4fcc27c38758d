#include "report/under.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/printable.h"
#include "common/progress.h"
#include "launch/installed.h"
#include "reading/ordered_file.h"
#include "report/report_trace.h"
#include "report/words.h"

#define REPLAY "replay"

/* ---- replaying ---- */

/* In the child. */
static void under_enter(void *of)
{
    const struct under *under = of;
    allocators_enter(&under->found);
    for (size_t i = 0; under->settings != NULL && i < under->settings->count; i++)
        setenv(under->settings->set[i].name, under->settings->set[i].value, 1);
}

/* Replays under the chosen allocator, with one or two additional options. Returns the report, or
 * NULL. */
static json_t *under_replay(struct under *under, const char *first, const char *second, char *why,
                            size_t why_bytes)
{
    struct installed program;
    char file[PROCESS_PATH_BYTES], json[PROCESS_PATH_BYTES + 32], engine[32];
    if (!installed_find_program(&program, REPLAY)) {
        error_explain(why, why_bytes, "%s not found", program.path);
        return NULL;
    }
    process_directory_path(&under->directory, "report.json", file, sizeof file);
    snprintf(json, sizeof json, "--json=%s", file);
    snprintf(engine, sizeof engine, "--engine=%s", under->engine);
    char *words[] = {(char *)REPLAY,
                     (char *)"--quiet",
                     (char *)"--clock=original",
                     (char *)"--sample=0",
                     engine,
                     json,
                     (char *)first,
                     (char *)(second != NULL ? second : "--quiet"),
                     (char *)"--",
                     under->ordered,
                     NULL};
    char *through[ALLOCATOR_WORDS];
    const struct process process = {.path = program.path,
                                    .words = words,
                                    .through = allocators_through(&under->found, through),
                                    .input = -1,
                                    .file = under->ordered,
                                    .enter = under_enter,
                                    .of = under};
    if (!process_run(&process, true, why, why_bytes)) return NULL;
    json_t *report = json_report_read(file, why, why_bytes);
    const char *reported = json_string_value(json_object_get(report, "allocator"));
    if (report != NULL && allocators_was_used(&under->found, reported, why, why_bytes))
        return report;
    json_decref(report);
    return NULL;
}

/* Finds the call of the first row near the highest RSS (tally.h). */
static bool peak_find(struct under *under, uint64_t *call, char *why, size_t why_bytes)
{
    json_t *report = under_replay(under, "--series", NULL, why, why_bytes);
    if (report == NULL) return false;
    const json_t *series = json_object_get(report, "series");
    const json_t *rss = json_object_get(series, "net_rss_bytes");
    json_int_t most = 0;
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(rss); i++)
        if (json_integer_value(json_array_get(rss, i)) > most)
            most = json_integer_value(json_array_get(rss, i));
    while (json_integer_value(json_array_get(rss, at)) < (json_int_t)TALLY_RSS_NEAR(most))
        at++;
    snprintf(under->engine, sizeof under->engine, "%s",
             json_string_value(json_object_get(report, "engine")));
    *call = (uint64_t)json_integer_value(json_array_get(json_object_get(series, "events"), at));
    json_decref(report);
    return true;
}

/* ---- one snapshot ---- */

/* Finds what is on the pages of the snapshot in the file. */
static bool objects_find(struct under *under, struct fragments *one, const char *file,
                         struct tally *tally, struct error *error)
{
    struct stack_tally stacks = {.stacks = NULL};
    uint32_t *codes = NULL;
    bool good = report_tally_until(tally, &stacks, under->ordered, one->call, error);
    if (good && under->code->is_known) {
        codes = by_code_rows_of(under->code, &stacks);
        good = codes != NULL || error_set_system(error, "no memory for call stacks");
    }
    good = good && fragments_find(one, tally->objects, codes, tally->live, file, error);
    stack_tally_close(&stacks);
    free(codes);
    return good;
}

static bool snapshot_find(struct under *under, struct fragments *one, char *why, size_t why_bytes)
{
    char file[PROCESS_PATH_BYTES], option[PROCESS_PATH_BYTES + 32], limit[64];
    struct error error = {0};
    struct tally *tally = calloc(1, sizeof *tally);
    process_directory_path(&under->directory, "snapshot", file, sizeof file);
    snprintf(option, sizeof option, "--snapshot=%s", file);
    snprintf(limit, sizeof limit, "--limit=%" PRIu64, one->call);
    json_t *report = tally != NULL ? under_replay(under, option, limit, why, why_bytes) : NULL;
    bool good = report != NULL;
    json_decref(report);
    if (tally == NULL) snprintf(why, why_bytes, "no memory");
    if (good && !objects_find(under, one, file, tally, &error)) {
        error_text(&error, why, why_bytes);
        good = false;
    }
    if (tally != NULL) tally_close(tally);
    free(tally);
    return good;
}

/* Inserts a snapshot in the order of calls; two at the same call become one. */
static void snapshots_add(struct under *under, enum fragments_time time, uint64_t call)
{
    unsigned at = under->snapshots_count;
    while (at > 0 && under->snapshots[at - 1].call > call)
        at--;
    if (at == 0 || under->snapshots[at - 1].call != call) {
        memmove(under->snapshots + at + 1, under->snapshots + at,
                (under->snapshots_count - at) * sizeof *under->snapshots);
        under->snapshots[at++] = (struct fragments){.call = call};
        under->snapshots_count++;
    }
    under->snapshots[at - 1].is[time] = true;
}

/* NULL: the recorded one. */
static bool allocator_find(struct under *under, const char *allocator, const char *recorded,
                           char *why, size_t why_bytes)
{
    under->allocator = allocator != NULL ? allocator : allocators_name_recorded(recorded);
    if (under->allocator == NULL)
        return error_explain(why, why_bytes,
                             "name an allocator: the recorded one, '%s', is not known here",
                             recorded);
    return allocators_find(&under->found, under->allocator) ||
           error_explain(why, why_bytes, "%s: %s", under->allocator, under->found.why);
}

bool under_find(struct under *under, const struct report_trace *trace, char *why, size_t why_bytes)
{
    const struct tally *tally = &trace->tally;
    uint64_t peak_rss_call = 0;
    under->code = &trace->code;
    if (under->allocator == NULL) {
        if (!allocator_find(under, NULL, trace->allocator, why, why_bytes)) return false;
        under->settings = &trace->settings;
    }
    snprintf(under->engine, sizeof under->engine, "auto");
    progress_text("replaying");
    bool good = peak_find(under, &peak_rss_call, why, why_bytes);
    if (peak_rss_call > 0) snapshots_add(under, FRAGMENTS_PEAK_RSS, peak_rss_call);
    snapshots_add(under, FRAGMENTS_PEAK_LIVE, tally->peak.call);
    snapshots_add(under, FRAGMENTS_END, tally->calls);
    for (unsigned i = 0; good && i < under->snapshots_count; i++)
        good = under->snapshots[i].call == 0 ||
               snapshot_find(under, &under->snapshots[i], why, why_bytes);
    progress_text("");
    return good;
}

/* ---- opening, closing, output ---- */

bool under_knows(const char *allocator)
{
    return allocators_know(allocator) && strcmp(allocator, "none") != 0;
}

bool under_open(struct under *under, const char *allocator, const char *trace, char *why,
                size_t why_bytes)
{
    *under = (struct under){.allocator = NULL};
    if (allocator != NULL && !allocator_find(under, allocator, "", why, why_bytes)) return false;
    if (!process_directory_open(&under->directory))
        return error_explain(why, why_bytes, "cannot make a directory in $TMPDIR or /tmp");
    if (ordered_file_prepare(&under->directory, trace, under->ordered, sizeof under->ordered, why,
                             why_bytes))
        return true;
    under_close(under);
    return false;
}

void under_close(struct under *under)
{
    process_directory_close(&under->directory);
}

static const char *ignored_settings(const struct under *under)
{
    return under->settings != NULL ? under->settings->ignored : NULL;
}

void under_print(const struct under *under, FILE *to)
{
    const char *ignored = ignored_settings(under);
    if (ignored != NULL) fprintf(to, "\n! " RECORDED_SETTINGS_IGNORED "\n", ignored);
    for (unsigned i = 0; i < under->snapshots_count; i++) {
        const struct fragments *one = &under->snapshots[i];
        fprintf(to, "\nunder %s, engine %s", printable_text(under->allocator), under->engine);
        for (unsigned k = 0; k < FRAGMENTS_TIMES; k++)
            if (one->is[k]) fprintf(to, ", %s", fragments_time_names[k].text);
        fprintf(to, " (after call %s, %s objects alive)\n", words_count(one->call),
                words_count(one->objects));
        fragments_print(one, under->code, to);
    }
}

json_t *under_json(const struct under *under)
{
    json_t *object = json_object(), *snapshots = json_array();
    json_put_text(object, "allocator", under->allocator);
    json_put_text(object, "engine", under->engine);
    json_put_text(object, "ignored_settings", ignored_settings(under));
    json_object_set_new(object, "snapshots", snapshots);
    for (unsigned i = 0; i < under->snapshots_count; i++)
        json_array_append_new(snapshots, fragments_json(&under->snapshots[i], under->code));
    return object;
}
