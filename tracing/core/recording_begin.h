/* recording_begin - how a recording begins, and what the process does to it before: fork, and what
 * takes from it what our threads need. How it goes on and ends stands in recording.h. */
#ifndef MALLOCTAPE_RECORDING_BEGIN_H
#define MALLOCTAPE_RECORDING_BEGIN_H

#include "tracing/os/os.h"

#include <stdbool.h>

/* Whether all threads of the process have ended but those of ours. */
bool recording_is_abandoned(void);

/* Reads the environment once, as soon as there is one. Begins the recording that it asks for. */
void recording_decide(void);

/* The library has been loaded into a process that runs: from now on recordings may begin, whose
 * metadata say so. `given`: settings_attach(). 1 if the control thread runs, and nothing has
 * changed; 0 if the caller is to begin it; or a negative errno value. */
int recording_attach(const char *given);

/* Begins a recording. 0 or a negative errno: -EBUSY when the state is not OFF, or that of
 * writer_start(). `output` NULL: as the environment said at the start. Any thread, but not inside a
 * call of the allocator. */
int recording_begin(const char *output);

/* The same into files that are open, which stay the caller's. `name` is what is told of them. */
int recording_begin_given(const char *name, const struct os_files *files);

/* Ends the recording, if there is one, and begins another into a file that was not there. */
int recording_reset(const char *output);

/* The calling thread is about to lose rights that the writer's beginning needs. A forked child that
 * is to be recorded begins now. */
void recording_needs_writer(void);

/* A filter of system calls is about to apply to all threads of the process: ends those of ours. */
void recording_end_for_filter(void);

/* The program needs to be the only thread of its process: ends our threads, if there are no others.
 * Returns whether that was so. */
bool recording_end_to_be_alone(void);

/* The first call of the allocator in a forked child: its memory is like that of a process that has
 * not recorded yet. */
void recording_notice_fork(void);

/* Whether this process forked from one that recorded, and has gone on without exec. */
bool recording_is_forked(void);

#endif
