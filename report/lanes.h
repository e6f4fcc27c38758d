/* lanes - what each thread does, and which thread ends another one's objects.
 *
 * A lane has the calls of one thread, and of threads that continue it. Frees of objects of other
 * lanes are counted for each pair of lanes, up to LANE_PAIRS_MAX pairs; further ones count as
 * `other_pairs`. Memory is from pages_map(): 128 bytes for each lane, 32 for each pair. */
#ifndef MALLOCTAPE_REPORT_LANES_H
#define MALLOCTAPE_REPORT_LANES_H

#include <stdbool.h>

#include "common/live.h"

enum { LANE_PAIRS_MAX = 1 << 16, LANE_PAIRS_TABLE = 2 * LANE_PAIRS_MAX };

struct lane_counts {
    uint64_t calls;
    uint64_t made, bytes;  /* objects, reallocs included */
    uint64_t ended;        /* objects, by calls of this lane */
    uint64_t remote_frees; /* those of `ended` that another lane made */
    uint64_t turns;        /* sequences of its calls without one of another lane in between */
    uint64_t longest;      /* the most calls in a turn */
    uint64_t first_ms, last_ms;
    uint64_t threads, thread; /* how many threads the lane had; the latest one's id */
    struct live live;         /* of the objects that it made */
};

struct lane_pair {
    uint64_t key; /* 1 + (the lane that made the objects << 16 | the one that ended them) */
    uint64_t objects, bytes;
};

struct lanes {
    struct lane_counts *lanes;
    struct lane_pair *pairs; /* LANE_PAIRS_TABLE entries, those without a key are free */
    uint32_t pairs_count;
    struct lane_pair other_pairs;
};

bool lanes_open(struct lanes *lanes);
void lanes_close(struct lanes *lanes);

/* Counts an object of lane `owner` that lane `ender` has ended. */
void lanes_add_remote_free(struct lanes *lanes, unsigned owner, unsigned ender, uint64_t bytes);

/* Counts a turn of a lane that has ended. */
void lanes_add_turn(struct lane_counts *lane, uint64_t calls, uint64_t first_ms, uint64_t last_ms);

static inline unsigned lane_pair_owner(const struct lane_pair *pair)
{
    return (unsigned)((pair->key - 1) >> 16);
}

static inline unsigned lane_pair_ender(const struct lane_pair *pair)
{
    return (unsigned)((pair->key - 1) & 0xffff);
}

#endif
