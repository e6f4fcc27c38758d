/* looks - looks at the memory of the replay, at points of the stream.
 *
 *   instruction stream    ---------|--------|-----|---------|------>   marks: ticks, ends of blocks
 *   carried out           ~~~~~~~~~~~~~~~~~~~~~>                       by threads, later than
 *                                           ^                          handed over
 *                                     one look, for all marks that were passed
 *
 * A mark says what is true there: calls so far, live bytes, the original's time and memory. It is
 * set when the slice of the stream that ends there is handed to the engine. Once that slice has
 * been carried out, a mark at a tick becomes a row, with what was seen at the latest look.
 *
 * One thread. */
#ifndef MALLOCTAPE_REPLAY_LOOKS_H
#define MALLOCTAPE_REPLAY_LOOKS_H

#include "replay/heap.h"
#include "replay/memory.h"
#include "replay/resident.h"
#include "replay/series.h"

/* Enough for all slices that any engine has handed over at a time. */
#define LOOKS_MARKS 64u

struct looks_mark {
    uint64_t slice;        /* that ends here: the number of slices up to it */
    struct series_row row; /* event, live_bytes, and all of the original */
    bool tick;
};

struct looks {
    struct heap heap; /* heap.library is NULL without an allocator */
    struct resident resident;
    struct memory *memory;
    struct series *series;
    struct looks_mark
        marks[LOOKS_MARKS]; /* those waiting: first <= number < end, modulo the size */
    unsigned first, end;
    uint64_t shown_ns;      /* of the latest mark that was passed */
    uint64_t heap_next_ns;  /* not before */
    struct series_row seen; /* the latest */
};

/* Calls the allocator; NULL: the replay calls none. `program_has`: resident.h. False: see *error. */
bool looks_open(struct looks *looks, const struct allocator *allocator, const char *program_has,
                struct memory *memory, struct series *series, struct error *error);
void looks_close(struct looks *looks);

/* Takes the first look. Returns the resident bytes before the first call, with the replay's own. */
uint64_t looks_begin(struct looks *looks);

/* Forgets what was seen, and takes the first look again, at `live_bytes`. */
void looks_restart(struct looks *looks, uint64_t live_bytes);

/* Sets a mark at the end of slice number `slice`, from 1. */
void looks_mark(struct looks *looks, uint64_t slice, const struct series_row *row, bool tick);

/* The first `slices` have been carried out. Of `now`, elapsed_ns and wall_ns count; now_ns is the
 * clock. */
void looks_take(struct looks *looks, uint64_t slices, const struct series_row *now,
                uint64_t now_ns);

/* Takes the last look, when nothing is left to carry out. `last`: as for a mark, with times. */
void looks_end(struct looks *looks, const struct series_row *last);

#endif
