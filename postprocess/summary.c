#include "postprocess/summary.h"

#include <inttypes.h>
#include <jansson.h>

#include "common/json_file.h"
#include "common/numbers.h"
#include "common/printable.h"

static const char *const status_names[] = {
    [ORDER_TRACE_COMPLETE] = "complete", [ORDER_TRACE_CUT] = "cut",
    [ORDER_TRACE_SALVAGED] = "salvaged", [ORDER_TRACE_DAMAGED] = "damaged",
    [ORDER_TRACE_FAILED] = "failed",
};

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
        if (summary->is_quiet) break;
        /* fall through */
    case ORDER_TRACE_SPOOL_DAMAGED:
        fprintf(to, "%s: %s: its spool had %" PRIu64 " more records; they were used\n",
                printable_text(summary->program), printable_text(summary->input),
                result->spool_records);
    }
    if (result->spool_lanes_gapped > 0)
        fprintf(to, "%s: %s: the spool is incomplete for %" PRIu32 " lanes\n",
                printable_text(summary->program), printable_text(summary->input),
                result->spool_lanes_gapped);
}

void summary_print_problems(const struct summary *summary, FILE *to)
{
    const struct order_trace_result *result = &summary->result;
    char text[512];
    if (error_is_set(&result->cut) && result->status != ORDER_TRACE_COMPLETE)
        fprintf(to, "%s: %s: the recording was cut short: %s\n", printable_text(summary->program),
                printable_text(summary->input),
                printable_text(error_text(&result->cut, text, sizeof text)));
    else if (result->truncated)
        fprintf(to, "%s: %s: an error ended the recording before the program ended\n",
                printable_text(summary->program), printable_text(summary->input));
    print_spool(summary, to);
    uint64_t lost = result->lost_at_end > result->order.lost_events ? result->lost_at_end
                                                                    : result->order.lost_events;
    if (lost > 0)
        fprintf(to, "%s: %s: %" PRIu64 " events were lost while recording\n",
                printable_text(summary->program), printable_text(summary->input), lost);
    if (result->totals.freed_twice > 0)
        fprintf(to,
                "%s: %s: calls that free an object that was freed already: %" PRIu64
                "; the first is instruction #%" PRIu64 "\n",
                printable_text(summary->program), printable_text(summary->input),
                result->totals.freed_twice, result->order.first_freed_twice);
    if (result->totals.missed_frees > 0)
        fprintf(to,
                "%s: %s: frees that were missed: %" PRIu64
                "; another object was later allocated in the same place\n",
                printable_text(summary->program), printable_text(summary->input),
                result->totals.missed_frees);
    if (result->status == ORDER_TRACE_SALVAGED)
        fprintf(to, "%s: %s: damaged parts left out: %" PRIu64 "; the first:\n",
                printable_text(summary->program), printable_text(summary->input),
                result->order.damages);
    if (error_is_set(&result->error))
        error_print(to, summary->program, summary->input, &result->error);
}

/* ---- what text and JSON have in common ---- */

/* The figures after the kinds of calls. */
static void summary_figures(const struct summary *summary, numbers_use *use, void *of)
{
    const struct order_trace_result *result = &summary->result;
    const struct instruction_totals *totals = &result->totals;
    const struct order_totals *order = &result->order;
    const double seconds = summary->seconds;
    const struct number numbers[] = {
        NUMBER_COUNT_IF_ANY("failed", "failed", order->failed),
        NUMBER_COUNT_IF_ANY("unknown_objects", "unknown objects", order->unknown_objects),
        NUMBER_COUNT_IF_ANY("freed_twice", "freed twice", totals->freed_twice),
        NUMBER_COUNT_IF_ANY("missed_frees", "missed frees", totals->missed_frees),
        NUMBER_COUNT_IF_ANY("displaced_objects", "displaced objects", order->displaced),
        NUMBER_COUNT_IF_ANY("stacks", "with call stacks", order->stacks),
        NUMBER_COUNT("live_at_end", "live at end", totals->live),
        NUMBER_COUNT("threads", "threads", totals->threads),
        NUMBER_COUNT("lanes", "lanes", order->lanes),
        NUMBER_COUNT("lane_switches", "lane switches", totals->lane_changes),
        NUMBER_COUNT("ticks", NULL, result->ticks),
        NUMBER_COUNT("windows", "windows", order->windows),
        NUMBER_COUNT("windows_overtaken", NULL, order->windows_overtaken),
        NUMBER_COUNT("steps_split", NULL, order->steps_split),
        NUMBER_COUNT("steps_relaxed", NULL, order->steps_relaxed),
        NUMBER_COUNT("sequence_numbers", "sequence numbers", order->sequences),
        NUMBER_COUNT_IF_ANY("sequence_numbers_missing", "numbers missing",
                            order->sequences_missing),
        NUMBER_COUNT_IF_ANY("lost_events", "lost events", order->lost_events),
        NUMBER_COUNT_IF_ANY("damages", "damages left out", order->damages),
        NUMBER_COUNT("registers", NULL, totals->registers),
        NUMBER_COUNT("bytes_in", "bytes in", result->bytes_in),
        NUMBER_COUNT("bytes_out", "bytes out", result->bytes_out),
        {"seconds", "time", UNIT_CPU, seconds, ""},
        {"events_per_second", "events per second", UNIT_RATE,
         seconds > 0 ? (double)totals->calls / seconds : 0, ""},
    };
    use(of, numbers, sizeof numbers / sizeof *numbers);
}

void summary_print(const struct summary *summary, FILE *to)
{
    struct numbers_text text = {.to = to, .width = 18};
    fprintf(to, "%-18s %" PRIu64 "\n", "events", summary->result.totals.calls);
    numbers_print_kinds(&text, summary->result.totals.by_kind);
    summary_figures(summary, numbers_print, &text);
    fprintf(to, "%-18s %s\n", "status", status_names[summary->result.status]);
}

/* ---- JSON ---- */

void summary_add_json(const struct summary *summary, json_t *results)
{
    const struct order_trace_result *result = &summary->result;
    char text[512];
    json_t *root = json_object();
    json_put_text(root, "input", summary->input);
    json_put_text(root, "status", status_names[result->status]);
    json_object_set_new(root, "error",
                        error_is_set(&result->error)
                            ? json_text(error_text(&result->error, text, sizeof text))
                            : json_null());
    json_object_set_new(root, "truncated", json_boolean(result->truncated));
    json_object_set_new(
        root, "spool_used",
        json_boolean(result->spool == ORDER_TRACE_SPOOL_USED || result->spool_records > 0));
    json_put_number(root, "spool_records", result->spool_records);
    json_put_number(root, "events", result->totals.calls);
    json_put_kinds(root, "by_kind", result->totals.by_kind);
    summary_figures(summary, numbers_put, root);
    json_array_append_new(results, root);
}
