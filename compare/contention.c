#include "compare/contention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/known.h"
#include "compare/comparison.h"

/* The number of locks that a setting leaves; 0: it leaves them. */
static double locks_of(const struct compare_setting *setting, const struct allocator_locks *known)
{
    const char *part = known->part, *at = setting->value;
    if (strcmp(setting->name, known->variable) != 0) return 0;
    if (part != NULL && (at = strstr(at, part)) == NULL) return 0;
    if (known->is_one) return 1;
    const double number = strtod(at + (part != NULL ? strlen(part) : 0), NULL);
    return number >= 1 ? number : 0;
}

double contention_locks(const struct compare_entry *entry)
{
    double locks = 0;
    for (size_t i = 0; i < entry->settings_count * ALLOCATORS; i++) {
        const struct compare_setting *one = &entry->settings[i / ALLOCATORS];
        const struct allocator_locks *known = allocator_facts[i % ALLOCATORS]->locks;
        for (; known->variable != NULL; known++) {
            const double left = locks_of(one, known);
            if (left > 0 && !(known->is_one && locks > 0)) locks = left;
        }
    }
    return locks;
}

double contention_more(double held)
{
    return held < 1 ? fmax(0, held) / (1 - fmax(0, held)) : INFINITY;
}

static bool has_threads(const struct compare *compare)
{
    return compare_report_number(compare->null_report, "busy_threads") > 1;
}

bool contention_is_possible(const struct compare *compare)
{
    for (size_t i = 0; i < compare->rows_count; i++)
        if (contention_locks(compare->rows[i].entry) > 0 && has_threads(compare)) return true;
    return false;
}

/* The share of the program's time for which each lock would be held; 1 if that is not known. */
static double held_share(const struct compare *compare, const struct compare_row *row)
{
    const double seconds = compare_report_number(compare->null_report, "original_seconds");
    const double calls =
        compare_median("cpu_seconds", row->reports) - compare_cpu_seconds(compare->null_report);
    const double held = calls / seconds / contention_locks(row->entry);
    return seconds > 0 && !isnan(held) ? held : 1;
}

void contention_widen(struct compare *compare)
{
    const double live = compare_report_number(compare->null_report, "peak_live_bytes");
    for (size_t i = 0; i < compare->rows_count; i++) {
        struct compare_row *row = &compare->rows[i];
        row->more_bytes = 0;
        if (row == compare->recorded || *row->why != '\0' || !has_threads(compare) ||
            contention_locks(row->entry) == 0)
            continue;
        const double by_waits = contention_more(held_share(compare, row)) * live;
        const double by_trace = fmax(0, compare->lane_peaks_bytes - live);
        const double per_live = compare_median("rss_per_live", row->reports);
        row->more_bytes = fmin(by_waits, by_trace) * fmax(1, isnan(per_live) ? 1 : per_live);
    }
}
