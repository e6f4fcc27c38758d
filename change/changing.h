/* changing - the state while a changed stream is written: for change_stream.c, which reads and writes
 * the whole, and change_calls.c, which does with each call what its object's change says. */
#ifndef MALLOCTAPE_CHANGE_CHANGING_H
#define MALLOCTAPE_CHANGE_CHANGING_H

#include "change/change_chunks.h"
#include "change/change_growth.h"
#include "change/change_shared.h"
#include "change/change_trace.h"
#include "stream/instruction_writer.h"

struct change_result; /* change_stream.h */

/* An object of the trace that is alive. */
struct changed_object {
    uint64_t size; /* in the trace */
    uint64_t due, alignment;
    uint32_t name;             /* its register in the new stream; NO_REGISTER: it is not there */
    uint32_t change;           /* or CHANGE_NONE */
    uint32_t before, after;    /* those to be freed before and after it, by register */
    struct change_place place; /* in chunks */
    uint32_t part;             /* shared: which one it is */
    uint32_t node;             /* shared: where it was made */
    uint16_t lane;
    uint8_t kind;
    bool is_due;   /* it is in the list of those to be freed */
    bool is_ended; /* the change has freed it */
};

/* Objects in the order in which they are to be freed. */
struct changed_queue {
    uint32_t first, last;
};

struct changing {
    const struct change_trace *trace;
    const struct change_list *list;
    struct change_result *result;
    struct change_match match;
    struct change_growth growth;
    size_t grown; /* the next entry of growth */
    struct instruction_writer writer;
    struct changed_object *objects; /* by register of the trace */
    uint64_t capacity;
    struct changed_queue queues[CHANGES_MAX];
    uint64_t live_objects[CHANGES_MAX], live_bytes[CHANGES_MAX]; /* that match */
    uint64_t live, peak;                                         /* bytes of all */
    uint64_t made, calls, ns;
    uint8_t *ended;      /* by lane: its thread has ended */
    uint32_t *continued; /* by lane: the copy that its latest call made; or NO_REGISTER */
    uint32_t lane;
    bool free_missed; /* the next free was */
    bool has_ways;    /* of the next call, */
    uint64_t ways;
    uint32_t by_call; /* a bit for each change with an arena for each call */
    struct change_chunks chunks;
    struct change_shared shared;
    bool lacks; /* memory */
};

/* The instruction at hand. */
struct changing_call {
    const struct instruction *one;
    const struct instruction_batch *batch;
    const uint64_t *operands;
    uint32_t stack;
    unsigned kind;
    const uint64_t *touched; /* runs of pages, */
    size_t touched_count;
};

/* Takes the instruction at hand. */
void changing_take(struct changing *changing, const struct changing_call *call);

/* The same for a tick: writes it, without the memory and the processor time that it has. */
void changing_tick(struct changing *changing, const struct changing_call *call);

#endif
