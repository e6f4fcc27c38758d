/* order_state - what the parts of the ordering engine share. For postprocess/order*.c only; order.h
 * explains the engine.
 *
 *   order.c          what the caller sees, and the order in which windows are gone through
 *   order_windows.c  windows, and what is done when nothing goes on
 *   order_ahead.c    looks through what lanes have but have not come to
 *   order_lane.c     a lane's turn: its chunks, its records at hand, its part of each window
 *   order_step.c     one step after another is taken, as a whole where that can be
 *   order_take.c     calls become instructions
 *   order_wait.c     who waits for what; sequence numbers
 *
 * A lane is in one of three states:
 *
 *             order_make_ready                its turn comes
 *   LANE_IDLE ----------------> LANE_READY ----------------> LANE_IDLE while it runs, and then
 *   LANE_WAITS ---------------> (in a queue)                   LANE_WAITS  for one thing
 *             order_wake                                       LANE_READY  it could go on
 *                                                              LANE_IDLE   it has no more records
 *
 * Functions that return bool return false when the record at hand cannot be taken: its lane then
 * waits, or order->error is set. */
#ifndef MALLOCTAPE_ORDER_STATE_H
#define MALLOCTAPE_ORDER_STATE_H

#include "postprocess/object_table.h"
#include "postprocess/order_totals.h"
#include "postprocess/overlaps.h"
#include "postprocess/passed.h"
#include "postprocess/placement.h"
#include "stream/raw_decoder.h"
#include "stream/stacks.h"

/* ---- limits ---- */

/* The most records in a step. If a call entered more structures, the other numbers are taken one at
 * a time. */
#define STEP_RECORDS_MAX 12u
/* How many records are decoded at a time, or fewer: most calls are taken without a record. */
#define RECORDS_AT_ONCE  32u
/* With a record that stands for a gap, and a sentinel. */
#define RECORDS_AT_HAND  (STEP_RECORDS_MAX + RECORDS_AT_ONCE + 2)

/* A lane's turn is this part of what it has in the window, and not less than the minimum. */
#define TURNS_PER_WINDOW   16u
#define TURN_RECORDS_MIN   512u
#define TURN_RECORDS_MAX   (1u << 20)
#define TURN_RECORDS_AHEAD 64u /* for lanes that overtake the oldest window */

/* About how many bytes of a chunk a record takes. */
#define RECORD_BYTES 2u

/* Windows that are open at once: the oldest, the one that was let in before it ended, the one that
 * chunks come into. */
#define WINDOWS 4u /* a power of two */

/* A lane that is late for so many windows is damage: at 10 ms each, its thread would not have got
 * from taking a number to recording it in ten minutes. */
#define WINDOWS_LATE_MAX 65536u

/* At the end, numbers may be missing that would have been recorded in these last windows; a thread
 * may have been off its processor for some. */
#define WINDOWS_EXCUSED 8u

/* A window with more than this is begun before it has ended: a recording need not have ticks, and a
 * busy one has large windows. */
#define WINDOW_BYTES_EASY  (8u << 20)
/* With more than this in records that cannot be ordered, the rest of the window is not waited for;
 * where events were lost, no later window is either. */
#define WINDOW_BYTES_STUCK (64u << 20)
/* With more than this in records that cannot be ordered, the recording is damaged. */
#define WINDOW_BYTES_MAX   (UINT64_C(1) << 30)

/* What a lane that is this near to the end of its window waits for may be in the next one, because
 * lanes are not looked at all at the same time; farther away it is not. */
#define TICK_SKEW_RECORDS 1024u

#define STRUCTURES   RAW_SEQUENCE_ENTRIES
#define SEGMENTS_MAX 16u

_Static_assert(SEGMENTS_MAX > STEP_RECORDS_MAX, "the records at hand lie in no more chunks");

/* ---- state ---- */

enum order_lane_state { LANE_IDLE, LANE_READY, LANE_WAITS };

/* How the step at hand is taken.
 *
 *   STEP_WHOLE ----> STEP_SPLITTABLE     it waits for a structure that is not the first it enters
 *       |                   | order_split
 *       | order_relax       v
 *       +--> STEP_RELAXED -> STEP_SPLIT
 *            one record
 *
 * The next step of the lane is whole again. */
enum step_state {
    STEP_WHOLE,      /* when all of it can be taken */
    STEP_SPLITTABLE, /* likewise, but the first of its numbers could be taken alone */
    STEP_SPLIT,      /* a record at a time, the call not before its first number after it */
    STEP_RELAXED     /* likewise, but its next record does not wait for the rest of the step */
};

/* Where the records of a chunk are, for messages. */
struct order_segment {
    uint64_t first_record, offset;
};

/* How far a lane goes in a window. How many records a chunk has is known only when it has been
 * decoded. */
struct order_mark {
    uint64_t window;
    uint64_t end_record;  /* after the chunks that were decoded */
    uint64_t bytes_left;  /* of chunks that were not decoded to their end, */
    uint32_t chunks_left; /* and how many these are */
};

struct order_lane {
    uint32_t number;
    uint8_t state; /* enum order_lane_state */
    uint8_t step;  /* enum step_state of the step at hand */
    /* Allocations taken, lost ones included (of an opaque stream all calls that count):
     * raw_allocations(), or LANE_NO_ALLOCATIONS. */
    uint64_t allocated;
    /* records[at .. filled) are decoded and not taken; those up to step_end are the step at hand,
     * if there is one. */
    uint32_t at, step_end, filled;
    struct order_lane *next;           /* in the ready queue, or of those that wait */
    uint32_t turn_records;             /* length of a turn */
    uint32_t marks_first, marks_count; /* a ring */
    struct order_mark marks[WINDOWS];
    struct raw_chunk *open;  /* being decoded */
    uint64_t opened_record;  /* where it begins */
    uint64_t decoded_window; /* of the latest record that was decoded */
    uint64_t window_record;  /* none before this one is in that window */
    uint64_t late_since;     /* 1 + the window at whose end it waited; 0: it is not late */
    bool damaged;            /* nothing more can be decoded, and that has been noted */
    struct raw_chunk *queue, *queue_last;
    struct order_lane *waiters; /* for its allocations */
    uint32_t wait_structure;    /* what it waits for: an index, or STRUCTURES for an allocation */
    uint64_t wait_number;       /* a sequence number, or raw_allocations() */
    uint64_t given_up;          /* allocations that it no longer waits for; 0: none */
    uint64_t touch_calls;       /* up to which of its calls order_touches() looks */
    uint32_t segments_count;
    struct order_segment segments[SEGMENTS_MAX]; /* the latest chunks, a ring */
    uint64_t first_lost;                         /* of its allocations; 0: none was */
    uint64_t allocations_in_stream;              /* once order->ended */
    struct raw_decoder decoder;
    struct record records[RECORDS_AT_HAND];
};

/* Distinguishes a lane without allocations from the bound of an unknown object, which is 0. */
#define LANE_NO_ALLOCATIONS (UINT64_C(1) << 63)

struct order_structure {
    uint64_t next; /* the number whose turn it is */
    struct order_lane *waiters;
    /* Numbers that had come, and were not taken, at the latest order_look_ahead(), sorted; those
     * before `coming_at` are below `next`. */
    uint64_t *coming;
    uint32_t coming_count, coming_room, coming_at;
    bool skipped; /* numbers were skipped; they may come late */
};

struct order_window {
    uint32_t lanes_left; /* lanes with records that were not taken */
    uint32_t *lanes;
    uint32_t lanes_count, lanes_room;
    struct raw_tick tick;
    struct passed passed; /* put before the tick */
};

struct order {
    struct instruction_writer *writer;
    struct raw_reader *reader; /* what the header says; the rest of it once `ended` */
    struct error error;
    struct error damage; /* the first that was left out */
    struct order_totals totals;
    struct object_table objects;
    struct stacks stacks; /* what has been defined */
    struct order_structure structures[STRUCTURES];
    struct order_lane **lanes; /* by number; NULL where none has been seen */
    uint32_t lanes_room;
    /* Those that there are, in the order in which they were first mentioned. */
    struct order_lane **present;
    uint32_t present_count;
    struct order_lane *ready, *ready_last;
    /*   oldest <= admitted <= oldest + 1,  oldest <= open <= oldest + 2
     * Windows below `oldest` have ended; chunks come into `open`; lanes may go into those up to
     * `admitted`. */
    uint64_t oldest, admitted, open;
    struct order_window windows[WINDOWS]; /* a ring */
    uint64_t queued_bytes, queued_bytes_limit;
    uint64_t places_bytes;       /* of decoders */
    uint64_t bytes_in;           /* of chunks: all, */
    uint64_t looked_bytes;       /* and those that had come when order_look_ahead() looked, */
    uint64_t pages_looked_bytes; /* and when a page was looked for in vain */
    uint64_t patience_bytes;
    bool salvage;
    uint64_t last_tick_ns;
    bool opaque;                /* the stream is: frees count as allocations do */
    bool attached;              /* the recorder was: it may have missed frees (FORMAT.md 2.9) */
    struct overlaps overlaps;   /* if it was */
    struct placement placement; /* of an opaque stream */
    bool ended;                 /* no more chunks will come */
    bool freed_twice;           /* an object was */
    bool overdue;               /* a lane is late for too long */
    const struct touched_table *touched; /* or NULL */
};

/* ---- small questions ---- */

static inline struct order_window *order_window(struct order *order, uint64_t window)
{
    return &order->windows[window & (WINDOWS - 1)];
}

static inline uint32_t structure_index(uint32_t structure)
{
    return structure == RAW_STRUCTURE_PAGE_HEAP ? STRUCTURES - 1 : structure;
}

static inline uint32_t structure_number(uint32_t index)
{
    return index == STRUCTURES - 1 ? RAW_STRUCTURE_PAGE_HEAP : index;
}

/* Allocations of the lane that were taken. */
static inline uint64_t lane_allocations(const struct order_lane *lane)
{
    return raw_allocations_count(lane->allocated);
}

/* Number of the record at hand. */
static inline uint64_t lane_position(const struct order_lane *lane)
{
    return lane->decoder.records - (lane->filled - lane->at);
}

static inline struct order_mark *lane_mark_at(struct order_lane *lane, uint32_t index)
{
    return &lane->marks[(lane->marks_first + index) & (WINDOWS - 1)];
}

/* The mark of the window that the lane is in, if there is one. */
static inline const struct order_mark *lane_first_mark(const struct order_lane *lane)
{
    return &lane->marks[lane->marks_first];
}

static inline bool lane_is_behind(const struct order *order, const struct order_lane *lane)
{
    return lane->marks_count > 0 && lane_first_mark(lane)->window == order->oldest;
}

/* Whether the bound's lane has had as many allocations. An unknown object has no bound. */
static inline bool order_is_allocated(const struct order *order, const struct order_lane *lane,
                                      uint64_t bound)
{
    uint32_t other = raw_allocations_lane(bound);
    if (__builtin_expect(other == lane->number, 1)) return true;
    if (bound == 0) return true;
    return other < order->lanes_room && order->lanes[other] != NULL &&
           raw_allocations_count(bound) <= lane_allocations(order->lanes[other]);
}

/* How many bytes the object has that lives at a place of an opaque stream; 1: not known. */
static inline uint64_t order_bytes_at(const struct order *order, uint32_t place)
{
    const uint32_t lives = object_table_entry(&order->objects, place)->lives;
    return lives - 1 < order->placement.bytes_room ? order->placement.bytes[lives - 1] : 1;
}

/* ---- order.c ---- */

/* Sets the error: there is no memory. Returns false. */
bool order_no_memory(struct order *order);

/* Whether ordering has failed, here or in the writer. */
bool order_failed(struct order *order);

/* The lane, made if it is mentioned for the first time. NULL: no memory. */
struct order_lane *order_lane(struct order *order, uint32_t number);

/* Where the record at hand is in the stream, as near as is known: where its chunk begins. */
uint64_t lane_offset(const struct order_lane *lane);

/* Where damage is noted. */
static inline struct error *order_error_place(struct order *order)
{
    order->totals.damages += order->salvage;
    return order->salvage ? &order->damage : &order->error;
}

/* Damage at the record at hand. False: it ends here. True: it has been noted, go on without what is
 * damaged. */
#define ORDER_DAMAGE(order, lane, which, format, ...)                                           \
    (error_set(order_error_place(order), &order_errors[which], lane_offset(lane),               \
               "lane %" PRIu32 ", record %" PRIu64 format, (lane)->number, lane_position(lane), \
               __VA_ARGS__),                                                                    \
     (order)->salvage)

/* ---- order_windows.c ---- */

/* Lets lanes go into the window, which is `admitted` or the next. */
void order_admit(struct order *order, uint64_t window);

/* Gives lanes their turns until none can go on, or the oldest window has nothing left. */
bool order_run_ready(struct order *order);

/* The oldest window has nothing left: its tick, and on to the next. */
void order_end_window(struct order *order);

/* Whether what is missing may still come: more input is to be waited for before anything is given
 * up. */
bool order_is_patient(const struct order *order);

/* Whether all lanes that have something left in the oldest window were late before. */
bool order_has_only_late(const struct order *order);

/* Moves what lanes have left in the oldest window into the next one. False: there is no next one.
 */
bool order_leave_behind(struct order *order);

/* Whether numbers may be missing; goes on without those that are. */
bool order_may_skip(const struct order *order);
bool order_skip_missing(struct order *order);

/* What to do when nothing goes on, the mildest first. */
bool order_split(struct order *order, uint64_t records_left);
bool order_relax(struct order *order);
bool order_break_circle(struct order *order);
bool order_unstick(struct order *order);

/* ---- order_ahead.c ---- */

/* Looks through all that has come and was not taken: fills lane->allocations_in_stream and
 * structure->coming. False: no memory. */
bool order_look_ahead(struct order *order);

/* Whether the calls that lanes of an opaque stream have yet to make up to the bound, or before that,
 * begin or end an object on bytes of the object that `call` of this lane begins. */
bool order_touches(struct order *order, const struct order_lane *lane, uint64_t bound,
                   const struct record *call);

/* The next call of a lane of an opaque stream, which is at an `after` before it. False: it has not
 * come yet. *waits: behind this `after` there are others whose bounds are not reached. */
bool order_next_call(const struct order *order, const struct order_lane *lane, struct record *call,
                     bool *waits);

/* Whether a lane that has had `allocations` can go on with the chunk, whatever is missing before
 * it; the second makes its decoder go on there. A record stands for what is missing. */
bool chunk_needs_nothing(const struct raw_chunk *chunk, uint64_t allocations);
void decoder_resume(struct raw_decoder *decoder, const struct raw_chunk *chunk);

/* ---- order_lane.c ---- */

/* Notes that the lane has the chunk in the open window. */
bool lane_mark(struct order *order, struct order_lane *lane, const struct raw_chunk *chunk);

/* About how many records the lane has left in the window it is in. */
uint64_t lane_records_left(const struct order_lane *lane);

/* One turn of one lane, and what follows from it. */
void order_run_lane(struct order *order, struct order_lane *lane);

/* Moves what the lane has left in its window to the next one. False: no memory. */
bool lane_leave_window(struct order *order, struct order_lane *lane);

/* ---- order_step.c ---- */

/* Finds the end of the step at hand; there must be records at hand. False: the end cannot be seen
 * yet. `last`: no more records of it will come. */
bool lane_find_step(struct order_lane *lane, bool last);

/* Takes the step at hand. False: its lane waits, or there is damage. */
bool order_take_step(struct order *order, struct order_lane *lane);

static inline bool record_is_sequence(const struct record *record)
{
    return record->number == RAW_SEQUENCE_BEFORE || record->number == RAW_SEQUENCE_AFTER;
}

/* ---- order_take.c ---- */

/* Takes the record at hand, which is no sequence number. False: it waits, or there is damage. */
bool order_take_call(struct order *order, struct order_lane *lane, const struct record *record);

/* Takes calls where the decoder is, up to `most` records, as long as nothing is special about them
 * (raw_calls.h) and none has to wait; the lane has no records at hand. Returns how many. */
uint64_t order_take_calls(struct order *order, struct order_lane *lane, uint64_t most);

/* ---- order_wait.c ---- */

void order_make_ready(struct order *order, struct order_lane *lane);

/* NULL: nobody is ready. */
struct order_lane *order_next_ready(struct order *order);

/* Put the lane into the list of those that wait for the same thing, the lowest number first. Always
 * false, to be returned. */
bool lane_waits_for_sequence(struct order *order, struct order_lane *lane,
                             const struct record *record);
bool lane_waits_for_allocations(struct order *order, struct order_lane *lane, uint64_t bound);

/* Wakes the lanes in the list that wait for no more than this (raw_allocations(), or a sequence
 * number). */
void order_wake_waiters(struct order *order, struct order_lane **waiters, uint64_t reached);

/* Lets a lane that waits look again. */
void order_stop_waiting(struct order *order, struct order_lane *lane);

/* What a lane whose record has a bound is to do. */
enum order_bound {
    BOUND_REACHED, /* what can be there is there, */
    BOUND_AHEAD,   /* or has to be waited for, */
    BOUND_NEVER    /* or never comes, or the lane goes on without: the object is unknown */
};
enum order_bound order_bound(struct order *order, const struct order_lane *lane, uint64_t bound);

/* The bound, or as much of it as there is, if the recording ended before (FORMAT.md 4.4). */
uint64_t order_within_stream(const struct order *order, uint64_t bound);

/* The number whose turn it is has been taken. `index`: of the structure. */
void order_pass_sequence(struct order *order, uint32_t index);

/* Takes a sequence number. False: its lane waits for it, or there is damage. */
bool order_take_sequence(struct order *order, struct order_lane *lane, const struct record *record);

#endif
