/* The tables of collected results for a terminal: the traces; for memory and for time, a row for
 * each entry, over all traces and by trace; below them, an explanation of the marks. */
#include "common/printable.h"
#include "sweep/collection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers.h"
#include "common/terminal.h"
#include "compare/machine.h"
#include "report/table.h"
#include "report/words.h"

/* A longer name is cut and gets a number, which is explained below the table of traces. */
enum { NAME_WIDTH = 17 };

/* The width of a change that has its own column. */
enum { CHANGE_WIDTH = 8 };

static const char *const measure_titles[COMPARE_MEASURES] = {
    [COMPARE_MEMORY] = "MEMORY", [COMPARE_TIME] = "TIME"};

/* ---- names ---- */

static bool is_long(const char *label)
{
    return strlen(label) > NAME_WIDTH;
}

/* The name of an entry; the second long one becomes "jemalloc (2)". */
static const char *name_shown(const struct collection *collection, size_t entry)
{
    const char *label = collection->entries[entry].label;
    unsigned number = 0;
    if (!is_long(label)) return label;
    for (size_t i = 0; i <= entry; i++)
        number += is_long(collection->entries[i].label);
    int length = (int)strcspn(label, ":");
    if (length > NAME_WIDTH - 5) length = NAME_WIDTH - 5;
    return words_format("%.*s (%u)", length, label, number);
}

static void print_long_names(const struct collection *collection, FILE *to)
{
    bool first = true;
    for (size_t i = 0; i < collection->entries_count; i++) {
        if (!is_long(collection->entries[i].label)) continue;
        if (first) fputc('\n', to);
        first = false;
        fprintf(to, "%s: %s\n", printable_text(name_shown(collection, i)),
                printable_text(collection->entries[i].label));
    }
}

/* ---- sentences ---- */

/* The best entry of those that have a change in all traces; `entries_count`: there is none. */
static size_t collect_text_best_of(const struct collection *collection,
                                   enum compare_measure measure)
{
    size_t best = collection->entries_count;
    for (size_t i = 0; i < collection->entries_count; i++) {
        const struct collection_summary *summary = &collection->entries[i].summary[measure];
        if (summary->traces == 0 || summary->traces < collection->traces_count) continue;
        if (best == collection->entries_count ||
            summary->change.mean < collection->entries[best].summary[measure].change.mean)
            best = i;
    }
    return best;
}

static double per_cent(double share)
{
    return numbers_shown(100 * share, 1);
}

/* Whether an entry surely takes less. With one trace, there is no interval. */
static bool is_surely_less(const struct collection_summary *summary)
{
    return isnan(summary->change.most) ? summary->less == summary->traces
                                       : summary->change.most < 0;
}

/* Whether something is missing that may be the best. */
static bool is_open(const struct collection *collection)
{
    bool open = collection->missing > 0 || collection->unread > 0;
    for (size_t i = 0; i < collection->traces_count; i++)
        open = open || collection->traces[i].is_open;
    return open;
}

/* Prints what that is: the first, with its reason, and how many more. */
static void put_open(const struct collection *collection, FILE *to)
{
    const size_t results = collection->missing + collection->unread;
    size_t rows = 0;
    if (!is_open(collection)) return;
    fputs("What is best is not known: ", to);
    for (size_t trace = 0; trace < collection->traces_count; trace++) {
        for (size_t at = 0; at < collection->entries_count; at++) {
            const struct collection_row *row = collection_row(collection, trace, at);
            if (!collection_is_missing(row) || rows++ > 0) continue;
            fprintf(to, "%s is missing in %s (%s)", printable_text(row->of->label),
                    printable_text(collection->traces[trace].name), printable_text(row->of->why));
        }
    }
    if (rows > 1) fprintf(to, ", and %zu more", rows - 1);
    if (results > 0)
        fprintf(to, "%s%zu of %zu results %s missing", rows > 0 ? "; " : "", results,
                collection->results_count, results == 1 ? "is" : "are");
    fputs(". The same sweep again measures what is missing.\n", to);
}

static void put_best(const struct collection *collection, enum compare_measure measure, FILE *to)
{
    static const char *const of[] = {[COMPARE_MEMORY] = "memory", [COMPARE_TIME] = "time"};
    const size_t best = collect_text_best_of(collection, measure);
    fprintf(to, "For %s over %s%s: ", of[measure],
            collection->traces_count == 1 ? "the trace" : "all traces",
            is_open(collection) ? ", of what is there" : "");
    if (best == collection->entries_count) {
        fputs("no entry has a result in all of them.", to);
        return;
    }
    const struct collection_entry *entry = &collection->entries[best];
    const struct mean *change = &entry->summary[measure].change;
    if (entry->recorded) {
        fprintf(to, "none takes less than %s, which the programs were recorded on.",
                printable_text(entry->label));
        return;
    }
    if (!is_surely_less(&entry->summary[measure]))
        fputs("none clearly takes less; the least is that of ", to);
    fprintf(to, "%s, %+.1f %% from what the programs were recorded on",
            printable_text(entry->label), per_cent(change->mean));
    if (isnan(change->least))
        fputc('.', to);
    else
        fprintf(to, " (95 %% sure: %+.1f to %+.1f).", per_cent(change->least),
                per_cent(change->most));
}

void collection_print_answer(const struct collection *collection, FILE *to)
{
    put_open(collection, to);
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++) {
        put_best(collection, measure, to);
        fputc('\n', to);
    }
}

static void warn_missing(const struct collection *collection, FILE *to)
{
    enum { NAMED = 10 };
    size_t named = 0;
    if (collection->missing == 0) return;
    fprintf(to, "%zu of %zu results are missing:", collection->missing, collection->results_count);
    for (size_t i = 0; i < collection->results_count; i++) {
        if (!collection->results[i].is_missing || ++named > NAMED) continue;
        fprintf(to, "%s %s", named > 1 ? "," : "", printable_text(collection->results[i].id));
    }
    if (named > NAMED) fprintf(to, " and %zu more", named - NAMED);
    fputc('\n', to);
}

/* In how many traces, from `trace` on, an entry failed for the same reason as there. */
static size_t failed_alike(const struct collection *collection, size_t entry, size_t trace)
{
    const char *why = collection_row(collection, trace, entry)->of->why;
    size_t count = 0;
    for (; trace < collection->traces_count; trace++) {
        const struct result_entry *of = collection_row(collection, trace, entry)->of;
        count += of != NULL && of->why != NULL && strcmp(of->why, why) == 0;
    }
    return count;
}

static bool was_warned(const struct collection *collection, size_t entry, size_t trace)
{
    const char *why = collection_row(collection, trace, entry)->of->why;
    while (trace-- > 0) {
        const struct result_entry *of = collection_row(collection, trace, entry)->of;
        if (of != NULL && of->why != NULL && strcmp(of->why, why) == 0) return true;
    }
    return false;
}

static void warn_failed(const struct collection *collection, FILE *to)
{
    for (size_t at = 0; at < collection->entries_count; at++) {
        for (size_t trace = 0; trace < collection->traces_count; trace++) {
            const struct result_entry *of = collection_row(collection, trace, at)->of;
            if (of == NULL || of->why == NULL || was_warned(collection, at, trace)) continue;
            const size_t count = failed_alike(collection, at, trace);
            fprintf(to, "%s, %s", printable_text(of->label),
                    printable_text(collection->traces[trace].name));
            if (count > 1) fprintf(to, " and %zu more", count - 1);
            fprintf(to, ": %s\n", printable_text(of->why));
        }
    }
}

static void warn_yardstick(const struct collection *collection, FILE *to)
{
    for (size_t i = 0; i < collection->results_count; i++) {
        const struct collection_result *result = &collection->results[i];
        if (collection_is_read(result) && result->of.recorded == NULL)
            fprintf(to,
                    "%s: there is no replay on the recorded allocator, so changes are not known\n",
                    printable_text(result->id));
    }
}

/* Whether two rows of an entry were made with different libraries. */
static bool is_other_library(const struct result_entry *one, const struct result_entry *other)
{
    static const char *const keys[] = {"allocator", "library_build_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *left = json_object_get(one->json, keys[i]);
        const json_t *right = json_object_get(other->json, keys[i]);
        if (left != NULL && right != NULL && !json_equal(left, right)) return true;
    }
    return false;
}

/* Warns about entries whose version is not the same everywhere. */
static void warn_versions(const struct collection *collection, FILE *to)
{
    for (size_t at = 0; at < collection->entries_count; at++) {
        const struct result_entry *first = NULL;
        size_t others = 0;
        for (size_t trace = 0; trace < collection->traces_count; trace++) {
            const struct result_entry *of = collection_row(collection, trace, at)->of;
            if (of == NULL || of->why != NULL) continue;
            if (first == NULL) first = of;
            others += is_other_library(first, of);
        }
        if (others > 0)
            fprintf(to,
                    "%s: in %zu of the traces it is another version or build than in the "
                    "first\n",
                    printable_text(collection->entries[at].label), others);
    }
}

void collection_print_warnings(const struct collection *collection, FILE *to)
{
    warn_missing(collection, to);
    for (size_t i = 0; i < collection->results_count; i++)
        if (*collection->results[i].why != '\0')
            fprintf(to, "%s: its result cannot be read: %s\n",
                    printable_text(collection->results[i].id),
                    printable_text(collection->results[i].why));
    warn_failed(collection, to);
    warn_yardstick(collection, to);
    warn_versions(collection, to);
    if (collection->machines_count > 1)
        fprintf(to,
                "the results are from %zu different machines: every change is from the recorded "
                "allocator on the same machine\n",
                collection->machines_count);
}

/* ---- traces ---- */

/* The entry that is the recorded allocator of a trace; `entries_count`: none. */
static size_t recorded_of(const struct collection *collection, size_t trace)
{
    for (size_t at = 0; at < collection->entries_count; at++) {
        const struct result_entry *of = collection_row(collection, trace, at)->of;
        if (of != NULL && of->recorded) return at;
    }
    return collection->entries_count;
}

/* The best entry of a trace, if no other may be that; if two others are equal to it, "mimalloc +2", with the one that takes
 * least. */
static const char *best_shown(const struct collection *collection, size_t trace,
                              enum compare_measure measure)
{
    const size_t equal = collection->traces[trace].best[measure];
    const struct collection_row *best = NULL;
    size_t best_at = 0;
    for (size_t at = 0; at < collection->entries_count; at++) {
        const struct collection_row *row = collection_row(collection, trace, at);
        if (row->rank[measure] != 1) continue;
        if (best != NULL &&
            collection_change(row, measure).share >= collection_change(best, measure).share)
            continue;
        best = row;
        best_at = at;
    }
    if (best == NULL) return "-";
    if (collection->traces[trace].is_open) return "not known";
    const char *name = name_shown(collection, best_at);
    return equal > 1 ? words_format("%s +%zu", name, equal - 1) : name;
}

static bool trace_row(const void *of, size_t at, struct table_row *row)
{
    const struct collection *collection = of;
    const struct collection_trace *trace = &collection->traces[at];
    const struct result *result = &trace->first->of;
    const size_t now = recorded_of(collection, at);
    const struct cell cells[] = {
        {.label = "", .width = 2, .value = at + 1},
        {.label = "recorded on",
         .width = -12,
         .text = now < collection->entries_count ? name_shown(collection, now) : "-"},
        {.label = "MiB",
         .width = 8,
         .text = isnan(result->process_bytes) ? "-"
                                              : words_format("%.1f", result->process_bytes / MIB)},
        {.label = "s",
         .width = 7,
         .text =
             isnan(result->process_seconds) ? "-" : words_format("%.3g", result->process_seconds)},
        {.label = "least memory", .width = -15, .text = best_shown(collection, at, COMPARE_MEMORY)},
        {.label = "least time", .width = -15, .text = best_shown(collection, at, COMPARE_TIME)},
        {.label = "trace", .width = -14, .text = trace->name},
    };
    TABLE_ROW(row, cells);
    return true;
}

/* ---- over all traces ---- */

/* What a table shows of a collection. */
struct view {
    const struct collection *collection;
    enum compare_measure measure;
    size_t first, traces; /* of a table by trace */
};

static bool summary_row(const void *of, size_t at, struct table_row *row)
{
    const struct view *view = of;
    const struct collection *collection = view->collection;
    const size_t entry = collection->order[at];
    const struct collection_summary *summary = &collection->entries[entry].summary[view->measure];
    const struct mean *change = &summary->change;
    const struct collection_row *worst = collection_row(collection, summary->worst, entry);
    const bool known = summary->traces > 0, now = known && collection->entries[entry].recorded;
    const struct cell cells[] = {
        {.label = measure_titles[view->measure],
         .width = -NAME_WIDTH,
         .text = name_shown(collection, entry)},
        {.label = "mean, %",
         .width = CHANGE_WIDTH,
         .text = now     ? "now"
                 : known ? words_format("%+.1f", per_cent(change->mean))
                         : "-"},
        {.label = "95 %",
         .width = 16,
         .text =
             now || isnan(change->least)
                 ? "-"
                 : words_format("%+.1f to %+.1f", per_cent(change->least), per_cent(change->most))},
        {.label = "worst, %",
         .width = CHANGE_WIDTH,
         .text =
             known ? words_format("%+.1f", per_cent(collection_change(worst, view->measure).share))
                   : "-"},
        {.label = "in", .width = 3, .text = known ? words_count(summary->worst + 1) : "-"},
        {.label = "less", .width = 5, .value = summary->less},
        {.label = "noise", .width = 5, .value = summary->traces - summary->less - summary->more},
        {.label = "more", .width = 5, .value = summary->more},
    };
    TABLE_ROW(row, cells);
    return true;
}

/* ---- by trace ---- */

/* "-12.3", followed by a mark. */
static const char *change_shown(const struct collection_row *row, enum compare_measure measure)
{
    const struct result_change change = collection_change(row, measure);
    if (row->of == NULL) return "";
    if (row->of->why != NULL) return "failed";
    if (row->of->recorded) return "now";
    if (isnan(change.share)) return "?";
    return words_format("%+.1f%s%s", per_cent(change.share), change.counts ? "" : "=",
                        row->is_elsewhere ? "~" : "");
}

static bool by_trace_row(const void *of, size_t at, struct table_row *row)
{
    const struct view *view = of;
    const struct collection *collection = view->collection;
    const size_t entry = collection->order[at];
    struct cell cells[TABLE_CELLS_MAX] = {{.label = measure_titles[view->measure],
                                           .width = -NAME_WIDTH,
                                           .text = name_shown(collection, entry)}};
    for (size_t i = 0; i < view->traces; i++)
        cells[1 + i] =
            (struct cell){.label = words_count(view->first + i + 1),
                          .width = CHANGE_WIDTH,
                          .text = change_shown(collection_row(collection, view->first + i, entry),
                                               view->measure)};
    TABLE_ROW(row, cells);
    row->count = 1 + view->traces;
    return true;
}

/* Prints tables with as many traces as a line has room for. */
static void print_by_trace(struct view view, FILE *to)
{
    const struct collection *collection = view.collection;
    const size_t room = (size_t)(terminal_line_width(to) - NAME_WIDTH) / (CHANGE_WIDTH + 1);
    for (; view.first < collection->traces_count; view.first += view.traces) {
        const size_t left = collection->traces_count - view.first;
        view.traces = left < room ? left : room;
        table_print(&(struct table){by_trace_row, &view, collection->entries_count,
                                    .title = view.measure == COMPARE_MEMORY
                                                 ? "By trace, change of the process's RSS, %:"
                                                 : "By trace, change of the program's time, %:"},
                    to);
    }
}

static void print_measure(const struct collection *collection, enum compare_measure measure,
                          FILE *to)
{
    const struct view view = {collection, measure, 0, 0};
    table_print(&(struct table){summary_row, &view, .rows = collection->entries_count}, to);
    print_by_trace(view, to);
}

/* ---- below ---- */

static void put_machines(const struct collection *collection, FILE *to)
{
    for (size_t i = 0; i < collection->machines_count; i++) {
        size_t results = 0;
        for (size_t at = 0; at < collection->results_count; at++)
            results += collection_is_read(&collection->results[at]) &&
                       collection->results[at].machine == i;
        fprintf(to, "Machine of %zu result%s: ", results, results == 1 ? "" : "s");
        machine_print(collection->machines[i], false, to);
        fputs(".\n", to);
    }
}

/* Prints what sweep --halving dropped in each round. */
static void put_halving(const struct collection *collection, FILE *to)
{
    const json_t *rounds = json_object_get(collection->halving, "rounds");
    size_t round, at;
    json_t *of, *entry;
    json_array_foreach(rounds, round, of)
    {
        json_array_foreach(json_object_get(of, "entries"), at, entry)
        {
            const char *label = json_string_value(json_object_get(entry, "entry"));
            if (label == NULL || !json_is_true(json_object_get(entry, "dropped"))) continue;
            const double score = json_number_value(json_object_get(entry, "score"));
            fprintf(to, "Dropped after round %zu: %s, %+.1f %%.\n", round + 1,
                    printable_text(label), per_cent(score - 1));
        }
    }
}

static bool collect_text_is_any(const struct collection *collection,
                                bool (*is)(const struct collection_row *row))
{
    for (size_t trace = 0; trace < collection->traces_count; trace++)
        for (size_t at = 0; at < collection->entries_count; at++)
            if (is(collection_row(collection, trace, at))) return true;
    return false;
}

static bool is_elsewhere(const struct collection_row *row)
{
    return row->is_elsewhere;
}

/* Prints a note about the traces whose changes are not those expected of the process. */
static void put_of(const struct collection *collection, enum compare_measure measure,
                   enum result_of of, const char *note, FILE *to)
{
    size_t count = 0;
    for (size_t i = 0; i < collection->traces_count; i++) {
        const struct result *first = &collection->traces[i].first->of;
        if (first->recorded == NULL || first->of[measure] != of) continue;
        fprintf(to, "%s %zu", count++ == 0 ? "In" : ",", i + 1);
    }
    if (count > 0) fprintf(to, ": %s\n", note);
}

static void put_notes(const struct collection *collection, FILE *to)
{
    fputs("Changes are from the allocator that the program was recorded on (now), replayed in "
          "the same comparison: the expected peak RSS of the process, and its processor time. "
          "Mean: geometric, over all traces, with its 95 % confidence interval (Student's t of "
          "the logarithms). Worst: the greatest change, and its trace.\n=, noise: closer than 1 "
          "MiB or 1 %, or within the spread of the replays; for time, the expected range "
          "includes 0. After the least of a trace, +2: two more are equal to it.\n",
          to);
    if (collect_text_is_any(collection, is_elsewhere))
        fputs("~: on another machine than the trace's first result.\n", to);
    put_of(collection, COMPARE_MEMORY, RESULT_DIFFERENCE,
           "the expected memory of the process is not known; shown is the difference between "
           "replays, as a share of what it had.",
           to);
    put_of(collection, COMPARE_MEMORY, RESULT_REPLAYS,
           "the memory of the process is not known, or less than that of a replay; shown is that "
           "of replays.",
           to);
    put_of(collection, COMPARE_TIME, RESULT_REPLAYS,
           "the expected time of the program is not known; shown is that of replays.", to);
}

/* Prints each line that `put` writes, wrapped, after `mark`. */
static void print_lines(const struct collection *collection,
                        void (*put)(const struct collection *collection, FILE *to),
                        const char *mark, FILE *to)
{
    char *text = NULL, *line, *next;
    size_t bytes;
    FILE *all = open_memstream(&text, &bytes);
    if (all == NULL) return;
    put(collection, all);
    fclose(all);
    for (line = text; line != NULL && *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next != '\0') *next++ = '\0';
        fputs(mark, to);
        terminal_print_wrapped(line, (int)strlen(mark), 2, to);
    }
    free(text);
}

void collection_print(const struct collection *collection, FILE *to)
{
    print_lines(collection, collection_print_answer, "", to);
    table_print(&(struct table){trace_row, collection, .rows = collection->traces_count}, to);
    print_long_names(collection, to);
    for (unsigned measure = 0; measure < COMPARE_MEASURES; measure++)
        print_measure(collection, measure, to);
    fputc('\n', to);
    print_lines(collection, collection_print_warnings, "! ", to);
    print_lines(collection, put_notes, "", to);
    print_lines(collection, put_halving, "", to);
    print_lines(collection, put_machines, "", to);
}
