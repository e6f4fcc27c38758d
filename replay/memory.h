/* memory - what comes of the looks at resident memory: the most, the mean, the end, and how much of
 * it was not live.
 *
 * Every size is net: without the replay's own memory (resident.h). REPORT.md defines the numbers.
 *
 * One thread. */
#ifndef MALLOCTAPE_REPLAY_MEMORY_H
#define MALLOCTAPE_REPLAY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Resident memory stays near its peak where an allocator gives nothing back. Looks at this share of
 * the peak or more count as at the peak. */
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
    struct memory_look peak;  /* with the most live bytes of those within MEMORY_NEAR of the most */
    struct memory_look waste; /* with the most that was not live, while the program was in full use:
                                 at least half of the most live bytes until then were alive */
    struct memory_look end;   /* the latest */

    /* The area under the curve over the original's time. */
    double byte_ns;
    uint64_t begin_ns, timed_ns; /* of the original: the first and the latest look with a time */
    uint64_t timed_bytes;        /* at the latter */
    bool timed;
};

/* Counts a look. */
void memory_add(struct memory *memory, const struct memory_look *look, uint64_t own_bytes);

/* The latest look came at this time of the original. */
void memory_add_time(struct memory *memory, uint64_t original_ns);

/* Over the original's time; negative: there was none. */
double memory_mean_bytes(const struct memory *memory);

/* The share of resident memory that was not live; negative when live objects had more than that, or
 * there was nothing. */
double memory_not_live(const struct memory_look *look);

/* The look with the most that was not live, of those in full use and the one at the peak. */
const struct memory_look *memory_worst(const struct memory *memory);

/* Resident bytes that are not live; 0 when live objects have more. */
uint64_t memory_not_live_bytes(const struct memory_look *look);

#endif
