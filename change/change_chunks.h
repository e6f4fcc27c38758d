/* change_chunks - pools and arenas: many objects in few objects of the allocator.
 *
 *   pool    chunks of objects of one size with a list of free ones; a chunk is never given back
 *   arena   one for each thread: chunks that are filled from front to end, all given back when the last
 *           object in them ends
 *
 * Memory: 24 bytes a size of a pool, 32 a thread, 4 a chunk of an arena. */
#ifndef MALLOCTAPE_CHANGE_CHANGE_CHUNKS_H
#define MALLOCTAPE_CHANGE_CHANGE_CHUNKS_H

#include "change/change.h"
#include "stream/instruction_writer.h"

struct change_pool {
    uint64_t size, free; /* free objects in its chunks */
    uint32_t change;
};

struct change_arena {
    uint64_t used, room; /* of the latest chunk */
    uint64_t live;       /* objects */
    uint32_t *chunks;    /* registers */
    size_t count, capacity;
};

struct change_chunks {
    struct instruction_writer *writer;
    struct change_pool *pools;
    size_t pools_count, pools_room;
    struct change_arena *arenas[CHANGES_MAX]; /* by lane */
    uint64_t made[CHANGES_MAX];               /* chunks */
    uint64_t given[CHANGES_MAX];              /* how often an arena was given back */
};

/* Where an object is made or ends. */
struct change_chunk_call {
    const struct change *change;
    uint32_t index; /* of the change */
    uint32_t lane;  /* of the call */
    uint32_t of;    /* the lane that made the object */
    uint32_t stack;
    uint64_t size;
};

/* An object is made in a chunk: puts the call that makes the chunk, if it needs one. False: no
 * memory. */
bool change_chunks_take(struct change_chunks *chunks, const struct change_chunk_call *call);

/* It ends. */
bool change_chunks_give(struct change_chunks *chunks, const struct change_chunk_call *call);

void change_chunks_free(struct change_chunks *chunks);

#endif
