/* lane - the registry of lanes: which exist, and who may continue one (state.h).
 *
 * The last frees of a thread come after its destructors, so it goes on using its lane. Another
 * thread gets the lane only when the kernel says that the first one is gone. The writer notices the
 * end of threads that run no destructors (raw clone): it asks the kernel about silent lanes. A lane
 * stays with its thread from one recording to the next.
 *
 * Threads   No locks, because a thread may be stopped for good anywhere in here, for example by
 *           _exit() in a signal handler. Nobody waits for it. Whoever takes a lane's state out of
 *           ENDING by a compare-and-swap owns the lane until it stores the next state. */
#ifndef MALLOCTAPE_LANE_H
#define MALLOCTAPE_LANE_H

#include "common/atomic.h"
#include "common/check.h"
#include "stream/units.h"
#include "tracing/data/state.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(hidden)

/* Whether the lane may be on the fast path. The lane is the calling thread's, but the beginner of
 * the next recording may be resetting it. */
static inline bool malloctape_lane_is_fast(const struct malloctape_lane *lane)
{
    return atomic_load_relaxed(&lane->units.head) < atomic_load_operand(&lane->units.limit);
}

/* Whether the lane has a slot; as above. */
static inline bool malloctape_lane_has_slot(const struct malloctape_lane *lane)
{
    return atomic_load_relaxed(&lane->slot.room) != NULL;
}

/* The cursor lies within the slot, and the fast path leaves no later than where an event still fits.
 * The calling thread's, and no nested call's. */
static inline void malloctape_lane_check(const struct malloctape_lane *lane)
{
    const uint16_t *cursor = units_cursor(&lane->units);
    MUST_HOLD(!lane->slot.room || (lane->slot.start <= cursor && cursor <= lane->slot.end));
    MUST_HOLD(units_head_cursor(atomic_load_relaxed(&lane->units.limit)) <= lane->slot.room);
    (void)cursor;
}

/* Whether an event fits into the lane's slot. */
static inline bool malloctape_lane_has_room(const struct malloctape_lane *lane)
{
    return units_cursor(&lane->units) < lane->slot.room;
}

/* NULL if there is no memory. */
struct lane_registry *lane_registry_create(void);
void lane_registry_release(struct lane_registry *registry);

/* Clears what the previous recording left in the lane. Its thread, which records nothing now, may
 * be reading it. */
void lane_forget(struct malloctape_lane *lane);

/* Makes the lane empty, and ready for the recording with this number. Called by whoever has it. */
void lane_reset(struct malloctape_lane *lane, uint32_t recording_number);

/* A lane for the calling thread: one whose thread has gone, or a new one; NULL if all are taken.
 * The lane is LIVE and of this thread, ready for the recording with this number; `*continued` tells
 * whether another thread had it before in the same recording, and its end is not recorded yet. */
struct malloctape_lane *lane_claim(struct lane_registry *registry, int thread_id,
                                   uint32_t recording_number, bool *continued);

/* The lane's thread has left a slot: the writer need not look at the lanes that have not. */
static inline void lane_left_slot(struct lane_registry *registry,
                                  const struct malloctape_lane *lane)
{
    const uint32_t number = lane->registry.number;
    atomic_or_relaxed(&registry->left_slots[number / 64], UINT64_C(1) << number % 64);
}

/* The destructors of the lane's thread have run. */
void lane_end(struct lane_registry *registry, struct malloctape_lane *lane);

/* Marks the lane as ending if it is live and its thread has gone without running destructors. */
void lane_notice_gone(struct lane_registry *registry, struct malloctape_lane *lane);

/* For the writer: whether the lane's thread has gone; the lane is then the caller's until it puts
 * it back. */
bool lane_take_over(struct lane_registry *registry, struct malloctape_lane *lane);
void lane_put_back(struct lane_registry *registry, struct malloctape_lane *lane);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
