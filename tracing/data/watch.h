/* watch - what is being recorded, for whoever looks on from outside (`malloctape top`).
 *
 * The writer counts the units that it writes, but only while somebody asks, and on average
 * WATCH_UNITS of each chunk: so kinds, paths and sizes are shares, and `events` says of how much. A
 * chunk is counted as a whole or not, by chance, and stands for those that are not: the first units
 * of each would be mostly the allocations of a program that wakes up, allocates, frees and sleeps.
 * The answer to "watch" (request.h) is one struct watch_counts as it lies in memory.
 *
 * Threads  counts are the writer's, but for waits, which any thread adds. Others read them: each
 *          value is right for some moment (relaxed), but not all for the same one. */
#ifndef MALLOCTAPE_WATCH_H
#define MALLOCTAPE_WATCH_H

#include "common/call_kind.h"
#include "common/histogram.h"
#include "stream/original.h"

#include <stddef.h>
#include <stdint.h>

#define WATCH_UNITS   512
/* For how many windows of 10 ms counting goes on after a request. */
#define WATCH_WINDOWS 500

enum watch_path { WATCH_CACHE, WATCH_CENTRAL, WATCH_PAGE_HEAP, WATCH_PATHS };

#define WATCH_NAMES_BYTES 256

struct watch_counts {
    uint64_t bytes;                                  /* of this structure */
    uint64_t opaque;                                 /* 1: paths and waits are not known */
    uint64_t heap_bytes, used_bytes, recorder_bytes; /* now; 0: unknown */
    char names[WATCH_NAMES_BYTES];         /* of the values, with blanks between them; or empty */
    struct original_statistics statistics; /* now, or as of the latest look */
    uint64_t events;                       /* all that were recorded */
    uint64_t calls[CALL_KINDS];            /* about as many, by kind */
    uint64_t paths[WATCH_PATHS];
    uint64_t waits, waited_ns;         /* all of them */
    uint64_t sizes[HISTOGRAM_BUCKETS]; /* of objects that were made */
};

struct watch {
    uint64_t until_window; /* set by whoever asks */
    uint64_t chance;       /* the latest number by chance */
    struct watch_counts counts;
};

/* Counts units of one lane that begin with a whole record, or not: by chance. */
void watch_units(struct watch *watch, const uint8_t *profile, uint32_t features,
                 const uint16_t *units, size_t count);

/* The counts; the rest is zero. Any thread. */
void watch_read(const struct watch *watch, struct watch_counts *to);

/* A thread has waited for a lock of the allocator. Waits are rare, and long: each counts. */
void watch_wait(struct watch *watch, uint64_t waited_ns);

#endif
