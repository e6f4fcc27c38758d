/* original - what the recorded process used, from the ticks of a stream (FORMAT.md 4.3).
 *
 *   tick, tick, ... --original_add()--> the latest times; the most memory, and how much of that was
 *                                       the recorder's
 *
 * Of memory at its peak only the tick with the most RSS says how much was the recorder's; the peak
 * itself may lie between ticks (VmHWM). */
#ifndef MALLOCTAPE_COMMON_ORIGINAL_H
#define MALLOCTAPE_COMMON_ORIGINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Of one tick. */
struct original_usage {
    uint64_t recorder_bytes, user_ns, system_ns, peak_rss_bytes;
};

struct original {
    bool has_usage;          /* some tick had one: otherwise only RSS is known */
    uint64_t peak_rss_bytes; /* 0: not known */
    uint64_t recorder_bytes; /* of it */
    uint64_t user_ns, system_ns;
    uint64_t most_at_tick; /* RSS */
};

/* `usage` NULL: the recorder did not say. */
static inline void original_add(struct original *original, uint64_t rss_bytes,
                                const struct original_usage *usage)
{
    if (rss_bytes > original->most_at_tick) {
        original->most_at_tick = rss_bytes;
        original->recorder_bytes = usage ? usage->recorder_bytes : 0;
    }
    if (original->most_at_tick > original->peak_rss_bytes)
        original->peak_rss_bytes = original->most_at_tick;
    if (!usage) return;
    original->has_usage = true;
    original->user_ns = usage->user_ns;
    original->system_ns = usage->system_ns;
    if (usage->peak_rss_bytes > original->peak_rss_bytes)
        original->peak_rss_bytes = usage->peak_rss_bytes;
}

#endif
