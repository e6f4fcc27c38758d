/* history - the statistics of the recorded allocator over time (FORMAT.md 4.3): their values at
 * ticks, and events, which are changes from one tick to the next.
 *
 * An event has the time of the tick that shows it, so it happened up to one interval earlier. Two
 * changes of one value between two ticks are one event. */
#ifndef MALLOCTAPE_REPORT_HISTORY_H
#define MALLOCTAPE_REPORT_HISTORY_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "report/timeline.h"
#include "stream/metadata.h"

enum { HISTORY_EVENTS_MAX = 1024 };

struct history_event {
    uint64_t ns; /* of the tick */
    const char *what;
    unsigned index; /* of the value */
    uint64_t before, after;
};

struct history {
    struct statistics_names names;
    struct original_statistics now; /* at the latest tick; the reader changes them */
    struct original_statistics first, before;
    uint64_t most[ORIGINAL_STATISTICS_MAX];
    struct history_event events[HISTORY_EVENTS_MAX];
    unsigned events_count;
    uint64_t events_left_out;
};

/* Takes a tick at time `ns`, whose statistics are in history->now. */
void history_tick(struct history *history, uint64_t ns);

/* Whether the trace has statistics. */
static inline bool history_is_known(const struct history *history)
{
    return history->names.count > 0 && history->now.count >= history->names.count;
}

void history_print(const struct history *history, FILE *to);

/* A new object. Its values over time are those at the ends of the timeline's rows. */
json_t *history_json(const struct history *history, const struct timeline *timeline);

#endif
