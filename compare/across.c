#include "compare/across.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/mean.h"
#include "common/numbers.h"
#include "common/printable.h"
#include "common/terminal.h"
#include "compare/compare_json.h"
#include "compare/compare_text.h"
#include "compare/verdict.h"

/* An entry that is complete in all recordings. */
struct entry {
    const char *label;
    bool recorded;                         /* in all of them */
    double peaks[COMPARE_RECORDINGS_MAX];  /* bytes */
    double least, most;                    /* of these */
    double change[COMPARE_RECORDINGS_MAX]; /* of the peak, as a share; NAN: nothing to compare */
    double change_most[COMPARE_RECORDINGS_MAX]; /* with all that it may have more */
    struct mean peak, memory, time;             /* of the peaks, and of the changes */
};

/* Recordings of one role, which repeat each other. */
struct across {
    const struct compare *recordings[COMPARE_RECORDINGS_MAX];
    size_t recordings_count;
    struct entry *entries; /* least memory first */
    size_t entries_count;
    bool of_process;         /* peaks are of the process */
    const struct entry *now; /* that of the recorded allocator, or NULL */
};

/* Recordings of one program are repetitions if their numbers of calls and their peaks of live bytes
 * differ by less than this factor; else they are of processes that do different things. */
#define ALIKE_TIMES 4.0

/* All recordings, by role. */
struct roles {
    struct across of[COMPARE_RECORDINGS_MAX];
    size_t count;
};

/* ---- roles ---- */

static const char *program_of(const struct compare *compare)
{
    const char *path = json_string_value(json_object_get(compare->null_report, "program"));
    return path != NULL ? basename(path) : "";
}

static bool is_near(const struct compare *one, const struct compare *other, const char *key)
{
    const double a = 1 + json_number_value(json_object_get(one->null_report, key));
    const double b = 1 + json_number_value(json_object_get(other->null_report, key));
    return a < b * ALIKE_TIMES && b < a * ALIKE_TIMES;
}

static bool is_alike(const struct compare *one, const struct compare *other)
{
    return strcmp(program_of(one), program_of(other)) == 0 && is_near(one, other, "events") &&
           is_near(one, other, "peak_live_bytes");
}

static bool is_like_all(const struct across *across, const struct compare *recording)
{
    for (size_t i = 0; i < across->recordings_count; i++)
        if (!is_alike(across->recordings[i], recording)) return false;
    return true;
}

/* Adds a recording to the role all of whose recordings it is like, or to a new one. */
static void roles_add(struct roles *roles, const struct compare *recording)
{
    size_t at = 0;
    while (at < roles->count && !is_like_all(&roles->of[at], recording))
        at++;
    struct across *across = &roles->of[at];
    if (at == roles->count) roles->count++;
    across->recordings[across->recordings_count++] = recording;
}

/* ---- entries ---- */

static const struct compare_row *find_row(const struct compare *compare, const char *label)
{
    for (size_t i = 0; i < compare->rows_count; i++)
        if (strcmp(compare->rows[i].label, label) == 0) return &compare->rows[i];
    return NULL;
}

static bool across_is_complete(const struct across *across, const char *label)
{
    for (size_t i = 0; i < across->recordings_count; i++) {
        const struct compare_row *row = find_row(across->recordings[i], label);
        if (row == NULL || *row->why != '\0' || compare_row_is_nothing(row)) return false;
    }
    return true;
}

static bool is_of_process(const struct across *across)
{
    for (size_t i = 0; i < across->recordings_count; i++) {
        const struct compare *one = across->recordings[i];
        if (one->recorded == NULL || isnan(one->recorded->expected.peak_bytes)) return false;
    }
    return true;
}

static double peak_of(const struct across *across, const struct compare_row *row)
{
    return across->of_process ? row->expected.peak_bytes
                              : compare_median("peak_net_rss_bytes", row->reports);
}

/* The mean of changes, which are shares. As logarithms of ratios, so that no end of the interval is
 * below -100 %. */
static struct mean mean_of_changes(const double *changes, size_t count)
{
    double logs[COMPARE_RECORDINGS_MAX];
    for (size_t i = 0; i < count; i++)
        logs[i] = log1p(changes[i]);
    const struct mean of = mean_of(logs, count);
    return (struct mean){expm1(of.mean), expm1(of.least), expm1(of.most)};
}

static void across_entry_make(const struct across *across, struct entry *entry, const char *label)
{
    double times[COMPARE_RECORDINGS_MAX], saved_most = 0;
    const size_t count = across->recordings_count;
    *entry = (struct entry){.label = label, .recorded = true, .least = INFINITY};
    for (size_t i = 0; i < count; i++) {
        const struct compare *one = across->recordings[i];
        const struct compare_row *row = find_row(one, label), *now = one->recorded;
        entry->recorded = entry->recorded && row == now;
        entry->peaks[i] = peak_of(across, row);
        entry->least = fmin(entry->least, entry->peaks[i]);
        entry->most = fmax(entry->most, entry->peaks[i]);
        entry->change[i] =
            now != NULL && *now->why == '\0' ? entry->peaks[i] / peak_of(across, now) - 1 : NAN;
        entry->change_most[i] =
            isnan(entry->change[i])
                ? NAN
                : (entry->peaks[i] + row->more_bytes) / peak_of(across, now) - 1;
        times[i] = row->expected.cpu_change / one->original.cpu_seconds;
        saved_most = fmax(saved_most, one->original.allocator_seconds / one->original.cpu_seconds);
    }
    entry->peak = mean_of(entry->peaks, count);
    entry->memory = mean_of_changes(entry->change, count);
    entry->memory.most = mean_of_changes(entry->change_most, count).most;
    entry->time = mean_of_changes(times, count);
    entry->time.least = fmax(entry->time.least, -saved_most); /* of what the allocator takes */
    if (isnan(entry->time.most)) entry->time.least = NAN;
}

static int by_peak(const void *one, const void *other)
{
    const double a = ((const struct entry *)one)->peak.mean;
    const double b = ((const struct entry *)other)->peak.mean;
    return (a > b) - (a < b);
}

/* False: no memory. */
static bool across_open(struct across *across)
{
    const struct compare *first = across->recordings[0];
    across->entries = calloc(first->rows_count + 1, sizeof *across->entries);
    if (across->entries == NULL) return false;
    across->of_process = is_of_process(across);
    for (size_t i = 0; i < first->rows_count; i++) {
        const char *label = first->rows[i].label;
        if (across_is_complete(across, label))
            across_entry_make(across, &across->entries[across->entries_count++], label);
    }
    qsort(across->entries, across->entries_count, sizeof *across->entries, by_peak);
    for (size_t i = 0; i < across->entries_count; i++)
        if (across->entries[i].recorded) across->now = &across->entries[i];
    return true;
}

static void roles_close(struct roles *roles)
{
    for (size_t i = 0; i < roles->count; i++)
        free(roles->of[i].entries);
}

static bool roles_open(struct roles *roles, const struct compare *recordings, size_t count)
{
    *roles = (struct roles){.count = 0};
    for (size_t i = 0; i < count; i++)
        roles_add(roles, &recordings[i]);
    for (size_t i = 0; i < roles->count; i++)
        if (!across_open(&roles->of[i])) {
            roles_close(roles);
            return false;
        }
    return true;
}

/* ---- the verdict ---- */

/* Whether a row is missing in any recording, so that it may be the best. */
static bool is_missing_any(const struct across *across)
{
    for (size_t i = 0; i < across->recordings_count; i++)
        if (compare_is_missing_any(across->recordings[i])) return true;
    return false;
}

/* Whether the entry with least memory surely takes less than the recorded allocator. */
static bool is_sure(const struct across *across)
{
    const struct entry *best = across->entries;
    return across->entries_count > 0 && best != across->now && !is_missing_any(across) &&
           (across->now == NULL || best->memory.most < 0);
}

static void put_change(FILE *to, const struct mean *of)
{
    fprintf(to, "%+.0f %% (95 %% sure: %+.0f to %+.0f)", numbers_shown(100 * of->mean, 0),
            numbers_shown(100 * of->least, 0), numbers_shown(100 * of->most, 0));
}

/* Prints the best entry for memory, how sure that is, and whether the next is surely worse. */
static void put_verdict(FILE *to, const struct across *across)
{
    const struct entry *best = across->entries, *now = across->now;
    double more[COMPARE_RECORDINGS_MAX];
    const char *others = is_missing_any(across) ? " of the others" : "";
    fprintf(to, "In these %zu recordings: ", across->recordings_count);
    if (*others != '\0') fputs("an entry is missing that may be the best (see below). ", to);
    if (across->entries_count == 0) {
        fputs("no entry is complete in all of them.", to);
        return;
    }
    if (now != NULL)
        fprintf(to, "now %s, %.1f MiB at peak%s on average. ", printable_text(now->label),
                now->peak.mean / MIB, across->of_process ? "" : " in replays");
    if (now == best) {
        fprintf(to, "None%s takes less.", others);
    } else if (now != NULL && best->memory.most >= 0) {
        fprintf(to, "None%s clearly takes less: the least is that of %s, ", others,
                printable_text(best->label));
        put_change(to, &best->memory);
        fputc('.', to);
    } else {
        fprintf(to, "Best%s: %s, %.1f MiB", others, printable_text(best->label),
                best->peak.mean / MIB);
        if (now != NULL) {
            fputs(", ", to);
            put_change(to, &best->memory);
        }
        fputc('.', to);
    }
    if (across->entries_count < 2) return;
    for (size_t i = 0; i < across->recordings_count; i++)
        more[i] = best[1].peaks[i] / best->peaks[i] - 1;
    const struct mean next = mean_of_changes(more, across->recordings_count);
    fprintf(to, " The next, %s: ", printable_text(best[1].label));
    put_change(to, &next);
    fputs(next.least > 0 ? "." : "; the two may be equal.", to);
}

static const char *verdict_text(const struct across *across, char *text, size_t bytes)
{
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    put_verdict(to, across);
    fclose(to);
    return text;
}

/* Says that the recordings do not repeat each other, if so. */
static const char *roles_text(const struct roles *roles, size_t count, char *text, size_t bytes)
{
    *text = '\0';
    if (roles->count > 1)
        snprintf(text, bytes,
                 "These %zu recordings are not repetitions: programs, numbers of calls or memory "
                 "differ %.0f times or more. They have %zu roles, and a mean over different roles "
                 "says nothing, so here is each role by itself:",
                 count, ALIKE_TIMES, roles->count);
    return text;
}

/* The command line for the entry that is best in all recordings, if that is sure. */
static void put_paste(const struct across *across, FILE *to)
{
    char text[4096];
    if (!is_sure(across)) return;
    const struct compare_row *row = find_row(across->recordings[0], across->entries->label);
    compare_row_paste(row, text, sizeof text);
    if (*text != '\0')
        fprintf(to, "To start a program with the best for memory:\n  %s\n", printable_text(text));
}

static void print_entry(const struct across *across, const struct entry *entry, int width, FILE *to)
{
    char memory[40] = "-", time[40] = "-";
    const bool fits = strlen(entry->label) <= (size_t)width;
    if (entry == across->now)
        snprintf(memory, sizeof memory, "now");
    else if (!isnan(entry->memory.mean))
        snprintf(memory, sizeof memory, "%+.0f (%+.0f to %+.0f)",
                 numbers_shown(100 * entry->memory.mean, 0),
                 numbers_shown(100 * entry->memory.least, 0),
                 numbers_shown(100 * entry->memory.most, 0));
    if (entry == across->now)
        snprintf(time, sizeof time, "now");
    else if (!isnan(entry->time.mean))
        snprintf(
            time, sizeof time, "%+.1f (%+.1f to %+.1f)", numbers_shown(100 * entry->time.mean, 1),
            numbers_shown(100 * entry->time.least, 1), numbers_shown(100 * entry->time.most, 1));
    fprintf(to, fits ? "%-*s" : "%-*s\n", width, printable_text(entry->label));
    fprintf(to, "%*s %9.1f %9.1f %9.1f %18s %22s\n", fits ? 0 : width, "", entry->peak.mean / MIB,
            entry->least / MIB, entry->most / MIB, memory, time);
}

enum { NAME_WIDTH = 17 };

/* A recording's own first line, and what spoils it. */
static void print_recording(const struct compare *recording, FILE *to)
{
    char text[2048];
    fprintf(to, "%s:\n", printable_text(recording->options.trace));
    compare_headline(recording, text, sizeof text);
    if (*text == '\0') compare_verdict_text(recording, text, sizeof text);
    terminal_print_wrapped(text, 0, 2, to);
    for (size_t i = 0; i < recording->warnings_count; i++) {
        const struct compare_warning *warning = &recording->warnings[i];
        if (warning->row != NULL) continue;
        snprintf(text, sizeof text, "! %s", warning->text);
        terminal_print_wrapped(text, 0, 2, to);
    }
}

/* A line for each entry. */
static void print_entries(const struct across *across, FILE *to)
{
    fprintf(to, "\n%-*s %9s %9s %9s %18s %22s\n", NAME_WIDTH, "ALL RECORDINGS",
            across->of_process ? "process" : "replays", "least", "most", "change, %",
            "processor time, %");
    fprintf(to, "%-*s %9s %9s %9s %18s %22s\n", NAME_WIDTH, "allocator", "MiB", "", "", "95 %",
            "95 %");
    for (size_t i = 0; i < across->entries_count; i++)
        print_entry(across, &across->entries[i], NAME_WIDTH, to);
}

/* The recordings of one role: what holds for all of them, and for each. */
static void print_role(const struct across *across, FILE *to)
{
    const bool several = across->recordings_count > 1;
    char text[2048];
    if (several) {
        terminal_print_wrapped(verdict_text(across, text, sizeof text), 0, 2, to);
        put_paste(across, to);
        fputc('\n', to);
    }
    for (size_t i = 0; i < across->recordings_count; i++)
        print_recording(across->recordings[i], to);
    if (several) print_entries(across, to);
}

void across_print(const struct compare *recordings, size_t count, FILE *to)
{
    struct roles roles;
    char text[2048];
    if (!roles_open(&roles, recordings, count)) return;
    roles_text(&roles, count, text, sizeof text);
    if (*text != '\0') terminal_print_wrapped(text, 0, 2, to);
    for (size_t i = 0; i < roles.count; i++) {
        if (roles.count > 1) fputc('\n', to);
        print_role(&roles.of[i], to);
    }
    terminal_print_wrapped(
        "Change: from the recorded allocator, the geometric mean of all recordings and its 95 % "
        "confidence interval (Student's t of the logarithms). Processor time has another 3 % or "
        "so of noise, which replays do not show.",
        0, 2, to);
    roles_close(&roles);
}

static json_t *json_mean(const struct mean *of)
{
    json_t *object = json_object();
    json_put_real(object, "mean", of->mean);
    json_put_real(object, "least", of->least);
    json_put_real(object, "most", of->most);
    return object;
}

static json_t *json_entries(const struct across *across)
{
    json_t *entries = json_array();
    for (size_t i = 0; i < across->entries_count; i++) {
        const struct entry *entry = &across->entries[i];
        json_t *one = json_object(), *peaks = json_array();
        json_put_text(one, "entry", entry->label);
        json_object_set_new(one, "recorded", json_boolean(entry->recorded));
        for (size_t k = 0; k < across->recordings_count; k++)
            json_array_append_new(peaks, json_real(entry->peaks[k]));
        json_object_set_new(one, "peaks", peaks);
        json_object_set_new(one, "peak_bytes", json_mean(&entry->peak));
        json_object_set_new(one, "memory_change", json_mean(&entry->memory));
        json_object_set_new(one, "time_change", json_mean(&entry->time));
        json_array_append_new(entries, one);
    }
    return entries;
}

static void put_role(json_t *object, const struct across *across)
{
    char text[2048];
    json_put_text(object, "text", verdict_text(across, text, sizeof text));
    json_object_set_new(object, "of_process", json_boolean(across->of_process));
    json_object_set_new(object, "entries", json_entries(across));
}

/* The indexes of the role's recordings. */
static json_t *json_indexes(const struct across *across, const struct compare *recordings)
{
    json_t *indexes = json_array();
    for (size_t i = 0; i < across->recordings_count; i++)
        json_array_append_new(indexes, json_integer(across->recordings[i] - recordings));
    return indexes;
}

json_t *across_json(const struct compare *recordings, size_t count, bool with_reports)
{
    struct roles roles;
    json_t *object = json_object(), *all = json_array(), *list = json_array();
    char text[2048];
    if (!roles_open(&roles, recordings, count)) return object;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, compare_json(&recordings[i], with_reports));
    if (roles.count == 1)
        put_role(object, &roles.of[0]);
    else
        json_put_text(object, "text", roles_text(&roles, count, text, sizeof text));
    for (size_t i = 0; i < roles.count; i++) {
        json_t *role = json_object();
        put_role(role, &roles.of[i]);
        json_object_set_new(role, "recordings", json_indexes(&roles.of[i], recordings));
        json_array_append_new(list, role);
    }
    json_object_set_new(object, "roles", list);
    json_object_set_new(object, "recordings", all);
    roles_close(&roles);
    return object;
}
