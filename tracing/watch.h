/* watch - what is recorded just now, for whoever looks on from outside (`malloctape top`).
 *
 * The writer counts the units that it writes, but only while somebody asks, and of each chunk the
 * first WATCH_UNITS: so kinds, paths and sizes are shares, and `events` says of how much. The
 * answer to "watch" (control.c) is one struct watch_counts as it lies in memory: both sides are of
 * one version, or `bytes` differs.
 *
 * Threads  counts are the writer's; others read them, which may be torn. */
#ifndef MALLOCTAPE_WATCH_H
#define MALLOCTAPE_WATCH_H

#include "../common/call_kind.h"
#include "../common/histogram.h"

#include <stddef.h>
#include <stdint.h>

#define WATCH_UNITS   512
/* Counting goes on for so many windows of 10 ms after a request. */
#define WATCH_WINDOWS 500

enum watch_path { WATCH_CACHE, WATCH_CENTRAL, WATCH_PAGE_HEAP, WATCH_PATHS };

/* Of glibc's allocator, as it is now. */
struct watch_glibc {
    uint64_t arenas, arena_bytes; /* 0: unknown */
    uint64_t mapped_chunks, mapped_bytes;
    uint64_t mmap_threshold, trim_threshold;
};

struct watch_counts {
    char ok[8];                                      /* "ok\n" */
    uint64_t bytes;                                  /* of all this */
    uint64_t opaque;                                 /* 1: paths and waits are not known */
    uint64_t heap_bytes, used_bytes, recorder_bytes; /* now; 0: unknown */
    struct watch_glibc glibc;
    uint64_t events;            /* all that were recorded */
    uint64_t calls[CALL_KINDS]; /* of those that were counted */
    uint64_t paths[WATCH_PATHS];
    uint64_t waits, waited_ns;
    uint64_t sizes[HISTOGRAM_BUCKETS]; /* of objects that were made */
};

struct watch {
    uint64_t until_window; /* set by who asks */
    struct watch_counts counts;
};

/* Counts units of one lane that begin with a whole record. */
void watch_units(struct watch *watch, const uint8_t *profile, uint32_t features,
                 const uint16_t *units, size_t count);

#endif
