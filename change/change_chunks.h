/* change_chunks - pools, arenas and heaps: many objects in few objects of the allocator.
 *
 *   pool      chunks of objects of one size with a list of free ones; a chunk is never given back
 *   arena     chunks that are filled from front to end, all given back when the last object in them
 *             ends. One for each call of the function that the pattern names, as far as a trace shows calls:
 *             until the thread makes an object without it on the stack. One for each thread, if the pattern
 *             names none, or is what a function allocates "itself"
 *   separate  a heap: chunks of objects of a class of sizes, eight classes from one power of two to
 *             the next; a new object goes into one that is partly full, a chunk without objects is
 *             given back, unless no other of its class has room. An object of which less than eight
 *             fit has a chunk to itself
 *
 * Memory: 72 bytes a size or class, 24 a chunk of a heap, 80 an arena and 4 each of its chunks, 4 a thread. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_CHUNKS_H
#define MALLOCTAPE_CHANGE_CHANGE_CHUNKS_H

#include "change/change.h"
#include "change/change_index.h"
#include "stream/instruction_writer.h"

/* A size of a pool, or a class of sizes of a heap. */
struct change_class {
    uint64_t size;
    uint64_t free;  /* pool: objects in its chunks that are free */
    uint32_t first; /* heap: of the chunks that have room; CHANGE_NOWHERE: there is none */
};

/* A chunk of a heap. */
struct change_chunk {
    uint32_t name; /* register */
    uint32_t class_at, live, room;
    uint32_t before, after; /* of its class that have room; free descriptors: only `after` */
};

struct change_arena {
    uint64_t used, room;  /* of the latest chunk */
    uint64_t live;        /* objects */
    uint64_t made, ended; /* of its turn */
    uint32_t turn;        /* how often it began anew */
    uint32_t unused;      /* the next one that is free, and one more: 0: none */
    bool is_current;      /* of its thread */
    uint32_t *chunks;     /* registers */
    size_t count, capacity;
};

struct change_chunks {
    struct instruction_writer *writer;
    struct change_index index; /* of classes */
    struct change_class *classes;
    size_t classes_count, classes_room;
    struct change_chunk *heap;
    size_t heap_count, heap_room;
    uint32_t unused; /* the first descriptor that is free, and one more: 0: none */
    struct change_arena *arenas;
    size_t arenas_count, arenas_room;
    uint32_t arenas_unused;         /* the first one that is free, and one more: 0: none */
    uint32_t *current[CHANGES_MAX]; /* by lane: its arena, and one more: 0: none */
    uint64_t made[CHANGES_MAX];     /* chunks */
    uint64_t given[CHANGES_MAX];    /* how often an arena, or a chunk of a heap, was given back */
    uint64_t outlived[CHANGES_MAX]; /* objects that outlive their arena */
};

/* Where an object is. */
struct change_place {
    uint32_t at, turn; /* a chunk of a heap, or an arena and its turn */
};

/* Where an object is made or ends. */
struct change_chunk_call {
    const struct change *change;
    uint32_t index; /* of the change */
    uint32_t lane;  /* of the call */
    uint32_t of;    /* the lane that made the object */
    uint32_t stack;
    uint64_t size;
    const uint64_t *touched; /* which of its pages were resident: runs, */
    size_t touched_count;    /* none: not known */
};

/* An object is made in a chunk: puts the call that makes the chunk, if it needs one. False: no memory. */
bool change_chunks_take(struct change_chunks *chunks, const struct change_chunk_call *call,
                        struct change_place *place);

/* It ends. */
bool change_chunks_give(struct change_chunks *chunks, const struct change_chunk_call *call,
                        struct change_place place);

/* The thread has left the call that has an arena, if there is one. */
void change_chunks_leave(struct change_chunks *chunks, uint32_t change, uint32_t lane);

void change_chunks_free(struct change_chunks *chunks);

#endif
