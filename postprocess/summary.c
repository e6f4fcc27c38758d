#include "postprocess/summary.h"

#include <inttypes.h>
#include <jansson.h>

#include "common/call_table.h"
#include "common/json_file.h"

static const char *const status_names[] = {
    [ORDER_TRACE_COMPLETE] = "complete", [ORDER_TRACE_CUT] = "cut",
    [ORDER_TRACE_SALVAGED] = "salvaged", [ORDER_TRACE_DAMAGED] = "damaged",
    [ORDER_TRACE_FAILED] = "failed",
};

static double summary_events_per_second(const struct summary *summary)
{
    if (summary->seconds <= 0) return 0;
    return (double)summary->result.totals.calls / summary->seconds;
}

/* ---- problems ---- */

static void print_spool(const struct summary *summary, FILE *to)
{
    const struct order_trace_result *result = &summary->result;
    switch (result->spool) {
    case ORDER_TRACE_SPOOL_NONE: return;
    case ORDER_TRACE_SPOOL_OTHER:
        error_print(to, summary->program, summary->input, &result->spool_error);
        return;
    case ORDER_TRACE_SPOOL_USED:
    case ORDER_TRACE_SPOOL_DAMAGED:
        fprintf(to, "%s: %s: the spool beside it had %" PRIu64 " more records; they were used\n",
                summary->program, summary->input, result->spool_records);
    }
    if (result->spool_lanes_gapped > 0)
        fprintf(to, "%s: %s: the spool does not have everything of %" PRIu32 " lanes\n",
                summary->program, summary->input, result->spool_lanes_gapped);
}

void summary_print_problems(const struct summary *summary, FILE *to)
{
    const struct order_trace_result *result = &summary->result;
    char text[512];
    if (error_is_set(&result->cut))
        fprintf(to, "%s: %s: the recording was cut short: %s\n", summary->program, summary->input,
                error_text(&result->cut, text, sizeof text));
    else if (result->truncated)
        fprintf(to, "%s: %s: an error ended the recording before its program ended\n",
                summary->program, summary->input);
    print_spool(summary, to);
    uint64_t lost = result->lost_at_end > result->order.lost_events ? result->lost_at_end
                                                                    : result->order.lost_events;
    if (lost > 0)
        fprintf(to, "%s: %s: %" PRIu64 " events were lost while recording\n", summary->program,
                summary->input, lost);
    if (result->totals.freed_twice > 0)
        fprintf(to,
                "%s: %s: calls that free an object that was freed already: %" PRIu64
                "; the first is instruction #%" PRIu64 "\n",
                summary->program, summary->input, result->totals.freed_twice,
                result->order.first_freed_twice);
    if (result->status == ORDER_TRACE_SALVAGED)
        fprintf(to, "%s: %s: pieces of damage that were left out: %" PRIu64 "; the first:\n",
                summary->program, summary->input, result->order.damages);
    if (error_is_set(&result->error))
        error_print(to, summary->program, summary->input, &result->error);
}

/* ---- the table ---- */

static void print_number(FILE *to, const char *name, uint64_t number)
{
    fprintf(to, "%-18s %14" PRIu64 "\n", name, number);
}

void summary_print(const struct summary *summary, FILE *to)
{
    const struct order_trace_result *result = &summary->result;
    print_number(to, "events", result->totals.calls);
    for (unsigned kind = 0; kind < CALL_KINDS; kind++) {
        if (result->totals.by_kind[kind] == 0) continue;
        char name[64];
        snprintf(name, sizeof name, "  %s", call_names[kind]);
        print_number(to, name, result->totals.by_kind[kind]);
    }
    if (result->order.failed > 0) print_number(to, "failed", result->order.failed);
    if (result->order.unknown_objects > 0)
        print_number(to, "unknown objects", result->order.unknown_objects);
    if (result->totals.freed_twice > 0) print_number(to, "freed twice", result->totals.freed_twice);
    if (result->order.displaced > 0) print_number(to, "displaced objects", result->order.displaced);
    print_number(to, "live at end", result->totals.live);
    print_number(to, "threads", result->totals.threads);
    print_number(to, "lanes", result->order.lanes);
    print_number(to, "lane switches", result->totals.lane_changes);
    print_number(to, "windows", result->order.windows);
    print_number(to, "sequence numbers", result->order.sequences);
    if (result->order.sequences_missing > 0)
        print_number(to, "numbers missing", result->order.sequences_missing);
    if (result->order.lost_events > 0) print_number(to, "lost events", result->order.lost_events);
    if (result->order.damages > 0) print_number(to, "damages left out", result->order.damages);
    print_number(to, "bytes in", result->bytes_in);
    print_number(to, "bytes out", result->bytes_out);
    fprintf(to, "%-18s %14.3f\n", "seconds", summary->seconds);
    fprintf(to, "%-18s %14.0f\n", "events per second", summary_events_per_second(summary));
    fprintf(to, "%-18s %14s\n", "status", status_names[result->status]);
}

/* ---- JSON ---- */

static void add_figures(json_t *root, const struct summary *summary)
{
    const struct order_trace_result *result = &summary->result;
    json_put_number(root, "events", result->totals.calls);
    json_put_kinds(root, "by_kind", result->totals.by_kind);
    json_put_number(root, "failed", result->order.failed);
    json_put_number(root, "unknown_objects", result->order.unknown_objects);
    json_put_number(root, "freed_twice", result->totals.freed_twice);
    json_put_number(root, "displaced_objects", result->order.displaced);
    json_put_number(root, "live_at_end", result->totals.live);
    json_put_number(root, "lost_events", result->order.lost_events);
    json_put_number(root, "threads", result->totals.threads);
    json_put_number(root, "lanes", result->order.lanes);
    json_put_number(root, "lane_switches", result->totals.lane_changes);
    json_put_number(root, "ticks", result->ticks);
    json_put_number(root, "windows", result->order.windows);
    json_put_number(root, "windows_overtaken", result->order.windows_overtaken);
    json_put_number(root, "steps_split", result->order.steps_split);
    json_put_number(root, "steps_relaxed", result->order.steps_relaxed);
    json_put_number(root, "sequence_numbers", result->order.sequences);
    json_put_number(root, "sequence_numbers_missing", result->order.sequences_missing);
    json_put_number(root, "damages", result->order.damages);
    json_put_number(root, "registers", result->totals.registers);
    json_put_number(root, "bytes_in", result->bytes_in);
    json_put_number(root, "bytes_out", result->bytes_out);
}

void summary_add_json(const struct summary *summary, json_t *results)
{
    const struct order_trace_result *result = &summary->result;
    char text[512];
    json_t *root = json_object();
    json_put_text(root, "input", summary->input);
    json_put_text(root, "status", status_names[result->status]);
    json_object_set_new(root, "error",
                        error_is_set(&result->error)
                            ? json_string(error_text(&result->error, text, sizeof text))
                            : json_null());
    json_object_set_new(root, "truncated", json_boolean(result->truncated));
    json_object_set_new(
        root, "spool_used",
        json_boolean(result->spool == ORDER_TRACE_SPOOL_USED || result->spool_records > 0));
    json_put_number(root, "spool_records", result->spool_records);
    add_figures(root, summary);
    json_object_set_new(root, "seconds", json_real(summary->seconds));
    json_object_set_new(root, "events_per_second", json_real(summary_events_per_second(summary)));
    json_array_append_new(results, root);
}

bool summary_write_json(const json_t *results, FILE *to)
{
    const json_t *one = json_array_size(results) == 1 ? json_array_get(results, 0) : results;
    return json_dumpf(one, to, JSON_INDENT(2)) == 0 && fputc('\n', to) != EOF;
}
