/* sweep/halving - successive halving: after each round, the worse half of each allocator's settings
 * is dropped, until one is left, which is measured as the plan says.
 *
 *   round 1: all settings, few runs --> a score for each --> the better half, more runs --> ...
 *   last round: one entry of each allocator, the plan's runs
 *
 * Score: the geometric mean over the traces of what the entry takes, divided by what the recorded
 * allocator takes there, or, if that is not known, the first entry. Allocators with only one entry
 * take part in the last round only. DIR/halving.json says what was dropped and why
 * (docs/sweep.md). */
#ifndef MALLOCTAPE_SWEEP_HALVING_H
#define MALLOCTAPE_SWEEP_HALVING_H

#include <stdbool.h>
#include <stddef.h>

#include "sweep/tasks.h"

enum halving_by { HALVING_MEMORY, HALVING_TIME, HALVING_WAYS };

/* An entry, in all rows that have it. */
struct halving_entry {
    char *text;
    const char *allocator;
    double score; /* in the current round; INFINITY: it failed; NAN: it took no part */
    bool dropped;
};

struct halving {
    struct sweep *sweep;
    enum halving_by by;
    struct halving_entry *entries;
    size_t count, room;
    size_t **index;  /* by row and entry of the row: the entry here */
    bool **wanted;   /* for struct sweep_round */
    unsigned rounds; /* before the last one */
    void *json;      /* rounds so far */
};

/* `sweep` has been opened. False: no memory. */
bool halving_open(struct halving *halving, struct sweep *sweep, enum halving_by by);
void halving_close(struct halving *halving);

/* Begins round number `round`, from 0 to halving->rounds, which is the last one. False: see
 * `why`. */
bool halving_begin_round(struct halving *halving, unsigned round, char *why, size_t why_bytes);

/* Call when all results of the round are there: drops entries and writes DIR/halving.json. False:
 * as above. */
bool halving_end_round(struct halving *halving, unsigned round, char *why, size_t why_bytes);

#endif
