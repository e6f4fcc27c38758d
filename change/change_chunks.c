#include "change/change_chunks.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"

/* Objects in chunks are aligned as those of malloc. */
#define CHUNK_ALIGNMENT    16u
#define CHUNK_ARENAS_BYTES (INSTRUCTION_LANES_MAX * sizeof(struct change_arena))

static uint32_t chunk_make(struct change_chunks *chunks, const struct change_chunk_call *call,
                           uint64_t bytes)
{
    instruction_put_lane(chunks->writer, call->lane);
    instruction_put_stack(chunks->writer, call->stack);
    chunks->made[call->index]++;
    return instruction_put_allocation(chunks->writer, CALL_MALLOC, bytes, 0);
}

static uint64_t chunk_rounded(uint64_t size)
{
    if (size > UINT64_MAX - CHUNK_ALIGNMENT) return UINT64_MAX - UINT64_MAX % CHUNK_ALIGNMENT;
    return size <= CHUNK_ALIGNMENT
               ? CHUNK_ALIGNMENT
               : (size + CHUNK_ALIGNMENT - 1) / CHUNK_ALIGNMENT * CHUNK_ALIGNMENT;
}

/* ---- pools ---- */

/* The pool of a size; NULL: no memory. There are few. */
static struct change_pool *pool_find(struct change_chunks *chunks,
                                     const struct change_chunk_call *call)
{
    const uint64_t size = chunk_rounded(call->size);
    for (size_t i = 0; i < chunks->pools_count; i++)
        if (chunks->pools[i].size == size && chunks->pools[i].change == call->index)
            return &chunks->pools[i];
    if (!array_reserve(&chunks->pools, &chunks->pools_room, chunks->pools_count + 1,
                       sizeof *chunks->pools))
        return NULL;
    chunks->pools[chunks->pools_count] = (struct change_pool){size, 0, call->index};
    return &chunks->pools[chunks->pools_count++];
}

static bool pool_take(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    struct change_pool *pool = pool_find(chunks, call);
    if (pool == NULL) return false;
    if (pool->free == 0) {
        pool->free = call->change->limit > pool->size ? call->change->limit / pool->size : 1;
        chunk_make(chunks, call, pool->free * pool->size);
    }
    pool->free--;
    return true;
}

/* ---- arenas ---- */

static struct change_arena *arena_find(struct change_chunks *chunks,
                                       const struct change_chunk_call *call)
{
    struct change_arena **arenas = &chunks->arenas[call->index];
    if (*arenas == NULL) *arenas = pages_map(CHUNK_ARENAS_BYTES);
    return *arenas != NULL ? &(*arenas)[call->of] : NULL;
}

static bool arena_take(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    struct change_arena *arena = arena_find(chunks, call);
    const uint64_t size = chunk_rounded(call->size);
    if (arena == NULL ||
        !array_reserve(&arena->chunks, &arena->capacity, arena->count + 1, sizeof *arena->chunks))
        return false;
    if (arena->room - arena->used < size) {
        arena->room = call->change->limit > size ? call->change->limit : size;
        arena->chunks[arena->count++] = chunk_make(chunks, call, arena->room);
        arena->used = 0;
    }
    arena->used += size;
    arena->live++;
    return true;
}

static bool arena_give(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    struct change_arena *arena = arena_find(chunks, call);
    if (arena == NULL) return false;
    if (--arena->live > 0) return true;
    instruction_put_lane(chunks->writer, call->lane);
    while (arena->count > 0) {
        instruction_put_stack(chunks->writer, call->stack);
        instruction_put_free(chunks->writer, CALL_FREE, arena->chunks[--arena->count]);
    }
    arena->used = arena->room = 0;
    chunks->given[call->index]++;
    return true;
}

/* ---- both ---- */

bool change_chunks_take(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    return (call->change->action == CHANGE_POOL ? pool_take : arena_take)(chunks, call);
}

bool change_chunks_give(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    if (call->change->action == CHANGE_ARENA) return arena_give(chunks, call);
    struct change_pool *pool = pool_find(chunks, call);
    if (pool == NULL) return false;
    pool->free++;
    return true;
}

void change_chunks_free(struct change_chunks *chunks)
{
    for (size_t i = 0; i < CHANGES_MAX; i++) {
        for (size_t lane = 0; chunks->arenas[i] != NULL && lane < INSTRUCTION_LANES_MAX; lane++)
            free(chunks->arenas[i][lane].chunks);
        pages_unmap(chunks->arenas[i], CHUNK_ARENAS_BYTES);
    }
    free(chunks->pools);
    *chunks = (struct change_chunks){.writer = NULL};
}
