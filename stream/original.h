/* original - what the recorded process used, from the ticks of a stream (FORMAT.md 4.3).
 *
 *   tick, tick, ... --original_add()--> the latest times; the most memory, and how much of that was
 *                                       the recorder's
 *
 * How much of the peak was the recorder's is known only from the tick with the most RSS; the peak
 * itself may lie between ticks (VmHWM). */
#ifndef MALLOCTAPE_ORIGINAL_H
#define MALLOCTAPE_ORIGINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The usage in one tick. */
struct original_usage {
    uint64_t recorder_bytes, user_ns, system_ns, peak_rss_bytes;
};

/* The allocator's statistics at a tick. The metadata have their names (metadata.h). */
#define ORIGINAL_STATISTICS_MAX 24
struct original_statistics {
    unsigned count;
    uint64_t values[ORIGINAL_STATISTICS_MAX];
};

/* The last four are the recorder's: what of RSS is of files or of shared memory, and the size of the
 * address space, looked at together with RSS; how often the program has freed NULL; and how often it
 * has asked for the size of an object. */
#define STATISTIC_RSS_SHARED  "rss_shared_bytes"
#define STATISTIC_VM_SIZE     "vm_size_bytes"
#define STATISTIC_NULL_FREES  "free_null"
#define STATISTIC_SIZES_ASKED "malloc_usable_size"

struct original {
    bool has_usage;          /* some tick had one: otherwise only RSS is known */
    uint64_t peak_rss_bytes; /* 0: not known */
    uint64_t recorder_bytes; /* of it; 0: not known */
    bool recorder_unknown;   /* at some tick that had usage */
    uint64_t user_ns, system_ns;
    uint64_t most_at_tick; /* RSS */

    /* Without the recorder's memory: at the latest tick, and the area under the curve. */
    uint64_t net_bytes, begin_ns, now_ns;
    double byte_ns;
};

/* RSS without what is the recorder's. */
static inline uint64_t original_net_bytes(uint64_t rss_bytes, uint64_t recorder_bytes)
{
    return rss_bytes > recorder_bytes ? rss_bytes - recorder_bytes : 0;
}

/* A tick, `elapsed_ns` after the one before. `usage` NULL: it has none. */
static inline void original_add(struct original *original, uint64_t elapsed_ns, uint64_t rss_bytes,
                                const struct original_usage *usage)
{
    uint64_t recorder_bytes = usage != NULL ? usage->recorder_bytes : 0;
    uint64_t net_bytes = original_net_bytes(rss_bytes, recorder_bytes);
    bool first = original->now_ns == 0;
    original->now_ns += elapsed_ns;
    if (first) original->begin_ns = original->now_ns;
    if (!first)
        original->byte_ns +=
            (double)elapsed_ns * ((double)original->net_bytes + (double)net_bytes) / 2;
    original->net_bytes = net_bytes;
    if (rss_bytes > original->most_at_tick) {
        original->most_at_tick = rss_bytes;
        original->recorder_bytes = recorder_bytes;
    }
    if (original->most_at_tick > original->peak_rss_bytes)
        original->peak_rss_bytes = original->most_at_tick;
    if (usage == NULL) return;
    original->has_usage = true;
    if (rss_bytes > 0 && recorder_bytes == 0) original->recorder_unknown = true;
    original->user_ns = usage->user_ns;
    original->system_ns = usage->system_ns;
    if (usage->peak_rss_bytes > original->peak_rss_bytes)
        original->peak_rss_bytes = usage->peak_rss_bytes;
}

/* The mean RSS without the recorder's memory, over the time from the first tick to the latest;
 * negative: there were not two. */
static inline double original_mean_bytes(const struct original *original)
{
    if (original->now_ns == original->begin_ns) return -1;
    return original->byte_ns / (double)(original->now_ns - original->begin_ns);
}

#endif
