/* change_stream - the stream that a trace would be if the program's code were changed.
 *
 *   first pass (change_trace) --> names of functions
 *   another one (change_growth), if something is reserved --> last sizes
 *   the last one: instruction_reader --each object's change--> instruction_writer --> a new file
 *
 * All calls keep their order, lane and stack. What is lost: addresses, mappings, residency, and the
 * memory and processor time of the recorded program, which would not be those of the changed one.
 * Ticks keep its time.
 *
 * An object is changed as a whole, by the call that made it: its reallocs and its free, wherever
 * they are, go with it. Memory: 64 bytes for each object alive, and that of the parts. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_STREAM_H
#define MALLOCTAPE_CHANGE_CHANGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "change/change.h"
#include "change/change_trace.h"

/* What one change did. */
struct change_count {
    uint64_t objects, bytes;           /* that match; as they were made */
    uint64_t peak_objects, peak_bytes; /* of these, alive when the trace had most live bytes */
    uint64_t removed;                  /* of the objects: a share may stay; shared: not made */
    uint64_t ended;                    /* until: freed by the change; of these, the program */
    uint64_t outlived;  /* freed or reallocated some later: it may still have used them. arena: were
                            alive when its call had ended, or (of a thread) when nine in ten of those
                            made since it was empty had ended and others were made */
    uint64_t elsewhere; /* reallocs at a stack of the pattern, of objects that do not match */
    uint64_t clamped;   /* size: it would have been less than 0 */
    uint64_t shrunk;    /* reserve: they had been larger than they were at last */
    uint64_t chunks;    /* pool, arena, separate: made */
    uint64_t given_back; /* arena: how often all in one ended; separate: chunks */
    uint64_t calls;      /* that the changed stream lacks */
};

struct change_result {
    struct change_count of[CHANGES_MAX];
    uint64_t peak_live_bytes;    /* of the trace as it is */
    uint64_t peak_changed_bytes; /* of the changed one, at the end of a block */
    bool is_cut;                 /* the trace is */
    bool output_failed;          /* what is wrong is with the new file, not with the trace */
};

/* Writes the changed stream to `path`. False: `why` says what is wrong: with a file, or with a
 * change that matches nothing. */
bool change_stream_write(const struct change_trace *trace, const struct change_list *list,
                         const char *path, struct change_result *result, char *why,
                         size_t why_bytes);

#endif
