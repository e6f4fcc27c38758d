#include "replay/replay_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/call_table.h"

/* What trace_run tells apart. */
enum group { GROUP_MALLOC, GROUP_CALLOC, GROUP_REALLOC, GROUP_FREE, GROUPS };
static const char *const group_names[] = {"malloc", "calloc", "realloc", "free"};

struct calls_of_group {
    uint64_t calls, sampled, ticks;
};

static enum group trace_run_group_of(unsigned kind)
{
    switch (call_shapes[kind]) {
    case SHAPE_ALLOCATION: return kind == CALL_CALLOC ? GROUP_CALLOC : GROUP_MALLOC;
    case SHAPE_ALLOCATION_ALIGNED: return GROUP_MALLOC;
    case SHAPE_REALLOC: return GROUP_REALLOC;
    case SHAPE_UNDEFINED:
    case SHAPE_HEAP: return GROUPS;
    default: return kind == CALL_REALLOC_ZERO ? GROUP_REALLOC : GROUP_FREE;
    }
}

/* With commas between thousands. Returns `text`. */
static const char *comma(uint64_t number, char text[32])
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, number);
    char *to = text;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

static void trace_run_line(FILE *to, uint64_t number, const char *words)
{
    char text[32];
    fprintf(to, "%s %s\n", comma(number, text), words);
}

static void trace_run_print_calls(const struct report *report, FILE *to)
{
    struct calls_of_group groups[GROUPS] = {{0}};
    const struct histogram *kinds = report->latency.kinds;
    uint64_t all = 0;
    char mean[32], calls[32];
    for (unsigned kind = 1; kind < CALL_KINDS && kinds != NULL; kind++) {
        enum group group = trace_run_group_of(kind);
        if (group == GROUPS) continue;
        groups[group].calls += report->totals.by_kind[kind];
        groups[group].sampled += kinds[kind].count;
        groups[group].ticks += kinds[kind].sum;
    }
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct calls_of_group *one = &groups[i];
        uint64_t ticks = one->sampled > 0 ? one->ticks / one->sampled : 0;
        all += ticks * one->calls;
        fprintf(to, "Avg %s time: %6s in %s calls\n", group_names[i], comma(ticks, mean),
                comma(one->calls, calls));
    }
    fprintf(to, "Total call time: %s cycles\n", comma(all, mean));
}

void report_print_trace_run(const struct report *report, FILE *to)
{
    const struct measurement *measured = &report->measurement;
    const double ns_per_tick = report->latency.ns_per_tick > 0 ? report->latency.ns_per_tick : 1;
    const uint64_t threads = report->totals.threads > 0 ? report->totals.threads : 1;
    const uint64_t net = report_net_rss_bytes(report), peak = measured->peak_rss_bytes;
    char text[32];
    trace_run_line(to, (uint64_t)((double)measured->wall_ns / ns_per_tick), "cycles");
    trace_run_line(to, measured->wall_ns / 1000, "usec wall time");
    fprintf(to, "%s usec across ", comma((uint64_t)(measured->user_seconds * 1e6), text));
    trace_run_line(to, threads, threads == 1 ? "thread" : "threads");
    fprintf(to, "%s Kb Max RSS (", comma(net / 1024, text));
    fprintf(to, "%s -> ", comma((peak > net ? peak - net : 0) / 1024, text));
    fprintf(to, "%s)\n", comma(peak / 1024, text));
    trace_run_line(to, report->peak_live_bytes / 1024, "Kb Max Ideal RSS");
    fprintf(to, "\nsizeof ticks_t is %zu\n", sizeof(uint64_t));
    trace_run_print_calls(report, to);
}
