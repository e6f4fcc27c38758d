/* state - all that a process has in memory for its recording.
 *
 *   recording --> registry --> lane 0, lane 1, ...     one for each thread; malloctape_lane: its own
 *             |                  | cursor: the next unit
 *             |                  v
 *             --> writer --> spool --> slot, slot, ...  units in a shared file (FORMAT.md 8)
 *                   | reads them up to the cursors
 *                   v
 *                 sink --> output
 *
 * The comment on each field says who writes it, when, and who else reads it:
 *
 *   thread     the thread that has the lane, the only one that records there: from lane_claim() to
 *              lane_end(), and after that for as long as it runs
 *   writer     the writer thread, or whoever makes a pass in its place (os_call_apart())
 *   beginner   whoever took the recording's state from OFF to STARTING; nobody records then
 *
 * and where more than one thread accesses a field, with which memory order:
 *
 *   relaxed    a number or a flag that stands alone: a reader may see an old value
 *   release    what was stored before it is visible to whoever loads the field with acquire
 *   seq_cst    two fields, each stored by one side and read by the other: at least one side sees
 *              the other's store
 *
 * A field without an order is accessed by its writer alone, or does not change while others read
 * it.
 *
 * Two release stores carry the stream. A thread stores the units of a record, then the cursor
 * (release): everything below the cursor is whole records. When it leaves a slot, it stores the
 * slot's count, then the number of the next slot (release): from then on the slot is the
 * writer's. */
#ifndef MALLOCTAPE_STATE_H
#define MALLOCTAPE_STATE_H

#include "common/atomic.h"
#include "stream/cell.h"
#include "stream/pack.h"
#include "stream/spool_format.h"
#include "stream/units.h"
#include "tracing/data/output_files.h"
#include "tracing/data/sink.h"
#include "tracing/data/watch.h"
#include "tracing/os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing here is visible outside the library. */
#pragma GCC visibility push(hidden)

/* ---- a lane: the events of one thread, and of threads that continue it ----
 *
 *   units      units.[ch]      how events are encoded in the slot's units; the fast path
 *   slot       slot.c          the slot, and events that found none
 *   registry   lane.c          whose lane it is
 *   stacks     stack_sample.c  which calls have stacks
 *   writer     writer_slots.c  how far the stream has got
 *
 * A forked child finds all of it zero: the cursor is then not below the limit, so the thread leaves
 * the fast path with its first call. */

struct slot_lane {
    /* Thread (release): it takes a slot, so a nested call takes none and is not recorded. The next
     * beginner reads it (acquire). */
    uint8_t busy;
    /* Thread: in a call that is not recorded; nothing in the stream may be for it. */
    uint8_t unrecorded;
    /* Which slot of the spool. Thread, when it takes one; the writer, once the thread is gone. */
    uint32_t number;
    /* Thread, with each slot: its first unit, the last position at which an event still fits (NULL:
     * there is no slot), and the end of its units. */
    uint16_t *start, *room, *end;
    /* Thread: events lost since the last record of a loss; and in total (relaxed), which the writer
     * reads (relaxed). */
    uint64_t lost_events, lost_events_total;
    /* Thread: how many slots it has had; and how many it must have had until its cache is followed
     * again, after a loss. */
    uint64_t count, count_to_follow;
    /* Thread, or the writer when that has gone: units in the slots before this one. */
    uint64_t earlier_units;
    /* Thread: the record of its beginning is yet to be written; 2: and before it that of the end of
     * the thread before. */
    uint32_t unbegun;
};

/*   UNUSED --a thread begins--> LIVE --its destructors have run--> ENDING --its id is gone--+
 *                                ^                                                          |
 *                                +---------------- another thread continues it -------------+
 *
 * Whoever swaps ENDING or LIVE for TAKEN has the lane until it stores the next state (release). */
enum lane_state { LANE_UNUSED = 0, LANE_LIVE, LANE_ENDING, LANE_TAKEN };

struct registry_lane {
    uint32_t number;      /* once, by the first thread: of this lane */
    int32_t thread_id;    /* who has taken the lane, before LIVE; read in any state but UNUSED */
    uint32_t state;       /* enum lane_state, by compare-and-swap */
    uint32_t exit_rounds; /* thread: how often its destructor has run */
    uint32_t ended;       /* who has taken the lane: the record of the thread's end is written */
    uint32_t recording;   /* thread, with its first event: the recording to which the rest belongs;
                             0: none yet */
};

/* Thread: stack_sample.c, stacks.c. */
struct stack_lane {
    /* The thread is finding a stack (release), so a nested call gets none. The next beginner reads
     * it (acquire): what the thread reads meanwhile is about to be released. */
    bool busy;
    bool is_due;         /* the call that is being recorded gets one */
    uint64_t units_left; /* before the next chosen one, from the beginning of the slot */
    uint64_t bytes_left; /* the same, of calls that are too large for the fast path */
    uint64_t random;
    struct stack_walk *walk; /* NULL: none has been found yet */
};

struct writer_lane {
    uint32_t read_slot;  /* thread, with its first slot, before the cursor; then the writer: the
                              slot that is being written */
    uint16_t *read_from; /* the same: the next unit to write */
    const uint16_t *tick_cursor; /* writer: where the thread was at the latest tick; NULL: in no
                                    slot */
    uint64_t written;           /* writer: units that are in the stream; others read it (relaxed) */
    struct pack_lane *followed; /* writer */
    bool left;                  /* writer: no longer followed, and nothing was written since */
};

struct malloctape_lane {
    struct units_lane units; /* thread, but for `limit`: others store 0 there, and the thread leaves
                                the fast path (relaxed, and a full fence on both sides) */
    struct slot_lane slot __attribute__((aligned(64)));
    struct registry_lane registry;
    struct writer_lane writer;
    struct stack_lane stacks;
    /* Thread (release), read by the writer (relaxed): calls that free NULL, and those that ask how
     * large an object is. Threads without a lane count the second in recording_no_lane. */
    uint64_t null_frees, sizes_asked;
} __attribute__((aligned(128)));

/* Lanes come from the system in blocks of this many. */
#define LANE_BLOCK 64u

struct lane_registry {
    uint32_t present;     /* 0 in a forked child, whose first thread stores 1 */
    uint32_t used;        /* threads, by compare-and-swap (release): lanes 0 .. used-1 have begun */
    uint32_t ending;      /* lanes in state ENDING, approximately (relaxed) */
    uint32_t ending_from; /* where to look for one next (relaxed) */
    /* A bit for each lane whose thread has left a slot; the writer takes them (relaxed: `next` of the
     * slot tells it, and what is found late comes with the window). */
    uint64_t left_slots[RAW_LANES_MAX / 64];
    struct malloctape_lane *blocks[RAW_LANES_MAX / LANE_BLOCK]; /* each once, by swap */
};

/* Lane `number`, which is below registry->used. */
static inline struct malloctape_lane *lane_at(const struct lane_registry *registry, uint32_t number)
{
    return &atomic_load_relaxed(&registry->blocks[number / LANE_BLOCK])[number % LANE_BLOCK];
}

#define MALLOCTAPE_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* This thread's lane; never NULL. A thread that does not record has a lane without room: its own
 * from an earlier recording, or recording_no_lane, which all other such threads share. */
extern MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane;
extern struct malloctape_lane recording_no_lane;

/* ---- slots ----
 *
 *   free --take--> a thread fills it --next--> ... --in the sink--> written out --give--> free
 *
 * Invariant   mapped slots == free + held by lanes + in the sink but not yet written
 * Ownership   a slot belongs to the thread that took it, and to the writer once its note names the
 *             next slot of the lane, or once the writer has taken over a lane without a thread
 *             (retire_lane()). Before that, the writer may read what lies below the cursor. */

/* 16 KiB: 8 160 units. Large enough that taking a slot does not show, small enough that several
 * stay in the second-level cache. */
#define SPOOL_SLOT_BYTES   16384u
#define SPOOL_SLOT_UNITS   ((SPOOL_SLOT_BYTES - SPOOL_SLOT_HEADER_BYTES) / 2)
/* The file grows by 1 MiB at a time, one system call's worth, when threads find no free slot. */
#define SPOOL_EXTENT_SLOTS 64u
#define SPOOL_EXTENT_BYTES ((size_t)SPOOL_EXTENT_SLOTS * SPOOL_SLOT_BYTES)
/* How far threads may be ahead of the writer, beyond one slot each: 64 MiB. Together with one slot
 * for each of RAW_LANES_MAX lanes, that is the largest spool. */
#define SPOOL_SLOTS_AHEAD  4096u
#define SPOOL_SLOTS_MAX    (RAW_LANES_MAX + SPOOL_SLOTS_AHEAD)
#define SPOOL_EXTENTS_MAX  (SPOOL_SLOTS_MAX / SPOOL_EXTENT_SLOTS)
#define SPOOL_NO_SLOT      UINT32_MAX

/* What is known of a slot but not stored in the file. */
struct spool_note {
    uint32_t units;       /* whoever leaves the slot, before `next`: how many have been used */
    uint32_t next;        /* thread (release): 1 + its next slot; 0 while this is its latest */
    uint32_t next_free;   /* who gives the slot back (relaxed): 1 + the next free slot */
    uint32_t taken;       /* who takes it and gives it back, by swap: only in builds for tests */
    uint64_t extra_units; /* thread, when it begins the slot: those of the lane before it */
};

/* Mappings (FORMAT.md 4.5) go through cells, which all threads share: 128 KiB, some thousand calls
 * between two passes of the writer.
 *
 *   taken        read            freed
 *     |            |               |
 *     threads ---> the sink -----> the file has it: the cell may be used again
 *
 * Invariant   freed <= read <= taken <= freed + SPOOL_CELLS, but for threads that wait
 *
 * A thread may be late: it maps in one recording, and comes here in the next one. `taken` also says
 * the recording, in its upper bits, 0 between two. Whoever began in another one gets no cell; and as
 * long as anybody is between the beginning and the end of a mapping, the next recording does not use
 * the memory of these cells again. */
#define SPOOL_CELLS             1024u
#define SPOOL_CELLS_BYTES       ((size_t)SPOOL_CELLS * SPOOL_CELL_BYTES)
#define SPOOL_CELLS_NUMBER_BITS 40
struct spool_cells {
    struct cell_ring ring; /* writer, before `taken`; its words again for the next file. NULL in a
                              forked child */
    uint64_t taken; /* threads, by compare-and-swap (acq_rel); for the next recording, the writer */
    uint32_t users; /* threads, by addition (seq_cst): they record a mapping */
    uint64_t read;  /* writer (relaxed): those up to this number are in the sink, */
    uint64_t freed; /* writer (release): and in the file */
    uint64_t lost;  /* threads (relaxed): mappings that found no cell in time */
    uint64_t lost_said;       /* writer: of them */
    uint64_t limit;           /* writer: those up to this number belong to the window that ends */
    uint64_t stuck, stuck_ns; /* writer: the cell that is not complete, and since when */
    bool is_last;             /* writer: this is the last window, nobody is waited for any more */
    uint32_t wanted;          /* threads (seq_cst): one waits for cells, or will soon */
    uint64_t late;   /* threads (relaxed): `freed`, plus 1, when one had waited for too long */
    uint64_t mapped; /* threads, by addition (relaxed): bytes that can be written */
    uint32_t stacks; /* threads, by addition (relaxed): in this window; the writer resets it */
};

/* `taken` before the first cell of the recording with this number. */
static inline uint64_t spool_cells_first(uint32_t of_recording)
{
    return (uint64_t)of_recording << SPOOL_CELLS_NUMBER_BITS;
}

static inline uint64_t spool_cells_taken(const struct spool_cells *cells)
{
    return atomic_load_acquire(&cells->taken) & ((UINT64_C(1) << SPOOL_CELLS_NUMBER_BITS) - 1);
}

/* Where pages have been without any access, as bits by a part of the address: what makes them
 * accessible is recorded. Another call there may be, too, which does no harm. Threads and the writer,
 * by or (relaxed). */
#define NO_ACCESS_SHIFT 21
#define NO_ACCESS_BITS  4096u
extern uint64_t no_access_bits[NO_ACCESS_BITS / 64];

static inline bool no_access_at(uintptr_t address, size_t length, bool set)
{
    const uintptr_t first = address >> NO_ACCESS_SHIFT;
    const uintptr_t last = (address + length) >> NO_ACCESS_SHIFT;
    for (uintptr_t at = first; at <= last && at - first < NO_ACCESS_BITS; at++) {
        uint64_t *word = &no_access_bits[at % NO_ACCESS_BITS / 64];
        const uint64_t bit = UINT64_C(1) << at % 64;
        if (set)
            atomic_or_relaxed(word, bit);
        else if (atomic_load_relaxed(word) & bit)
            return true;
    }
    return false;
}

struct spool {
    struct spool_cells cells;
    uint8_t *extents[SPOOL_EXTENTS_MAX]; /* writer: mapped one by one, and again for the next file;
                                            threads learn of a slot by the free list */
    struct spool_note *notes;
    uint64_t free_head;  /* a stack, by compare-and-swap (acquire to take, release to give): change
                            count in the upper half, 1 + slot in the lower */
    uint32_t free_count; /* whoever takes or gives one (relaxed), approximately */
    uint32_t mapped;     /* writer: slots */
    int file;            /* in the writer's descriptor table */
};

/* ---- the writer ---- */

/* When and at what cost it has looked at what is resident (writer_residency.c). Writer. */
struct residency_looks {
    int maps, smaps, pagemap; /* files of /proc; negative: they cannot be opened */
    uint8_t *memory;          /* for the text of one, and what becomes of it; NULL: none yet */
    uint64_t peak_bytes;      /* RSS at the highest peak that was looked at */
    uint64_t latest_ns;       /* when it looked, since the start, */
    uint64_t spent_ns;        /* how long that has taken in all, */
    uint64_t brief_ns;        /* the latest without details, */
    uint64_t ns_per_mib;      /* and the latest with details, by MiB of RSS; 0: not known */
    uint64_t shared_bytes;    /* what of RSS is of files or of shared memory, as the kernel says, */
    uint64_t known_bytes;     /* and when it looked through the areas of files that are */
    uint32_t known;           /* in `memory`: so many */
    bool is_refused;          /* that was told */
};

/* Slots in the sink but not yet given back, at most. */
#define WRITER_PENDING_SLOTS 128

/* State of its output. DEFERRED: the files are open, for a thread that begins later. */
enum writer_status { WRITER_STARTING = 0, WRITER_DEFERRED, WRITER_RUNNING, WRITER_FAILED };

/* State of its thread. Whoever swaps DEFERRED for BEGINNING starts it. */
enum writer_stage {
    WRITER_THREAD_NONE = 0,
    WRITER_THREAD_DEFERRED,
    WRITER_THREAD_BEGINNING,
    WRITER_THREAD_BEGUN,
    WRITER_THREAD_NEVER
};

struct writer {
    /* Kept from one recording of the process to the next. */
    struct lane_registry *registry; /* beginner, once (release): any thread may ask for totals */
    struct spool spool;
    struct os_thread thread;

    /* Beginner. The writer also reads `settings`. */
    const char *output; /* without letters after % (output.h); the writer may choose the next one */
    uint8_t recording_id[RAW_RECORDING_ID_BYTES];
    int process_id;
    uint32_t features; /* of the stream: RAW_FEATURE_... */
    bool may_defer;    /* the beginning of the thread */
    bool begins_again; /* who was to open the files in the thread's place has not come to its end */
    bool (*is_abandoned)(void); /* the program has ended without a word */
    void (*ends)(void);         /* the writer ends the recording by itself: threads are to stop */

    /* Shared by the threads and the writer. */
    uint32_t stage;       /* enum writer_stage (release) */
    uint32_t status;      /* writer (release): enum writer_status; the beginner waits for it */
    uint32_t asleep;      /* writer (seq_cst): 1 while it sleeps; whoever exchanges it (seq_cst) for
                             0 wakes it */
    uint32_t finish;      /* any thread (seq_cst): end the stream */
    uint32_t space_epoch; /* writer (seq_cst): changes when slots have been given back */
    uint32_t waiters;     /* threads that wait for that (seq_cst) */
    uint32_t starved;     /* threads (seq_cst): one found no slot since the last pass */
    uint32_t cannot_grow; /* writer (relaxed): the spool, when it was last tried */
    uint32_t look_wanted; /* writer (relaxed): a thread is to ask the allocator how large its heap
                               is; that thread takes it back */
    uint32_t discard;     /* any thread (release): remove the stream at its end, if it is small */
    uint32_t at_exec;     /* any thread (release): another program is about to run in the process */
    uint32_t sync_wanted; /* any thread (seq_cst): how many requests to bring all into the output */
    uint32_t sync_done;   /* writer (release): requests fulfilled */
    uint32_t done;        /* the thread has ended (release) */
    uint64_t waits;       /* threads (relaxed): how often one waited, and for how long in all */
    uint64_t waited_ns;
    uint64_t ns_of_2_32_cycles; /* writer (relaxed): of the processor's clock; 0 before a tick */
    struct watch watch;         /* watch.h */
    uint32_t killed_reported;   /* any thread, by swap: that somebody else has ended the thread */
    uint64_t lost_events;       /* threads (relaxed) that found no lane, as there were too many */

    /* An error that ends the recording: a negative errno, and what it concerns, a path. Any thread;
     * `failed` before `error` (release). Whoever reads a slot checks `error` afterwards, behind a
     * fence (acquire): after a fault, the slot may hold zeros. */
    int error;
    const char *failed;

    /* Writer. */
    enum raw_end_status end_status;
    bool is_full; /* the limit of bytes has kept something out of the stream */
    bool is_told; /* that the recording has begun */
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
    uint64_t next_look_ns; /* before this, ticks repeat the system's last answers */
    uint64_t sleep_ns;
    uint64_t ticks;    /* written */
    uint64_t windows;  /* closed, those without a tick included; read by who watches (relaxed) */
    uint64_t quiet_ns; /* when the latest one closed, if nothing has been written since */
    uint64_t next_process_look;
    struct os_usage usage_before; /* when recording began */
    struct raw_tick tick;         /* the latest; its memory is that of the latest look */
    /* As of the latest look. */
    uint64_t rss_shared_bytes, vm_size_bytes, null_frees, sizes_asked;
    int statm;
    struct residency_looks residency;
    uint64_t events;    /* in the stream, exactly: when it has ended */
    const char *reason; /* why it ends before the program, if that is no error; or NULL */
};

/* ---- the recording ----
 *
 * A process can have one recording after another, but one at a time:
 *
 *   OFF --begin--> STARTING --> RECORDING <--> PAUSED
 *    ^                              |            |
 *    +-------- writer has ended -- ENDING <------+
 *
 * Whoever takes the state from OFF to STARTING, or is the first to notice that the process is a
 * forked child, may change what is below. */

enum malloctape_state {
    MALLOCTAPE_UNDECIDED = 0, /* the environment has not been read yet */
    MALLOCTAPE_OFF,
    MALLOCTAPE_RECORDING,
    MALLOCTAPE_ENDING,   /* the writer is finishing the stream; nothing is recorded any more */
    MALLOCTAPE_STARTING, /* nothing is recorded yet */
    MALLOCTAPE_PAUSED    /* nothing is recorded for a while */
};

/* By compare-and-swap (seq_cst). */
extern uint32_t malloctape_state;

/* Somebody has asked for a recording, or can from outside (relaxed). */
extern uint32_t malloctape_may_begin;

struct recording {
    struct writer writer;
    struct lane_registry *registry; /* once (release): of the first one that has begun */
    bool could_not_begin;           /* the latest try (relaxed) */
    uint64_t stacks_every_bytes; /* beginner: from one call stack to the next; 0: there are none */
    bool frees_have_stacks;      /* the same: each free has its stack, not only some */
    uint32_t number;       /* of the recording, from 1; lanes of an earlier one are begun anew */
    bool fast_path_is_off; /* any thread (relaxed): malloctape_disable_fast_path() */
    bool out_of_memory;    /* the same: malloctape_out_of_memory(), in this recording */
    uint64_t off_since_ns; /* who turns it off (relaxed): when the latest recording ended */
    uint64_t sequences[RAW_STRUCTURES]; /* the latest of each, under the lock of the structure */
};

extern struct recording recording;

/* The thread that carries out requests from outside (control.c); a forked child has none. */
struct control {
    struct os_thread thread;
    bool running;    /* has begun */
    uint32_t done;   /* the thread has ended (release) */
    uint32_t finish; /* it is to end (relaxed) */
};

extern struct control control;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
