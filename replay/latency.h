/* latency - how long single calls take: a clock, and a histogram for each kind of call.
 *
 *   begin = latency_begin();  the call;  latency_list_add(list, kind, latency_end() - begin);
 *   later: latency_count(latency, list)
 *
 * Everything is in ticks of the clock until the end, when the length of the replay tells how long a
 * tick is. The clock is the processor's (arch_clock()) where that runs at a constant rate,
 * else clock_gettime(), whose ticks are nanoseconds.
 *
 * Memory: from pages_map(); a kind that does not occur stays untouched. */
#ifndef MALLOCTAPE_REPLAY_LATENCY_H
#define MALLOCTAPE_REPLAY_LATENCY_H

#include "common/arch.h"
#include "common/call_kind.h"
#include "common/error.h"
#include "common/histogram.h"
#include "replay/measure.h"

/* Samples that are not counted yet: counting touches memory all over the histograms, which would
 * make the next call slower. */
struct latency_sample {
    uint64_t kind : 8, ticks : 56;
};
struct latency_list {
    unsigned count;
    struct latency_sample *samples;
};

/* Lengths of the lists: for a batch, and for a thread, which is less as there may be thousands. */
#define LATENCY_BATCH_MAX  16384u
#define LATENCY_THREAD_MAX 288u

struct latency {
    struct latency_list list; /* of the engines that have one thread; a batch fits */
    struct histogram *kinds;  /* CALL_KINDS of them: ticks, the clock's own time subtracted */
    bool by_processor;        /* the clock */
    uint64_t overhead;        /* ticks from begin to end when nothing is in between */
    uint64_t resolution;      /* ticks: the smallest difference that was seen */
    uint64_t started_ticks, started_ns;
    double ns_per_tick; /* set by latency_calibrate() */
};

/* Numbers of one kind, in nanoseconds. Negative: not known, because too few calls were timed; `max`
 * is known only if all were. */
struct latency_numbers {
    uint64_t sampled;
    double mean, p50, p90, p99, p999, max;
};

/* Measures the clock. False: see *error. */
bool latency_open(struct latency *latency, struct error *error);

/* Counts the samples of a list and empties it. */
void latency_count(struct latency *latency, struct latency_list *list);

/* The name of the clock. */
static inline const char *latency_clock(const struct latency *latency)
{
    return latency->by_processor ? ARCH_CLOCK_NAME : "clock_gettime";
}

/* Forgets all samples, also those in latency->list. */
void latency_clear(struct latency *latency);

/* Finds out how long a tick is: to be called at the end. */
void latency_calibrate(struct latency *latency);

/* `all`: all calls were timed. */
void latency_get_numbers(const struct latency *latency, unsigned kind, bool all,
                         struct latency_numbers *numbers);

static inline uint64_t latency_begin(const struct latency *latency)
{
    return latency->by_processor ? arch_clock_begin() : measure_now_ns();
}

static inline uint64_t latency_end(const struct latency *latency)
{
    return latency->by_processor ? arch_clock_end() : measure_now_ns();
}

/* Adds a call that took `ticks`. There must be room. */
static inline void latency_list_add(struct latency_list *list, unsigned kind, uint64_t ticks)
{
    list->samples[list->count].kind = kind;
    list->samples[list->count++].ticks = ticks;
}

#endif
