#include "compare/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"

#define MIB (1.0 / (1024 * 1024))

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- several rounds ---- */

static int ascending(const void *one, const void *other)
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
    qsort(values, count, sizeof *values, ascending);
    return (struct compare_spread){(values[(count - 1) / 2] + values[count / 2]) / 2, values[0],
                                   values[count - 1]};
}

double compare_spread_relative(const struct compare_spread *spread)
{
    return spread->median > 0 ? (spread->most - spread->least) / spread->median : NAN;
}

size_t compare_values_of(const struct compare_number *number, const json_t *reports, double *values,
                         size_t values_max)
{
    size_t count = json_array_size(reports);
    if (count > values_max) count = values_max;
    for (size_t i = 0; i < count; i++) {
        const json_t *report = json_array_get(reports, i);
        values[i] =
            number->path != NULL ? number_at(report, number->path) : number->value(report, reports);
    }
    return count;
}

struct compare_spread compare_spread_of(const struct compare_number *number, const json_t *reports)
{
    size_t count = json_array_size(reports);
    double *values = calloc(count + 1, sizeof *values);
    struct compare_spread spread = {NAN, NAN, NAN};
    if (values == NULL) return spread;
    spread = compare_spread_values(values, compare_values_of(number, reports, values, count));
    free(values);
    return spread;
}

/* ---- time of the calls alone ---- */

/* The own cost comes from a few blocks only and is the same in every run: the median of all runs is
 * taken off each. An event: REPORT.md, `measured_events`. */
static double net_ns_per_event(const json_t *report, const json_t *reports)
{
    const struct compare_number own_cost = {.path = "own_cost_ns_per_event"};
    double events = number_at(report, "measured_events");
    if (!(events > 0)) return NAN;
    return number_at(report, "wall_seconds") * 1e9 / events -
           compare_spread_of(&own_cost, reports).median;
}

static double cpu_seconds(const json_t *report, const json_t *reports)
{
    (void)reports;
    return number_at(report, "user_seconds") + number_at(report, "system_seconds");
}

/* ---- latency of the kind that matters most ---- */

static bool is_allocation(unsigned kind)
{
    return call_shapes[kind] == SHAPE_ALLOCATION || call_shapes[kind] == SHAPE_ALLOCATION_ALIGNED;
}

static bool is_free(unsigned kind)
{
    return call_shapes[kind] != SHAPE_UNDEFINED && call_shapes[kind] != SHAPE_REALLOC &&
           call_shapes[kind] != SHAPE_HEAP && !is_allocation(kind);
}

const char *compare_kind(const json_t *report, bool allocation)
{
    const json_t *by_kind = json_object_get(report, "by_kind");
    const char *most = NULL;
    json_int_t count = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (allocation ? !is_allocation(kind) : !is_free(kind)) continue;
        json_int_t calls = json_integer_value(json_object_get(by_kind, call_names[kind]));
        if (calls > count) {
            count = calls;
            most = call_names[kind];
        }
    }
    return most;
}

static double latency(const json_t *report, bool allocation, const char *key)
{
    const char *kind = compare_kind(report, allocation);
    if (kind == NULL) return NAN;
    return number_at(json_object_get(json_object_get(report, "latency"), kind), key);
}

#define LATENCY(key)                                                            \
    static double allocation_##key(const json_t *report, const json_t *reports) \
    {                                                                           \
        (void)reports;                                                          \
        return latency(report, true, #key);                                     \
    }                                                                           \
    static double free_##key(const json_t *report, const json_t *reports)       \
    {                                                                           \
        (void)reports;                                                          \
        return latency(report, false, #key);                                    \
    }
LATENCY(sampled)
LATENCY(mean)
LATENCY(p50)
LATENCY(p90)
LATENCY(p99)
LATENCY(p999)
LATENCY(max)

/* ---- the table ---- */

#define LATENCY_LINES(kind, group)                                             \
    {#kind "_sampled", group, "sampled", "calls", 1, 0, NULL, kind##_sampled}, \
        {#kind "_mean_ns", group, "mean", "ns", 1, 1, NULL, kind##_mean},      \
        {#kind "_p50_ns", group, "p50", "ns", 1, 0, NULL, kind##_p50},         \
        {#kind "_p90_ns", group, "p90", "ns", 1, 0, NULL, kind##_p90},         \
        {#kind "_p99_ns", group, "p99", "ns", 1, 0, NULL, kind##_p99},         \
        {#kind "_p999_ns", group, "p99.9", "ns", 1, 0, NULL, kind##_p999},     \
    {                                                                          \
#kind "_max_ns", group, "max", "ns", 1, 0, NULL, kind##_max            \
    }

const struct compare_number compare_numbers[] = {
    {"cpu_seconds", "", "CPU", "s", 1, 3, NULL, cpu_seconds},
    {"user_seconds", "", "user", "s", 1, 3, "user_seconds", NULL},
    {"system_seconds", "", "system", "s", 1, 3, "system_seconds", NULL},
    {"wall_seconds", "", "wall", "s", 1, 4, "wall_seconds", NULL},
    {"net_ns_per_event", "", "per event", "ns", 1, 2, NULL, net_ns_per_event},
    {"events_per_second", "", "events", "M/s", 1e-6, 2, "events_per_second", NULL},
    {"own_cost_ns_per_event", "", "replaying itself", "ns", 1, 2, "own_cost_ns_per_event", NULL},
    {"minor_faults", "", "minor faults", "", 1, 0, "minor_faults", NULL},
    {"peak_net_rss_bytes", "RSS", "peak", "MiB", MIB, 1, "peak_net_rss_bytes", NULL},
    {"mean_net_rss_bytes", "RSS", "mean", "MiB", MIB, 1, "mean_net_rss_bytes", NULL},
    {"end_net_rss_bytes", "RSS", "at end", "MiB", MIB, 1, "end_net_rss_bytes", NULL},
    {"not_given_back_bytes", "RSS", "kept", "MiB", MIB, 1, "not_given_back_bytes", NULL},
    {"rss_per_live", "RSS", "peak/live", "", 1, 2, "rss_per_live", NULL},
    {"own_rss_bytes", "RSS", "of the replay itself", "MiB", MIB, 1, "own_rss_bytes", NULL},
    {"peak_rss_bytes", "RSS", "peak with that", "MiB", MIB, 1, "peak_rss_bytes", NULL},
    {"fragmentation_at_peak_rss", "not live", "at peak", "%", 100, 1, "fragmentation_at_peak_rss",
     NULL},
    {"fragmentation_most", "not live", "at worst", "%", 100, 1, "fragmentation_most", NULL},
    {"peak_heap_bytes", "heap", "peak", "MiB", MIB, 1, "peak_heap_bytes", NULL},
    {"fragmentation", "heap", "not live at its peak", "%", 100, 1, "fragmentation", NULL},
    LATENCY_LINES(allocation, COMPARE_GROUP_ALLOCATION),
    LATENCY_LINES(free, COMPARE_GROUP_FREE),
    {NULL, NULL, NULL, NULL, 0, 0, NULL, NULL},
};

const struct compare_number *compare_number_find(const char *key)
{
    const struct compare_number *number = compare_numbers;
    while (number->key != NULL && strcmp(number->key, key) != 0)
        number++;
    return number->key != NULL ? number : NULL;
}
