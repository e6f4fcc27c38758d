/* recording - what the two halves of the capture core have in common.
 *
 *   capture.c   the life of a recording and of the threads in it
 *   record.c    its events, where they are not written by the inline functions of capture.h */
#ifndef MALLOCTAPE_RECORDING_H
#define MALLOCTAPE_RECORDING_H

#include "capture.h"
#include "lane.h"
#include "writer.h"

/* A process can have one recording after another, but one at a time:
 *
 *   OFF --begin--> STARTING --> RECORDING <--> PAUSED
 *    ^                              |            |
 *    +-------- writer has ended -- ENDING <------+
 *
 * Whoever takes the state from OFF to STARTING, or is the first to notice that the process is a forked child, may
 * change what is below. */
struct recording {
    struct writer writer;
    struct lane_registry *registry;
    uint32_t number; /* of the recording, from 1; lanes of an earlier one are begun anew */
};

extern struct recording recording;

/* Whether the calling thread, whose lane this is, can record an event without anything to be done before: nearly always. A
 * thread without a cache that is followed asks with each event. */
static inline bool recording_has_room(struct malloctape_lane *lane)
{
    if (lane->units.head < lane->units.limit) return true;
    if (lane->units.cache || lane->record.busy || lane->registry.recording != recording.number ||
        !malloctape_lane_has_room(lane) ||
        atomic_load_acquire(&malloctape_state) != MALLOCTAPE_RECORDING)
        return false;
    lane->record.unrecorded = 0;
    return true;
}

/* --- of record.c; the calling thread owns the lane, which is marked busy --- */

/* Gives the lane a new slot. False: recording has ended. */
bool record_take_slot(struct malloctape_lane *lane);

/* The lane's thread is recorded, and may go onto the hot path unless nobody may or nothing is recorded any more. The lane has
 * room. */
void record_enable_fast_path(struct malloctape_lane *lane);

/* Records that the lane's thread begins, and before that, if it is `continued`, that the thread before has ended:
 * now, or when the lane gets a slot. */
void record_thread(struct malloctape_lane *lane, bool continued);

/* An event found no slot; does nothing if that is because recording ends. */
void record_loss(struct malloctape_lane *lane);

/* Before the first event of a recording. */
void record_begin(void);

/* --- of capture.c --- */

/* Begins a recording, ends it, or makes a pause. 0 or a negative errno: -EBUSY when the state is another one, or as
 * of writer_start(). `output` NULL: as the environment said at the start. Any thread, but not inside a call of the
 * allocator. */
int recording_begin(const char *output);
int recording_end(void);
int recording_pause(void);
int recording_resume(void);

/* Returns when all that was recorded before is in the output. */
int recording_sync(void);

struct recording_status {
    bool is_recording;
    bool is_paused;
    struct writer_totals totals; /* of this recording or the latest */
    const char *output;          /* empty: there has been none */
};
void recording_look(struct recording_status *status);

/* Whether a writer thread is running. */
bool recording_has_writer(void);

/* Ends the recording, if this process has one, because the process ends. Any thread, also in a signal handler. */
void recording_end_at_exit(void);

/* The same before an exec. What a forked child has recorded is removed, if it is but little: it belongs to no
 * program of its own. Returns whether there was a recording. */
bool recording_end_at_exec(void);

/* After an exec that has failed: what comes now is a recording of its own, if that can have a name of its own. */
void recording_go_on_after_exec(void);

/* The calling thread is about to lose rights that the writer's beginning needs. A forked child that
 * is to be recorded begins now. */
void recording_needs_writer(void);

/* A filter of system calls is about to come over all threads of the process: no thread of ours is
 * left. */
void recording_end_for_filter(void);

/* Whether this process, and not one that forked it or shares its memory, has begun the recording. */
bool recording_is_own(void);

/* An error has ended the writer: from now on the program goes past the capture core. */
void recording_stop(void);

#endif
