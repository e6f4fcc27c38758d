#include "compare/compare_latency.h"

#include <math.h>
#include <string.h>

#include "common/call_table.h"
#include "common/histogram.h"
#include "common/json_file.h"
#include "compare/compare_numbers.h"

/* The times of one kind of call, or of several, over all reports. */
struct merged {
    struct histogram histogram; /* ticks */
    double sum_ns, ns_per_tick;
    double max_ns; /* NAN: not all calls were timed in each report */
    json_int_t count;
};

static void merge_buckets(struct histogram *histogram, const json_t *buckets)
{
    size_t at;
    json_t *pair;
    json_array_foreach(buckets, at, pair)
    {
        json_int_t bucket = json_integer_value(json_array_get(pair, 0));
        json_int_t count = json_integer_value(json_array_get(pair, 1));
        if (bucket < 0 || bucket >= HISTOGRAM_BUCKETS || count < 0) continue;
        histogram->buckets[bucket] += (uint64_t)count;
        histogram->count += (uint64_t)count;
        uint64_t high = histogram_bucket_high((unsigned)bucket);
        if (high > histogram->max) histogram->max = high;
    }
}

/* Adds those of a kind. The clock is the same in all reports, but each has measured the length of a tick anew. */
static void merge(struct merged *merged, const json_t *reports, const char *kind)
{
    size_t at;
    json_t *report;
    json_int_t count = 0;
    json_array_foreach(reports, at, report)
    {
        const json_t *one = json_object_get(json_object_get(report, "latency"), kind);
        if (one == NULL) continue;
        merge_buckets(&merged->histogram, json_object_get(one, "buckets"));
        merged->sum_ns +=
            compare_report_number(one, "mean") * compare_report_number(one, "sampled");
        merged->ns_per_tick = compare_report_number(report, "latency_ns_per_tick");
        count = json_integer_value(json_object_get(one, "count"));
        const double max_ns = compare_report_number(one, "max");
        if (isnan(max_ns) || max_ns > merged->max_ns) merged->max_ns = max_ns;
    }
    merged->count += count;
}

static json_t *merged_json(const struct merged *merged)
{
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    const struct histogram *histogram = &merged->histogram;
    json_t *object = json_object();
    json_object_set_new(object, "count", json_integer(merged->count));
    json_object_set_new(object, "sampled", json_whole(histogram->count));
    json_put_real(object, "mean", merged->sum_ns / (double)histogram->count);
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
        double ticks = 0;
        bool known = histogram_quantile(histogram, percentiles[i].share, &ticks);
        json_put_real(object, percentiles[i].key, known ? ticks * merged->ns_per_tick : NAN);
    }
    json_put_real(object, "max", merged->max_ns);
    return object;
}

json_t *compare_latency_merge(const json_t *reports)
{
    static struct merged merged;
    json_t *kinds = json_object();
    for (unsigned kind = 1; kind < CALL_KINDS; kind++) {
        if (call_names[kind] == NULL) continue;
        memset(&merged, 0, sizeof merged);
        merge(&merged, reports, call_names[kind]);
        if (merged.histogram.count > 0)
            json_object_set_new(kinds, call_names[kind], merged_json(&merged));
    }
    memset(&merged, 0, sizeof merged);
    merge(&merged, reports, call_names[CALL_REALLOC_MOVED]);
    merge(&merged, reports, call_names[CALL_REALLOC_IN_PLACE]);
    if (merged.histogram.count > 0) json_object_set_new(kinds, "realloc", merged_json(&merged));
    return kinds;
}
