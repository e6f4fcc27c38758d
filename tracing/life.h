/* life - a recording begins; what the process does to it. In capture.c. */
#ifndef MALLOCTAPE_LIFE_H
#define MALLOCTAPE_LIFE_H

#include <stdbool.h>

/* Reads the environment once, as soon as there is one. Begins the recording that it asks for. */
void recording_decide(void);

/* Begins a recording. 0 or a negative errno: -EBUSY when the state is not OFF, or as of
 * writer_start(). `output` NULL: as the environment said at the start. Any thread, but not inside a
 * call of the allocator. */
int recording_begin(const char *output);

/* Ends the recording, if there is one, and begins another into a file that was not there. */
int recording_reset(const char *output);

/* Before an exec: ends the recording, if this process has one. What a forked child has recorded is
 * removed if it is little, because it belongs to no program of its own. Returns whether there was a
 * recording. */
bool recording_end_at_exec(void);

/* After an exec that has failed: what comes now is a recording of its own, if that can have a name
 * of its own. */
void recording_go_on_after_exec(void);

/* The calling thread is about to lose rights that the writer's beginning needs. A forked child that
 * is to be recorded begins now. */
void recording_needs_writer(void);

/* A filter of system calls is about to come over all threads of the process: no thread of ours is
 * left. */
void recording_end_for_filter(void);

#endif
