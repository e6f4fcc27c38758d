#include "report/report_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/by_code.h"
#include "report/words.h"

/* ---- the list ---- */

#define USE(numbers) use(of, numbers, sizeof(numbers) / sizeof *(numbers))

/* A quotient; not known (-1) if the divisor is 0. */
static long double report_numbers_ratio(long double one, long double other)
{
    return other > 0 ? one / other : -1;
}

static void list_memory(const struct tally *tally, numbers_use *use, void *of)
{
    const long double peak = tally->peak.bytes, end = tally->live_bytes;
    const long double second = timeline_second_peak(&tally->timeline, NULL);
    const long double rss = tally->peak_rss_bytes, heap = tally->peak_heap_bytes;
    const struct number numbers[] = {
        {"peak_live", "peak", UNIT_BYTES, peak, " alive"},
        {"peak_objects", "", UNIT_COUNT, tally->peak.objects,
         tally->peak.objects == 1 ? " object" : " objects"},
        {"second_peak", second > 0 ? "another peak" : NULL, UNIT_BYTES, second, " alive"},
        {NULL, second > 0 ? "" : NULL, UNIT_SHARE, report_numbers_ratio(second, peak),
         " of the first"},
        {"end_live", "at the end", UNIT_BYTES, end, " alive"},
        {"end_objects", "", UNIT_COUNT, tally->live, tally->live == 1 ? " object" : " objects"},
        {NULL, "", UNIT_SHARE, report_numbers_ratio(end, peak), " of the peak"},
        {"peak_rss", "the program had", UNIT_BYTES, number_known(rss), " peak RSS"},
        {"peak_heap", "", UNIT_BYTES, number_known(heap), " heap"},
        /* The heap is looked at each tick: of what lives shorter it may have less. */
        {NULL, heap >= peak && heap > 0 && !tally->has_older ? "" : NULL, UNIT_TIMES,
         report_numbers_ratio(heap, peak), " the peak"},
    };
    USE(numbers);
}

/* For numbers that few programs have, report_print_unusual() has the words. */
static void list_calls(const struct tally *tally, numbers_use *use, void *of)
{
    const struct tally_reallocs *of_reallocs = &tally->realloc;
    const struct instruction_totals *totals = &tally->totals;
    const long double ended = tally->ended, reallocs = tally->reallocs;
    const long double moved = of_reallocs->moved, in_place = of_reallocs->in_place;
    const long double remote = tally->remote_frees;
    const char *by_others = totals->threads > 1 ? "" : NULL, *more = reallocs > 0 ? "" : NULL;
    const struct number numbers[] = {
        {"calls", NULL, UNIT_COUNT, tally->calls, ""},
        {"time", NULL, UNIT_MS,
         totals->ticks > 0 ? (long double)(tally_took_ns(tally) / 1000000) : -1, ""},
        {"threads", NULL, UNIT_COUNT, totals->threads, ""},
        {"objects", "objects", UNIT_COUNT, tally->made, " made"},
        {"bytes", "", UNIT_BYTES, tally->bytes, " asked for"},
        {"ended", "", UNIT_COUNT, ended, " ended"},
        {"remote_frees", NULL, UNIT_COUNT, remote, ""},
        {NULL, by_others, UNIT_SHARE, report_numbers_ratio(remote, ended), " by another thread"},
        {"reallocs", reallocs > 0 ? "reallocs" : NULL, UNIT_COUNT, reallocs, ""},
        {"moved", NULL, UNIT_COUNT, moved, ""},
        {NULL, more, UNIT_SHARE, report_numbers_ratio(moved, reallocs), " of them moved"},
        {"copied", moved > 0 ? ", copied " : NULL, UNIT_BYTES, of_reallocs->copied_bytes, ""},
        {"grown", more, UNIT_COUNT, of_reallocs->grown, " grow"},
        {"shrunk", more, UNIT_COUNT, of_reallocs->shrunk, " shrink"},
        {"in_place", NULL, UNIT_COUNT, in_place, ""},
        {"same", NULL, UNIT_COUNT, of_reallocs->same, ""},
        {"failed", NULL, UNIT_COUNT, tally_sum_of(tally->failed), ""},
        {"unknown", NULL, UNIT_COUNT, tally_sum_of(tally->unknown), ""},
        {"zero_sizes", NULL, UNIT_COUNT, tally->zero_sizes, ""},
        {"wrong_sizes", NULL, UNIT_COUNT, tally->wrong_sizes, ""},
        {"freed_twice", NULL, UNIT_COUNT, totals->freed_twice, ""},
        {"missed_frees", NULL, UNIT_COUNT, totals->missed_frees, ""},
        {"lost_events", NULL, UNIT_COUNT, totals->lost_events, ""},
    };
    USE(numbers);
}

void report_numbers(const struct tally *tally, numbers_use *use, void *of)
{
    list_memory(tally, use, of);
    list_calls(tally, use, of);
}

/* The smallest and largest size made; for a class of sizes, its limits. */
static void list_sizes(const struct tally *tally, numbers_use *use, void *of)
{
    const struct sizes *sizes = &tally->sizes;
    uint64_t least = UINT64_MAX, greatest = 0;
    for (uint32_t i = 0; i < sizes->count; i++) {
        const uint64_t size = sizes->entries[i].size, highest = sizes_highest(sizes, i);
        if (sizes->entries[i].count == 0) continue;
        if (size < least) least = size;
        if (highest > greatest) greatest = highest;
    }
    const long double mean = report_numbers_ratio(tally->bytes, tally->made);
    const bool any = tally->made > 0;
    const struct number numbers[] = {
        {"least_size", any ? "sizes" : NULL, UNIT_BYTES, any ? least : -1.0L, " at least"},
        {"mean_size", any ? "" : NULL, UNIT_BYTES, floorl(mean + 0.5L), " on average"},
        {"greatest_size", any ? "" : NULL, UNIT_BYTES, any ? greatest : -1.0L, " at most"},
    };
    USE(numbers);
}

void report_others(const struct tally *tally, numbers_use *use, void *of)
{
    list_sizes(tally, use, of);
    uint64_t second_end = 0, begin = 0;
    const bool second = timeline_second_peak(&tally->timeline, &second_end) > 0;
    const struct timeline_row *busiest = timeline_busiest(&tally->timeline, &begin);
    const uint64_t calls = busiest != NULL ? busiest->calls : 0;
    const long double ns = busiest != NULL ? (busiest->end_ns - begin) : 0;
    const char *more = calls > 0 ? "" : NULL;
    const struct number numbers[] = {
        {"peak_call", "peak at call", UNIT_COUNT, tally->peak.call, ""},
        {"peak_ms", tally->ns > 0 ? ", at " : NULL, UNIT_MS, tally->peak.ms, ""},
        {"second_peak_ms", second ? ", the other until " : NULL, UNIT_MS, second_end / 1000000, ""},
        {"busiest_calls", more != NULL ? "busiest" : NULL, UNIT_COUNT, calls, " calls"},
        {"busiest_ms", more != NULL ? ", in " : NULL, UNIT_MS, floorl(ns / 1e6), ""},
        {"busiest_from_ms", more != NULL ? ", from " : NULL, UNIT_MS, begin / 1000000, " on"},
        {NULL, more, UNIT_RATE, report_numbers_ratio(calls * 1e6, ns), " a ms"},
        {NULL, more != NULL ? ", overall " : NULL, UNIT_RATE,
         report_numbers_ratio(tally->calls * 1e6, tally_took_ns(tally)), ""},
        {"ticks", NULL, UNIT_COUNT, tally->totals.ticks, ""},
        {"user_ns", NULL, UNIT_NS, tally->user_ns, ""},
        {"system_ns", NULL, UNIT_NS, tally->system_ns, ""},
    };
    USE(numbers);
}

static void report_numbers_list_add(void *of, const struct number *numbers, size_t count)
{
    struct report_numbers *list = of;
    for (size_t i = 0; i < count; i++)
        if (numbers[i].key != NULL) list->at[list->count++] = numbers[i];
}

void report_numbers_list(struct report_numbers *list, const struct tally *tally)
{
    list->count = 0;
    report_numbers(tally, report_numbers_list_add, list);
}

double report_growth(long double before, long double after)
{
    if (before < 0 || after < 0) return NAN;
    if (before == 0) return after > 0 ? INFINITY : 0;
    return (double)(100 * (after - before) / before);
}

/* ---- limits ---- */

/* Parses the unit after a number of bytes into a factor. False: not a known unit. */
static bool unit_parse(const char *text, double *factor)
{
    static const char letters[] = "KMG";
    const char *letter = *text != '\0' ? strchr(letters, *text) : NULL;
    *factor = 1;
    if (*text == '\0') return true;
    if (letter == NULL || (text[1] != '\0' && strcmp(text + 1, "iB") != 0)) return false;
    *factor = (double)(UINT64_C(1024) << (10 * (letter - letters)));
    return true;
}

/* Finds a number by its key of `length` characters. False: there is none; `why` lists all keys. */
static bool number_find(const char *key, size_t length, size_t *number, char *why, size_t why_bytes)
{
    static const struct tally none;
    struct report_numbers all;
    size_t used = (size_t)snprintf(
        why, why_bytes, "'%.*s' is not the name of a number; these are:", (int)length, key);
    report_numbers_list(&all, &none);
    for (*number = 0; *number < all.count; ++*number) {
        const char *name = all.at[*number].key;
        if (strlen(name) == length && memcmp(name, key, length) == 0) return true;
        if (used < why_bytes) used += (size_t)snprintf(why + used, why_bytes - used, " %s", name);
    }
    return false;
}

/* The same for a number of a function. */
static bool number_of_code_find(const char *key, size_t length, size_t *number, char *why,
                                size_t why_bytes)
{
    size_t used = (size_t)snprintf(
        why, why_bytes, "'%.*s' is not the name of a number of a function; these are:", (int)length,
        key);
    for (*number = 0; *number < BY_CODE_NUMBERS; ++*number) {
        const char *name = by_code_numbers[*number].key;
        if (strlen(name) == length && memcmp(name, key, length) == 0) return true;
        if (used < why_bytes) used += (size_t)snprintf(why + used, why_bytes - used, " %s", name);
    }
    return false;
}

/* The length of the name: up to the last < or >, because names of functions may contain these. */
static size_t name_length(const char *text)
{
    const char *below = strrchr(text, '<'), *above = strrchr(text, '>');
    const char *end = below != NULL && (above == NULL || below > above) ? below : above;
    return end != NULL ? (size_t)(end - text) : strlen(text);
}

bool report_limit_parse(struct report_limit *limit, const char *text, char *why, size_t why_bytes)
{
    const size_t length = name_length(text), key = strcspn(text, "@<>");
    *limit = (struct report_limit){.text = text};
    if (text[key] == '@' && key < length) {
        limit->of = text + key + 1;
        limit->of_bytes = length - key - 1;
        if (!number_of_code_find(text, key, &limit->number, why, why_bytes)) return false;
    } else if (!number_find(text, key, &limit->number, why, why_bytes)) {
        return false;
    }
    const char *at = text + length;
    snprintf(
        why, why_bytes,
        "'%s' is not of the form NAME>NUMBER, NAME>+NUMBER or NAME>+NUMBER%%; NUMBER may end in "
        "KiB, MiB or GiB",
        text);
    if (*at == '\0') return false;
    limit->below = *at++ == '<';
    limit->grown = *at == '+';
    at += limit->grown;
    char *end;
    double factor = 1;
    limit->limit = strtold(at, &end);
    if (end == at || *at == '+' || !isfinite(limit->limit)) return false;
    limit->per_cent = limit->grown && strcmp(end, "%") == 0;
    if (!limit->per_cent && !unit_parse(end, &factor)) return false;
    limit->limit *= factor;
    return true;
}

bool report_limit_is_broken(const struct report_limit *limit, enum number_unit unit,
                            long double before, long double after, char *why, size_t why_bytes)
{
    const long double value = limit->per_cent ? report_growth(before, after)
                              : limit->grown  ? after - before
                                              : after;
    snprintf(why, why_bytes, "--fail-if %s holds: %s%s%s", limit->text,
             limit->grown ? words_number(unit, before) : "", limit->grown ? " became " : "",
             words_number(unit, after));
    return limit->below ? value < limit->limit : value > limit->limit;
}
