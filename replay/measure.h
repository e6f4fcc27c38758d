/* measure - clocks and counters of the process. REPORT.md says what each number is. */
#ifndef MALLOCTAPE_REPLAY_MEASURE_H
#define MALLOCTAPE_REPLAY_MEASURE_H

#include <stdint.h>

#include "replay/shown_clock.h"

struct measurement {
    uint64_t wall_ns;    /* sum of the timed parts, without the warm-up */
    uint64_t release_ns; /* the part of wall_ns that giving memory back took */
    uint64_t warmup_calls;
    uint64_t own_ns, own_calls; /* of what was carried out without the allocator */
    uint64_t started_ns;        /* clock when the replay began */
    uint64_t elapsed_ns;        /* from there to measure_end() */
    double user_seconds;        /* of the process, from measure_begin() to measure_end() */
    double system_seconds;
    double reading_seconds; /* both, of the process that reads ahead; 0 without one */
    uint64_t minor_faults;
    uint64_t major_faults;
    uint64_t base_rss_bytes; /* before the first call */
    uint64_t base_net_bytes; /* of that, what is not the replay's own */
    uint64_t peak_rss_bytes; /* of the process, since its start */
};

/* By the real clock, whatever the allocator is shown. */
static inline uint64_t measure_now_ns(void)
{
    struct timespec now;
    shown_clock_real(CLOCK_MONOTONIC, &now);
    return ns_of_timespec(&now);
}

void measure_begin(struct measurement *measurement);

/* What came before does not count, but for `base_rss_bytes`. */
void measure_restart(struct measurement *measurement);

/* The last block has been carried out. */
void measure_end(struct measurement *measurement);

/* After measure_end(), when the process that reads ahead has ended and the replaying one needs no
 * more memory. */
void measure_end_of_reading(struct measurement *measurement);

#endif
