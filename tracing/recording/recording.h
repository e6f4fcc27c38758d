/* recording - the state of this process's recording, how it ends or pauses. How it begins stands in
 * recording_begin.h. */
#ifndef MALLOCTAPE_RECORDING_H
#define MALLOCTAPE_RECORDING_H

#include "tracing/data/lane.h"
#include "tracing/writer/writer.h"

/* Whether every call is recorded off the fast path. */
static inline bool recording_is_slow(void)
{
    return atomic_load_relaxed(&recording.fast_path_is_off) ||
           atomic_load_relaxed(&recording.out_of_memory);
}

/* Atomic; a change returns false if the state was not `from`. */
static inline uint32_t recording_state(void)
{
    return atomic_load_acquire(&malloctape_state);
}

static inline bool recording_change(uint32_t from, uint32_t to)
{
    return atomic_swap_once_seq_cst(&malloctape_state, &from, to);
}

/* Whether the calling thread, whose lane this is, can record an event without preparing anything.
 * It nearly always can. A thread without a followed cache calls this before each event. */
static inline bool recording_has_room(struct malloctape_lane *lane)
{
    if (malloctape_lane_is_fast(lane)) return true;
    /* The state is read first: what the lane and the recording hold is valid in this state. */
    if (recording_state() != MALLOCTAPE_RECORDING || lane->units.cache != NULL || lane->slot.busy ||
        lane->registry.recording != recording.number || !malloctape_lane_has_room(lane))
        return false;
    lane->slot.unrecorded = 0;
    return true;
}

/* NULL: there has been no recording, or this is a forked child in which nobody has called the
 * allocator yet. Any thread, in whatever state the recording is. */
static inline struct lane_registry *recording_own_registry(void)
{
    struct lane_registry *registry = atomic_load_acquire(&recording.registry);
    return registry != NULL && atomic_load_relaxed(&registry->present) ? registry : NULL;
}

/* Whether this process has begun the recording, not one that forked it or shares its memory. */
bool recording_is_own(void);

/* These end the recording, or make a pause. 0 or -EBUSY: the state is another one. Any thread, but
 * not inside a call of the allocator. */
int recording_end(void);
int recording_pause(void);
int recording_resume(void);

/* Returns when all that was recorded before is in the output. */
int recording_sync(void);

struct recording_status {
    bool is_recording;
    bool is_paused;
    bool could_not_begin;        /* the latest try: then there are no totals and no output */
    struct writer_totals totals; /* of this recording or the latest */
    const char *output;          /* empty: there has been none */
};
void recording_look(struct recording_status *status);

/* Whether a writer thread is running. */
bool recording_has_writer(void);

/* Ends the recording, if there is one, and waits for the writer; returns whether there was one. Any
 * thread, any number at a time, also in a signal handler that interrupts this and never returns. */
bool recording_finish(void);

/* The writer ends the recording by itself: struct writer, `ends`. */
void recording_writer_ends(void);

/* Sets the state to OFF if the writer was asked to end, or came to the end by itself, and is
 * gone. */
void recording_settle(void);

/* An access to the spool has failed (fault_take()): the recording ends. */
bool recording_takes_fault(uintptr_t address);

/* An error has ended the writer: from now on the program goes past the capture core. */
void recording_stop(void);

/* Sets `*reason`, for which recording_is_slow(): threads leave the fast path at their next call. */
void recording_leave_fast_path(bool *reason);

#endif
