/* timeline - what happened over time, in at most TIMELINE_MAX rows between ticks.
 *
 * When the rows no longer suffice, two and two become one. Memory is fixed. */
#ifndef MALLOCTAPE_REPORT_TIMELINE_H
#define MALLOCTAPE_REPORT_TIMELINE_H

#include <stdint.h>

#include "common/call_kind.h"
#include "stream/original.h"

enum { TIMELINE_MAX = 1024 };

/* What a call had to enter; it may be several. Of depths.h only. */
enum timeline_reached {
    TIMELINE_CENTRAL,
    TIMELINE_PAGE_HEAP,
    TIMELINE_SYSTEM,
    TIMELINE_WAITED,
    TIMELINE_BEYOND_CACHE, /* any of the first three */
    TIMELINE_REACHED
};

/* Numbers of 64 bits only: when rows are joined, those as far as `statistics` are as in the latest,
 * the next three the most, and all others, from `calls` on, add up. */
struct timeline_row {
    uint64_t end_ns; /* since recording began; it begins where the one before ends */
    uint64_t live_objects, live_bytes;            /* at its end, as */
    uint64_t statistics[ORIGINAL_STATISTICS_MAX]; /* of history.h */
    uint64_t most_live_bytes;
    uint64_t rss_bytes, heap_bytes;        /* the most that its ticks say; 0: unknown */
    uint64_t calls, made, ended, reallocs; /* a realloc counts as all of them */
    uint64_t bytes;                        /* of objects that were made */
    uint64_t by_kind[CALL_KINDS];
    uint64_t reached[TIMELINE_REACHED]; /* calls; from here on of depths.h only */
    uint64_t waits, waited_ns, taken_bytes, released_bytes;
};

struct timeline {
    struct timeline_row rows[TIMELINE_MAX];
    unsigned count;
    unsigned ticks_per_row; /* a power of two */
    unsigned ticks;         /* in the present row */
    struct timeline_row present;
};

/* A tick ends a piece of time: adds it to the present row, which is kept when it is long enough. */
void timeline_add(struct timeline *timeline, const struct timeline_row *piece);

/* The end: the present row is kept if there is something in it. */
void timeline_end(struct timeline *timeline);

/* ---- to be asked at the end ---- */

/* The rows in at most so many equal parts, each as one row. Returns how many there are. */
unsigned timeline_parts(const struct timeline *timeline, struct timeline_row *parts, unsigned most);

/* How much was alive at a second peak: at least four fifths of the first, from which it is apart by
 * a tick with less than three quarters of the second. 0: there is none. `end_ns` may be NULL: the
 * end of its row. */
uint64_t timeline_second_peak(const struct timeline *timeline, uint64_t *end_ns);

/* The row with most calls for its time, which began at *begin_ns. NULL: there are no two. */
const struct timeline_row *timeline_busiest(const struct timeline *timeline, uint64_t *begin_ns);

#endif
