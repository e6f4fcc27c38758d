/* The text of a report: one page, the most telling first. */
#include "report/text.h"

#include <math.h>
#include <string.h>

#include "common/printable.h"
#include "common/terminal.h"
#include "report/by_code_text.h"
#include "report/first.h"
#include "report/growth.h"
#include "report/owners_output.h"
#include "report/report_numbers.h"
#include "report/tables.h"
#include "report/under.h"
#include "report/words.h"
#include "stream/metadata.h"

/* The width of the words before numbers; how many lines tables and items lines have. */
enum {
    WIDTH = 15,
    SIZES_SHOWN = 20,
    SIZES_SHOWN_NARROW = 10,
    THREADS_SHOWN = 8,
    TIMES_SHOWN = 10,
    QUARTERS = 4,
    LEFT_SHOWN = 5
};

static void text_line(FILE *to, const char *name)
{
    fprintf(to, "%-*s ", WIDTH, name);
}

static double text_ratio(uint64_t one, uint64_t other)
{
    return other > 0 ? (double)one / (double)other : 0;
}

/* ---- the head ---- */

static void print_title(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    const uint64_t threads = tally->totals.threads;
    fprintf(to, "%s: %s calls by %s thread%s", printable_text(report_name(trace)),
            words_count(tally->calls), words_count(threads), threads == 1 ? "" : "s");
    if (tally->ns > 0) fprintf(to, " in %s", words_ms(tally_took_ns(tally) / 1000000));
    if (*trace->allocator != '\0') fprintf(to, ", on %s", trace->allocator);
    if (*trace->heap_unknown != '\0')
        fprintf(to, "\nits heap is not known: %s", trace->heap_unknown);
    if (*trace->what_if != '\0')
        fprintf(to, "\nnot what the program did, but what it would do with changed code: %s",
                printable_text(trace->what_if));
    fputs("\n\n", to);
}

static void print_left(const struct sizes *sizes, FILE *to)
{
    uint32_t top[LEFT_SHOWN];
    const unsigned count = REPORT_TOP(sizes->entries, sizes->count, live.bytes, top, LEFT_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        const struct size_entry *one = &sizes->entries[top[i]];
        if (i == 0) text_line(to, "left at the end");
        fprintf(to, "%s%s of %s", i > 0 ? ", " : "", words_count(one->live.objects),
                words_sizes(one->size, sizes_highest(sizes, top[i])));
    }
    if (count > 0) fputc('\n', to);
}

/* The upper limit of the class at which `share` of all numbers is reached. */
static const char *percentile(const uint64_t *counts, uint64_t total, double share)
{
    const uint64_t before = (uint64_t)ceil(share * (double)total) - 1;
    return words_count(histogram_bucket_high(histogram_bucket_at(counts, before)));
}

static void print_lifetimes(const struct tally *tally, FILE *to)
{
    const uint64_t *calls = tally->lifetimes.calls, *bytes = tally->lifetimes.bytes;
    uint64_t young = 0;
    if (tally->ended == 0) return;
    for (unsigned i = 0; i < histogram_bucket(64 * 1024); i++)
        young += bytes[i];
    text_line(to, "lifetimes");
    fprintf(to, "half of those that end live for at most %s calls, 90 %% for %s, 99 %% for %s\n",
            percentile(calls, tally->ended, 0.5), percentile(calls, tally->ended, 0.9),
            percentile(calls, tally->ended, 0.99));
    text_line(to, "");
    const uint64_t all = tally->made + tally->base_live;
    fprintf(to, "%s of all end before another 64 KiB are allocated, %s live to the end\n",
            words_share(young, all), words_share(tally->live, all));
}

static void print_alignments(const struct tally *tally, FILE *to)
{
    bool first = true;
    for (unsigned i = 0; i < 64; i++) {
        if (tally->aligned[i] == 0) continue;
        if (first) text_line(to, "alignments");
        fprintf(to, "%s%s to %s", first ? "" : ", ", words_count(tally->aligned[i]),
                words_bytes(UINT64_C(1) << i));
        first = false;
    }
    if (!first) fputc('\n', to);
}

/* ---- what is unusual ---- */

/* Reallocs that grow an object by at most an eighth. */
static uint64_t small_growths(const struct tally_reallocs *counts)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < TALLY_GROWTHS - 1; i++)
        if (tally_growth_limits[i] > 1 && tally_growth_limits[i] <= 1.125) sum += counts->growth[i];
    return sum;
}

void report_print_unusual(const struct report_trace *trace, const char *words, FILE *to)
{
    const struct tally *tally = &trace->tally;
    const uint64_t failed = tally_sum_of(tally->failed), unknown = tally_sum_of(tally->unknown);
    const uint64_t remote = tally->remote_frees, small = small_growths(&tally->realloc);
    if (strcmp(trace->status, "complete") != 0)
        fprintf(to, "! %sThe recording is %s: what follows covers the part that is there.\n", words,
                strcmp(trace->status, "cut") == 0 ? "cut short" : "damaged in parts");
    if (trace->ends_at_exec)
        fprintf(
            to,
            "! %sIt ends where the process ran another program (exec), which has a recording of "
            "its own\n  only with --follow, or a %%p in the name of FILE.\n",
            words);
    if (*trace->foreign_malloc != '\0')
        fprintf(to, "! %sAnother malloc is in use, %s: %s.\n", words,
                printable_text(trace->foreign_malloc),
                tally->calls > 0 ? "only what it passes on was recorded"
                                 : "no call of it was recorded");
    if (tally_has_unseen(tally))
        fprintf(to,
                "! %sThe allocator had %s and more that recorded calls do not explain: of calls of "
                "its own functions, such as mallocx().\n",
                words, words_bytes(tally->unseen_bytes));
    if (trace->thin > 0) {
        char thin[METADATA_THIN_TEXT];
        metadata_thin_text(trace->thin, thin);
        fprintf(to, "! %s%s: what follows is of those that are left.\n", words, thin);
    }
    if (tally->totals.lost_events > 0)
        fprintf(to, "! %s%s calls are missing from the recording.\n", words,
                words_count(tally->totals.lost_events));
    if (tally->totals.freed_twice > 0)
        fprintf(to, "! %s%s frees were of objects that had been freed already.\n", words,
                words_count(tally->totals.freed_twice));
    if (tally->totals.missed_frees > 0)
        fprintf(to,
                "! %s%s frees were not recorded; each is assumed to come just before its "
                "place was taken again.\n",
                words, words_count(tally->totals.missed_frees));
    if (failed > 0) fprintf(to, "! %s%s calls failed.\n", words, words_count(failed));
    if (unknown > tally->ended / 1000 && !tally->has_older)
        fprintf(to, "! %s%s calls ended objects whose allocation was not recorded.\n", words,
                words_count(unknown));
    if (tally->wrong_sizes > 0)
        fprintf(to, "! %s%s frees gave a size that is not the object's.\n", words,
                words_count(tally->wrong_sizes));
    if (tally->zero_sizes > tally->made / 100)
        fprintf(to, "! %s%s of the objects have 0 bytes (malloc(0)).\n", words,
                words_share(tally->zero_sizes, tally->made));
    if (remote > tally->ended / 4)
        fprintf(to,
                "! %s%s of the objects are ended by another thread: this is slow in most "
                "allocators.\n",
                words, words_share(remote, tally->ended));
    if (small > tally->reallocs / 2 && tally->realloc.copied_bytes > tally->bytes / 10)
        fprintf(to,
                "! %s%s of the reallocs grow their object by an eighth or less, and %s were "
                "copied.\n",
                words, words_share(small, tally->reallocs),
                words_bytes(tally->realloc.copied_bytes));
    if (!tally->has_older && !tally_has_unseen(tally) &&
        tally->peak_heap_bytes > tally->peak.bytes + tally->peak.bytes / 2 &&
        tally->peak_heap_bytes > tally->peak.bytes + (16 << 20))
        fprintf(to,
                "! %sAt its peak, the heap was %.1f times as large as the peak of live bytes.\n",
                words, text_ratio(tally->peak_heap_bytes, tally->peak.bytes));
}

/* ---- tables ---- */

static void text_print_sizes(const struct tally *tally, FILE *to)
{
    static const char *const titles[] = {"sizes, by how many", "sizes, by bytes asked for",
                                         "sizes, alive at the peak"};
    const bool wide = terminal_line_width(to) == LINE_WIDTH_MOST;
    const struct sizes *sizes = &tally->sizes;
    const struct size_entry *entries = sizes->entries;
    const uint64_t *const by[] = {&entries->count, &entries->bytes, &entries->live.peak_bytes};
    uint32_t top[TABLES_ORDERS][SIZES_SHOWN] = {{0}};
    struct tables_sizes of[TABLES_ORDERS];
    struct table tables[TABLES_ORDERS];
    for (unsigned i = 0; i < TABLES_ORDERS; i++) {
        of[i] = (struct tables_sizes){tally, i};
        tables[i] = (struct table){tables_size, &of[i], .order = top[i], .title = titles[i]};
        tables[i].rows = report_top(by[i], sizes->count, sizeof *entries, top[i],
                                    wide ? SIZES_SHOWN : SIZES_SHOWN_NARROW);
    }
    table_print_beside(tables, TABLES_ORDERS, to);
    if (wide && sizes_has_classes(sizes))
        fprintf(to, "(More than %d sizes: n.. stands for sizes from n to at most n + n/32.)\n",
                SIZES_LARGE_MAX);
}

static void text_print_times(const struct tally *tally, FILE *to)
{
    unsigned vm_size = statistics_find(&tally->history.names, STATISTIC_VM_SIZE);
    struct timeline_row parts[TIMES_SHOWN];
    if (vm_size >= tally->history.now.count) vm_size = ORIGINAL_STATISTICS_MAX;
    const struct tables_times times = {parts, vm_size};
    const unsigned count = timeline_parts(&tally->timeline, parts, TIMES_SHOWN);
    if (tally->timeline.count >= 2)
        table_print(&(struct table){tables_time, &times, .rows = count}, to);
}

/* Prints when the objects alive at the peak and at the end were made. */
static void print_ages(const struct tally *tally, FILE *to)
{
    const unsigned used = (unsigned)(tally->calls >> tally->ages.shift) + 1;
    struct live sums[QUARTERS] = {{0}};
    for (unsigned i = 0; i < used && i < AGES_MAX; i++) {
        unsigned quarter = QUARTERS - 1;
        while (i < used * quarter / QUARTERS)
            quarter--;
        live_add(&sums[quarter], &tally->ages.pieces[i]);
    }
    const struct tables_ages ages = {sums, true};
    table_print(&(struct table){tables_age, &ages, .rows = QUARTERS}, to);
}

static void print_threads(const struct tally *tally, FILE *to)
{
    uint32_t top[THREADS_SHOWN];
    const unsigned count =
        REPORT_TOP(tally->lanes.lanes, INSTRUCTION_LANES_MAX, calls, top, THREADS_SHOWN);
    if (tally->totals.threads >= 2)
        table_print(&(struct table){tables_lane, tally, count, .order = top}, to);
}

void report_print(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    struct numbers_text text = {to, WIDTH, words_number};
    print_title(trace, to);
    report_print_unusual(trace, "", to);
    if (tally->calls == 0) {
        const struct fragments *const none[] = {NULL, NULL};
        if (trace->owners.is_known) owners_print(trace, none, to);
        return;
    }
    growth_print(trace, to);
    first_print(trace, to);
    by_code_print(&trace->code, tally->has_older, to);
    if (trace->code.is_known) fputc('\n', to);
    report_numbers(tally, numbers_print, &text);
    report_others(tally, numbers_print, &text);
    print_left(&tally->sizes, to);
    print_lifetimes(tally, to);
    print_alignments(tally, to);
    text_print_sizes(tally, to);
    table_print(&(struct table){tables_rounding, trace->rounded, .rows = ROUNDINGS}, to);
    text_print_times(tally, to);
    print_ages(tally, to);
    print_threads(tally, to);
    history_print(&tally->history, to);
    arenas_print(&trace->arenas, to);
    if (trace->depths != NULL) depths_print(trace->depths, to);
    if (trace->under != NULL) under_print(trace->under, to);
}
