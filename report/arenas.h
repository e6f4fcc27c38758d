/* arenas - which thread's objects lie in which of glibc's arenas, judged by their addresses, and
 * the heaps of each arena.
 *
 * The first arena lies at the break, below all mappings. The others lie in heaps, whose addresses
 * are multiples of 64 MiB (HEAP_MAX_SIZE) and which are reserved as a whole. The first heap of
 * an arena has the arena itself in front of all objects. So a heap with an object where an arena
 * would be continues the arena of the thread that made the object. Objects that, with their
 * alignment, reach the mmap threshold count as mapped with mmap, and so do large ones that lie where
 * a mapping of their own would have them, unless they lie in a heap that is already known from a
 * smaller object.
 *
 * A thread's own arena is the one that most of its objects lie in. Not all: what a thread frees
 * stays in its cache, from where the same thread may reuse it, whichever arena it belongs to.
 * Threads that continue a lane count separately: glibc gives each whichever arena is free.
 *
 * Assumes that Linux lays out the address space as it does unless the stack is unlimited. */
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
    uint64_t begin; /* of its first heap; of the main arena, the page of its lowest object */
    uint64_t heaps;
    uint64_t bytes;        /* of its heaps' pages, up to the highest object so far */
    uint64_t threads;      /* whose own arena it is */
    uint64_t remote_frees; /* its objects ended by threads whose own arena is another */
    struct arena_use all;
    struct arena_use *by_thread;
};

/* Threads beyond ARENA_THREADS_MAX count as the last one. */
struct arena_thread {
    unsigned lane, own; /* arena; ARENA_MAPPED: it has none */
    uint64_t id;        /* 0: its beginning is not in the stream */
};

struct arenas {
    bool is_aarch64;     /* of the machine; this and page_bytes: set before the first batch */
    uint64_t page_bytes; /* 0: unknown */
    bool known;          /* the stream has addresses, of glibc */
    struct arena all[ARENAS_MAX];
    unsigned count;
    struct arena_thread *threads;
    unsigned threads_count;

    /* From here on: arenas.c only. */
    struct arena_heap *heaps;
    unsigned heaps_count;
    uint16_t *objects; /* the arena of each live object, by index */
    uint64_t live, capacity;
    struct original_statistics now;
    uint16_t latest[INSTRUCTION_LANES_MAX]; /* the thread in each lane */
    unsigned lane, thread;                  /* that call now */
    uint64_t mmap_threshold;
};

/* Adds a batch. Batches have indices and come one after another. `names`: of the statistics that
 * the allocator reports. False: no memory. */
bool arenas_add(struct arenas *arenas, const struct statistics_names *names,
                const struct instruction_batch *batch);
void arenas_end(struct arenas *arenas);
void arenas_close(struct arenas *arenas);

void arenas_print(const struct arenas *arenas, FILE *to);

/* A new object. */
json_t *arenas_json(const struct arenas *arenas);

#endif
