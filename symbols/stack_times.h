/* stack_times - what the cells of stack_tally.h did over time, in at most STACK_BUCKETS stretches of
 * equal length ("buckets"), so that any part of a recording can be looked at.
 *
 *   | 0 | 1 | ... | at | ... STACK_BUCKETS - 1     a bucket: `span` long
 *
 * When there are too many, neighbours are joined and the span is doubled. A bucket is a stretch of
 * time, as ticks tell it; in a trace without a clock, of calls. If a range was asked for, one bucket
 * ends where it begins, and another one begins where it ends.
 *
 * While calls are counted, the log has what a cell had made, and what of that was alive, when it was
 * last used in each bucket. At the end that becomes what was made and ended in each.
 *
 * Memory: 40 bytes for each bucket in which a cell was used, at most 40 MiB and as much again at the
 * end: then buckets are joined. */
#ifndef MALLOCTAPE_SYMBOLS_STACK_TIMES_H
#define MALLOCTAPE_SYMBOLS_STACK_TIMES_H

#include "symbols/stack_cells.h"

enum { STACK_BUCKETS = 64 };

/* Objects that a stack made in a bucket, and objects of the stack that ended in it. */
struct stack_time {
    uint32_t stack; /* an index of `stacks`; before stack_times_end() that of a cell */
    uint16_t size_class, bucket;
    uint64_t made, bytes;
    uint64_t ended, ended_bytes; /* before stack_times_end(): alive */
};

struct stack_times {
    struct stack_time *log;
    size_t count;
    unsigned buckets;                 /* after stack_times_end() */
    uint64_t end_ns[STACK_BUCKETS];   /* of each; all 0: the trace has no clock */
    uint64_t end_call[STACK_BUCKETS]; /* calls until then */
    unsigned from,
        until; /* buckets of the range that was asked for, `until` not included; else all */

    /* From here on: stack_times.c only. */
    size_t room;
    unsigned at;         /* the present bucket */
    unsigned base, most; /* those that may be joined: from `base` until before `most` */
    bool has_clock, is_limited;
    uint64_t ns, span;
    uint64_t from_ns, to_ns;
};

void stack_times_open(struct stack_times *times);
void stack_times_close(struct stack_times *times);

/* Asks for a range, before anything is counted; to_ns UINT64_MAX: until the end. */
void stack_times_limit(struct stack_times *times, uint64_t from_ns, uint64_t to_ns);

/* What was counted was there before the recording began: it was not made in any bucket, and only ends.
 * False: no memory. */
bool stack_times_base(struct stack_times *times, struct stack_cells *cells);

/* Makes room for so many calls. False: no memory. */
bool stack_times_reserve(struct stack_times *times, struct stack_cells *cells, size_t calls,
                         uint64_t calls_so_far);
/* A tick, so long after the one before. False: no memory. */
bool stack_times_tick(struct stack_times *times, struct stack_cells *cells, uint64_t ns,
                      uint64_t calls_so_far);

void stack_times_note(struct stack_times *times, struct stack_cell *cell, uint32_t index);

/* Call before a cell changes. */
static inline void stack_times_use(struct stack_times *times, struct stack_cell *cell,
                                   uint32_t index)
{
    if (cell->bucket != times->at) stack_times_note(times, cell, index);
}

/* The cells have the numbers of their stacks, and have not been sorted. False: no memory. */
bool stack_times_end(struct stack_times *times, struct stack_cells *cells, uint64_t calls);

#endif
