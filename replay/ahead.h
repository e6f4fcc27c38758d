/* ahead - reads and decodes the stream in a process of its own, beside the replay.
 *
 *   child:   input --> instruction_reader --> slot, slot, slot, slot --> parent: engine
 *
 * It is a process, not a thread. With a second thread an allocator takes other paths (glibc's
 * malloc locks), and the thread's own memory would come from the allocator under test. The child
 * shares only the slots, so its buffers and tables are not in the parent's memory. _Fork() makes
 * it, so no fork handler of the allocator runs.
 *
 * Two semaphores count the slots that are filled and those that are free. The parent notices a
 * child that dies. With one processor, or where no child can be made, the parent reads by itself
 * between batches.
 *
 * The child opens the stream, too, so that nothing is decoded in the parent. The parent's reader is
 * a copy of the child's as it was after the latest batch: its fields may be read, but only the
 * child may call the reader's functions. */
#ifndef MALLOCTAPE_REPLAY_AHEAD_H
#define MALLOCTAPE_REPLAY_AHEAD_H

#include <sys/types.h>

#include "stream/instruction_reader.h"

/* The more slots, the less often each side sleeps; but they count as memory of the replay. A batch
 * with indices takes about 50 KiB, one with registers 256. */
#define AHEAD_SLOTS           16u
#define AHEAD_SLOTS_REGISTERS 4u

struct ahead_shared;

struct ahead {
    struct input input;
    struct instruction_reader reader;
    struct ahead_shared *shared; /* NULL: no child */
    size_t shared_bytes;
    pid_t child;    /* 0: it has ended and been waited for */
    int killed_by;  /* the signal that ended it before it was done; 0: none */
    uint32_t slots; /* in use */
    uint32_t taken;
    uint64_t file_offset; /* in the input, after the latest batch */
};

/* Opens a stream (input_open()), with a child if there can be one. `indices`: batches name objects
 * by index instead of by register. False: see reader.state and reader.error. */
bool ahead_open(struct ahead *ahead, const char *path, bool indices);

/* As instruction_reader_next(). The batch is valid until the next call. */
bool ahead_next(struct ahead *ahead, struct instruction_batch *batch);

/* Ends the child, whatever it does, and waits for it, so that its processor time is counted. */
void ahead_end(struct ahead *ahead);

/* Unmaps what the reader refers to. Only after ahead_end(). */
void ahead_close(struct ahead *ahead);

#endif
