/* latency - how long single calls take: a clock, and a histogram for each kind of call.
 *
 *   begin = latency_begin();  the call;  latency_add(latency, kind, latency_end() - begin);
 *
 * Everything is in ticks of the clock until the end, when the length of the replay tells how long a
 * tick is. The clock is the processor's time-stamp counter where that runs at a constant rate,
 * else clock_gettime(), whose ticks are nanoseconds.
 *
 * Memory: from pages_map(); a kind that does not occur stays untouched. */
#ifndef MALLOCTAPE_REPLAY_LATENCY_H
#define MALLOCTAPE_REPLAY_LATENCY_H

#include <x86intrin.h>

#include "common/call_kind.h"
#include "common/error.h"
#include "common/histogram.h"
#include "replay/measure.h"

struct latency {
    struct histogram *kinds; /* CALL_KINDS of them: ticks, the clock's own time subtracted */
    bool tsc;                /* the clock */
    uint64_t overhead;       /* ticks from begin to end when nothing is in between */
    uint64_t resolution;     /* ticks: the smallest difference that was seen */
    uint64_t started_ticks, started_ns;
    double ns_per_tick; /* set by latency_calibrate() */
};

/* Samples of a thread that has no histograms of its own: thousands would not fit. */
#define LATENCY_LIST_MAX 288
struct latency_list {
    unsigned count;
    struct {
        uint64_t kind : 8, ticks : 56;
    } samples[LATENCY_LIST_MAX];
};

/* Numbers of one kind, in nanoseconds; negative: not known, because too few calls were timed, or, of
 * the longest one, not all. */
struct latency_numbers {
    uint64_t sampled;
    double mean, p50, p90, p99, p999, max;
};

/* Measures the clock. False: see *error. */
bool latency_open(struct latency *latency, struct error *error);

/* Forgets all samples. */
void latency_clear(struct latency *latency);

/* Finds out how long a tick is: to be called at the end. */
void latency_calibrate(struct latency *latency);

/* `all`: all calls were timed. */
void latency_get_numbers(const struct latency *latency, unsigned kind, bool all,
                         struct latency_numbers *numbers);

/* Nothing that stands before is still being done when the clock is read, nothing that stands behind
 * has begun. */
static inline uint64_t latency_begin(const struct latency *latency)
{
    if (!latency->tsc) return measure_now_ns();
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
}

static inline uint64_t latency_end(const struct latency *latency)
{
    unsigned processor;
    if (!latency->tsc) return measure_now_ns();
    uint64_t now = __rdtscp(&processor);
    _mm_lfence();
    return now;
}

/* Notes a call that took so many ticks. There must be room. */
static inline void latency_list_add(struct latency_list *list, unsigned kind, uint64_t ticks)
{
    list->samples[list->count].kind = kind;
    list->samples[list->count++].ticks = ticks;
}

/* Counts a call that took so many ticks between the two readings. */
static inline void latency_add(struct latency *latency, unsigned kind, uint64_t ticks)
{
    histogram_add(&latency->kinds[kind], ticks > latency->overhead ? ticks - latency->overhead : 0);
}

/* Counts what is noted in a list, which is then empty. */
static inline void latency_add_list(struct latency *latency, struct latency_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        latency_add(latency, list->samples[i].kind, list->samples[i].ticks);
    list->count = 0;
}

#endif
