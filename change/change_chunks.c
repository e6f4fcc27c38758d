#include "change/change_chunks.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"

/* Objects in chunks are aligned as those of malloc. */
#define CHUNK_ALIGNMENT 16u

/* So many fit into a chunk of a heap, or only one. */
#define CHUNK_OBJECTS_LEAST 8u

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

/* ---- classes of sizes ---- */

/* The index of a class; CHANGE_NOWHERE: no memory. */
static uint32_t class_find(struct change_chunks *chunks, uint32_t change, uint64_t size)
{
    uint32_t *at = change_index_of(&chunks->index, (struct change_key){size, change, 0});
    if (at == NULL) return CHANGE_NOWHERE;
    if (*at != CHANGE_NOWHERE) return *at;
    if (!array_reserve(&chunks->classes, &chunks->classes_room, chunks->classes_count + 1,
                       sizeof *chunks->classes))
        return CHANGE_NOWHERE;
    chunks->classes[chunks->classes_count] = (struct change_class){size, 0, CHANGE_NOWHERE};
    return *at = (uint32_t)chunks->classes_count++;
}

/* ---- pools ---- */

static struct change_class *pool_find(struct change_chunks *chunks,
                                      const struct change_chunk_call *call)
{
    const uint32_t at = class_find(chunks, call->index, chunk_rounded(call->size));
    return at != CHANGE_NOWHERE ? &chunks->classes[at] : NULL;
}

static bool pool_take(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    struct change_class *pool = pool_find(chunks, call);
    if (pool == NULL) return false;
    if (pool->free == 0) {
        pool->free = call->change->limit > pool->size ? call->change->limit / pool->size : 1;
        chunk_make(chunks, call, pool->free * pool->size);
    }
    pool->free--;
    return true;
}

static bool pool_give(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    struct change_class *pool = pool_find(chunks, call);
    if (pool == NULL) return false;
    pool->free++;
    return true;
}

/* ---- heaps ---- */

/* The size of the objects that are made for one of this size. */
static uint64_t heap_class_size(uint64_t size)
{
    const uint64_t rounded = chunk_rounded(size);
    const unsigned bits = 63u - (unsigned)__builtin_clzll(rounded);
    const uint64_t step = UINT64_C(1) << (bits > 3 ? bits - 3 : 0);
    if (step <= CHUNK_ALIGNMENT || rounded > UINT64_MAX - step) return rounded;
    return (rounded + step - 1) / step * step;
}

static void heap_link(struct change_chunks *chunks, uint32_t at)
{
    struct change_chunk *chunk = &chunks->heap[at];
    struct change_class *of = &chunks->classes[chunk->class_at];
    chunk->before = CHANGE_NOWHERE;
    chunk->after = of->first;
    if (of->first != CHANGE_NOWHERE) chunks->heap[of->first].before = at;
    of->first = at;
}

static void heap_unlink(struct change_chunks *chunks, uint32_t at)
{
    const struct change_chunk *chunk = &chunks->heap[at];
    if (chunk->before != CHANGE_NOWHERE)
        chunks->heap[chunk->before].after = chunk->after;
    else
        chunks->classes[chunk->class_at].first = chunk->after;
    if (chunk->after != CHANGE_NOWHERE) chunks->heap[chunk->after].before = chunk->before;
}

/* A new chunk, which has room; CHANGE_NOWHERE: no memory. */
static uint32_t heap_grow(struct change_chunks *chunks, const struct change_chunk_call *call,
                          uint32_t class_at)
{
    const uint64_t size = chunks->classes[class_at].size, fit = call->change->limit / size;
    const uint64_t count = fit >= CHUNK_OBJECTS_LEAST ? fit : 1;
    uint32_t at = chunks->unused;
    if (at != 0) {
        at--;
        chunks->unused = chunks->heap[at].after;
    } else {
        if (!array_reserve(&chunks->heap, &chunks->heap_room, chunks->heap_count + 1,
                           sizeof *chunks->heap))
            return CHANGE_NOWHERE;
        at = (uint32_t)chunks->heap_count++;
    }
    chunks->heap[at] = (struct change_chunk){.name = chunk_make(chunks, call, count * size),
                                             .class_at = class_at,
                                             .room = (uint32_t)count};
    heap_link(chunks, at);
    return at;
}

static bool heap_take(struct change_chunks *chunks, const struct change_chunk_call *call,
                      uint32_t *chunk)
{
    const uint32_t class_at = class_find(chunks, call->index, heap_class_size(call->size));
    if (class_at == CHANGE_NOWHERE) return false;
    uint32_t at = chunks->classes[class_at].first;
    if (at == CHANGE_NOWHERE) at = heap_grow(chunks, call, class_at);
    if (at == CHANGE_NOWHERE) return false;
    chunks->heap[at].live++;
    if (--chunks->heap[at].room == 0) heap_unlink(chunks, at);
    *chunk = at;
    return true;
}

/* Whether a chunk without objects is kept: no other of its class has room. */
static bool heap_keeps(const struct change_chunk *chunk)
{
    return chunk->room > 1 && chunk->before == CHANGE_NOWHERE && chunk->after == CHANGE_NOWHERE;
}

static bool heap_give(struct change_chunks *chunks, const struct change_chunk_call *call,
                      uint32_t at)
{
    struct change_chunk *chunk = &chunks->heap[at];
    if (chunk->room++ == 0) heap_link(chunks, at);
    if (--chunk->live > 0 || heap_keeps(chunk)) return true;
    heap_unlink(chunks, at);
    instruction_put_lane(chunks->writer, call->lane);
    instruction_put_stack(chunks->writer, call->stack);
    instruction_put_free(chunks->writer, CALL_FREE, chunk->name);
    chunk->after = chunks->unused;
    chunks->unused = at + 1;
    chunks->given[call->index]++;
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

/* ---- all ---- */

bool change_chunks_take(struct change_chunks *chunks, const struct change_chunk_call *call,
                        uint32_t *chunk)
{
    *chunk = CHANGE_NOWHERE;
    switch (call->change->action) {
    case CHANGE_POOL: return pool_take(chunks, call);
    case CHANGE_SEPARATE: return heap_take(chunks, call, chunk);
    default: return arena_take(chunks, call);
    }
}

bool change_chunks_give(struct change_chunks *chunks, const struct change_chunk_call *call,
                        uint32_t chunk)
{
    switch (call->change->action) {
    case CHANGE_POOL: return pool_give(chunks, call);
    case CHANGE_SEPARATE: return heap_give(chunks, call, chunk);
    default: return arena_give(chunks, call);
    }
}

void change_chunks_free(struct change_chunks *chunks)
{
    for (size_t i = 0; i < CHANGES_MAX; i++) {
        for (size_t lane = 0; chunks->arenas[i] != NULL && lane < INSTRUCTION_LANES_MAX; lane++)
            free(chunks->arenas[i][lane].chunks);
        pages_unmap(chunks->arenas[i], CHUNK_ARENAS_BYTES);
    }
    change_index_free(&chunks->index);
    free(chunks->classes);
    free(chunks->heap);
    *chunks = (struct change_chunks){.writer = NULL};
}
