/* small_trace - a whole trace in memory, of which parts can be left out: for --minimize and --thin;
 * cut*.c and small*.c only.
 *
 *   TRACE --small_trace_read()--> calls, in order    --small_trace_write(changes)--> a candidate
 *                                 objects, by birth  --small_trace_apply(changes)--> what is left
 *
 * Objects are numbered in the order in which they are made. A change leaves out whole objects, calls
 * without one, or single frees and reallocs, or gives other sizes, so that whatever is left is a valid
 * trace. What is not here: call stacks, addresses, mappings, memory at ticks, calls that failed or
 * were of unknown objects. A base becomes ordinary calls.
 *
 * Memory: 16 bytes a call, 40 an object, from pages_map(). One thread. */
#ifndef MALLOCTAPE_CUT_SMALL_TRACE_H
#define MALLOCTAPE_CUT_SMALL_TRACE_H

#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"

#define SMALL_NONE UINT32_MAX

struct small_call {
    uint32_t object; /* or SMALL_NONE: a tick, a thread, a call on the heap */
    uint16_t lane;
    uint8_t kind; /* of a call, or INSTRUCTION_TICK, _THREAD_BEGIN, _THREAD_END */
    uint64_t
        size; /* of a tick the nanoseconds, of a thread its id, of a heap call where in `heaps` */
};

struct small_object {
    uint64_t alignment; /* 0: none */
    uint64_t first_size, last_size;
    /* Where in `runs` it is said which of its pages were resident: the first that is known, and the
     * latest; 0: none. */
    uint32_t runs, latest_runs;
    uint16_t lane;    /* that makes it */
    bool ends, grows; /* it has a free, a realloc */
};

struct small_heap {
    uint64_t numbers[2];
    unsigned count;
};

struct small_trace {
    struct small_call *calls;
    struct small_object *objects;
    struct small_heap *heaps;
    /* A size, where the next ones of the object are, or 0, how many runs there are, and these
     * (instruction_walk_touched()). */
    uint64_t *runs;
    uint64_t count, objects_count;
    uint64_t calls_capacity, objects_capacity;
    size_t heaps_count, heaps_room, runs_count, runs_room;
    uint32_t lanes; /* every lane is less */
    char *metadata; /* ends with a zero byte */
    bool is_cut;
};

enum small_what {
    SMALL_END,           /* only the first `value` calls stay */
    SMALL_DROP_OBJECTS,  /* from `from` up to `to` - 1 */
    SMALL_DROP_SIZES,    /* objects that are made with `from` to `to` bytes */
    SMALL_DROP_LANE,     /* objects that lane `value` makes, and its threads */
    SMALL_DROP_KIND,     /* all without an object that are of this kind; CALL_KINDS: heap calls */
    SMALL_DROP_FREES,    /* of the objects `from` to `to` - 1 */
    SMALL_DROP_REALLOCS, /* of these: they are made with their last size */
    SMALL_SET_SIZE,      /* of these: `value` */
    SMALL_HALVE_SIZE,    /* of these */
    SMALL_JOIN_LANE,     /* lane `value` becomes lane 0 */
    SMALL_PLAIN,         /* every kind of call malloc, realloc or free, without alignment */
    SMALL_SELECT,       /* the objects whose bit in `bits` is set, by number; and all without one */
    SMALL_KEEP_OBJECTS, /* from `from` up to `to` - 1; and all without one, as in the next ones */
    SMALL_KEEP_SIZES,   /* objects that are made with `from` to `to` bytes */
    SMALL_KEEP_LANE,    /* objects that lane `value` makes */
    SMALL_KEEP_SAMPLE,  /* one of `value` objects, without a pattern */
    SMALL_KEEP_LARGER   /* the same, `value` times as large */
};

struct small_change {
    enum small_what what;
    uint64_t from, to, value;
    const uint64_t *bits;
};

/* Reads all of it. False: `why`. */
bool small_trace_read(struct small_trace *trace, struct input *input, char *why, size_t why_bytes);
void small_trace_free(struct small_trace *trace);

/* Writes what the changes leave, with these further lines of metadata. False: `why`. */
bool small_trace_write(const struct small_trace *trace, const struct small_change *changes,
                       size_t count, const char *lines, const char *path, char *why,
                       size_t why_bytes);

/* Leaves out for good. False: no memory. */
bool small_trace_apply(struct small_trace *trace, const struct small_change *changes, size_t count);

/* The calls that have an object. */
uint64_t small_trace_calls(const struct small_trace *trace);

#endif
