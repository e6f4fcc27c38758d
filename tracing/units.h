/* units - the records of a lane, as the units that its thread writes into its slot (FORMAT.md 5).
 *
 *   a run    units_begin_run() -> records, here or by the inline functions of capture.h -> the next
 *
 * Everything about codes is here and in those functions.
 *
 * The lane must have room for RAW_UNITS_PER_RECORD_MAX units. The first unit of a record is stored
 * after the others, and the cursor after that.
 *
 * Threads   the lane's own. */
#ifndef MALLOCTAPE_UNITS_H
#define MALLOCTAPE_UNITS_H

#include "capture.h"

/* Begins a run: forgets what the one before it remembered, and now and then chooses the profile
 * anew, from the `count` units of that one at `units` (0: this is the first). */
void units_begin_run(struct malloctape_lane *lane, const uint16_t *units, size_t count, bool key);

/* An object as a record names it. */
struct units_object {
    uint32_t place;      /* 0: none is known */
    uint32_t size_class; /* of the place */
    uint64_t
        bound; /* raw_allocations() of another lane, which has it; 0: this lane has it, or nobody */
    bool unknown; /* nobody has it: its allocation was not recorded */
};

/* An object that begins. */
struct units_allocation_of {
    struct units_object object; /* its place, and that one's class, told of unless 0 */
    const void *address;        /* written only if the lane records addresses */
    bool taken; /* it was the first of the class of its size in the cache that the stream follows */
};

void units_allocation(struct malloctape_lane *lane, unsigned kind, uint64_t size,
                      uint64_t alignment, const struct units_allocation_of *allocation);
void units_realloc(struct malloctape_lane *lane, unsigned kind, const struct units_object *old,
                   uint64_t size, const struct units_allocation_of *allocation);
void units_free(struct malloctape_lane *lane, unsigned kind, const struct units_object *object,
                uint64_t size, uint64_t alignment);
void units_heap_call(struct malloctape_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second);

/* A call that failed; of `size`, `alignment`, `object` (may be NULL) those that the kind has. */
void units_failed(struct malloctape_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  const struct units_object *object);

/* A size class and the size of its objects: before the class is mentioned. The lane remembers
 * that it has been. */
void units_class(struct malloctape_lane *lane, unsigned size_class, uint64_t bytes);

/* The thread's cache (FORMAT.md 2.6): up to RAW_CACHED_MAX places that came into it; so many
 * that left. */
void units_cached(struct malloctape_lane *lane, unsigned size_class, unsigned count,
                  const uint32_t *places);
void units_uncached(struct malloctape_lane *lane, unsigned size_class, unsigned count);

/* thread_begin with the thread's id; thread_end, thread_cache_deleted, cache_begin with 0. */
void units_thread(struct malloctape_lane *lane, unsigned record, uint64_t thread_id);
void units_sequence(struct malloctape_lane *lane, unsigned structure, uint64_t number);
/* With those, the allocations of a slot are still fewer than MALLOCTAPE_HEAD_ALLOCATIONS_LIMIT. */
void units_lost(struct malloctape_lane *lane, uint64_t events, uint64_t allocations);

/* How many of these records are events. `units` are whole records of a run with that profile.
 * Any thread. */
uint64_t units_events(const uint8_t *profile, bool addresses, const uint16_t *units, size_t count);

/* How many of these units, at most `units_max`, are whole records. */
size_t units_whole(const uint8_t *profile, bool addresses, const uint16_t *units, size_t count,
                   size_t units_max);

#endif
