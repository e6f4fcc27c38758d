/* ahead - reads and decodes the stream in a process of its own, beside the replay.
 *
 *   child:   input --> instruction_reader --> slot, slot, slot, slot --> parent: engine
 *                                             ^--------- released ----------+
 *
 * A process, not a thread: where there is a second thread allocators take other paths (glibc's
 * malloc then locks), and the thread itself would come from the allocator under test. The child
 * shares the slots and nothing else, so that what it keeps about live objects is not in the
 * parent's memory either. It is made by _Fork(): no handler of the allocator runs.
 *
 *   released <= taken <= produced <= released + slots      each counts batches, and only grows
 *
 * `produced` is the child's, `released` the parent's; whoever has to wait sleeps on the other's
 * counter, and is woken for several batches at once. A child that dies is noticed. Where only one
 * processor may be used, or there can be no child, the parent reads by itself, in between.
 *
 * Once the child runs, the reader and its input are the child's; the parent's copy of the reader
 * shows, after each ahead_next(), what the child's did after it had read that batch: totals, state,
 * error, end_status, objects.bytes and objects.peak_bytes. */
#ifndef MALLOCTAPE_REPLAY_AHEAD_H
#define MALLOCTAPE_REPLAY_AHEAD_H

#include <sched.h>
#include <sys/types.h>

#include "postprocess/instruction_reader.h"

/* The more slots, the less often each side sleeps; but they count as memory of the replay. A batch
 * with indices takes about 50 KiB, one with registers 256. */
#define AHEAD_SLOTS           16u
#define AHEAD_SLOTS_REGISTERS 4u

struct ahead_shared;

struct ahead {
    struct instruction_reader *reader;
    struct ahead_shared *shared; /* NULL: no child */
    pid_t child;                 /* 0: it has ended and been waited for */
    uint32_t slots;              /* in use */
    uint32_t taken;
    uint64_t file_offset; /* in the input, behind the latest batch */
};

/* `reader` has been opened. `indices`: whether it was told to use them. `cpus`: where the child
 * may run. Always works: without a child if need be. */
void ahead_open(struct ahead *ahead, struct instruction_reader *reader, bool indices,
                const cpu_set_t *cpus);

/* As instruction_reader_next(). The batch is valid until the next call. */
bool ahead_next(struct ahead *ahead, struct instruction_batch *batch);

/* Ends the child, whatever it does, and waits for it, so that its processor time is counted. */
void ahead_close(struct ahead *ahead);

#endif
