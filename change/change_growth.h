/* change_growth - the last sizes of objects that grow, for `reserve`.
 *
 *   malloc(16), realloc(.., 32), realloc(.., 64), free      one that grows: last size 64
 *   new(16); new(32), delete the first; new(64), delete ... the same: a container that copies
 *
 * A copy continues an object if the same thread made it at the same stack, at least half as large
 * again, and freed the first in its next call.
 *
 * An object that another change takes, before one that reserves, is not reserved, wherever it grows.
 *
 * Objects are known by the number of the call that made them, counted from 0, calls that make no
 * object left out. Memory: 48 bytes for each register, 24 for each object that grew. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_GROWTH_H
#define MALLOCTAPE_CHANGE_CHANGE_GROWTH_H

#include "change/change_match.h"
#include "change/change_trace.h"

struct change_grown {
    uint64_t made;   /* the number of the object */
    uint64_t size;   /* of its first one: the last size */
    uint32_t change; /* of its first one: which change */
    bool continues;  /* it is a copy */
    bool has_shrunk; /* of its first one: it was larger before */
};

struct change_growth {
    struct change_grown *at; /* by `made` */
    size_t count, room;
};

/* Reads the trace for all changes of the match that reserve. False: `why` says what is wrong. */
bool change_growth_read(struct change_growth *growth, const struct change_trace *trace,
                        struct change_match *match, char *why, size_t why_bytes);
void change_growth_free(struct change_growth *growth);

#endif
