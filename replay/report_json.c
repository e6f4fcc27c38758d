#include "replay/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "common/call_table.h"
#include "common/json_file.h"

static json_t *report_by_kind(const struct report *report)
{
    json_t *object = json_object();
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (report->totals.by_kind[kind] > 0)
            json_object_set_new(object, call_names[kind],
                                json_integer((json_int_t)report->totals.by_kind[kind]));
    return object;
}

static json_t *report_substituted_list(const struct report *report)
{
    json_t *list = json_array();
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (report_substituted(report, kind))
            json_array_append_new(list, json_string(call_names[kind]));
    return list;
}

static void set_integer(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(value));
}

/* Sizes of memory that nobody knows are 0 here and null there. */
static void set_bytes_if_known(json_t *object, const char *key, uint64_t bytes)
{
    json_object_set_new(object, key, bytes > 0 ? json_integer((json_int_t)bytes) : json_null());
}

/* Shares and costs that were not measured are negative here and null there. */
static void set_real_if_known(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, value >= 0 ? json_real(value) : json_null());
}

static void set_string(json_t *object, const char *key, const char *value)
{
    json_t *string = json_string(value);
    /* A path need not be UTF-8. */
    json_object_set_new(object, key, string != NULL ? string : json_null());
}

static void report_set_program(json_t *object, const struct report *report)
{
    size_t bytes;
    const char *program = instruction_header_value(report->header, "program", &bytes);
    json_t *value = program != NULL ? json_stringn(program, bytes) : NULL;
    json_object_set_new(object, "program", value != NULL ? value : json_null());
}

static void report_set_policy(json_t *object, const struct options *options)
{
    const struct policy *policy = &options->policy;
    set_string(object, "touch", policy_touch_names[policy->touch]);
    set_string(object, "cpu", options->cpus != NULL ? options->cpus : "");
    json_object_set_new(object, "heap_calls", json_boolean(policy->heap_calls));
    set_real(object, "speed", policy->speed);
    json_object_set_new(object, "limit",
                        policy->limit_calls != POLICY_NO_LIMIT
                            ? json_integer((json_int_t)policy->limit_calls)
                            : json_null());
    set_integer(object, "warmup", policy->warmup_calls);
    set_integer(object, "sample_every", policy->sample_every);
}

static json_t *report_latency(const struct report *report)
{
    json_t *kinds = json_object();
    struct latency_numbers numbers;
    for (unsigned kind = 1; kind < CALL_KINDS && report->latency.kinds != NULL; kind++) {
        latency_get_numbers(&report->latency, kind, &numbers);
        if (numbers.sampled == 0) continue;
        json_t *one = json_object();
        set_integer(one, "count", report->totals.by_kind[kind]);
        set_integer(one, "sampled", numbers.sampled);
        set_real(one, "mean", numbers.mean);
        set_real(one, "p50", numbers.p50);
        set_real(one, "p90", numbers.p90);
        set_real(one, "p99", numbers.p99);
        set_real(one, "p999", numbers.p999);
        set_real(one, "max", numbers.max);
        json_object_set_new(kinds, call_names[kind], one);
    }
    return kinds;
}

static void report_set_time(json_t *object, const struct report *report)
{
    const struct measurement *measured = &report->measurement;
    set_integer(object, "measured_events", report_measured_events(report));
    set_real(object, "events_per_second", report_events_per_second(report));
    set_real(object, "wall_seconds", (double)measured->wall_ns / 1e9);
    set_real(object, "elapsed_seconds", (double)measured->elapsed_ns / 1e9);
    set_real(object, "user_seconds", measured->user_seconds);
    set_real(object, "system_seconds", measured->system_seconds);
    set_real(object, "reading_seconds", measured->reading_seconds);
    set_integer(object, "minor_faults", measured->minor_faults);
    set_integer(object, "major_faults", measured->major_faults);
    set_real_if_known(object, "own_cost_ns_per_event", report_own_cost_ns(report));
    json_object_set_new(object, "latency", report_latency(report));
    set_string(object, "latency_clock", report->latency.tsc ? "tsc" : "clock_gettime");
    set_real(object, "latency_resolution_ns",
             (double)report->latency.resolution * report->latency.ns_per_tick);
    set_real(object, "latency_overhead_ns",
             (double)report->latency.overhead * report->latency.ns_per_tick);
}

static void report_set_memory(json_t *object, const struct report *report)
{
    const struct measurement *measured = &report->measurement;
    const struct series *series = &report->series;
    uint64_t live = report->peak_live_bytes;
    set_integer(object, "peak_live_bytes", live);
    set_integer(object, "peak_rss_bytes", measured->peak_rss_bytes);
    set_integer(object, "base_rss_bytes", measured->base_rss_bytes);
    set_bytes_if_known(object, "peak_heap_bytes", series->peak_heap_bytes);
    set_string(object, "heap_source", report->heap_source);
    set_real_if_known(object, "rss_per_live",
                      live > 0 ? (double)measured->peak_rss_bytes / (double)live : -1);
    double fragmentation = report_fragmentation(report);
    json_object_set_new(object, "fragmentation",
                        series->peak_heap_bytes > 0 ? json_real(fragmentation) : json_null());
    set_bytes_if_known(object, "original_peak_rss_bytes", series->original_peak_rss_bytes);
    set_bytes_if_known(object, "original_peak_heap_bytes", series->original_peak_heap_bytes);
    set_real(object, "original_seconds", (double)series->original_ns / 1e9);
}

static json_t *report_mismatches(const struct address_check *check)
{
    json_t *list = json_array();
    uint64_t missed = check->checked - check->matched;
    for (unsigned i = 0; i < missed && i < ADDRESS_MISMATCHES_MAX; i++) {
        const struct address_mismatch *one = &check->mismatches[i];
        json_t *object = json_object();
        set_integer(object, "instruction", one->instruction);
        set_string(object, "kind", call_names[one->opcode & INSTRUCTION_NUMBER_MASK]);
        set_integer(object, "size", one->size);
        set_integer(object, "original_address", one->original);
        set_integer(object, "address", one->replayed);
        json_array_append_new(list, object);
    }
    return list;
}

static void report_set_addresses(json_t *object, const struct report *report)
{
    set_real_if_known(object, "address_match", report_address_match(report));
    set_integer(object, "addresses_checked", report->address_check.checked);
    set_integer(object, "addresses_matched", report->address_check.matched);
    json_object_set_new(object, "address_mismatches", report_mismatches(&report->address_check));
}

static json_t *report_json(const struct report *report)
{
    const struct instruction_totals *totals = &report->totals;
    bool called = report->engine->calls_allocator;
    char text[512];
    json_t *object = json_object();

    set_string(object, "status", report_status_names[report->status]);
    if (report->status != REPORT_COMPLETE)
        set_string(object, "error", error_text(&report->error, text, sizeof text));
    else if (!report->limited)
        set_string(object, "recording", report_recording_names[report->recording]);
    json_object_set_new(object, "limited", json_boolean(report->limited));
    report_set_program(object, report);
    set_string(object, "engine", report->engine->name);
    set_string(object, "allocator", report_allocator(report, text, sizeof text));
    set_string(object, "allocator_path", called ? report->allocator->path : "");
    json_object_set_new(object, "thread_cache_switching", json_boolean(report->cache_switching));
    set_string(object, "thread_caches", report->caches != NULL ? report->caches : "");
    report_set_policy(object, report->options);
    set_integer(object, "events", totals->calls);
    json_object_set_new(object, "by_kind", report_by_kind(report));
    json_object_set_new(object, "substituted", report_substituted_list(report));
    report_set_time(object, report);
    set_integer(object, "thread_switches", totals->lane_changes);
    set_integer(object, "threads", totals->threads);
    set_integer(object, "ticks", totals->ticks);
    set_integer(object, "lost_events", totals->lost_events);
    set_integer(object, "freed_twice", totals->freed_twice);
    set_integer(object, "realigned", report->realigned);
    set_integer(object, "live_at_end", totals->live);
    report_set_memory(object, report);
    report_set_addresses(object, report);
    return object;
}

bool report_write_json(const struct report *report, const char *path, struct error *error)
{
    json_t *object = report_json(report);
    bool good = json_file_write(object, path, error);
    json_decref(object);
    return good;
}
