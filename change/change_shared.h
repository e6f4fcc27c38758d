/* change_shared - objects that are equal to one that is alive, and would be that one.
 *
 * A trace does not say what is in objects. So a share is given: so many of the new objects, by
 * chance, are equal to the latest one that was made with this size at this stack, if it is alive.
 *
 *   new object --equal?--> a reference to a shared one, which ends with its last reference
 *
 * Memory: 48 bytes for each size and stack, 16 for each object that is made. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_SHARED_H
#define MALLOCTAPE_CHANGE_CHANGE_SHARED_H

#include "change/change_index.h"

/* An object of the new stream. */
struct change_one {
    uint32_t name;       /* register */
    uint32_t references; /* objects of the trace */
    uint32_t after;      /* of the free ones */
    bool is_latest;      /* of its size and stack: the next equal one refers to it */
};

struct change_shared {
    struct change_index latest; /* by size and stack: a number of an object */
    struct change_one *ones;
    size_t count, room;
    uint32_t unused; /* the first free one, and one more; 0: none */
};

/* The object to which another one can refer: it has one reference more. CHANGE_NOWHERE: there is
 * none. */
uint32_t change_shared_join(struct change_shared *shared, struct change_key key);

/* Takes a new object that has been made; it is the latest. CHANGE_NOWHERE: no memory. */
uint32_t change_shared_make(struct change_shared *shared, struct change_key key, uint32_t name);

/* A reference ends. Whether it was the last one: then the object ends. */
bool change_shared_leave(struct change_shared *shared, struct change_key key, uint32_t at);

void change_shared_free(struct change_shared *shared);

#endif
