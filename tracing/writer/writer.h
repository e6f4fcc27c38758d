/* writer - the one thread that turns slots into the raw stream.
 *
 *   every pass   for each lane: slots that its thread has left -> chunks -> sink; slots are given
 *                back when the sink has written what came from them
 *   every tick   for each lane: its cursor; then all units up to there; then a tick chunk
 *   at the end   the same once more, then the end chunk
 *
 * The thread may begin only when there is more to do than to fill the first slot: writer_need().
 * When it wakes, and why it is deferred, stands in docs/capture.md. */
#ifndef MALLOCTAPE_WRITER_H
#define MALLOCTAPE_WRITER_H

#include "stream/chunk.h"
#include "tracing/data/message.h"
#include "tracing/data/state.h"

/* Looks at memory cost up to 20 us. A short program has a curve, too, if the first ticks all have
 * one; later every tenth has. */
#define WRITER_TICK_NS                  UINT64_C(10000000)
#define WRITER_TICKS_THAT_LOOK          100
#define WRITER_TICKS_PER_MEMORY_LOOK    10
/* What ticks ask of the system may take one part in so many of a processor's time. Other ticks
 * repeat the answers of the one before. */
#define WRITER_LOOKS_ONE_IN             64
/* After a pause this long without an event, a tick says when it ended. */
#define WRITER_QUIET_NS                 UINT64_C(100000000)
/* What has been recorded is written out after so many ticks at the latest, for readers of a
 * pipe. */
#define WRITER_TICKS_PER_FLUSH          10
/* How often it is checked whether the threads of silent lanes still live. */
#define WRITER_WINDOWS_PER_THREAD_LOOK  16
/* How often, where nothing is recorded, it is checked whether RSS has a new peak. */
#define WRITER_WINDOWS_PER_PEAK_LOOK    4
/* How often it is checked whether all threads of the program have gone; that costs a system call or
 * two. */
#define WRITER_WINDOWS_PER_PROCESS_LOOK 16
/* A stream with fewer events is small. */
#define WRITER_DISCARDED_EVENTS         4096

/* How long a thread that is to lose events rather than wait lets the spool grow. */
#define WRITER_LOSES_AFTER_NS UINT64_C(5000000)

/* The bytes of a recording without metadata and events. */
uint64_t writer_bytes_min(void);

/* Before a start: forgets the recording before, whose writer has ended. */
void writer_reset(struct writer *writer);

/* In a forked child: forgets the parent's. */
void writer_forget(struct writer *writer);

/* Opens the output; the thread has begun, unless that may be deferred. 0 or a negative errno, and a
 * line on standard error says what is wrong. */
int writer_start(struct writer *writer);

/* Begins the writer's thread, if that was deferred and this is the process that is recorded, not a
 * child that shares its memory. writer_need_now() also waits until it has opened its files. Any
 * thread; keeps errno. */
void writer_need(struct writer *writer);
void writer_need_now(struct writer *writer);

/* Whether the thread has ended, or somebody has ended it, without a word of its own. */
static inline bool writer_is_gone(const struct writer *writer)
{
    if (atomic_load_acquire(&writer->done)) return true;
    uint32_t stage = atomic_load_acquire(&writer->stage);
    return stage == WRITER_THREAD_NEVER ||
           (stage == WRITER_THREAD_BEGUN && !atomic_load_acquire(&writer->thread.alive));
}

/* A line on standard error, once, if somebody has ended the thread. Any thread. */
void writer_report_killed(struct writer *writer);

/* Cycles of the processor's clock (arch_clock()), as nanoseconds. Any thread of a recording. */
uint64_t writer_cycles_ns(const struct writer *writer, uint64_t cycles);

/* What is being recorded. From now on the thread counts it for WATCH_WINDOWS. Any thread. */
void writer_watch(struct writer *writer, struct watch_counts *counts);

/* Asks the thread to end the stream; `done` tells when it has. May be called more than once. */
void writer_ask_end(struct writer *writer);

/* Waits until all that was recorded before the call is in the output, or the writer has ended. */
void writer_sync(struct writer *writer);

/* What it has done so far, as the summary tells it. */
struct writer_totals {
    uint64_t events;
    uint64_t bytes;
    uint64_t lost; /* events */
    uint64_t waits;
    uint64_t waited_ns;
};
void writer_look(const struct writer *writer, struct writer_totals *totals);
void writer_put_totals(struct message *message, const struct writer_totals *totals);

/* Ends the recording with an error that another thread found: a negative errno, and what it
 * concerns. Any thread. */
void writer_abort(struct writer *writer, int error, const char *what);

/* An access to the spool has failed. False: this address is elsewhere. Any thread, in a signal
 * handler. */
bool writer_takes_fault(struct writer *writer, uintptr_t address);

/* For a thread that holds no slot: takes one, and waits for the writer where necessary. If events
 * are to be lost instead, it waits only for the spool to grow, and not if it `loses_already`.
 * SPOOL_NO_SLOT: there is none, or recording has ended. */
uint32_t writer_slot(struct writer *writer, bool loses_already);

/* For any thread, which is among the users of the cells: `count` consecutive cells of the recording
 * with this number, at most SPOOL_CELLS_PER_MAPPING, which it must fill at once: the number of the
 * first, and the ring. Waits for the writer where necessary. 0: there are none, or the recording has
 * ended. */
uint64_t writer_cells(struct writer *writer, uint32_t of_recording, uint32_t count,
                      struct cell_ring *ring);

#endif
