/* lane_shares - how many threads make a noticeable share of the calls of a stream.
 *
 * A thread that makes a call now and then changes little for an allocator. One that makes at least
 * one call in LANE_SHARE is counted. Memory: from pages_map(). One thread. */
#ifndef MALLOCTAPE_REPLAY_LANE_SHARES_H
#define MALLOCTAPE_REPLAY_LANE_SHARES_H

#include "replay/engine.h"
#include "stream/instruction_reader.h"

#define LANE_SHARE 1000u

struct lane_shares {
    uint64_t *calls; /* by lane; NULL: nothing is counted */
    uint64_t all;
    uint64_t lane;  /* the one whose calls follow */
    uint64_t lanes; /* an upper bound: no lane with calls has this number or a higher one */
};

bool lane_shares_open(struct lane_shares *shares, struct error *error);
void lane_shares_close(struct lane_shares *shares);

/* Counts a batch with indices. */
void lane_shares_add(struct lane_shares *shares, const struct instruction_batch *batch);

/* The number of lanes with at least one call in LANE_SHARE; 0 if there are no calls. */
unsigned lane_shares_busy(const struct lane_shares *shares);

/* The engine for such a stream: threads if several lanes are busy, else switch. */
const struct engine *lane_shares_engine(const struct lane_shares *shares);

#endif
