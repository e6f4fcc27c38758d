#include "replay/options.h"
#include "replay/replay_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "common/printable.h"
#include "stream/metadata.h"

static json_t *report_substituted_list(const struct report *report)
{
    json_t *list = json_array();
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (report_substituted(report, kind))
            json_array_append_new(list, json_string(call_names[kind]));
    return list;
}

/* Puts numbers that the table shows differently or not at all; negative ones become null. */
#define PUT(object, ...)                                                \
    do {                                                                \
        const struct number numbers[] = {__VA_ARGS__};                  \
        numbers_put(object, numbers, sizeof numbers / sizeof *numbers); \
    } while (0)
#define WHOLE(key, value)                      \
    {                                          \
        (key), NULL, UNIT_COUNT, (value), NULL \
    }
#define REAL(key, value)                         \
    {                                            \
        (key), NULL, UNIT_SECONDS, (value), NULL \
    }

/* Text from a trace. Usually takes no memory from the allocator under test. */
static json_t *json_printable(const char *text, size_t bytes)
{
    if (printable_is(text, bytes)) return json_stringn(text, bytes);
    char *printable = printable_copy(text, bytes);
    json_t *value = json_string(printable);
    free(printable);
    return value != NULL ? value : json_null();
}

/* The settings of the recorded allocator: lines env.NAME=VALUE. */
static json_t *report_recorded_settings(const struct instruction_header *header)
{
    static const char before[] = "env.";
    json_t *settings = json_object();
    const char *line = header->metadata, *end = line + header->metadata_bytes;
    for (const char *next; line < end; line = next) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        if (line_end == NULL) line_end = end;
        next = line_end < end ? line_end + 1 : end;
        const char *equals = memchr(line, '=', (size_t)(line_end - line));
        if (equals == NULL || strncmp(line, before, sizeof before - 1) != 0) continue;
        const char *name = line + sizeof before - 1;
        json_t *key = json_printable(name, (size_t)(equals - name));
        json_object_set_new(settings, json_string_value(key),
                            json_printable(equals + 1, (size_t)(line_end - equals - 1)));
        json_decref(key);
    }
    return settings;
}

static void report_set_program(json_t *object, const struct report *report)
{
    const struct instruction_header *header = report->header;
    static const char *const keys[][2] = {{"program", "program"},
                                          {"architecture", "recorded_architecture"},
                                          {"allocator", "recorded_allocator"},
                                          {"what_if", "what_if"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t bytes = 0;
        const char *text =
            metadata_value(header->metadata, header->metadata_bytes, keys[i][0], &bytes);
        json_object_set_new(object, keys[i][1],
                            text != NULL ? json_printable(text, bytes) : json_null());
    }
    const double thin = metadata_thin(header->metadata, header->metadata_bytes);
    json_object_set_new(object, "thin", thin > 0 ? json_real(thin) : json_null());
    const unsigned long page = metadata_page_bytes(header->metadata, header->metadata_bytes);
    json_object_set_new(object, "recorded_page_bytes",
                        page > 0 ? json_integer((json_int_t)page) : json_null());
    json_object_set_new(object, "recorded_settings", report_recorded_settings(header));
}

static void report_set_policy(json_t *object, const struct options *options)
{
    const struct policy *policy = &options->policy;
    json_put_text(object, "touch", touch_names[policy->touch]);
    json_put_text(object, "clock", shown_time_names[policy->shown_time]);
    json_object_set_new(object, "heap_calls", json_boolean(policy->heap_calls));
    json_put_text(object, "release_every", options->release_every);
    json_put_text(object, "program_has", policy->program_has);
    json_object_set_new(
        object, "uncleared_objects",
        policy->uncleared ? json_integer((json_int_t)allocator_uncleared_objects()) : json_null());
    json_object_set_new(object, "free_at_end", json_boolean(policy->free_at_end));
    const long double limit = policy->limit_calls;
    PUT(object, REAL("speed", policy->speed),
        WHOLE("limit", policy->limit_calls != POLICY_NO_LIMIT ? limit : -1),
        WHOLE("warmup", policy->warmup_calls), WHOLE("sample_every", policy->sample_every),
        WHOLE("sample_offset", policy->sample_offset));
}

/* Pairs of a bucket's number and its count. */
static json_t *report_buckets(const struct histogram *histogram)
{
    json_t *buckets = json_array();
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        const uint64_t count = histogram->buckets[bucket];
        if (count == 0) continue;
        json_t *pair = json_array();
        json_array_append_new(pair, json_integer(bucket));
        json_array_append_new(pair, json_whole(count));
        json_array_append_new(buckets, pair);
    }
    return buckets;
}

static json_t *report_latency(const struct report *report)
{
    json_t *kinds = json_object();
    const bool all = report->options->policy.sample_every == 1;
    struct latency_numbers calls;
    for (unsigned kind = 1; kind < CALL_KINDS && report->latency.kinds != NULL; kind++) {
        latency_get_numbers(&report->latency, kind, all, &calls);
        if (calls.sampled == 0) continue;
        json_t *one = json_object();
        PUT(one, WHOLE("count", report->totals.by_kind[kind]), WHOLE("sampled", calls.sampled),
            REAL("mean", calls.mean), REAL("p50", calls.p50), REAL("p90", calls.p90),
            REAL("p99", calls.p99), REAL("p999", calls.p999), REAL("max", calls.max));
        json_object_set_new(one, "buckets", report_buckets(&report->latency.kinds[kind]));
        json_object_set_new(kinds, call_names[kind], one);
    }
    return kinds;
}

static void report_set_latency(json_t *object, const struct report *report)
{
    const struct latency *latency = &report->latency;
    json_object_set_new(object, "latency", report_latency(report));
    json_put_text(object, "latency_clock", latency_clock(latency));
    const double ns = latency->ns_per_tick;
    PUT(object, REAL("latency_ns_per_tick", ns),
        REAL("latency_resolution_ns", (double)latency->resolution * ns),
        REAL("latency_overhead_ns", (double)latency->overhead * ns));
}

static json_t *report_mismatches(const struct address_check *check)
{
    json_t *list = json_array();
    uint64_t missed = check->checked - check->matched;
    for (unsigned i = 0; i < missed && i < ADDRESS_MISMATCHES_MAX; i++) {
        const struct address_mismatch *one = &check->mismatches[i];
        json_t *object = json_object();
        json_put_text(object, "kind", call_names[one->opcode & INSTRUCTION_NUMBER_MASK]);
        json_put_numbers(object, "instruction size original_address address", one->instruction,
                         one->size, one->original, one->replayed);
        json_array_append_new(list, object);
    }
    return list;
}

static json_t *report_warnings(const struct report *report)
{
    struct warning warnings[WARNINGS_MAX];
    unsigned count = warnings_find(report, warnings);
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++) {
        json_t *one = json_object();
        json_put_text(one, "key", warnings[i].key);
        json_put_text(one, "text", warnings[i].text);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *report_series(const struct series *series)
{
    static const char *const keys[] = {"seconds",
                                       "events",
                                       "live_bytes",
                                       "net_rss_bytes",
                                       "heap_bytes",
                                       "original_rss_bytes",
                                       "original_heap_bytes",
                                       "original_net_rss_bytes",
                                       "vm_size_bytes",
                                       "original_vm_size_bytes"};
    json_t *object = json_object();
    for (unsigned k = 0; k < sizeof keys / sizeof *keys; k++) {
        json_t *list = json_array();
        for (const struct series_row *row = series->rows; row < series->rows + series->count;
             row++) {
            const uint64_t values[] = {row->original_ns,         row->event,
                                       row->live_bytes,          series_net_rss_bytes(row),
                                       row->heap_bytes,          row->original_rss_bytes,
                                       row->original_heap_bytes, row->original_net_rss_bytes,
                                       row->vm_size_bytes,       row->original_vm_size_bytes};
            const bool known = values[k] > 0 || k <= 2;
            json_array_append_new(list, k == 0  ? json_real((double)values[k] / 1e9)
                                        : known ? json_whole(values[k])
                                                : json_null());
        }
        json_object_set_new(object, keys[k], list);
    }
    return object;
}

static json_t *report_json(const struct report *report)
{
    const struct instruction_totals *totals = &report->totals;
    bool called = report->engine->calls_allocator;
    char text[512];
    json_t *object = json_object();

    json_put_text(object, "status", report_status_names[report->status]);
    if (report->status != REPORT_COMPLETE)
        json_put_text(object, "error", error_text(&report->error, text, sizeof text));
    else if (!report->limited)
        json_put_text(object, "recording", report_recording_names[report->recording]);
    json_object_set_new(object, "limited", json_boolean(report->limited));
    report_set_program(object, report);
    json_put_text(object, "engine", report->engine->name);
    if (report->auto_engine != NULL) json_put_text(object, "auto_engine", report->auto_engine);
    json_put_text(object, "allocator", report_allocator(report, text, sizeof text));
    json_put_text(object, "allocator_path", called ? report->allocator->path : "");
    json_object_set_new(object, "thread_cache_switching", json_boolean(report->cache_switching));
    json_put_text(object, "thread_caches", report->caches != NULL ? report->caches : "");
    report_set_policy(object, report->options);
    json_put_number(object, "events", totals->calls);
    json_put_kinds(object, "by_kind", report->totals.by_kind);
    json_object_set_new(object, "substituted", report_substituted_list(report));
    report_set_latency(object, report);
    report_numbers(report, numbers_put, object);
    json_put_text(object, "heap_source", report->heap_source);
    const long double from = report->break_from, to = report->break_to;
    PUT(object, WHOLE("break_from", from > 0 ? from : -1), WHOLE("break_to", to > 0 ? to : -1));
    json_put_text(object, "release_means",
                  report->release_means != NULL ? report->release_means : "");
    const struct address_check *check = &report->address_check;
    PUT(object, REAL("address_match", report_address_match(report)),
        WHOLE("addresses_checked", check->checked), WHOLE("addresses_matched", check->matched));
    json_object_set_new(object, "address_mismatches", report_mismatches(check));
    json_object_set_new(object, "warnings", report_warnings(report));
    if (report->options->series)
        json_object_set_new(object, "series", report_series(&report->series));
    return object;
}

bool report_write_json(const struct report *report, const char *path, struct error *error)
{
    json_t *object = report_json(report);
    bool good = json_file_write(object, path, error);
    json_decref(object);
    return good;
}
