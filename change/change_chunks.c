#include "change/change_chunks.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/pages.h"

/* Objects in chunks are aligned as those of malloc. */
#define CHUNK_ALIGNMENT 16u

/* So many fit into a chunk of a heap, or only one. */
#define CHUNK_OBJECTS_LEAST 8u

/* Of a chunk of one object no more is left. */
#define CHUNK_REST_PART 8u

#define CHUNK_LANES_BYTES (INSTRUCTION_LANES_MAX * sizeof(uint32_t))

/* The first chunk of an arena, where no size is given; each is twice as large as the one before. */
#define ARENA_FIRST_BYTES 4096u

/* Of a thread's arena: so many were made before those that are left, a tenth, outlive it. */
#define ARENA_MADE_LEAST 16u
#define ARENA_LEFT_PART  10u

/* An object that has a chunk nearly to itself leaves of that untouched what it does of itself. */
static uint32_t chunk_make(struct change_chunks *chunks, const struct change_chunk_call *call,
                           uint64_t bytes)
{
    instruction_put_lane(chunks->writer, call->lane);
    instruction_put_stack(chunks->writer, call->stack);
    chunks->made[call->index]++;
    if (bytes >= INSTRUCTION_TOUCHED_BYTES && bytes - call->size <= bytes / CHUNK_REST_PART)
        instruction_put_touched_runs(chunks->writer, call->touched, call->touched_count);
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

/* A new one; CHANGE_NOWHERE: no memory. */
static uint32_t arena_make(struct change_chunks *chunks)
{
    uint32_t at = chunks->arenas_unused;
    if (at != 0) {
        chunks->arenas_unused = chunks->arenas[--at].unused;
    } else {
        if (!array_reserve(&chunks->arenas, &chunks->arenas_room, chunks->arenas_count + 1,
                           sizeof *chunks->arenas))
            return CHANGE_NOWHERE;
        at = (uint32_t)chunks->arenas_count++;
        chunks->arenas[at] = (struct change_arena){.live = 0};
    }
    chunks->arenas[at].is_current = true;
    return at;
}

/* The arena of the thread; CHANGE_NOWHERE: no memory. */
static uint32_t arena_find(struct change_chunks *chunks, const struct change_chunk_call *call)
{
    uint32_t **current = &chunks->current[call->index];
    if (*current == NULL) *current = pages_map(CHUNK_LANES_BYTES);
    if (*current == NULL) return CHANGE_NOWHERE;
    uint32_t *at = &(*current)[call->of];
    if (*at == 0) *at = arena_make(chunks) + 1; /* CHANGE_NOWHERE becomes 0 */
    return *at - 1;
}

/* Those that are left outlive it, and no longer count. */
static void arena_turn(struct change_chunks *chunks, uint32_t change, struct change_arena *arena)
{
    chunks->outlived[change] += arena->made - arena->ended;
    arena->made = arena->ended = 0;
    arena->turn++;
}

static uint64_t arena_chunk_bytes(const struct change_arena *arena, const struct change *change)
{
    uint64_t bytes = change->limit;
    if (!change_is_by_call(change) || change->has_limit) return bytes;
    bytes = ARENA_FIRST_BYTES;
    for (size_t i = 0; i < arena->count && bytes < change->limit; i++)
        bytes *= 2;
    return bytes;
}

static bool arena_take(struct change_chunks *chunks, const struct change_chunk_call *call,
                       struct change_place *place)
{
    const uint64_t size = chunk_rounded(call->size);
    place->at = arena_find(chunks, call);
    if (place->at == CHANGE_NOWHERE) return false;
    struct change_arena *arena = &chunks->arenas[place->at];
    if (!array_reserve(&arena->chunks, &arena->capacity, arena->count + 1, sizeof *arena->chunks))
        return false;
    if (!change_is_by_call(call->change) && arena->made >= ARENA_MADE_LEAST &&
        (arena->made - arena->ended) * ARENA_LEFT_PART <= arena->made)
        arena_turn(chunks, call->index, arena);
    if (arena->room - arena->used < size) {
        const uint64_t bytes = arena_chunk_bytes(arena, call->change);
        arena->room = bytes > size ? bytes : size;
        arena->chunks[arena->count++] = chunk_make(chunks, call, arena->room);
        arena->used = 0;
    }
    arena->used += size;
    arena->live++;
    arena->made++;
    place->turn = arena->turn;
    return true;
}

/* It has no objects, and its thread has another one. */
static void arena_end(struct change_chunks *chunks, uint32_t at)
{
    chunks->arenas[at].unused = chunks->arenas_unused;
    chunks->arenas_unused = at + 1;
}

static bool arena_give(struct change_chunks *chunks, const struct change_chunk_call *call,
                       struct change_place place)
{
    struct change_arena *arena = &chunks->arenas[place.at];
    if (place.turn == arena->turn) arena->ended++;
    if (--arena->live > 0) return true;
    instruction_put_lane(chunks->writer, call->lane);
    while (arena->count > 0) {
        instruction_put_stack(chunks->writer, call->stack);
        instruction_put_free(chunks->writer, CALL_FREE, arena->chunks[--arena->count]);
    }
    arena->used = arena->room = 0;
    arena_turn(chunks, call->index, arena);
    chunks->given[call->index]++;
    if (!arena->is_current) arena_end(chunks, place.at);
    return true;
}

void change_chunks_leave(struct change_chunks *chunks, uint32_t change, uint32_t lane)
{
    uint32_t *current = chunks->current[change];
    if (current == NULL || current[lane] == 0) return;
    const uint32_t at = current[lane] - 1;
    struct change_arena *arena = &chunks->arenas[at];
    current[lane] = 0;
    arena->is_current = false;
    arena_turn(chunks, change, arena);
    if (arena->live == 0) arena_end(chunks, at);
}

/* ---- all ---- */

bool change_chunks_take(struct change_chunks *chunks, const struct change_chunk_call *call,
                        struct change_place *place)
{
    switch (call->change->action) {
    case CHANGE_POOL: return pool_take(chunks, call);
    case CHANGE_SEPARATE: return heap_take(chunks, call, &place->at);
    default: return arena_take(chunks, call, place);
    }
}

bool change_chunks_give(struct change_chunks *chunks, const struct change_chunk_call *call,
                        struct change_place place)
{
    switch (call->change->action) {
    case CHANGE_POOL: return pool_give(chunks, call);
    case CHANGE_SEPARATE: return heap_give(chunks, call, place.at);
    default: return arena_give(chunks, call, place);
    }
}

void change_chunks_free(struct change_chunks *chunks)
{
    for (size_t i = 0; i < chunks->arenas_count; i++)
        free(chunks->arenas[i].chunks);
    free(chunks->arenas);
    for (size_t i = 0; i < CHANGES_MAX; i++)
        pages_unmap(chunks->current[i], CHUNK_LANES_BYTES);
    change_index_free(&chunks->index);
    free(chunks->classes);
    free(chunks->heap);
    *chunks = (struct change_chunks){.writer = NULL};
}
