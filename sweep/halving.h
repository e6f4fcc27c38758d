/* sweep/halving - successive halving: of the settings of each allocator, the worse half is dropped
 * after each round, until one is left, which is measured as the plan says.
 *
 *   round 1: all settings, few runs --> a score for each --> the better half, more runs --> ...
 *   last round: one entry of each allocator, the plan's runs
 *
 * Score: the geometric mean over the traces of what the entry takes, divided by what the recorded
 * allocator takes there, or the first entry where that one is not known. Allocators with one entry
 * alone take part in the last round only. What was dropped and why is in DIR/halving.json
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
    double score; /* of the round; INFINITY: it failed; NAN: it took no part */
    bool dropped;
};

struct halving {
    struct sweep *sweep;
    enum halving_by by;
    struct halving_entry *entries;
    size_t count, room;
    size_t **index;  /* of each entry of each row: its entry here */
    bool **wanted;   /* of the round, as struct sweep_round takes it */
    unsigned rounds; /* before the last one */
    void *json;      /* rounds so far */
};

/* Of the plan of the sweep, which was opened. False: no memory. */
bool halving_open(struct halving *halving, struct sweep *sweep, enum halving_by by);
void halving_close(struct halving *halving);

/* The round with that number, from 0 to halving->rounds, which is the last one: begins it. False:
 * see `why`. */
bool halving_begin_round(struct halving *halving, unsigned round, char *why, size_t why_bytes);

/* Once all its results are there: drops entries, and writes DIR/halving.json. False: as above. */
bool halving_end_round(struct halving *halving, unsigned round, char *why, size_t why_bytes);

#endif
