/* recording - what the two halves of the capture core have in common.
 *
 *   capture.c   the life of a recording and of the threads in it
 *   record.c    its events, where they are not written by the inline functions of capture.h */
#ifndef MALLOCTAPE_RECORDING_H
#define MALLOCTAPE_RECORDING_H

#include "capture.h"
#include "lane.h"
#include "writer.h"

struct recording {
    struct writer writer;
    struct lane_registry *registry;
};

extern struct recording recording;

/* --- of record.c; the calling thread owns the lane, which is marked busy --- */

/* Gives the lane a new slot. False: recording has ended. */
bool record_take_slot(struct malloctape_lane *lane);

/* Records that the lane's thread begins, or that its former thread has ended. The lane has room. */
void record_thread_begin(struct malloctape_lane *lane, int thread_id);
void record_thread_end(struct malloctape_lane *lane);

/* --- of capture.c --- */

/* An error has ended the writer: from now on the program goes past the capture core. */
void recording_stop(void);

#endif
