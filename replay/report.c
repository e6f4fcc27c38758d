#include "replay/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "common/call_table.h"

static const char *const status_names[] = {"complete", "cut", "failed"};
static const char *const recording_names[] = {"complete", "cut", "damaged"};

bool report_substituted(const struct report *report, unsigned kind)
{
    bool skipped = call_shapes[kind] == SHAPE_HEAP && !report->options->policy.heap_calls;
    return report->engine->calls_allocator && (skipped || report->allocator->substituted[kind]) &&
           report->totals.by_kind[kind] > 0;
}

static const char *report_how(const struct report *report, unsigned kind)
{
    if (!report_substituted(report, kind)) return "";
    return call_shapes[kind] == SHAPE_HEAP ? "  (not carried out)" : "  (substituted)";
}

static const char *report_allocator(const struct report *report, char *to, size_t bytes)
{
    const struct allocator *allocator = report->allocator;
    if (!report->engine->calls_allocator)
        snprintf(to, bytes, "none");
    else if (allocator->version[0] != '\0')
        snprintf(to, bytes, "%s (%s)", allocator->name, allocator->version);
    else
        snprintf(to, bytes, "%s", allocator->name);
    return to;
}

static double report_events_per_second(const struct report *report)
{
    uint64_t wall = report->measurement.wall_ns;
    return wall > 0 ? (double)report->totals.calls * 1e9 / (double)wall : 0;
}

void report_print(const struct report *report, FILE *to)
{
    const struct measurement *measured = &report->measurement;
    const struct instruction_totals *totals = &report->totals;
    char allocator[160];
    double calls = totals->calls > 0 ? (double)totals->calls : 1;

    fprintf(to, "%-22s %s\n", "engine", report->engine->name);
    fprintf(to, "%-22s %s\n", "allocator", report_allocator(report, allocator, sizeof allocator));
    if (report->engine->calls_allocator)
        fprintf(to, "%-22s %s\n", "  from", report->allocator->path);
    if (report->status != REPORT_COMPLETE)
        fprintf(to, "%-22s %s\n", "status", status_names[report->status]);
    else if (report->limited)
        fprintf(to, "%-22s ended by --limit\n", "status");
    else if (report->recording != INSTRUCTION_STATUS_COMPLETE)
        fprintf(to, "%-22s %s\n", "recording", recording_names[report->recording]);
    fprintf(to, "%-22s %" PRIu64 "\n", "events", totals->calls);
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (totals->by_kind[kind] > 0)
            fprintf(to, "  %-20s %" PRIu64 "%s\n", call_names[kind], totals->by_kind[kind],
                    report_how(report, kind));
    fprintf(to, "%-22s %.6f s, %.2f ns per event\n", "wall time", (double)measured->wall_ns / 1e9,
            (double)measured->wall_ns / calls);
    fprintf(to, "%-22s %.0f\n", "events per second", report_events_per_second(report));
    fprintf(to, "%-22s %.6f s elapsed, %.2f ns per event; %.3f s user, %.3f s system\n",
            "with reading", (double)measured->elapsed_ns / 1e9,
            (double)measured->elapsed_ns / calls, measured->user_seconds, measured->system_seconds);
    fprintf(to, "%-22s %" PRIu64 "%s\n", "thread switches", totals->lane_changes,
            report->cache_switching ? ", with thread caches" : ", without thread caches");
    fprintf(to, "%-22s %" PRIu64 "\n", "threads", totals->threads);
    fprintf(to, "%-22s %" PRIu64 "\n", "live at end", totals->live);
    fprintf(to, "%-22s %.1f MiB\n", "peak live",
            (double)report->peak_live_bytes / (1024.0 * 1024.0));
    fprintf(to, "%-22s %.1f MiB\n", "peak RSS",
            (double)measured->peak_rss_bytes / (1024.0 * 1024.0));
    if (totals->lost_events > 0)
        fprintf(to, "%-22s %" PRIu64 "\n", "lost events", totals->lost_events);
}

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
}

static json_t *report_json(const struct report *report)
{
    const struct measurement *measured = &report->measurement;
    const struct instruction_totals *totals = &report->totals;
    bool called = report->engine->calls_allocator;
    char text[512];
    json_t *object = json_object();

    set_string(object, "status", status_names[report->status]);
    if (report->status != REPORT_COMPLETE)
        set_string(object, "error", error_text(&report->error, text, sizeof text));
    else if (!report->limited)
        set_string(object, "recording", recording_names[report->recording]);
    json_object_set_new(object, "limited", json_boolean(report->limited));
    report_set_program(object, report);
    set_string(object, "engine", report->engine->name);
    set_string(object, "allocator", report_allocator(report, text, sizeof text));
    set_string(object, "allocator_path", called ? report->allocator->path : "");
    json_object_set_new(object, "thread_cache_switching", json_boolean(report->cache_switching));
    report_set_policy(object, report->options);
    set_integer(object, "events", totals->calls);
    json_object_set_new(object, "by_kind", report_by_kind(report));
    json_object_set_new(object, "substituted", report_substituted_list(report));
    json_object_set_new(object, "events_per_second", json_real(report_events_per_second(report)));
    json_object_set_new(object, "wall_seconds", json_real((double)measured->wall_ns / 1e9));
    json_object_set_new(object, "elapsed_seconds", json_real((double)measured->elapsed_ns / 1e9));
    json_object_set_new(object, "user_seconds", json_real(measured->user_seconds));
    json_object_set_new(object, "system_seconds", json_real(measured->system_seconds));
    set_integer(object, "minor_faults", measured->minor_faults);
    set_integer(object, "major_faults", measured->major_faults);
    set_integer(object, "thread_switches", totals->lane_changes);
    set_integer(object, "threads", totals->threads);
    set_integer(object, "ticks", totals->ticks);
    set_integer(object, "lost_events", totals->lost_events);
    set_integer(object, "live_at_end", totals->live);
    set_integer(object, "peak_live_bytes", report->peak_live_bytes);
    set_integer(object, "peak_rss_bytes", measured->peak_rss_bytes);
    return object;
}

bool report_write_json(const struct report *report, const char *path, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *to = standard ? stdout : fopen(path, "we");
    if (to == NULL) return error_set_system(error, "cannot write %s", path);
    json_t *object = report_json(report);
    bool good = json_dumpf(object, to, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0 &&
                fputc('\n', to) != EOF && fflush(to) == 0;
    if (!good) error_set_system(error, "cannot write %s", path);
    json_decref(object);
    if (!standard && fclose(to) != 0) good = error_set_system(error, "cannot write %s", path);
    return good;
}
