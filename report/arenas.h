/* arenas - which thread has its objects in which of glibc's arenas, by their addresses, and the heaps
 * of each.
 *
 * The first arena lies at the break, below all mappings. The others lie in heaps, whose addresses
 * are multiples of 64 MiB (HEAP_MAX_SIZE) and which are reserved as a whole. The first heap of
 * an arena has the arena itself in front of all objects. So a heap with an object where an arena
 * would be continues the arena of the thread that made the object. Objects of the mmap threshold
 * and more, with their alignment, are mapped with mmap, unless they lie in a heap that is
 * known by a smaller one.
 *
 * A thread's own arena is the one that most of its objects lie in. Not all: what a thread frees
 * stays in its cache, and may be used again by this thread, whichever arena it is of. Threads that
 * continue a lane are threads of their own: glibc gives each whichever arena is free.
 *
 * Addresses are as Linux lays them out unless the stack is unlimited. */
#ifndef MALLOCTAPE_REPORT_ARENAS_H
#define MALLOCTAPE_REPORT_ARENAS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report/history.h"
#include "stream/instruction_reader.h"

enum { ARENAS_MAX = 1024, ARENA_THREADS_MAX = 1 << 16 };
enum { ARENA_MAPPED, ARENA_MAIN, ARENA_OTHERS }; /* mappings; arenas */

struct arena_use {
    uint64_t made, ended; /* objects, reallocs included */
};

struct arena {
    uint64_t begin; /* of its first heap, or its lowest object */
    uint64_t heaps;
    uint64_t bytes;        /* pages of its heaps, as far as there have been objects */
    uint64_t threads;      /* whose own arena it is */
    uint64_t remote_frees; /* of its objects, ended by threads whose own it is not */
    struct arena_use all;
    struct arena_use *by_thread;
};

/* Further ones count with the last. */
struct arena_thread {
    unsigned lane, own; /* arena; ARENA_MAPPED: it has none */
    uint64_t id;        /* 0: its beginning is not in the stream */
};

struct arenas {
    bool is_aarch64;     /* as is page_bytes: of the machine, before the first batch */
    uint64_t page_bytes; /* 0: unknown */
    bool known;          /* the stream has addresses, of glibc */
    struct arena all[ARENAS_MAX];
    unsigned count;
    struct arena_thread *threads;
    unsigned threads_count;

    /* From here on: arenas.c only. */
    struct arena_heap *heaps;
    unsigned heaps_count;
    uint16_t *objects; /* where those that are alive lie, by index */
    uint64_t live, capacity;
    struct original_statistics now;
    uint16_t latest[INSTRUCTION_LANES_MAX]; /* the thread in each lane */
    unsigned lane, thread;                  /* that call now */
    uint64_t mmap_threshold;
};

/* Batches with indices, one after another, of an allocator that says these things of itself. False:
 * no memory. */
bool arenas_add(struct arenas *arenas, const struct statistics_names *names,
                const struct instruction_batch *batch);
void arenas_end(struct arenas *arenas);
void arenas_close(struct arenas *arenas);

void arenas_print(const struct arenas *arenas, FILE *to);

/* A new object. */
json_t *arenas_json(const struct arenas *arenas);

#endif
