/* The text of a report: one page, the most telling first. */
#include <string.h>

#include "common/call_table.h"
#include "report/report.h"
#include "report/rounding.h"
#include "report/words.h"

/* Lines of the table of threads. */
enum { THREADS_SHOWN = 8 };

/* Sizes of what is alive at the end. */
enum { SIZES_LEFT_SHOWN = 5 };

static void line(FILE *to, const char *name)
{
    fprintf(to, "%-14s  ", name);
}

static double ratio(uint64_t one, uint64_t other)
{
    return other > 0 ? (double)one / (double)other : 0;
}

/* ---- the head ---- */

static void print_title(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    const uint64_t threads = tally->totals.threads;
    fprintf(to, "%s: %s calls by %s thread%s", report_name(trace), words_count(tally->calls),
            words_count(threads), threads == 1 ? "" : "s");
    if (tally->ns > 0) fprintf(to, " in %s", words_ms(tally->ms));
    if (*trace->allocator != '\0') fprintf(to, ", on %s", trace->allocator);
    fputs("\n\n", to);
}

/* The row of the timeline that a second peak lies in: of those from which the peak is apart by a
 * tick with less than three quarters alive, the one with most. -1: none. */
static int second_peak(const struct timeline *timeline)
{
    const struct timeline_row *rows = timeline->rows;
    int first = 0, second = -1;
    for (unsigned i = 1; i < timeline->count; i++)
        if (rows[i].most_live_bytes > rows[first].most_live_bytes) first = (int)i;
    for (int step = -1; step <= 1; step += 2) {
        uint64_t least = UINT64_MAX;
        for (int i = first + step; i >= 0 && i < (int)timeline->count; i += step) {
            const uint64_t most = rows[i].most_live_bytes;
            const uint64_t between = rows[step > 0 ? i - 1 : i].live_bytes;
            if (between < least) least = between;
            if (least < most / 4 * 3 && (second < 0 || most > rows[second].most_live_bytes))
                second = i;
        }
    }
    return second;
}

/* Only if it is nearly as high: then the program has two that matter. */
static void print_second_peak(const struct tally *tally, FILE *to)
{
    const int row = second_peak(&tally->timeline);
    if (row < 0) return;
    const uint64_t bytes = tally->timeline.rows[row].most_live_bytes;
    if (bytes < tally->peak.bytes / 5 * 4) return;
    line(to, "another peak");
    fprintf(to, "%s alive, %s of the first, until %s\n", words_bytes(bytes),
            words_share(bytes, tally->peak.bytes),
            words_ms(tally->timeline.rows[row].end_ns / 1000000));
}

/* Which sizes have most of what is alive at the end. */
static void print_left(const struct tally *tally, FILE *to)
{
    uint32_t top[REPORT_TOP];
    const unsigned count = report_top_sizes(&tally->sizes, REPORT_BY_END_BYTES, top);
    if (count == 0) return;
    line(to, "");
    for (unsigned i = 0; i < count && i < SIZES_LEFT_SHOWN; i++) {
        const struct size_entry *one = &tally->sizes.entries[top[i]];
        fprintf(to, "%s%s of %s", i > 0 ? ", " : "most in ", words_count(one->live.objects),
                words_sizes(one->size, sizes_highest(&tally->sizes, top[i])));
    }
    fputc('\n', to);
}

/* The row with most calls for its time, beside the mean. A window may be closed early, with a
 * handful of calls at the end: that is no burst. */
static void print_burst(const struct tally *tally, FILE *to)
{
    const struct timeline *timeline = &tally->timeline;
    uint64_t begin = 0, most_begin = 0, shortest_ns = 1000000;
    double most = 0;
    const struct timeline_row *burst = NULL;
    if (timeline->count < 2) return;
    if (tally->ns / timeline->count / 2 > shortest_ns)
        shortest_ns = tally->ns / timeline->count / 2;
    for (unsigned i = 0; i < timeline->count; i++) {
        const struct timeline_row *row = &timeline->rows[i];
        const double rate = ratio(row->calls * UINT64_C(1000000), row->end_ns - begin);
        if (rate > most && row->end_ns - begin >= shortest_ns) {
            most = rate;
            burst = row;
            most_begin = begin;
        }
        begin = row->end_ns;
    }
    if (burst == NULL) return;
    line(to, "busiest");
    fprintf(to, "%s calls in %s from %s on: %s a ms; on the whole %s\n", words_count(burst->calls),
            words_ms((burst->end_ns - most_begin) / 1000000), words_ms(most_begin / 1000000),
            words_count((uint64_t)most),
            words_count((uint64_t)ratio(tally->calls * UINT64_C(1000000), tally->ns)));
}

static void print_peak(const struct tally *tally, FILE *to)
{
    line(to, "peak");
    fprintf(to, "%s in %s objects alive, behind call %s", words_bytes(tally->peak.bytes),
            words_count(tally->peak.objects), words_count(tally->peak.call));
    if (tally->ns > 0) fprintf(to, " (%s)", words_ms(tally->peak.ms));
    fputc('\n', to);
    print_second_peak(tally, to);
    line(to, "at the end");
    fprintf(to, "%s in %s objects alive, %s of the peak\n", words_bytes(tally->live_bytes),
            words_count(tally->live), words_share(tally->live_bytes, tally->peak.bytes));
    print_left(tally, to);
}

static void print_memory(const struct tally *tally, FILE *to)
{
    if (tally->peak_rss_bytes == 0) return;
    line(to, "the program had");
    fprintf(to, "%s RSS at most", words_bytes(tally->peak_rss_bytes));
    if (tally->peak_heap_bytes > 0)
        fprintf(to, ", %s heap, %.2f times the peak", words_bytes(tally->peak_heap_bytes),
                ratio(tally->peak_heap_bytes, tally->peak.bytes));
    fputc('\n', to);
}

static void print_calls(const struct tally *tally, FILE *to)
{
    uint64_t left[CALL_KINDS];
    memcpy(left, tally->totals.by_kind, sizeof left);
    line(to, "calls");
    for (unsigned shown = 0; shown < 5; shown++) {
        unsigned most = 0;
        for (unsigned kind = 1; kind < CALL_KINDS; kind++)
            if (left[kind] > left[most]) most = kind;
        if (left[most] == 0) break;
        fprintf(to, "%s%s %s", shown > 0 ? ", " : "", call_names[most],
                words_share(left[most], tally->calls));
        left[most] = 0;
    }
    fprintf(to, "; %s asked for in all\n", words_bytes(tally->bytes));
}

static uint64_t percentile(const uint64_t *counts, uint64_t total, double share)
{
    return log_linear_highest(log_linear_percentile(counts, total, share));
}

static void print_lifetimes(const struct tally *tally, FILE *to)
{
    const uint64_t *calls = tally->lifetimes.calls, *bytes = tally->lifetimes.bytes;
    if (tally->ended == 0) return;
    line(to, "lifetimes");
    fprintf(to, "half of those that end live for at most %s calls, 90 %% for %s, 99 %% for %s\n",
            words_count(percentile(calls, tally->ended, 0.5)),
            words_count(percentile(calls, tally->ended, 0.9)),
            words_count(percentile(calls, tally->ended, 0.99)));
    line(to, "");
    fprintf(to, "%s of all are gone before 64 KiB more were asked for, %s live to the end\n",
            words_share(log_linear_below(bytes, 64 * 1024), tally->made),
            words_share(tally->live, tally->made));
}

static void print_foreign(const struct tally *tally, FILE *to)
{
    const uint64_t foreign = lanes_foreign(&tally->lanes);
    if (tally->totals.threads < 2) return;
    line(to, "threads");
    fprintf(to, "%s of the objects are ended by another thread than made them\n",
            words_share(foreign, tally->ended));
}

static void print_reallocs(const struct tally *tally, FILE *to)
{
    const struct tally_reallocs *counts = &tally->realloc;
    if (tally->reallocs == 0) return;
    line(to, "reallocs");
    fprintf(to, "%s, %s of them moved and copied %s; %s grow, %s shrink\n",
            words_count(tally->reallocs), words_share(counts->moved, tally->reallocs),
            words_bytes(counts->copied_bytes), words_share(counts->grown, tally->reallocs),
            words_share(counts->shrunk, tally->reallocs));
}

static void print_alignments(const struct tally *tally, FILE *to)
{
    bool first = true;
    for (unsigned i = 0; i < 64; i++) {
        if (tally->aligned[i] == 0) continue;
        if (first) line(to, "alignments");
        fprintf(to, "%s%s to %s", first ? "" : ", ", words_count(tally->aligned[i]),
                words_bytes(UINT64_C(1) << i));
        first = false;
    }
    if (!first) fputc('\n', to);
}

/* ---- what is unusual ---- */

static uint64_t sum_of(const uint64_t *by_kind)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        sum += by_kind[kind];
    return sum;
}

/* Reallocs that grow an object by at most an eighth. */
static uint64_t small_growths(const struct tally_reallocs *counts)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < TALLY_GROWTHS - 1; i++)
        if (tally_growth_limits[i] > 1 && tally_growth_limits[i] <= 1.125) sum += counts->growth[i];
    return sum;
}

/* A sentence for each number that few programs have. */
void report_print_unusual(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    const uint64_t failed = sum_of(tally->failed), unknown = sum_of(tally->unknown);
    const uint64_t foreign = lanes_foreign(&tally->lanes), small = small_growths(&tally->realloc);
    if (strcmp(trace->status, "complete") != 0)
        fprintf(to, "! The recording is %s: what follows is of what there is.\n",
                strcmp(trace->status, "cut") == 0 ? "cut short" : "damaged in parts");
    if (tally->totals.lost_events > 0)
        fprintf(to, "! %s calls are missing in the recording.\n",
                words_count(tally->totals.lost_events));
    if (tally->totals.freed_twice > 0)
        fprintf(to, "! %s frees were of objects that had been freed already.\n",
                words_count(tally->totals.freed_twice));
    if (failed > 0) fprintf(to, "! %s calls failed.\n", words_count(failed));
    if (unknown > tally->ended / 1000)
        fprintf(to, "! %s calls ended objects whose making was not recorded.\n",
                words_count(unknown));
    if (tally->wrong_sizes > 0)
        fprintf(to, "! %s frees were given another size than the object has.\n",
                words_count(tally->wrong_sizes));
    if (tally->zero_sizes > tally->made / 100)
        fprintf(to, "! %s of the objects have no bytes (malloc(0)).\n",
                words_share(tally->zero_sizes, tally->made));
    if (foreign > tally->ended / 4)
        fprintf(to,
                "! %s of the objects are ended by another thread: this costs in most "
                "allocators.\n",
                words_share(foreign, tally->ended));
    if (small > tally->reallocs / 2 && tally->realloc.copied_bytes > tally->bytes / 10)
        fprintf(to, "! %s of the reallocs grow by an eighth or less, and %s were copied.\n",
                words_share(small, tally->reallocs), words_bytes(tally->realloc.copied_bytes));
    if (tally->peak_heap_bytes > tally->peak.bytes + tally->peak.bytes / 2 &&
        tally->peak_heap_bytes > tally->peak.bytes + (16 << 20))
        fprintf(to, "! The heap became %.1f times as large as what was alive at most.\n",
                ratio(tally->peak_heap_bytes, tally->peak.bytes));
}

/* ---- sizes ---- */

/* "1 024" or, of a class of sizes, "1 024.." */
static const char *size_text(const struct sizes *sizes, uint32_t entry, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s", words_count(sizes->entries[entry].size),
             sizes_is_class(entry) ? ".." : "");
    return text;
}

static void print_size(const struct tally *tally, uint32_t entry, enum report_order order, FILE *to)
{
    const struct size_entry *one = &tally->sizes.entries[entry];
    char text[40];
    fprintf(to, "%12s ", size_text(&tally->sizes, entry, text, sizeof text));
    switch (order) {
    case REPORT_BY_COUNT:
        fprintf(to, "%13s %8s", words_count(one->count), words_share(one->count, tally->made));
        break;
    case REPORT_BY_BYTES:
        fprintf(to, "%11s %8s", words_bytes(one->bytes), words_share(one->bytes, tally->bytes));
        break;
    default:
        fprintf(to, "%13s %11s %8s", words_count(one->live.peak_objects),
                words_bytes(one->live.peak_bytes),
                words_share(one->live.peak_bytes, tally->peak.bytes));
    }
}

static void print_sizes(const struct tally *tally, FILE *to)
{
    static const int widths[REPORT_ORDERS] = {35, 33, 47};
    uint32_t top[REPORT_ORDERS][REPORT_TOP];
    unsigned counts[REPORT_ORDERS], rows = 0;
    for (unsigned i = 0; i < REPORT_ORDERS; i++) {
        counts[i] = report_top_sizes(&tally->sizes, (enum report_order)i, top[i]);
        if (counts[i] > rows) rows = counts[i];
    }
    if (rows == 0) return;
    fprintf(to, "\nsizes, by how many %15s  by bytes asked for %13s  alive at the peak\n", "", "");
    fprintf(to, "%12s %13s %8s  %12s %11s %8s  %12s %13s %11s %8s\n", "bytes", "objects", "",
            "bytes", "in all", "", "bytes", "objects", "in all", "");
    for (unsigned row = 0; row < rows; row++) {
        for (unsigned i = 0; i < REPORT_ORDERS; i++) {
            if (row < counts[i])
                print_size(tally, top[i][row], (enum report_order)i, to);
            else
                fprintf(to, "%*s", widths[i], "");
            fputs(i + 1 < REPORT_ORDERS ? "  " : "\n", to);
        }
    }
    if (sizes_has_classes(&tally->sizes))
        fprintf(to, "(More than %d sizes: n.. stands for those from n to at most n + n/16.)\n",
                SIZES_LARGE_MAX);
}

static void print_rounding(const struct tally *tally, FILE *to)
{
    fprintf(to, "\nwhat rounding up adds%12s at the peak           to all objects\n", "");
    for (const struct rounding *rounding = roundings; rounding->name != NULL; rounding++) {
        const struct report_rounded sum = report_rounded(&tally->sizes, rounding->size);
        fprintf(to, "  %-28s %11s %8s %14s %8s\n", rounding->name,
                words_bytes(sum.peak - tally->peak.bytes),
                words_share(sum.peak - tally->peak.bytes, tally->peak.bytes),
                words_bytes(sum.made - tally->bytes),
                words_share(sum.made - tally->bytes, tally->bytes));
    }
}

/* ---- ages ---- */

/* Four lines: who of those alive at a time was made when. */
static void print_ages(const struct tally *tally, FILE *to)
{
    const unsigned used = (unsigned)(tally->calls >> tally->ages.shift) + 1;
    fprintf(to, "\nmade in the                  alive at the peak%15s  alive at the end\n", "");
    for (unsigned part = 0; part < 4; part++) {
        static const char *const names[] = {"first", "second", "third", "last"};
        struct live sum = {0};
        for (unsigned i = used * part / 4; i < used * (part + 1) / 4 && i < AGES_MAX; i++) {
            const struct live *one = &tally->ages.pieces[i];
            sum.peak_objects += one->peak_objects;
            sum.peak_bytes += one->peak_bytes;
            sum.objects += one->objects;
            sum.bytes += one->bytes;
        }
        fprintf(to, "  %-6s quarter  %14s objects %11s  %14s objects %11s\n", names[part],
                words_count(sum.peak_objects), words_bytes(sum.peak_bytes),
                words_count(sum.objects), words_bytes(sum.bytes));
    }
}

/* ---- threads ---- */

/* The lanes with the most calls. */
static unsigned top_lanes(const struct lanes *lanes, unsigned top[THREADS_SHOWN])
{
    unsigned count = 0;
    for (unsigned i = 0; i < INSTRUCTION_LANES_MAX; i++) {
        const uint64_t calls = lanes->lanes[i].calls;
        unsigned at = count;
        while (at > 0 && lanes->lanes[top[at - 1]].calls < calls)
            at--;
        if (calls == 0 || at == THREADS_SHOWN) continue;
        if (count < THREADS_SHOWN) count++;
        memmove(top + at + 1, top + at, (count - 1 - at) * sizeof *top);
        top[at] = i;
    }
    return count;
}

static void print_threads(const struct tally *tally, FILE *to)
{
    unsigned top[THREADS_SHOWN], count = top_lanes(&tally->lanes, top);
    if (tally->totals.threads < 2) return;
    fprintf(to, "\n%-16s %15s %9s %11s %14s %13s %13s\n", "thread (lane)", "calls", "", "asked for",
            "ends others'", "longest turn", "at the peak");
    for (unsigned i = 0; i < count; i++) {
        const struct lane_counts *lane = &tally->lanes.lanes[top[i]];
        char name[64];
        if (lane->threads == 1)
            snprintf(name, sizeof name, "%s (%u)", words_count(lane->thread), top[i]);
        else
            snprintf(name, sizeof name, "%s threads (%u)", words_count(lane->threads), top[i]);
        fprintf(to, "%-16s %15s %9s %11s %14s %13s %13s\n", name, words_count(lane->calls),
                words_share(lane->calls, tally->calls), words_bytes(lane->bytes),
                words_share(lane->foreign, lane->ended), words_count(lane->longest),
                words_bytes(lane->live.peak_bytes));
    }
}

void report_print(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    print_title(trace, to);
    report_print_unusual(trace, to);
    if (tally->calls == 0) return;
    print_peak(tally, to);
    print_memory(tally, to);
    print_calls(tally, to);
    print_burst(tally, to);
    print_lifetimes(tally, to);
    print_foreign(tally, to);
    print_reallocs(tally, to);
    print_alignments(tally, to);
    print_sizes(tally, to);
    print_rounding(tally, to);
    print_ages(tally, to);
    print_threads(tally, to);
    if (trace->depths != NULL) depths_print(trace->depths, to);
    if (trace->under != NULL) under_print(trace->under, to);
}
