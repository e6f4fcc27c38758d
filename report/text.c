/* The text of a report: one page, the most telling first. */
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/call_table.h"
#include "report/first.h"
#include "report/numbers.h"
#include "report/report.h"
#include "report/words.h"

/* Of the words before numbers; lines of tables; parts of a line. */
enum {
    WIDTH = 15,
    SIZES_SHOWN = 20,
    SIZES_SHOWN_NARROW = 10,
    WIDE_COLUMNS = 120,
    THREADS_SHOWN = 8,
    TIMES_SHOWN = 10,
    LEFT_SHOWN = 5
};

static void line(FILE *to, const char *name)
{
    fprintf(to, "%-*s ", WIDTH, name);
}

/* Whether tables have to be narrower than they are: on a terminal that is. */
static bool is_narrow(FILE *to)
{
    struct winsize size;
    const int fd = fileno(to);
    return fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
           size.ws_col < WIDE_COLUMNS;
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
    if (*trace->heap_unknown != '\0')
        fprintf(to, "\nits heap is not known: %s", trace->heap_unknown);
    fputs("\n\n", to);
}

static void print_left(const struct sizes *sizes, FILE *to)
{
    uint32_t top[LEFT_SHOWN];
    const unsigned count = REPORT_TOP(sizes->entries, sizes->count, live.bytes, top, LEFT_SHOWN);
    for (unsigned i = 0; i < count; i++) {
        const struct size_entry *one = &sizes->entries[top[i]];
        if (i == 0) line(to, "left at the end");
        fprintf(to, "%s%s of %s", i > 0 ? ", " : "", words_count(one->live.objects),
                words_sizes(one->size, sizes_highest(sizes, top[i])));
    }
    if (count > 0) fputc('\n', to);
}

/* The highest number of the class in which so much of all lies. */
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
    line(to, "lifetimes");
    fprintf(to, "half of those that end live for at most %s calls, 90 %% for %s, 99 %% for %s\n",
            percentile(calls, tally->ended, 0.5), percentile(calls, tally->ended, 0.9),
            percentile(calls, tally->ended, 0.99));
    line(to, "");
    fprintf(to, "%s of all are gone before 64 KiB more were asked for, %s live to the end\n",
            words_share(young, tally->made), words_share(tally->live, tally->made));
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
    const uint64_t foreign = tally->foreign, small = small_growths(&tally->realloc);
    if (strcmp(trace->status, "complete") != 0)
        fprintf(to, "! %sThe recording is %s: what follows is of what there is.\n", words,
                strcmp(trace->status, "cut") == 0 ? "cut short" : "damaged in parts");
    if (tally->totals.lost_events > 0)
        fprintf(to, "! %s%s calls are missing in the recording.\n", words,
                words_count(tally->totals.lost_events));
    if (tally->totals.freed_twice > 0)
        fprintf(to, "! %s%s frees were of objects that had been freed already.\n", words,
                words_count(tally->totals.freed_twice));
    if (failed > 0) fprintf(to, "! %s%s calls failed.\n", words, words_count(failed));
    if (unknown > tally->ended / 1000)
        fprintf(to, "! %s%s calls ended objects whose making was not recorded.\n", words,
                words_count(unknown));
    if (tally->wrong_sizes > 0)
        fprintf(to, "! %s%s frees were given another size than the object has.\n", words,
                words_count(tally->wrong_sizes));
    if (tally->zero_sizes > tally->made / 100)
        fprintf(to, "! %s%s of the objects have no bytes (malloc(0)).\n", words,
                words_share(tally->zero_sizes, tally->made));
    if (foreign > tally->ended / 4)
        fprintf(to,
                "! %s%s of the objects are ended by another thread: this costs in most "
                "allocators.\n",
                words, words_share(foreign, tally->ended));
    if (small > tally->reallocs / 2 && tally->realloc.copied_bytes > tally->bytes / 10)
        fprintf(to, "! %s%s of the reallocs grow by an eighth or less, and %s were copied.\n",
                words, words_share(small, tally->reallocs),
                words_bytes(tally->realloc.copied_bytes));
    if (tally->peak_heap_bytes > tally->peak.bytes + tally->peak.bytes / 2 &&
        tally->peak_heap_bytes > tally->peak.bytes + (16 << 20))
        fprintf(to, "! %sThe heap became %.1f times as large as what was alive at most.\n", words,
                ratio(tally->peak_heap_bytes, tally->peak.bytes));
}

/* ---- sizes ---- */

/* "1 024" or, of a class of sizes, "1 024.." */
static void print_size(const struct sizes *sizes, uint32_t entry, FILE *to)
{
    char text[40];
    snprintf(text, sizeof text, "%s%s", words_count(sizes->entries[entry].size),
             sizes_is_class(entry) ? ".." : "");
    fprintf(to, "%12s ", text);
}

/* One of the three parts of the next table, of which a narrow terminal has one below another. */
static void print_sizes_by(const struct tally *tally, const char *title, const uint64_t *first,
                           uint64_t all, bool counts, FILE *to)
{
    uint32_t top[SIZES_SHOWN_NARROW];
    const struct sizes *sizes = &tally->sizes;
    const unsigned rows =
        report_top(first, sizes->count, sizeof *sizes->entries, top, SIZES_SHOWN_NARROW);
    fprintf(to, "\n%s\n", title);
    for (unsigned row = 0; row < rows; row++) {
        const uint64_t value =
            *(const uint64_t *)((const char *)first + top[row] * sizeof *sizes->entries);
        print_size(sizes, top[row], to);
        fprintf(to, "%13s %8s\n", counts ? words_count(value) : words_bytes(value),
                words_share(value, all));
    }
}

static void print_sizes_narrow(const struct tally *tally, FILE *to)
{
    const struct size_entry *entries = tally->sizes.entries;
    if (tally->made == 0) return;
    print_sizes_by(tally, "sizes, by how many", &entries->count, tally->made, true, to);
    print_sizes_by(tally, "sizes, by bytes asked for", &entries->bytes, tally->bytes, false, to);
    print_sizes_by(tally, "sizes, alive at the peak", &entries->live.peak_bytes, tally->peak.bytes,
                   false, to);
}

static void print_sizes(const struct tally *tally, FILE *to)
{
    const struct sizes *sizes = &tally->sizes;
    uint32_t by_count[SIZES_SHOWN], by_bytes[SIZES_SHOWN], by_peak[SIZES_SHOWN];
    const unsigned rows = REPORT_TOP(sizes->entries, sizes->count, count, by_count, SIZES_SHOWN);
    const unsigned bytes_rows =
        REPORT_TOP(sizes->entries, sizes->count, bytes, by_bytes, SIZES_SHOWN);
    const unsigned peak_rows =
        REPORT_TOP(sizes->entries, sizes->count, live.peak_bytes, by_peak, SIZES_SHOWN);
    if (rows == 0) return;
    fprintf(to, "\nsizes, by how many %15s  by bytes asked for %13s  alive at the peak\n", "", "");
    fprintf(to, "%12s %13s %8s  %12s %11s %8s  %12s %13s %11s\n", "bytes", "objects", "", "bytes",
            "in all", "", "bytes", "objects", "in all");
    for (unsigned row = 0; row < rows; row++) {
        const struct size_entry *one = &sizes->entries[by_count[row]];
        print_size(sizes, by_count[row], to);
        fprintf(to, "%13s %8s  ", words_count(one->count), words_share(one->count, tally->made));
        if (row < bytes_rows) {
            one = &sizes->entries[by_bytes[row]];
            print_size(sizes, by_bytes[row], to);
            fprintf(to, "%11s %8s  ", words_bytes(one->bytes),
                    words_share(one->bytes, tally->bytes));
        }
        if (row < peak_rows) {
            const struct live *live = &sizes->entries[by_peak[row]].live;
            print_size(sizes, by_peak[row], to);
            fprintf(to, "%13s %11s %8s", words_count(live->peak_objects),
                    words_bytes(live->peak_bytes),
                    words_share(live->peak_bytes, tally->peak.bytes));
        }
        fputc('\n', to);
    }
    if (sizes_has_classes(sizes))
        fprintf(to, "(More than %d sizes: n.. stands for those from n to at most n + n/32.)\n",
                SIZES_LARGE_MAX);
}

/* How much more than was asked for. */
static void print_added(uint64_t taken, uint64_t bytes, FILE *to)
{
    fprintf(to, " %11s %8s", words_bytes(taken - bytes), words_share(taken - bytes, bytes));
}

/* Ends with the class that adds most at the peak. */
static void print_rounding(const struct rounded rounded[ROUNDINGS], FILE *to)
{
    const bool narrow = is_narrow(to);
    fprintf(to, "\n%-22s %20s %20s%s\n", "what rounding up adds", "at the peak", "to all objects",
            narrow ? "" : "    at the peak, most in the class of");
    for (unsigned i = 0; i < ROUNDINGS; i++) {
        const struct rounded_class *all = &rounded[i].all, *most = rounded[i].classes;
        for (size_t k = 0; k < rounded[i].count; k++) {
            const struct rounded_class *one = &rounded[i].classes[k];
            if (one->peak_taken - one->peak_bytes > most->peak_taken - most->peak_bytes) most = one;
        }
        fprintf(to, "  %-20s", roundings[i].name);
        print_added(all->peak_taken, all->peak_bytes, to);
        print_added(all->taken, all->bytes, to);
        if (rounded[i].count > 0 && !narrow)
            fprintf(to, "    %s: %s", words_bytes_exact(most->size),
                    words_bytes(most->peak_taken - most->peak_bytes));
        fputc('\n', to);
    }
}

/* ---- over time ---- */

static void print_times(const struct tally *tally, FILE *to)
{
    const unsigned vm_size = statistics_find(&tally->account.names, STATISTIC_VM_SIZE);
    const bool has_vm_size = vm_size < tally->account.now.count;
    if (tally->timeline.count < 2) return;
    const bool narrow = is_narrow(to);
    fprintf(to, "\n%-13s %13s", "over time", "calls");
    if (!narrow) fprintf(to, " %8s %8s %8s", "made", "ended", "reallocs");
    fprintf(to, " %12s %12s %12s", "most alive", "heap", "RSS");
    fprintf(to, has_vm_size ? " %12s\n" : "\n", "VmSize");
    for (unsigned part = 0; part < TIMES_SHOWN; part++) {
        const struct timeline_row row = timeline_part(&tally->timeline, part, TIMES_SHOWN);
        if (row.end_ns == 0) continue;
        fprintf(to, "  to %-8s %13s", words_ms(row.end_ns / 1000000), words_count(row.calls));
        if (!narrow)
            fprintf(to, " %8s %8s %8s", words_share(row.made, row.calls),
                    words_share(row.ended, row.calls), words_share(row.reallocs, row.calls));
        fprintf(to, " %12s %12s %12s", words_bytes(row.most_live_bytes),
                row.heap_bytes > 0 ? words_bytes(row.heap_bytes) : "-",
                row.rss_bytes > 0 ? words_bytes(row.rss_bytes) : "-");
        fprintf(to, has_vm_size ? " %12s\n" : "\n",
                has_vm_size ? words_bytes(row.statistics[vm_size]) : "");
    }
}

/* ---- ages ---- */

/* Four lines: who of those alive at a time was made when. */
static void print_ages(const struct tally *tally, FILE *to)
{
    const unsigned used = (unsigned)(tally->calls >> tally->ages.shift) + 1;
    fprintf(to, "\nmade in the             alive at the peak%15s  alive at the end\n", "");
    for (unsigned part = 0; part < 4; part++) {
        static const char *const names[] = {"first", "second", "third", "last"};
        struct live sum = {0};
        for (unsigned i = used * part / 4; i < used * (part + 1) / 4 && i < AGES_MAX; i++)
            live_add(&sum, &tally->ages.pieces[i]);
        fprintf(to, "  %-6s quarter  %10s objects %11s  %10s objects %11s\n", names[part],
                words_count(sum.peak_objects), words_bytes(sum.peak_bytes),
                words_count(sum.objects), words_bytes(sum.bytes));
    }
}

/* ---- threads ---- */

static void print_threads(const struct tally *tally, FILE *to)
{
    uint32_t top[THREADS_SHOWN];
    const unsigned count =
        REPORT_TOP(tally->lanes.lanes, INSTRUCTION_LANES_MAX, calls, top, THREADS_SHOWN);
    if (tally->totals.threads < 2) return;
    const bool narrow = is_narrow(to);
    fprintf(to, "\n%-16s %15s %9s %11s %14s", "thread (lane)", "calls", "", "asked for",
            "ends others'");
    fprintf(to, narrow ? "\n" : " %13s %13s\n", "longest turn", "at the peak");
    for (unsigned i = 0; i < count; i++) {
        const struct lane_counts *lane = &tally->lanes.lanes[top[i]];
        char name[64];
        if (lane->threads == 1)
            snprintf(name, sizeof name, "%s (%u)", words_count(lane->thread), top[i]);
        else
            snprintf(name, sizeof name, "%s threads (%u)", words_count(lane->threads), top[i]);
        fprintf(to, "%-16s %15s %9s %11s %14s", name, words_count(lane->calls),
                words_share(lane->calls, tally->calls), words_bytes(lane->bytes),
                words_share(lane->foreign, lane->ended));
        fprintf(to, narrow ? "\n" : " %13s %13s\n", words_count(lane->longest),
                words_bytes(lane->live.peak_bytes));
    }
}

void report_print(const struct report_trace *trace, FILE *to)
{
    const struct tally *tally = &trace->tally;
    struct numbers_text text = {to, WIDTH, words_number};
    print_title(trace, to);
    report_print_unusual(trace, "", to);
    if (tally->calls == 0) return;
    first_print(trace, to);
    report_numbers(tally, numbers_print, &text);
    report_others(tally, numbers_print, &text);
    print_left(&tally->sizes, to);
    print_lifetimes(tally, to);
    print_alignments(tally, to);
    is_narrow(to) ? print_sizes_narrow(tally, to) : print_sizes(tally, to);
    print_rounding(trace->rounded, to);
    print_times(tally, to);
    print_ages(tally, to);
    print_threads(tally, to);
    account_print(&tally->account, to);
    arenas_print(&trace->arenas, to);
    if (trace->depths != NULL) depths_print(trace->depths, to);
    if (trace->under != NULL) under_print(trace->under, to);
}
