#include "report/arenas.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "common/pages.h"
#include "report/words.h"

#define MAPPINGS_BEGIN (UINT64_C(7) << 44)
#define HEAP_BYTES     (UINT64_C(64) << 20)
#define ARENA_BYTES    2048u /* less than an arena and what is before it in its heap have */
#define PAGE_BYTES     UINT64_C(4096)
#define CHUNK_BYTES    8u  /* of glibc, in front of each object */
#define ALIGNED_BYTES  32u /* that an aligned object needs besides, and its alignment */
#define MMAP_THRESHOLD (UINT64_C(128) << 10)
#define HEAPS_TABLE    (1u << 16)
#define HEAPS_MAX      (HEAPS_TABLE / 2)
#define USES_BYTES     (ARENA_THREADS_MAX * sizeof(struct arena_use))
#define THREADS_BYTES  (ARENA_THREADS_MAX * sizeof(struct arena_thread))
#define HEAPS_BYTES    (HEAPS_TABLE * sizeof(struct arena_heap))
#define ARENAS_SHOWN   20u
#define THREADS_SHOWN  4u
#define SHOWN_HEAPS    4u

/* Those without a number are free. */
struct arena_heap {
    uint64_t number; /* of HEAP_BYTES each */
    uint64_t pages;  /* to the end of the highest object */
    unsigned arena;
};

_Static_assert(ARENAS_MAX <= UINT16_MAX, "an object has the number of its arena");
_Static_assert(ARENA_THREADS_MAX - 1 <= UINT16_MAX, "a lane has the number of its thread");

/* ---- opening, closing, growing ---- */

/* Of a new arena; 0: no memory, or no more are told apart. */
static unsigned arena_add(struct arenas *arenas, uint64_t begin)
{
    if (arenas->count == ARENAS_MAX) return 0;
    struct arena *arena = &arenas->all[arenas->count];
    *arena = (struct arena){.begin = begin, .by_thread = pages_map(USES_BYTES)};
    return arena->by_thread != NULL ? arenas->count++ : 0;
}

/* The lane is continued by another thread, or the thread whose calls came before has a name now. */
static void thread_begin(struct arenas *arenas, unsigned lane, uint64_t id)
{
    const unsigned at = arenas->latest[lane];
    if (at < arenas->threads_count && arenas->threads[at].lane == lane &&
        arenas->threads[at].id == 0) {
        arenas->threads[at].id = id;
        return;
    }
    if (arenas->threads_count < ARENA_THREADS_MAX)
        arenas->threads[arenas->threads_count++] = (struct arena_thread){.lane = lane, .id = id};
    arenas->latest[lane] = (uint16_t)(arenas->threads_count - 1);
}

static void lane_begin(struct arenas *arenas, unsigned lane)
{
    arenas->lane = lane;
    if (arenas->threads_count == 0 || arenas->threads[arenas->latest[lane]].lane != lane)
        thread_begin(arenas, lane, 0);
    arenas->thread = arenas->latest[lane];
}

static bool arenas_open(struct arenas *arenas)
{
    arenas->known = true;
    arenas->mmap_threshold = MMAP_THRESHOLD;
    arenas->heaps = pages_map(HEAPS_BYTES);
    arenas->threads = pages_map(THREADS_BYTES);
    arena_add(arenas, 0);
    arena_add(arenas, 0);
    if (arenas->heaps == NULL || arenas->threads == NULL || arenas->count != ARENA_OTHERS)
        return false;
    lane_begin(arenas, 0);
    return true;
}

void arenas_close(struct arenas *arenas)
{
    for (unsigned i = 0; i < arenas->count; i++)
        pages_unmap(arenas->all[i].by_thread, USES_BYTES);
    pages_unmap(arenas->heaps, HEAPS_BYTES);
    pages_unmap(arenas->threads, THREADS_BYTES);
    pages_unmap(arenas->objects, arenas->capacity * sizeof *arenas->objects);
    arenas->count = 0;
    arenas->heaps = NULL;
    arenas->threads = NULL;
    arenas->objects = NULL;
}

/* ---- where an object lies ---- */

/* The arena that most objects of a thread lie in; ARENA_MAPPED: in none. */
static unsigned own_arena(const struct arenas *arenas, unsigned thread)
{
    unsigned own = ARENA_MAPPED;
    uint64_t most = 0;
    for (unsigned i = ARENA_MAIN; i < arenas->count; i++) {
        if (arenas->all[i].by_thread[thread].made <= most) continue;
        most = arenas->all[i].by_thread[thread].made;
        own = i;
    }
    return own;
}

/* The one with this number, or the free one where it belongs. */
static struct arena_heap *heap_find(const struct arenas *arenas, uint64_t number)
{
    uint64_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (arenas->heaps[at % HEAPS_TABLE].number != number &&
           arenas->heaps[at % HEAPS_TABLE].number != 0)
        at++;
    return &arenas->heaps[at % HEAPS_TABLE];
}

/* False: it cannot be told apart. */
static bool heap_begin(struct arenas *arenas, struct arena_heap *heap, uint64_t address)
{
    unsigned arena = ARENA_MAPPED;
    if (arenas->heaps_count == HEAPS_MAX) return false;
    if (address % HEAP_BYTES < ARENA_BYTES) arena = own_arena(arenas, arenas->thread);
    if (arena < ARENA_OTHERS) arena = arena_add(arenas, address - address % HEAP_BYTES);
    if (arena == ARENA_MAPPED) return false;
    *heap = (struct arena_heap){.number = address / HEAP_BYTES, .arena = arena};
    arenas->heaps_count++;
    arenas->all[arena].heaps++;
    return true;
}

static uint64_t pages_to(uint64_t end)
{
    return (end + PAGE_BYTES - 1) / PAGE_BYTES;
}

static unsigned main_arena(struct arenas *arenas, uint64_t address, uint64_t size)
{
    struct arena *arena = &arenas->all[ARENA_MAIN];
    const uint64_t begin = address - address % PAGE_BYTES;
    const uint64_t end = pages_to(address + size) * PAGE_BYTES;
    uint64_t highest = arena->begin + arena->bytes;
    if (arena->heaps == 0 || begin < arena->begin) arena->begin = begin;
    if (end > highest) highest = end;
    arena->heaps = 1;
    arena->bytes = highest - arena->begin;
    return ARENA_MAIN;
}

/* `besides`: what glibc needs, too, to find room for the object. */
static unsigned arena_of(struct arenas *arenas, uint64_t address, uint64_t size, uint64_t besides)
{
    if (address < MAPPINGS_BEGIN) return main_arena(arenas, address, size);
    struct arena_heap *heap = heap_find(arenas, address / HEAP_BYTES);
    if (heap->number == 0 && (size + besides + CHUNK_BYTES >= arenas->mmap_threshold ||
                              !heap_begin(arenas, heap, address)))
        return ARENA_MAPPED;
    const uint64_t pages = pages_to(address % HEAP_BYTES + size);
    if (pages > heap->pages) {
        arenas->all[heap->arena].bytes += (pages - heap->pages) * PAGE_BYTES;
        heap->pages = pages;
    }
    return heap->arena;
}

/* ---- counting ---- */

static void object_begin(struct arenas *arenas, uint64_t index, uint64_t address, uint64_t size,
                         uint64_t besides)
{
    const unsigned arena = arena_of(arenas, address, size, besides);
    arenas->objects[index] = (uint16_t)arena;
    arenas->all[arena].by_thread[arenas->thread].made++;
}

static void object_end(struct arenas *arenas, uint64_t index)
{
    arenas->all[arenas->objects[index]].by_thread[arenas->thread].ended++;
}

static void release(struct arenas *arenas, uint64_t index)
{
    object_end(arenas, index);
    arenas->objects[index] = arenas->objects[--arenas->live];
}

static void take_threshold(struct arenas *arenas, const struct statistics_names *names,
                           const struct instruction_batch *batch,
                           const struct instruction_tick *tick)
{
    instruction_batch_statistics(batch, tick, &arenas->now);
    for (unsigned i = 0; i < names->count && i < arenas->now.count; i++)
        if (strcmp(names->names[i], "mmap_threshold_bytes") == 0)
            arenas->mmap_threshold = arenas->now.values[i];
}

/* What is not plain. */
static void rare(struct arenas *arenas, const struct instruction_batch *batch,
                 const struct instruction *one, uint64_t address)
{
    const unsigned number = instruction_number(one);
    if (number == INSTRUCTION_LANE) lane_begin(arenas, (unsigned)batch->operands[one->operand_at]);
    if (number == INSTRUCTION_THREAD_BEGIN) {
        thread_begin(arenas, arenas->lane, batch->operands[one->operand_at]);
        arenas->thread = arenas->latest[arenas->lane];
    }
    if (number >= CALL_KINDS || one->object == INSTRUCTION_NO_REGISTER ||
        (one->opcode & INSTRUCTION_FAILED))
        return;
    if (one->object == arenas->live) {
        const uint64_t besides = call_shapes[number] == SHAPE_ALLOCATION_ALIGNED
                                     ? batch->operands[one->operand_at] + ALIGNED_BYTES
                                     : 0;
        object_begin(arenas, arenas->live++, address, one->size, besides);
    } else if (call_shapes[number] == SHAPE_REALLOC) {
        /* What has a mapping of its own keeps it, also where it shrinks. */
        const bool mapped = arenas->objects[one->object] == ARENA_MAPPED;
        object_end(arenas, one->object);
        object_begin(arenas, one->object, address, one->size, mapped ? arenas->mmap_threshold : 0);
    } else {
        release(arenas, one->object);
    }
}

bool arenas_add(struct arenas *arenas, const struct statistics_names *names,
                const struct instruction_batch *batch)
{
    const struct instruction *one = batch->at;
    const struct instruction_tick *tick = batch->ticks;
    if (batch->addresses == NULL) return true;
    if (!arenas->known && !arenas_open(arenas)) return false;
    if (!pages_reserve(&arenas->objects, &arenas->capacity, arenas->live + batch->count,
                       INSTRUCTION_BLOCK_MAX, sizeof *arenas->objects))
        return false;
    /* A first tick with less than usual holds before it, too: the user has set it. What is more
     * may have come of a free since. */
    if (arenas->now.count == 0 && batch->ticks_count > 0) {
        take_threshold(arenas, names, batch, tick);
        if (arenas->mmap_threshold > MMAP_THRESHOLD) arenas->mmap_threshold = MMAP_THRESHOLD;
    }
    for (size_t i = 0; i < batch->count; i++) {
        switch (instruction_effects[batch->opcodes[i]]) {
        case INSTRUCTION_PLAIN_ALLOCATION:
            object_begin(arenas, arenas->live++, batch->addresses[i], batch->values[i], 0);
            break;
        case INSTRUCTION_PLAIN_FREE: release(arenas, arenas->live - 1 - batch->values[i]); break;
        default:
            if (one->opcode == INSTRUCTION_TICK) take_threshold(arenas, names, batch, tick++);
            rare(arenas, batch, one++, batch->addresses[i]);
        }
    }
    return true;
}

static uint64_t heap_bytes(const struct arena_heap *heap)
{
    return heap->pages * PAGE_BYTES;
}

static int by_number(const void *one, const void *other)
{
    const uint64_t a = ((const struct arena_heap *)one)->number;
    const uint64_t b = ((const struct arena_heap *)other)->number;
    return (a > b) - (a < b);
}

/* In the order of addresses; afterwards none is found by its number any more. */
static void heaps_sort(struct arenas *arenas)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < HEAPS_TABLE; i++)
        if (arenas->heaps[i].number != 0) arenas->heaps[kept++] = arenas->heaps[i];
    qsort(arenas->heaps, kept, sizeof *arenas->heaps, by_number);
}

void arenas_end(struct arenas *arenas)
{
    if (arenas->known) heaps_sort(arenas);
    for (unsigned at = 0; at < arenas->threads_count; at++) {
        const unsigned own = own_arena(arenas, at);
        arenas->threads[at].own = own;
        if (own != ARENA_MAPPED) arenas->all[own].threads++;
        for (unsigned i = 0; i < arenas->count; i++) {
            struct arena *arena = &arenas->all[i];
            arena->all.made += arena->by_thread[at].made;
            arena->all.ended += arena->by_thread[at].ended;
            if (i != own) arena->foreign += arena->by_thread[at].ended;
        }
    }
}

/* ---- text ---- */

/* Ends with the ids of its threads. */
static void print_one(const struct arenas *arenas, unsigned index, uint64_t calls, FILE *to)
{
    const struct arena *arena = &arenas->all[index];
    unsigned shown = 0;
    char name[32] = "main";
    if (index >= ARENA_OTHERS) snprintf(name, sizeof name, "%" PRIx64, arena->begin);
    fprintf(to, "  %-14s %6s %12s %13s %9s %13s %9s  ", name, words_count(arena->heaps),
            words_bytes(arena->bytes), words_count(arena->all.made),
            words_share(arena->all.made + arena->all.ended, calls), words_count(arena->all.ended),
            words_share(arena->foreign, arena->all.ended));
    for (unsigned at = 0; at < arenas->threads_count && shown < THREADS_SHOWN; at++) {
        if (arenas->threads[at].own != index) continue;
        fprintf(to, " %" PRIu64, arenas->threads[at].id);
        shown++;
    }
    fputs(shown < arena->threads ? " ...\n" : "\n", to);
}

/* Of an arena with several. */
static void print_heaps(const struct arenas *arenas, unsigned index, FILE *to)
{
    unsigned shown = 0;
    if (arenas->all[index].heaps < 2) return;
    for (unsigned i = 0; i < arenas->heaps_count && shown < SHOWN_HEAPS; i++) {
        const struct arena_heap *heap = &arenas->heaps[i];
        if (heap->arena != index) continue;
        fprintf(to, "    heap %-14" PRIx64 "  %12s\n", heap->number * HEAP_BYTES,
                words_bytes(heap_bytes(heap)));
        shown++;
    }
    if (shown < arenas->all[index].heaps)
        fprintf(to, "    and %s more\n", words_count(arenas->all[index].heaps - shown));
}

static uint64_t calls_of(const struct arena *arena)
{
    return arena->all.made + arena->all.ended;
}

void arenas_print(const struct arenas *arenas, FILE *to)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < arenas->count; i++)
        calls += calls_of(&arenas->all[i]);
    if (calls == 0) return;
    fprintf(to, "\n%-16s %6s %12s %13s %9s %13s %9s   %s\n", "glibc's arenas", "heaps", "bytes",
            "made", "calls", "ended", "by others", "threads");
    for (unsigned i = ARENA_MAIN; i < arenas->count && i < ARENAS_SHOWN; i++) {
        print_one(arenas, i, calls, to);
        print_heaps(arenas, i, to);
    }
    if (arenas->count > ARENAS_SHOWN)
        fprintf(to, "  and %s more\n", words_count(arenas->count - ARENAS_SHOWN));
    if (calls_of(&arenas->all[ARENA_MAPPED]) > 0)
        fprintf(to, "  (%s of the calls concern objects that glibc maps with mmap.)\n",
                words_share(calls_of(&arenas->all[ARENA_MAPPED]), calls));
}

/* ---- JSON ---- */

json_t *arenas_json(const struct arenas *arenas)
{
    static const char columns[] = "begin heaps bytes threads made ended foreign";
    static const char uses[] = "arena lane thread made ended", heaps[] = "begin bytes arena";
    const struct arena_use *mapped = &arenas->all[ARENA_MAPPED].all;
    json_t *object = json_object(), *table = json_put_table(object, "all", columns);
    json_t *by_thread = json_put_table(object, "by_thread", uses);
    json_t *all_heaps = json_put_table(object, "heaps", heaps);
    json_put_numbers(object, "mapped_made mapped_ended", mapped->made, mapped->ended);
    for (unsigned i = ARENA_MAIN; i < arenas->count; i++) {
        const struct arena *arena = &arenas->all[i];
        json_put_row(table, columns, arena->begin, arena->heaps, arena->bytes, arena->threads,
                     arena->all.made, arena->all.ended, arena->foreign);
        for (unsigned at = 0; at < arenas->threads_count; at++) {
            const struct arena_thread *thread = &arenas->threads[at];
            const struct arena_use *use = &arena->by_thread[at];
            if (use->made > 0 || use->ended > 0)
                json_put_row(by_thread, uses, i - ARENA_MAIN, thread->lane, thread->id, use->made,
                             use->ended);
        }
    }
    for (unsigned i = 0; i < arenas->heaps_count; i++)
        json_put_row(all_heaps, heaps, arenas->heaps[i].number * HEAP_BYTES,
                     heap_bytes(&arenas->heaps[i]), arenas->heaps[i].arena - ARENA_MAIN);
    return object;
}
