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

#include "../stream/chunk.h"
#include "lane.h"
#include "message.h"
#include "os.h"
#include "output.h"
#include "sink.h"
#include "spool.h"
#include "watch.h"

/* Looks at memory cost up to 20 us. A short program has a curve, too, if the first ticks all have
 * one; later every tenth has. */
#define WRITER_TICK_NS                  UINT64_C(10000000)
#define WRITER_TICKS_THAT_LOOK          100
#define WRITER_TICKS_PER_MEMORY_LOOK    10
/* So long without an event is told apart from what comes behind it. */
#define WRITER_QUIET_NS                 UINT64_C(100000000)
/* What has been recorded goes to the sink at the latest after so many ticks, for readers of a
 * pipe. */
#define WRITER_TICKS_PER_FLUSH          10
/* Lanes in which nothing happens are asked whether their thread still lives. */
#define WRITER_WINDOWS_PER_THREAD_LOOK  16
/* The writer asks as often whether all threads of the program have gone; that costs a system call
 * or two. */
#define WRITER_WINDOWS_PER_PROCESS_LOOK 16
/* A stream with fewer is small. */
#define WRITER_DISCARDED_EVENTS         4096
/* Slots in the sink but not yet given back, at most. */
#define WRITER_PENDING_SLOTS            128

/* A thread that is to lose rather than wait gives the spool so long to grow. */
#define WRITER_LOSES_AFTER_NS UINT64_C(5000000)

/* No recording with so much metadata is shorter. */
uint64_t writer_bytes_min(size_t metadata_bytes);

enum writer_status { WRITER_STARTING = 0, WRITER_PUT_ASIDE, WRITER_RUNNING, WRITER_FAILED };

enum writer_stage {
    WRITER_NONE = 0,
    WRITER_DEFERRED,
    WRITER_BEGINNING,
    WRITER_BEGUN,
    WRITER_NEVER
};

struct writer {
    /* From one recording of the process to the next. */
    struct spool spool;
    struct os_thread thread;

    /* Given at the start; and the settings are. */
    const char *output; /* without letters after % (output.h) */
    uint8_t recording_id[RAW_RECORDING_ID_BYTES];
    int process_id;
    struct lane_registry *registry;
    uint32_t features;          /* of the stream: RAW_FEATURE_... */
    bool may_defer;             /* the beginning of the thread */
    bool (*is_abandoned)(void); /* the program has ended without a word */
    void (*ends)(
        void); /* called when the writer ends the recording by itself: threads are to stop */

    /* Between the threads and the writer. */
    uint32_t stage;       /* of the thread: enum writer_stage */
    uint32_t status;      /* enum writer_status; the starter waits on it */
    uint32_t asleep;      /* 1 while the writer sleeps; whoever takes it to 0 wakes it */
    uint32_t finish;      /* set: end the stream */
    uint32_t space_epoch; /* changes when slots have been given back */
    uint32_t waiters;     /* threads that wait on space_epoch */
    uint32_t starved;     /* a thread found no slot since the last pass */
    uint32_t cannot_grow; /* the spool, when it was last tried */
    uint32_t look_wanted; /* the front end is to be asked how large the heap is (capture.h) */
    uint32_t discard;     /* remove the stream when it has ended, if it is small */
    uint32_t sync_wanted; /* counts wishes that everything so far be in the output */
    uint32_t sync_done;   /* wishes fulfilled */
    uint32_t done;        /* the writer has ended */
    uint64_t waits;       /* times a thread waited, and for how long in all */
    uint64_t waited_ns;
    uint64_t ns_of_2_32_cycles; /* of the processor's clock; 0 before the first tick */
    struct watch watch;
    uint32_t killed_reported; /* that somebody else has ended the thread */
    uint64_t lost_events;     /* of threads that found no lane, as there were too many */

    /* The writer's own. */
    enum raw_end_status end_status;
    bool is_full; /* the limit of bytes has kept something out of the stream */
    struct output_files files;
    struct sink sink;
    struct packer packer;
    /* What is being written: a copy, as a fault puts zeros in place of the slot. */
    struct {
        struct spool_segment segment;
        size_t before; /* units of the segment that come before these */
        uint16_t units[SPOOL_SLOT_UNITS];
    } taken;
    uint32_t pending[WRITER_PENDING_SLOTS]; /* slots in the sink */
    uint32_t pending_count;
    uint64_t start_ns, start_cycles;
    uint64_t next_tick_ns;
    uint64_t sleep_ns;
    uint64_t ticks;    /* written */
    uint64_t windows;  /* closed, those without a tick included */
    uint64_t quiet_ns; /* when the latest one closed, if nothing has been written since */
    uint64_t next_process_look;
    struct os_usage usage_before; /* when recording began */
    struct raw_tick tick;         /* the latest; its memory is that of the latest look */
    uint64_t vm_size_bytes;       /* by the latest look */
    int statm;
    uint64_t events;    /* in the stream, exactly: when it has ended */
    const char *reason; /* why it ends before the program, if that is no error; or NULL */
    int error;          /* negative errno that ended recording */
    const char *failed; /* what it concerned: a path */
};

/* Before a start: forgets the recording before, whose writer has ended. */
void writer_reset(struct writer *writer);

/* In a forked child: forgets the parent's. */
void writer_forget(struct writer *writer);

/* Opens the output; the thread has begun, unless that may be deferred. 0 or a negative errno, and a
 * line on standard error says what is wrong. */
int writer_start(struct writer *writer);

/* Begins the writer's thread, if that was deferred and this is the process that is recorded, not a
 * child that shares its memory. writer_need_now() also waits until it has
 * opened its files. Any thread; keeps errno. */
void writer_need(struct writer *writer);
void writer_need_now(struct writer *writer);

/* Whether the thread has ended, or somebody has ended it: then it is not heard of again. */
bool writer_is_gone(const struct writer *writer);

/* A line on standard error, once, if somebody has ended the thread. Any thread. */
void writer_report_killed(struct writer *writer);

/* Cycles of the processor's clock (rdtsc), as nanoseconds. Any thread of a recording. */
uint64_t writer_cycles_ns(const struct writer *writer, uint64_t cycles);

/* What is recorded just now; from now on for a while the thread counts it. Any thread. */
void writer_watch(struct writer *writer, struct watch_counts *counts);

/* Asks the thread to end the stream; `done` tells when it has. May be called more than once. */
void writer_ask_end(struct writer *writer);

/* Waits until all that was recorded before the call is in the output, or the writer has ended. */
void writer_sync(struct writer *writer);

/* What it did so far, as one line tells it. */
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

#endif
