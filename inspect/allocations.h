/* allocations - which allocations a raw stream has, as far as it has been read.
 *
 * The bound of a free counts allocations. Some of them may be in a later chunk, lost, or missing in
 * the stream (FORMAT.md 2.5, 3, 4.4). For each lane:
 *
 *   allocations    1 ............ known                       read so far
 *                [lost] [lost]                           of them, named by `lost` records
 *
 * Of an opaque stream (FORMAT.md 2.7) all calls that its bounds count are meant.
 *
 * Memory  two numbers for each lane and each loss. One thread. */
#ifndef MALLOCTAPE_ALLOCATIONS_H
#define MALLOCTAPE_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

enum allocation {
    ALLOCATION_NOT_SEEN, /* its lane has not got so far */
    ALLOCATION_RECORDED,
    ALLOCATION_LOST
};

struct allocations_loss {
    uint64_t from, count; /* allocations from .. from + count - 1 */
};

struct allocations_lane {
    uint64_t known;
    struct allocations_loss *losses; /* ascending */
    uint32_t losses_count, losses_room;
};

/* All zero is valid and empty. */
struct allocations {
    struct allocations_lane *lanes;
    uint32_t lanes_count;
};

/* Notes that the next `count` allocations of a lane were recorded, or lost. False: no memory. */
bool allocations_add(struct allocations *allocations, uint32_t lane, uint64_t count, bool lost);

/* What is known about the latest allocation that the bound (raw_allocations()) counts. The bound
 * must count at least one. */
enum allocation allocations_find(const struct allocations *allocations, uint64_t bound);

/* Whether allocations that the bound counts were lost. */
bool allocations_have_lost(const struct allocations *allocations, uint64_t bound);

/* The bound, less the lost allocations at its end: it counts a recorded allocation as its
 * latest. */
uint64_t allocations_last_recorded(const struct allocations *allocations, uint64_t bound);

void allocations_free(struct allocations *allocations);

#endif
