#include "compare/across.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_file.h"
#include "common/mean.h"
#include "common/numbers.h"
#include "common/terminal.h"
#include "compare/compare.h"

/* An entry that is complete in all recordings. */
struct entry {
    const char *label;
    bool recorded;                         /* in all of them */
    double peaks[COMPARE_RECORDINGS_MAX];  /* bytes */
    double least, most;                    /* of these */
    double change[COMPARE_RECORDINGS_MAX]; /* of the peak, as a share; NAN: nothing to compare */
    struct mean peak, memory, time;        /* of the peaks, and of the changes */
};

struct across {
    const struct compare *recordings;
    size_t recordings_count;
    struct entry *entries; /* least memory first */
    size_t entries_count;
    bool of_process;         /* peaks are of the process */
    const struct entry *now; /* that of the recorded allocator, or NULL */
};

static const struct compare_row *find_row(const struct compare *compare, const char *label)
{
    for (size_t i = 0; i < compare->rows_count; i++)
        if (strcmp(compare->rows[i].label, label) == 0) return &compare->rows[i];
    return NULL;
}

static bool is_complete(const struct across *across, const char *label)
{
    for (size_t i = 0; i < across->recordings_count; i++) {
        const struct compare_row *row = find_row(&across->recordings[i], label);
        if (row == NULL || *row->why != '\0' || compare_row_is_nothing(row)) return false;
    }
    return true;
}

static bool is_of_process(const struct across *across)
{
    for (size_t i = 0; i < across->recordings_count; i++) {
        const struct compare *one = &across->recordings[i];
        if (one->recorded == NULL || isnan(one->recorded->expected.peak_bytes)) return false;
    }
    return true;
}

static double peak_of(const struct across *across, const struct compare_row *row)
{
    return across->of_process ? row->expected.peak_bytes
                              : compare_median("peak_net_rss_bytes", row->reports);
}

static void entry_make(const struct across *across, struct entry *entry, const char *label)
{
    double times[COMPARE_RECORDINGS_MAX];
    const size_t count = across->recordings_count;
    *entry = (struct entry){.label = label, .recorded = true, .least = INFINITY};
    for (size_t i = 0; i < count; i++) {
        const struct compare *one = &across->recordings[i];
        const struct compare_row *row = find_row(one, label), *now = one->recorded;
        entry->recorded = entry->recorded && row == now;
        entry->peaks[i] = peak_of(across, row);
        entry->least = fmin(entry->least, entry->peaks[i]);
        entry->most = fmax(entry->most, entry->peaks[i]);
        entry->change[i] =
            now != NULL && *now->why == '\0' ? entry->peaks[i] / peak_of(across, now) - 1 : NAN;
        times[i] = row->expected.cpu_change / one->original.cpu_seconds;
    }
    entry->peak = mean_of(entry->peaks, count);
    entry->memory = mean_of(entry->change, count);
    entry->time = mean_of(times, count);
}

static int by_peak(const void *one, const void *other)
{
    const double a = ((const struct entry *)one)->peak.mean;
    const double b = ((const struct entry *)other)->peak.mean;
    return (a > b) - (a < b);
}

/* False: no memory. */
static bool across_open(struct across *across, const struct compare *recordings, size_t count)
{
    *across = (struct across){.recordings = recordings, .recordings_count = count};
    across->entries = calloc(recordings->rows_count + 1, sizeof *across->entries);
    if (across->entries == NULL) return false;
    across->of_process = is_of_process(across);
    for (size_t i = 0; i < recordings->rows_count; i++) {
        const char *label = recordings->rows[i].label;
        if (is_complete(across, label))
            entry_make(across, &across->entries[across->entries_count++], label);
    }
    qsort(across->entries, across->entries_count, sizeof *across->entries, by_peak);
    for (size_t i = 0; i < across->entries_count; i++)
        if (across->entries[i].recorded) across->now = &across->entries[i];
    return true;
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
    fprintf(to, "In these %zu recordings: ", across->recordings_count);
    if (across->entries_count == 0) {
        fputs("no entry is complete in all of them.", to);
        return;
    }
    if (now != NULL)
        fprintf(to, "now %s, %.1f MiB at peak%s on average. ", now->label, now->peak.mean / MIB,
                across->of_process ? "" : " in replays");
    if (now == best) {
        fputs("None takes less.", to);
    } else if (now != NULL && best->memory.most >= 0) {
        fprintf(to, "None clearly takes less: the least has %s, ", best->label);
        put_change(to, &best->memory);
        fputc('.', to);
    } else {
        fprintf(to, "Best: %s, %.1f MiB", best->label, best->peak.mean / MIB);
        if (now != NULL) {
            fputs(", ", to);
            put_change(to, &best->memory);
        }
        fputc('.', to);
    }
    if (across->entries_count < 2) return;
    for (size_t i = 0; i < across->recordings_count; i++)
        more[i] = best[1].peaks[i] / best->peaks[i] - 1;
    const struct mean next = mean_of(more, across->recordings_count);
    fprintf(to, " The next, %s, takes ", best[1].label);
    put_change(to, &next);
    fputs(next.least > 0 ? " more." : " more: the two may be equal.", to);
}

static const char *verdict_text(const struct across *across, char *text, size_t bytes)
{
    FILE *to = compare_text_open(text, bytes);
    if (to == NULL) return text;
    put_verdict(to, across);
    fclose(to);
    return text;
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
    fprintf(to, fits ? "%-*s" : "%-*s\n", width, entry->label);
    fprintf(to, "%*s %9.1f %9.1f %9.1f %18s %22s\n", fits ? 0 : width, "", entry->peak.mean / MIB,
            entry->least / MIB, entry->most / MIB, memory, time);
}

/* A line for each recording, then one for each entry. */
void across_print(const struct compare *recordings, size_t count, FILE *to)
{
    enum { NAME_WIDTH = 17 };
    struct across across;
    char text[2048];
    if (!across_open(&across, recordings, count)) return;
    terminal_print_wrapped(verdict_text(&across, text, sizeof text), 0, 2, to);
    fputc('\n', to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "%s:\n", recordings[i].options.trace);
        terminal_print_wrapped(compare_headline(&recordings[i], text, sizeof text), 0, 2, to);
        for (size_t k = 0; k < recordings[i].warnings_count; k++) {
            const struct compare_warning *warning = &recordings[i].warnings[k];
            if (warning->row != NULL) continue;
            snprintf(text, sizeof text, "! %s", warning->text);
            terminal_print_wrapped(text, 0, 2, to);
        }
    }
    fprintf(to, "\n%-*s %9s %9s %9s %18s %22s\n", NAME_WIDTH, "ALL RECORDINGS",
            across.of_process ? "process" : "replays", "least", "most", "change, %",
            "processor time, %");
    fprintf(to, "%-*s %9s %9s %9s %18s %22s\n", NAME_WIDTH, "allocator", "MiB", "", "", "95 %",
            "95 %");
    for (size_t i = 0; i < across.entries_count; i++)
        print_entry(&across, &across.entries[i], NAME_WIDTH, to);
    terminal_print_wrapped(
        "Change: from the recorded allocator, the mean of all recordings and its 95 % confidence "
        "interval (Student's t). Processor time has another 3 % or so of noise, which replays do "
        "not show.",
        0, 2, to);
    free(across.entries);
}

static json_t *json_mean(const struct mean *of)
{
    json_t *object = json_object();
    json_put_real(object, "mean", of->mean);
    json_put_real(object, "least", of->least);
    json_put_real(object, "most", of->most);
    return object;
}

json_t *across_json(const struct compare *recordings, size_t count, bool with_reports)
{
    struct across across;
    char text[2048];
    json_t *object = json_object(), *all = json_array(), *entries = json_array();
    if (!across_open(&across, recordings, count)) return object;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, compare_json(&recordings[i], with_reports));
    for (size_t i = 0; i < across.entries_count; i++) {
        const struct entry *entry = &across.entries[i];
        json_t *one = json_object(), *peaks = json_array();
        json_put_text(one, "entry", entry->label);
        json_object_set_new(one, "recorded", json_boolean(entry->recorded));
        for (size_t k = 0; k < count; k++)
            json_array_append_new(peaks, json_real(entry->peaks[k]));
        json_object_set_new(one, "peaks", peaks);
        json_object_set_new(one, "peak_bytes", json_mean(&entry->peak));
        json_object_set_new(one, "memory_change", json_mean(&entry->memory));
        json_object_set_new(one, "time_change", json_mean(&entry->time));
        json_array_append_new(entries, one);
    }
    json_put_text(object, "text", verdict_text(&across, text, sizeof text));
    json_object_set_new(object, "of_process", json_boolean(across.of_process));
    json_object_set_new(object, "entries", entries);
    json_object_set_new(object, "recordings", all);
    free(across.entries);
    return object;
}
