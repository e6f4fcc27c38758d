#include "replay/latency.h"

#include <string.h>

#include "common/pages.h"

#define LATENCY_BYTES (CALL_KINDS * sizeof(struct histogram))

/* Pairs of readings of which the median is taken. */
#define OVERHEAD_TRIES 1001

/* ---- the clock ---- */

/* The median of many pairs of readings with nothing in between, and the smallest step from one
 * reading to another. */
static void latency_find_overhead(struct latency *latency)
{
    enum { LONGEST = 4096 };
    static uint32_t seen[LONGEST];
    uint64_t before = latency_begin(latency);
    memset(seen, 0, sizeof seen);
    latency->resolution = UINT64_MAX;
    for (unsigned i = 0; i < OVERHEAD_TRIES; i++) {
        uint64_t begin = latency_begin(latency), ticks = latency_end(latency) - begin;
        uint64_t step = begin - before;
        before = begin;
        seen[ticks < LONGEST ? ticks : LONGEST - 1]++;
        if (ticks > 0 && ticks < step) step = ticks;
        if (step > 0 && step < latency->resolution) latency->resolution = step;
    }
    latency->overhead = 0;
    for (uint32_t below = seen[0]; below <= OVERHEAD_TRIES / 2; below += seen[latency->overhead])
        latency->overhead++;
}

void latency_calibrate(struct latency *latency)
{
    uint64_t ns = measure_now_ns() - latency->started_ns;
    uint64_t ticks = latency_end(latency) - latency->started_ticks;
    latency->ns_per_tick = latency->by_processor && ticks > 0 ? (double)ns / (double)ticks : 1;
}

/* ---- histograms ---- */

bool latency_open(struct latency *latency, struct error *error)
{
    *latency = (struct latency){.by_processor = arch_clock_is_steady()};
    latency->kinds = pages_map(LATENCY_BYTES);
    latency->list.samples = pages_map(LATENCY_BATCH_MAX * sizeof *latency->list.samples);
    if (latency->kinds == NULL || latency->list.samples == NULL)
        return error_set_system(error, "no memory for histograms");
    latency_find_overhead(latency);
    latency->started_ns = measure_now_ns();
    latency->started_ticks = latency_begin(latency);
    return true;
}

void latency_count(struct latency *latency, struct latency_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        const uint64_t ticks = list->samples[i].ticks, overhead = latency->overhead;
        histogram_add(&latency->kinds[list->samples[i].kind],
                      ticks > overhead ? ticks - overhead : 0);
    }
    list->count = 0;
}

void latency_clear(struct latency *latency)
{
    latency->list.count = 0;
    for (unsigned kind = 0; kind < CALL_KINDS; kind++)
        if (latency->kinds[kind].count > 0)
            memset(&latency->kinds[kind], 0, sizeof latency->kinds[kind]);
}

static double quantile_ns(const struct latency *latency, unsigned kind, double share)
{
    double ticks;
    if (!histogram_quantile(&latency->kinds[kind], share, &ticks)) return -1;
    return ticks * latency->ns_per_tick;
}

void latency_get_numbers(const struct latency *latency, unsigned kind, bool all,
                         struct latency_numbers *numbers)
{
    const struct histogram *histogram = &latency->kinds[kind];
    const double ns = latency->ns_per_tick;
    *numbers = (struct latency_numbers){.sampled = histogram->count};
    if (histogram->count == 0) return;
    numbers->mean = ns * (double)histogram->sum / (double)histogram->count;
    numbers->p50 = quantile_ns(latency, kind, 0.5);
    numbers->p90 = quantile_ns(latency, kind, 0.9);
    numbers->p99 = quantile_ns(latency, kind, 0.99);
    numbers->p999 = quantile_ns(latency, kind, 0.999);
    numbers->max = all ? ns * (double)histogram->max : -1;
}
