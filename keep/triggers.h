/* triggers - conditions of --when, looked at whenever the stream has a tick.
 *
 *     rss>4G           more than so many bytes
 *     live>+20%/10m    a fifth more than it was at any time of the last ten minutes
 *     heap>+1G/1h      so many bytes more
 *     calls/s>2M       calls a second, over a second
 *
 * A condition counts when it becomes true; after that it must have been false before it counts
 * again, and must rest: a minute at first, then twice as long each time, up to a day. So what it
 * makes takes little disk, however often it becomes true.
 *
 * Threads one. */
#ifndef MALLOCTAPE_KEEP_TRIGGERS_H
#define MALLOCTAPE_KEEP_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum trigger_what { TRIGGER_RSS, TRIGGER_LIVE, TRIGGER_HEAP, TRIGGER_CALLS, TRIGGER_WHATS };
enum { TRIGGERS_MAX = 16, TRIGGER_SLOTS = 64 };

struct trigger {
    const char *text; /* as given */
    enum trigger_what what;
    double limit; /* or growth: bytes, or a share of what it was */
    bool is_growth, is_share;
    uint64_t over_ns; /* of growth */

    /* From here on: triggers.c only. The least value of each of the last TRIGGER_SLOTS parts of the
     * time. */
    double least[TRIGGER_SLOTS];
    uint64_t slot; /* the number of the latest one, plus 1; 0: none yet */
    bool is_true;
    uint64_t fired_ns, rest_ns; /* rest_ns 0: it has not counted yet */
};

struct triggers {
    struct trigger list[TRIGGERS_MAX];
    size_t count;
    uint64_t second_ns, second_calls; /* when the latest second began, and calls until then */
    double calls_a_second;
    bool has_second;
};

/* What the process is doing. */
struct trigger_values {
    uint64_t ns; /* since the recording began */
    uint64_t rss_bytes, live_bytes, heap_bytes, calls;
};

/* Adds a condition, whose text must stay. False: `why` says what is wrong. */
bool triggers_add(struct triggers *triggers, const char *text, char *why, size_t why_bytes);

/* The condition that has just become true; NULL: none. */
const struct trigger *triggers_look(struct triggers *triggers, const struct trigger_values *values);

#ifdef __cplusplus
}
#endif
#endif
