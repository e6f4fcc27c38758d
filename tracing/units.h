/* units - the records of a lane, as the units that its thread writes into its slot (FORMAT.md 5).
 *
 *   a run    units_begin_run() -> records, here or by the inline functions of capture.h -> the next
 *
 * Everything about codes is here and in those functions. What a run's profile should be is decided
 * at the end of the run before it, from what was frequent there.
 *
 * The lane must have room for RAW_UNITS_PER_RECORD_MAX units. The first unit of a record is stored
 * after the others, and the cursor after that.
 *
 * Threads   the lane's own. */
#ifndef MALLOCTAPE_UNITS_H
#define MALLOCTAPE_UNITS_H

#include "capture.h"

/* The token of a lane's object. Not that of FORMAT.md: lanes count from 1 here, so that no distance
 * between a token and RAW_TOKEN_UNKNOWN, or a token of another lane, is small. */
static inline uint64_t units_token(uint32_t lane, uint64_t serial)
{
    return raw_token(lane + 1, serial);
}

/* Chooses the profile of the run that begins at lane->cursor, from the `count` units of the one
 * before it at `units` (0: this is the first), and empties what a run remembers. */
void units_begin_run(struct malloctape_lane *lane, const uint16_t *units, size_t count, bool key);

/* `object` is written only if the lane records addresses. */
void units_birth(struct malloctape_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                 const void *object);
void units_realloc(struct malloctape_lane *lane, unsigned kind, uint64_t token, uint64_t size,
                   const void *object);
void units_death(struct malloctape_lane *lane, unsigned kind, uint64_t token, uint64_t size,
                 uint64_t alignment);
void units_heap_call(struct malloctape_lane *lane, unsigned kind, unsigned count, uint64_t first,
                     uint64_t second);

/* A call that failed; of `size`, `alignment`, `token` those that the kind has. */
void units_failed(struct malloctape_lane *lane, unsigned kind, uint64_t size, uint64_t alignment,
                  uint64_t token);

/* thread_begin with the thread's id, thread_end, thread_cache_deleted with 0. */
void units_thread(struct malloctape_lane *lane, unsigned record, uint64_t thread_id);
void units_stamp(struct malloctape_lane *lane, unsigned structure, uint64_t number);
void units_lost(struct malloctape_lane *lane, uint64_t events, uint64_t births);

/* How many of these records are events. `units` are whole records of a run with that profile. Any thread. */
uint64_t units_events(const uint8_t *profile, bool addresses, const uint16_t *units, size_t count);

#endif
