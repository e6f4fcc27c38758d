/* mappings - what the program does to its address space is recorded: FORMAT.md 4.5.
 *
 * Nothing here is on the way of malloc() and free(). A record goes into cells that all threads share
 * (state.h), not into the thread's lane: their numbers are the order of the calls, a thread needs no
 * lane, and a signal handler may interrupt anything.
 *
 * Threads   any, also in signal handlers and in children that share the memory; errno is kept. */
#ifndef MALLOCTAPE_MAPPINGS_H
#define MALLOCTAPE_MAPPINGS_H

#include "common/atomic.h"
#include "stream/mapping.h"
#include "tracing/data/state.h"

#include <stdbool.h>

/* What made a call: where it goes on, and the frame of the function that it called. */
struct mappings_maker {
    const void *code;
    const void *frame;
};

/* Whether calls are recorded now: also in a pause, as what is mapped must be known after it. */
static inline bool mappings_are_recorded(void)
{
    const uint32_t state = atomic_load_acquire(&malloctape_state);
    return state == MALLOCTAPE_RECORDING || state == MALLOCTAPE_PAUSED;
}

/* Records a call that has been made, or that is about to give pages up. What, address, length,
 * protection, flags, offset, inode and the result are the caller's; the rest is found here. `file`: a
 * descriptor of the program's, or -1. */
void mappings_record(struct mapping_record *record, int file, struct mappings_maker maker);

/* Where a record goes: cells of a recording. */
struct mappings_place {
    struct cell_ring ring;
    uint64_t number; /* 0: nowhere */
    uint32_t recording;
    bool is_entered; /* the thread is among the users of the cells */
};

/* The same in two parts, around a call that is short, gives pages up and may fail: the record has its
 * place in the order from the first on, and its result, `failed`, with the second. The second must
 * follow, or the memory of the cells is not used again. Records of all threads wait in between. */
struct mappings_place mappings_begin(struct mapping_record *record, struct mappings_maker maker);
void mappings_end(const struct mappings_place *place, const struct mapping_record *record);

/* The object that the lane has just recorded is watched, if it is large and there is time for that
 * (large.h). False: it is not. */
bool mappings_watch(const struct malloctape_lane *lane, const void *object, uint64_t size);

/* Finds and records which pages of a large object are resident, unless cells, or room on the stack, are
 * scarce: nobody waits for that. */
struct large_object;
void mappings_record_touched(const struct large_object *object);

#endif
