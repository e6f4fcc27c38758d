#include "compare/compare_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/numbers.h"

#define TO_MIB (1 / MIB)

/* ---- several rounds ---- */

static int compare_numbers_ascending(const void *one, const void *other)
{
    double left = *(const double *)one, right = *(const double *)other;
    return (left > right) - (left < right);
}

struct compare_spread compare_spread_values(double *values, size_t count)
{
    const struct compare_spread unknown = {NAN, NAN, NAN};
    if (count == 0) return unknown;
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return unknown;
    qsort(values, count, sizeof *values, compare_numbers_ascending);
    return (struct compare_spread){(values[(count - 1) / 2] + values[count / 2]) / 2, values[0],
                                   values[count - 1]};
}

double compare_spread_relative(const struct compare_spread *spread)
{
    return spread->median > 0 ? (spread->most - spread->least) / spread->median : NAN;
}

struct compare_spread compare_spread_of(const struct compare_number *number, const json_t *reports)
{
    const struct compare_spread unknown = {NAN, NAN, NAN};
    struct compare_spread spread = unknown;
    size_t count = json_array_size(reports);
    double *values = calloc(count + 1, sizeof *values);
    if (values == NULL) return spread;
    spread = compare_spread_values(values, compare_values_of(number, reports, values, count));
    free(values);
    /* Below 0 if the machine was busier while the own cost was measured. */
    return number->from == COMPARE_FROM_NET && spread.median < 0 ? unknown : spread;
}

double compare_median(const char *key, const json_t *reports)
{
    return compare_spread_of(compare_number_find(key), reports).median;
}

/* ---- latency of the kind that matters most ---- */

const char *compare_kind(const json_t *report, bool allocation)
{
    const json_t *by_kind = json_object_get(report, "by_kind");
    const char *most = NULL;
    json_int_t count = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        const uint8_t shape = call_shapes[kind];
        if (!(allocation ? shape_is_allocation(shape) : shape_is_free(shape))) continue;
        json_int_t calls = json_integer_value(json_object_get(by_kind, call_names[kind]));
        if (calls > count) {
            count = calls;
            most = call_names[kind];
        }
    }
    return most;
}

/* ---- one number of one report ---- */

double compare_report_number(const json_t *report, const char *key)
{
    const json_t *value = json_object_get(report, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The replay's own cost is measured in a few blocks only, but should be the same in every run, so
 * the median of all runs is subtracted from each. REPORT.md, `measured_events`, says what an event
 * is. */
static double net_ns_per_event(const json_t *report, const json_t *reports)
{
    double events = compare_report_number(report, "measured_events");
    if (!(events > 0)) return NAN;
    return compare_report_number(report, "wall_seconds") * 1e9 / events -
           compare_median("own_cost_ns_per_event", reports);
}

double compare_cpu_seconds(const json_t *report)
{
    return compare_report_number(report, "user_seconds") +
           compare_report_number(report, "system_seconds");
}

static double compare_numbers_value_of(const struct compare_number *number, const json_t *report,
                                       const json_t *reports)
{
    const json_t *latency;
    const char *kind;
    switch (number->from) {
    case COMPARE_FROM_CPU: return compare_cpu_seconds(report);
    case COMPARE_FROM_NET: return net_ns_per_event(report, reports);
    case COMPARE_FROM_REPORT: return compare_report_number(report, number->path);
    case COMPARE_FROM_MOVED:
        return compare_report_number(report, "reallocs_moved") /
               compare_report_number(report, "reallocs");
    case COMPARE_FROM_REALLOC:
        latency = json_object_get(report, "latency");
        return compare_report_number(json_object_get(latency, "realloc"), number->path);
    case COMPARE_FROM_ALLOCATION:
    case COMPARE_FROM_FREE: break;
    }
    kind = compare_kind(report, number->from == COMPARE_FROM_ALLOCATION);
    if (kind == NULL) return NAN;
    return compare_report_number(json_object_get(json_object_get(report, "latency"), kind),
                                 number->path);
}

size_t compare_values_of(const struct compare_number *number, const json_t *reports, double *values,
                         size_t values_max)
{
    size_t count = json_array_size(reports);
    if (count > values_max) count = values_max;
    for (size_t i = 0; i < count; i++)
        values[i] = compare_numbers_value_of(number, json_array_get(reports, i), reports);
    return count;
}

/* ---- the table ---- */

#define OF_REPORT(of, width, key, group, title, unit, scale, decimals)                \
    {                                                                                 \
        of, width, key, group, title, unit, scale, decimals, COMPARE_FROM_REPORT, key \
    }
#define OF_TIME(...)   OF_REPORT(COMPARE_TIME, __VA_ARGS__)
#define OF_MEMORY(...) OF_REPORT(COMPARE_MEMORY, __VA_ARGS__)
#define OF_CALLS(width, kind, from, suffix, title, unit, decimals, path)                 \
    {                                                                                    \
        COMPARE_TIME, width, kind "_" suffix, kind, title, unit, 1, decimals, from, path \
    }
#define LATENCIES(kind, from)                                         \
    OF_CALLS(0, kind, from, "mean_ns", "mean", "ns", 1, "mean"),      \
        OF_CALLS(5, kind, from, "p50_ns", "p50", "ns", 0, "p50"),     \
        OF_CALLS(0, kind, from, "p90_ns", "p90", "ns", 0, "p90"),     \
        OF_CALLS(5, kind, from, "p99_ns", "p99", "ns", 0, "p99"),     \
        OF_CALLS(6, kind, from, "p999_ns", "p99.9", "ns", 0, "p999"), \
        OF_CALLS(0, kind, from, "max_ns", "max", "ns", 0, "max"),     \
        OF_CALLS(0, kind, from, "sampled", "sampled", "calls", 0, "sampled")

const struct compare_number compare_numbers[] = {
    {COMPARE_TIME, 8, "cpu_seconds", "", "CPU", "s", 1, 3, COMPARE_FROM_CPU, NULL},
    OF_TIME(0, "user_seconds", "", "user", "s", 1, 3),
    OF_TIME(0, "system_seconds", "", "system", "s", 1, 3),
    OF_TIME(0, "wall_seconds", "", "wall", "s", 1, 4),
    {COMPARE_TIME, 9, "net_ns_per_event", "", "per event", "ns", 1, 2, COMPARE_FROM_NET, NULL},
    OF_TIME(0, "events_per_second", "", "events", "M/s", 1e-6, 2),
    OF_TIME(0, "own_cost_ns_per_event", "", "replaying itself", "ns", 1, 2),
    OF_TIME(0, "minor_faults", "", "minor faults", "", 1, 0),
    OF_MEMORY(8, "peak_net_rss_bytes", "RSS", "peak", "MiB", TO_MIB, 1),
    OF_MEMORY(8, "mean_net_rss_bytes", "RSS", "mean", "MiB", TO_MIB, 1),
    OF_MEMORY(8, "end_net_rss_bytes", "RSS", "at end", "MiB", TO_MIB, 1),
    OF_MEMORY(8, "not_given_back_bytes", "RSS", "kept", "MiB", TO_MIB, 1),
    OF_MEMORY(10, "rss_per_live", "RSS", "peak/live", "", 1, 2),
    OF_MEMORY(0, "own_rss_bytes", "RSS", "of the replay itself", "MiB", TO_MIB, 1),
    OF_MEMORY(0, "peak_rss_bytes", "RSS", "peak with that", "MiB", TO_MIB, 1),
    OF_MEMORY(8, "fragmentation_at_peak_rss", "not live", "at peak", "%", 100, 1),
    OF_MEMORY(9, "fragmentation_most", "not live", "at worst", "%", 100, 1),
    OF_MEMORY(8, "peak_heap_bytes", "heap", "peak", "MiB", TO_MIB, 1),
    OF_MEMORY(0, "fragmentation", "heap", "not live at its peak", "%", 100, 1),
    LATENCIES("allocation", COMPARE_FROM_ALLOCATION),
    LATENCIES("free", COMPARE_FROM_FREE),
    {COMPARE_TIME, 8, "realloc_moved", "realloc", "moved", "%", 100, 1, COMPARE_FROM_MOVED, NULL},
    LATENCIES("realloc", COMPARE_FROM_REALLOC),
    {.key = NULL},
};

const struct compare_number *compare_number_find(const char *key)
{
    const struct compare_number *number = compare_numbers;
    while (number->key != NULL && strcmp(number->key, key) != 0)
        number++;
    return number->key != NULL ? number : NULL;
}
