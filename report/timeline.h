/* timeline - what happened over time, in at most TIMELINE_MAX rows between ticks.
 *
 * When there are too many rows, neighbours are merged in pairs. Memory is fixed. */
#ifndef MALLOCTAPE_REPORT_TIMELINE_H
#define MALLOCTAPE_REPORT_TIMELINE_H

#include <stdint.h>

#include "common/call_kind.h"
#include "stream/original.h"

enum { TIMELINE_MAX = 1024 };

/* What a call had to enter; may be several. Only depths.h counts these. */
enum timeline_reached {
    TIMELINE_CENTRAL,
    TIMELINE_PAGE_HEAP,
    TIMELINE_SYSTEM,
    TIMELINE_WAITED,
    TIMELINE_BEYOND_CACHE, /* any of the first three */
    TIMELINE_REACHED
};

/* Only uint64_t members: when rows are merged, those up to `statistics` are taken from the later
 * row, the next three are the maximum, and all others, from `calls` on, are added. */
struct timeline_row {
    uint64_t end_ns; /* since recording began; a row begins where the previous one ends */
    uint64_t live_objects, live_bytes;            /* at its end */
    uint64_t statistics[ORIGINAL_STATISTICS_MAX]; /* at its end (history.h) */
    uint64_t most_live_bytes;
    uint64_t rss_bytes, heap_bytes;        /* the highest of its ticks; 0: unknown */
    uint64_t calls, made, ended, reallocs; /* a realloc counts in all four */
    uint64_t bytes;                        /* of objects that were made */
    uint64_t by_kind[CALL_KINDS];
    uint64_t reached[TIMELINE_REACHED]; /* calls; from here on only depths.h counts */
    uint64_t waits, waited_ns, taken_bytes, released_bytes;
};

struct timeline {
    struct timeline_row rows[TIMELINE_MAX];
    unsigned count;
    unsigned ticks_per_row; /* a power of two */
    unsigned ticks;         /* in the present row */
    struct timeline_row present;
    uint64_t begin_ns; /* of the first row; since recording began */
};

/* Adds a piece of time, which ends at a tick, to the current row, which ends when long enough. */
void timeline_add(struct timeline *timeline, const struct timeline_row *piece);

/* Ends the current row, if it has anything. */
void timeline_end(struct timeline *timeline);

/* ---- to be asked at the end ---- */

/* Merges the rows into at most `most` equal parts, each one row. Returns how many there are. */
unsigned timeline_parts(const struct timeline *timeline, struct timeline_row *parts, unsigned most);

/* The live bytes at a second peak: at least four fifths of the first one's, with the end of a row
 * between the two that has less than three quarters of the second one's. 0: there is none. *end_ns:
 * the end of its row; `end_ns` may be NULL. */
uint64_t timeline_second_peak(const struct timeline *timeline, uint64_t *end_ns);

/* The row with the most calls per time; it began at *begin_ns. NULL: there are fewer than two
 * rows. */
const struct timeline_row *timeline_busiest(const struct timeline *timeline, uint64_t *begin_ns);

#endif
