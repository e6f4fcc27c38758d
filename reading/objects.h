/* objects - the objects of an instruction stream, one at a time: how each was made, and how it
 * ended.
 *
 *   batch of instructions --> objects_add() --each that ends--> put()
 *                             objects_end() --those alive-----> put()
 *
 * A realloc ends an object and makes one. Calls are counted from 1, failed ones included; times are
 * those of the latest tick before the call, in nanoseconds since recording began. An object of a base
 * (INSTRUCTIONS.md 4.9) was made by call 0; one that ended there was never there.
 *
 * Memory: 48 bytes for each object that is alive, 8 for each lane. */
#ifndef MALLOCTAPE_READING_OBJECTS_H
#define MALLOCTAPE_READING_OBJECTS_H

#include "stream/instruction_reader.h"

/* A call that makes or ends an object. */
struct object_call {
    unsigned kind; /* common/call_kind.h; 0: none */
    uint32_t lane;
    uint64_t thread; /* the id of the lane's thread at that time */
    uint64_t call, ns;
};

struct object {
    uint64_t size, alignment; /* 0: no special alignment */
    uint32_t stack;           /* the node of the call that made it, if batches have them; or 0 */
    struct object_call made, ended;
};

/* False: stop. */
typedef bool (*object_put)(void *of, const struct object *object);

struct objects {
    object_put put;
    void *of;
    uint64_t *threads;       /* by lane */
    struct object_made *row; /* by index */
    uint64_t live, capacity;
    uint32_t lane;
    uint64_t call, ns;
    bool in_base;
};

/* False: no memory. */
bool objects_open(struct objects *objects, object_put put, void *of);
void objects_close(struct objects *objects);

/* Adds a batch. Batches have indices (instruction_reader.h) and come one after another. False:
 * put() returned false, or errno is ENOMEM. */
bool objects_add(struct objects *objects, const struct instruction_batch *batch);

/* Calls put() for the objects that are alive, in the order of their indices. */
bool objects_end(struct objects *objects);

#endif
