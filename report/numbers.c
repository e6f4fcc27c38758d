#include "report/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/words.h"

/* ---- the list ---- */

static uint64_t sum_of(const uint64_t *by_kind)
{
    uint64_t sum = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        sum += by_kind[kind];
    return sum;
}

#define NUMBER_LIST(X)                                                                     \
    X(calls, "calls", REPORT_COUNT, tally->calls)                                          \
    X(objects, "objects made", REPORT_COUNT, tally->made)                                  \
    X(bytes, "bytes asked for", REPORT_BYTES, tally->bytes)                                \
    X(peak_live, "alive at the peak", REPORT_BYTES, tally->peak.bytes)                     \
    X(peak_objects, "objects at the peak", REPORT_COUNT, tally->peak.objects)              \
    X(end_live, "alive at the end", REPORT_BYTES, tally->live_bytes)                       \
    X(end_objects, "objects at the end", REPORT_COUNT, tally->live)                        \
    X(reallocs, "reallocs", REPORT_COUNT, tally->reallocs)                                 \
    X(copied, "copied by reallocs", REPORT_BYTES, tally->realloc.copied_bytes)             \
    X(remote_frees, "ended by another thread", REPORT_COUNT, lanes_foreign(&tally->lanes)) \
    X(failed, "failed calls", REPORT_COUNT, sum_of(tally->failed))                         \
    X(unknown, "ends of unknown objects", REPORT_COUNT, sum_of(tally->unknown))            \
    X(zero_sizes, "objects of no bytes", REPORT_COUNT, tally->zero_sizes)                  \
    X(threads, "threads", REPORT_COUNT, tally->totals.threads)                             \
    X(time, "time", REPORT_MS, tally->ms)                                                  \
    X(peak_rss, "RSS at most", REPORT_BYTES, tally->peak_rss_bytes)                        \
    X(peak_heap, "heap at most", REPORT_BYTES, tally->peak_heap_bytes)

#define NUMBER_FUNCTION(key, name, unit, value)             \
    static uint64_t number_##key(const struct tally *tally) \
    {                                                       \
        return value;                                       \
    }
NUMBER_LIST(NUMBER_FUNCTION)

#define NUMBER_ENTRY(key, name, unit, value) {#key, name, unit, number_##key},
const struct report_number report_numbers[] = {NUMBER_LIST(NUMBER_ENTRY){.key = NULL}};

const struct report_number *report_number_find(const char *key, size_t length)
{
    for (const struct report_number *number = report_numbers; number->key != NULL; number++)
        if (strlen(number->key) == length && memcmp(number->key, key, length) == 0) return number;
    return NULL;
}

const char *report_number_text(const struct report_number *number, uint64_t value)
{
    switch (number->unit) {
    case REPORT_BYTES: return words_bytes(value);
    case REPORT_MS: return words_ms(value);
    default: return words_count(value);
    }
}

double report_growth(uint64_t before, uint64_t after)
{
    if (before == 0) return after > 0 ? INFINITY : 0;
    return 100.0 * ((double)after - (double)before) / (double)before;
}

/* ---- limits ---- */

/* What stands behind a number of bytes multiplies it. False: nothing known. */
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

bool report_limit_parse(struct report_limit *limit, const char *text, char *why, size_t why_bytes)
{
    const size_t length = strcspn(text, "<>");
    *limit = (struct report_limit){.text = text, .number = report_number_find(text, length)};
    if (limit->number == NULL) {
        snprintf(why, why_bytes, "'%.*s' is no number of a report", (int)length, text);
        return false;
    }
    const char *at = text + length;
    snprintf(why, why_bytes, "'%s' is not of the form NAME>NUMBER, NAME>+NUMBER or NAME>+NUMBER%%",
             text);
    if (*at == '\0') return false;
    limit->below = *at++ == '<';
    limit->grown = *at == '+';
    at += limit->grown;
    char *end;
    double factor = 1;
    limit->limit = strtod(at, &end);
    if (end == at || *at == '+' || !isfinite(limit->limit)) return false;
    limit->per_cent = limit->grown && strcmp(end, "%") == 0;
    if (!limit->per_cent && !unit_parse(end, &factor)) return false;
    limit->limit *= factor;
    return true;
}

bool report_limit_is_broken(const struct report_limit *limit, const struct tally *before,
                            const struct tally *after)
{
    const uint64_t new = limit->number->of(after);
    double value = (double)new;
    if (limit->grown) {
        const uint64_t old = limit->number->of(before);
        value = limit->per_cent ? report_growth(old, new) : (double)new - (double)old;
    }
    return limit->below ? value < limit->limit : value > limit->limit;
}
