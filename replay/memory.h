/* memory - sums up the looks at resident memory: the peak, the mean, the end, and how much of it
 * was not live.
 *
 * Every size is net: without the replay's own memory (resident.h). REPORT.md defines the numbers.
 *
 * One thread. */
#ifndef MALLOCTAPE_REPLAY_MEMORY_H
#define MALLOCTAPE_REPLAY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* With an allocator that gives nothing back, resident memory stays near its peak. Looks with at
 * least this share of the peak count as at the peak. */
#define MEMORY_NEAR 0.95

struct memory_look {
    uint64_t rss_bytes;  /* net */
    uint64_t live_bytes; /* asked for by the objects that were alive then */
};

struct memory {
    uint64_t looks;
    uint64_t own_bytes;       /* the most that the replay itself had at a look */
    uint64_t most_bytes;      /* the most resident memory */
    uint64_t most_live_bytes; /* at a look */
    struct memory_look peak;  /* of the looks at the peak, the one with the most live bytes */
    struct memory_look waste; /* the one with the most that was not live, of those in full use: live
                                 bytes were at least half of their maximum until then */
    struct memory_look end;   /* the latest */

    /* The area under the curve over the original's time. */
    double byte_ns;
    uint64_t begin_ns, timed_ns; /* the original's time at the first and latest look that has one */
    uint64_t timed_bytes;        /* at the latter */
    bool timed;
};

/* Counts a look. */
void memory_add(struct memory *memory, const struct memory_look *look, uint64_t own_bytes);

/* The latest look came at this time of the original. */
void memory_add_time(struct memory *memory, uint64_t original_ns);

/* The mean over the original's time; negative: no time has passed. */
double memory_mean_bytes(const struct memory *memory);

/* The share of resident memory that was not live; negative when live bytes exceed it, or nothing
 * was resident. */
double memory_not_live(const struct memory_look *look);

/* The look with the most that was not live, of those in full use and the one at the peak. */
const struct memory_look *memory_worst(const struct memory *memory);

/* Resident bytes that are not live; 0 when live objects have more. */
uint64_t memory_not_live_bytes(const struct memory_look *look);

#endif
