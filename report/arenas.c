#include "report/arenas.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/call_table.h"
#include "common/json_file.h"
#include "common/pages.h"
#include "report/table.h"
#include "report/words.h"

/* Mappings lie above this, in address spaces of 47 and of 48 bits; a program and its break lie at
 * two thirds of the address space. */
#define MAPPINGS_X86_64  (UINT64_C(7) << 44)
#define MAPPINGS_AARCH64 (UINT64_C(14) << 44)
#define HEAP_BYTES       (UINT64_C(64) << 20)
#define ARENA_BYTES      2048u /* less than an arena and what precedes it in its heap take */
#define PAGE_BYTES       UINT64_C(4096) /* unless the stream says otherwise */
#define CHUNK_BYTES      8u             /* of glibc, in front of each object */
#define ALIGNED_BYTES    32u            /* what an aligned object needs besides its alignment */
#define MAPPED_AT        16u /* where an object in a mapping of its own lies in its page */
#define MMAP_THRESHOLD   (UINT64_C(128) << 10)
#define HEAPS_TABLE      (1u << 16)
#define HEAPS_MAX        (HEAPS_TABLE / 2)
#define USES_BYTES       (ARENA_THREADS_MAX * sizeof(struct arena_use))
#define THREADS_BYTES    (ARENA_THREADS_MAX * sizeof(struct arena_thread))
#define HEAPS_BYTES      (HEAPS_TABLE * sizeof(struct arena_heap))
#define ARENAS_SHOWN     20u
#define THREADS_WIDTH    14u
#define SHOWN_HEAPS      4u

/* An entry without a number is free. */
struct arena_heap {
    uint64_t number; /* of HEAP_BYTES each */
    uint64_t bytes;  /* of pages, to the end of the highest object */
    unsigned arena;
};

_Static_assert(ARENAS_MAX <= UINT16_MAX, "an object has the number of its arena");
_Static_assert(ARENA_THREADS_MAX - 1 <= UINT16_MAX, "a lane has the number of its thread");

/* ---- opening, closing, growing ---- */

/* The index of a new arena; 0: no memory, or ARENAS_MAX is reached. */
static unsigned arena_add(struct arenas *arenas, uint64_t begin)
{
    if (arenas->count == ARENAS_MAX) return 0;
    struct arena *arena = &arenas->all[arenas->count];
    *arena = (struct arena){.begin = begin, .by_thread = pages_map(USES_BYTES)};
    return arena->by_thread != NULL ? arenas->count++ : 0;
}

/* Another thread continues the lane, or the thread of its previous calls now has an id. */
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
    if (arenas->page_bytes == 0) arenas->page_bytes = PAGE_BYTES;
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

/* The arena that most objects of a thread lie in; ARENA_MAPPED: there is none. */
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

/* The heap with this number, or the free entry where it would go. */
static struct arena_heap *heap_find(const struct arenas *arenas, uint64_t number)
{
    uint64_t at = number * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (arenas->heaps[at % HEAPS_TABLE].number != number &&
           arenas->heaps[at % HEAPS_TABLE].number != 0)
        at++;
    return &arenas->heaps[at % HEAPS_TABLE];
}

/* Enters a new heap, on seeing its first object. False: its arena cannot be determined. */
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

static uint64_t whole_pages(const struct arenas *arenas, uint64_t bytes)
{
    return (bytes + arenas->page_bytes - 1) & -arenas->page_bytes;
}

static unsigned arenas_main_arena(struct arenas *arenas, uint64_t address, uint64_t size)
{
    struct arena *arena = &arenas->all[ARENA_MAIN];
    const uint64_t begin = address - address % arenas->page_bytes;
    const uint64_t end = whole_pages(arenas, address + size);
    uint64_t highest = arena->begin + arena->bytes;
    if (arena->heaps == 0 || begin < arena->begin) arena->begin = begin;
    if (end > highest) highest = end;
    arena->heaps = 1;
    arena->bytes = highest - arena->begin;
    return ARENA_MAIN;
}

/* A tick is not of one moment, and the program may set the threshold between ticks: the address
 * tells, too. Where a heap begins, no object lies so. `besides`: as below. */
static bool has_mapping(const struct arenas *arenas, uint64_t address, uint64_t size,
                        uint64_t besides)
{
    return size + besides + CHUNK_BYTES >= arenas->mmap_threshold ||
           (size >= MMAP_THRESHOLD && address % arenas->page_bytes == MAPPED_AT);
}

/* `besides`: bytes that glibc needs in addition to find room for the object. */
static unsigned arena_of(struct arenas *arenas, uint64_t address, uint64_t size, uint64_t besides)
{
    if (address < (arenas->is_aarch64 ? MAPPINGS_AARCH64 : MAPPINGS_X86_64))
        return arenas_main_arena(arenas, address, size);
    struct arena_heap *heap = heap_find(arenas, address / HEAP_BYTES);
    if (heap->number == 0 &&
        (has_mapping(arenas, address, size, besides) || !heap_begin(arenas, heap, address)))
        return ARENA_MAPPED;
    const uint64_t bytes = whole_pages(arenas, address % HEAP_BYTES + size);
    if (bytes > heap->bytes) {
        arenas->all[heap->arena].bytes += bytes - heap->bytes;
        heap->bytes = bytes;
    }
    return heap->arena;
}

/* ---- counting ---- */

static void arenas_object_begin(struct arenas *arenas, uint64_t index, uint64_t address,
                                uint64_t size, uint64_t besides)
{
    const unsigned arena = arena_of(arenas, address, size, besides);
    arenas->objects[index] = (uint16_t)arena;
    arenas->all[arena].by_thread[arenas->thread].made++;
}

static void arenas_object_end(struct arenas *arenas, uint64_t index)
{
    arenas->all[arenas->objects[index]].by_thread[arenas->thread].ended++;
}

static void arenas_release(struct arenas *arenas, uint64_t index)
{
    arenas_object_end(arenas, index);
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

static void arenas_take_other(struct arenas *arenas, unsigned number, const uint64_t *operands)
{
    if (number == INSTRUCTION_LANE) lane_begin(arenas, (unsigned)operands[0]);
    if (number == INSTRUCTION_THREAD_BEGIN) {
        thread_begin(arenas, arenas->lane, operands[0]);
        arenas->thread = arenas->latest[arenas->lane];
    }
}

static inline void arenas_take(struct arenas *arenas, const struct instruction *one,
                               const uint64_t *operands, uint64_t address)
{
    const unsigned number = instruction_number(one);
    uint64_t besides = 0;
    switch (instruction_does[one->opcode]) {
    case INSTRUCTION_BEGINS:
        if (call_shapes[number] == SHAPE_ALLOCATION_ALIGNED) besides = operands[0] + ALIGNED_BYTES;
        arenas->live++;
        arenas_object_begin(arenas, one->object, address, one->size, besides);
        break;
    case INSTRUCTION_ENDS: arenas_release(arenas, one->object); break;
    case INSTRUCTION_RESIZES:
        /* An object with a mapping of its own keeps it, even when it shrinks. */
        if (arenas->objects[one->object] == ARENA_MAPPED) besides = arenas->mmap_threshold;
        arenas_object_end(arenas, one->object);
        arenas_object_begin(arenas, one->object, address, one->size, besides);
        break;
    case INSTRUCTION_OTHER: arenas_take_other(arenas, number, operands); break;
    default: break;
    }
}

bool arenas_add(struct arenas *arenas, const struct statistics_names *names,
                const struct instruction_batch *batch)
{
    struct instruction_walk walk = instruction_walk_over(batch, batch->count);
    struct instruction one;
    const struct instruction_tick *tick = batch->ticks;
    if (batch->addresses == NULL) return true;
    if (!arenas->known && !arenas_open(arenas)) return false;
    if (!pages_reserve(&arenas->objects, &arenas->capacity, arenas->live + batch->count,
                       INSTRUCTION_BLOCK_MAX, sizeof *arenas->objects))
        return false;
    /* If the threshold at the first tick is below the default, the user has set it, so it was in
     * force before, too. A higher one may have been raised by a free since. */
    if (arenas->now.count == 0 && batch->ticks_count > 0) {
        take_threshold(arenas, names, batch, tick);
        if (arenas->mmap_threshold > MMAP_THRESHOLD) arenas->mmap_threshold = MMAP_THRESHOLD;
    }
    while (instruction_walk_next(&walk, &one)) {
        if (one.opcode == INSTRUCTION_TICK) take_threshold(arenas, names, batch, tick++);
        arenas_take(arenas, &one, batch->operands + one.operand_at, batch->addresses[walk.at - 1]);
    }
    return true;
}

static int arenas_by_number(const void *one, const void *other)
{
    const uint64_t a = ((const struct arena_heap *)one)->number;
    const uint64_t b = ((const struct arena_heap *)other)->number;
    return (a > b) - (a < b);
}

/* Sorts the heaps by address. Afterwards heap_find() no longer works. */
static void heaps_sort(struct arenas *arenas)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < HEAPS_TABLE; i++)
        if (arenas->heaps[i].number != 0) arenas->heaps[kept++] = arenas->heaps[i];
    qsort(arenas->heaps, kept, sizeof *arenas->heaps, arenas_by_number);
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
            if (i != own) arena->remote_frees += arena->by_thread[at].ended;
        }
    }
}

/* ---- tables ---- */

static uint64_t arenas_calls_of(const struct arena *arena)
{
    return arena->all.made + arena->all.ended;
}

static uint64_t calls_of_all(const struct arenas *arenas)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < arenas->count; i++)
        calls += arenas_calls_of(&arenas->all[i]);
    return calls;
}

/* The threads whose own arena this is, as many as fit. */
static const char *threads_text(const struct arenas *arenas, size_t index)
{
    const char *text = " ";
    uint64_t left = arenas->all[index].threads;
    for (unsigned at = 0; at < arenas->threads_count && left > 0; at++) {
        if (arenas->threads[at].own != index) continue;
        if (strlen(text) >= THREADS_WIDTH) return words_format("%s ...", text);
        text = words_format("%s %" PRIu64, text, arenas->threads[at].id);
        left--;
    }
    return text;
}

static bool arena_row(const void *of, size_t at, struct table_row *row)
{
    const struct arenas *arenas = of;
    const struct arena *arena = &arenas->all[at];
    const char *name = at == ARENA_MAIN ? "  main" : words_format("  %" PRIx64, arena->begin);
    const struct cell cells[] = {
        {NULL, 0, "glibc's arenas", -16, .text = name},
        {"begin", .value = arena->begin},
        {"heaps", arena->heaps, "heaps", .width = 6},
        {"bytes", arena->bytes, "bytes", 12, .unit = UNIT_BYTES},
        {"threads", .value = arena->threads},
        {"made", arena->all.made, "made", 13, .wide = true},
        {NULL, arenas_calls_of(arena), "calls", 9, UNIT_SHARE, .of = calls_of_all(arenas)},
        {"ended", arena->all.ended, "ended", 13, .wide = true},
        {"remote_frees", arena->remote_frees, "by others", 9, UNIT_SHARE, .of = arena->all.ended},
        {NULL, 0, "  threads", -1, .text = threads_text(arenas, at)},
    };
    TABLE_ROW(row, cells);
    return at >= ARENA_MAIN;
}

static bool heap_row(const void *of, size_t at, struct table_row *row)
{
    const struct arena_heap *heap = (const struct arena_heap *)of + at;
    const uint64_t begin = heap->number * HEAP_BYTES;
    const struct cell cells[] = {
        {NULL, 0, "", -23, .text = words_format("    heap %" PRIx64, begin)},
        {"begin", .value = begin},
        {"bytes", heap->bytes, "", 12, .unit = UNIT_BYTES},
        {"arena", .value = heap->arena - ARENA_MAIN},
    };
    TABLE_ROW(row, cells);
    return true;
}

/* Prints the heaps of arenas that have several. */
static void print_heaps(const struct arenas *arenas, unsigned index, FILE *to)
{
    uint32_t shown[SHOWN_HEAPS];
    const uint64_t heaps = arenas->all[index].heaps;
    unsigned count = 0;
    if (heaps < 2) return;
    for (unsigned i = 0; i < arenas->heaps_count && count < SHOWN_HEAPS; i++)
        if (arenas->heaps[i].arena == index) shown[count++] = i;
    table_print(&(struct table){heap_row, arenas->heaps, count, shown, .goes_on = true}, to);
    if (count < heaps) fprintf(to, "    and %s more\n", words_count(heaps - count));
}

void arenas_print(const struct arenas *arenas, FILE *to)
{
    const uint64_t calls = calls_of_all(arenas),
                   mapped = arenas_calls_of(&arenas->all[ARENA_MAPPED]);
    if (calls == 0) return;
    for (uint32_t i = ARENA_MAIN; i < arenas->count && i < ARENAS_SHOWN; i++) {
        table_print(&(struct table){arena_row, arenas, 1, &i, .goes_on = i > ARENA_MAIN}, to);
        print_heaps(arenas, i, to);
    }
    if (arenas->count > ARENAS_SHOWN)
        fprintf(to, "  and %s more\n", words_count(arenas->count - ARENAS_SHOWN));
    if (mapped > 0)
        fprintf(to, "  (%s of the calls concern objects that glibc maps with mmap.)\n",
                words_share(mapped, calls));
}

/* ---- JSON ---- */

static void put_uses(json_t *object, const struct arenas *arenas)
{
    static const char columns[] = "arena lane thread made ended";
    json_t *table = json_put_table(object, "by_thread", columns);
    for (unsigned i = ARENA_MAIN; i < arenas->count; i++)
        for (unsigned at = 0; at < arenas->threads_count; at++) {
            const struct arena_thread *thread = &arenas->threads[at];
            const struct arena_use *use = &arenas->all[i].by_thread[at];
            if (use->made > 0 || use->ended > 0)
                json_put_row(table, columns, i - ARENA_MAIN, thread->lane, thread->id, use->made,
                             use->ended);
        }
}

json_t *arenas_json(const struct arenas *arenas)
{
    const struct arena_use *mapped = &arenas->all[ARENA_MAPPED].all;
    json_t *object = json_object();
    table_put(object, "all", &(struct table){arena_row, arenas, .rows = arenas->count});
    put_uses(object, arenas);
    table_put(object, "heaps",
              &(struct table){heap_row, arenas->heaps, .rows = arenas->heaps_count});
    json_put_numbers(object, "mapped_made mapped_ended", mapped->made, mapped->ended);
    return object;
}
