/* timeline - what happened over time, in at most TIMELINE_MAX rows between ticks.
 *
 * When the rows no longer suffice, two and two become one. Memory is fixed. */
#ifndef MALLOCTAPE_REPORT_TIMELINE_H
#define MALLOCTAPE_REPORT_TIMELINE_H

#include <stdint.h>

enum { TIMELINE_MAX = 1024 };

struct timeline_row {
    uint64_t end_ns; /* since recording began; it begins where the one before ends */
    uint64_t calls, made, ended, reallocs; /* a realloc counts as all of them */
    uint64_t bytes;                        /* of objects that were made */
    uint64_t live_objects, live_bytes;     /* at its end */
    uint64_t most_live_bytes;
    uint64_t waits, waited_ns, taken_bytes, released_bytes; /* of depths.h only */
    uint64_t rss_bytes, heap_bytes; /* the most that its ticks say; 0: unknown */
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

#endif
