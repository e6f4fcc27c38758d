/* account - what the original's allocator said of itself, over time (FORMAT.md 4.3): the values at
 * ticks, and events, which are what changed from one tick to the next.
 *
 * An event is noted at the tick that shows it: it came up to one tick before. Two changes of one
 * value between two ticks are one event. */
#ifndef MALLOCTAPE_REPORT_ACCOUNT_H
#define MALLOCTAPE_REPORT_ACCOUNT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "report/timeline.h"
#include "stream/metadata.h"

enum { ACCOUNT_EVENTS_MAX = 1024 };

struct account_event {
    uint64_t ns; /* of the tick */
    const char *what;
    unsigned index; /* of the value */
    uint64_t before, after;
};

struct account {
    struct statistics_names names;
    struct original_statistics now; /* at the latest tick; the reader changes them */
    struct original_statistics first, before;
    uint64_t most[ORIGINAL_STATISTICS_MAX];
    struct account_event events[ACCOUNT_EVENTS_MAX];
    unsigned events_count;
    uint64_t events_left_out;
};

/* `account->now` is that of a tick at this time. */
void account_tick(struct account *account, uint64_t ns);

/* Whether the allocator said anything. */
static inline bool account_is_known(const struct account *account)
{
    return account->names.count > 0 && account->now.count >= account->names.count;
}

void account_print(const struct account *account, FILE *to);

/* New. Values over time are those at the ends of the rows of the timeline. */
json_t *account_json(const struct account *account, const struct timeline *timeline);

#endif
