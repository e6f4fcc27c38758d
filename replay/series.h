/* series - memory over time, of the replay and of the original beside it.
 *
 * One row per tick of the original, and one at the end. A table that is full drops every other row
 * and from then on keeps half as many of those offered, so that it always covers the whole replay:
 *
 *   SERIES_ROWS_MAX / 2 <= count <= SERIES_ROWS_MAX      once there have been that many
 *
 * Peaks are over all rows that were offered, not only those that were kept.
 *
 * Memory: from pages_map(). One thread. */
#ifndef MALLOCTAPE_REPLAY_SERIES_H
#define MALLOCTAPE_REPLAY_SERIES_H

#include "common/error.h"

#define SERIES_ROWS_MAX 4096u

struct series_row {
    uint64_t event;      /* calls carried out so far */
    uint64_t elapsed_ns; /* of the replay */
    uint64_t wall_ns;    /* of its timed parts */
    uint64_t rss_bytes, heap_bytes;
    uint64_t own_bytes;                               /* of rss_bytes, not the allocator's */
    uint64_t vm_size_bytes, original_vm_size_bytes;   /* of the address space; 0: not known */
    uint64_t live_bytes;                              /* asked for by live objects */
    uint64_t shown_ns;                                /* as shown to the allocator, from 0 */
    uint64_t original_ns;                             /* since recording began */
    uint64_t original_rss_bytes, original_heap_bytes; /* 0: not known */
    uint64_t original_net_rss_bytes;                  /* without the recorder's; 0: not known */
};

/* 0: not known. */
static inline uint64_t series_net_rss_bytes(const struct series_row *row)
{
    return row->rss_bytes > row->own_bytes ? row->rss_bytes - row->own_bytes : 0;
}

struct series {
    struct series_row *rows;
    unsigned count;
    uint64_t offered, every; /* a row is kept when `offered` is a multiple of `every` */

    uint64_t peak_heap_bytes;
    uint64_t live_at_peak_heap_bytes;
    uint64_t original_peak_heap_bytes;
    uint64_t original_ns;
};

bool series_open(struct series *series, struct error *error);

/* `last`: this row is kept in any case. */
void series_add(struct series *series, const struct series_row *row, bool last);

#endif
