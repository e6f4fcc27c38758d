/* resident - how much memory of the process is resident, and how much of that is the replay's own.
 *
 *   resident = the replay's own                   its program, the libraries that this one needs
 *                                                 (C library, lz4, ...), tables, queues, buffers
 *            + everything else                    the allocator's: its heap, its library, and what
 *                                                 that one brings (the C++ library, say)
 *
 * Stacks count as everything else.
 *
 * A look at all resident memory and at private tables takes some 10 us; one at the pages of files
 * and of shared memory some 100. The latter is taken only when the system counts more or fewer of
 * these pages than before.
 *
 * Threads: one. Nothing is taken from the allocator. */
#ifndef MALLOCTAPE_REPLAY_RESIDENT_H
#define MALLOCTAPE_REPLAY_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parts of the replay's own program and libraries. */
#define RESIDENT_SEGMENTS_MAX 128u

struct resident_segment {
    uintptr_t at;
    size_t bytes;
};

struct resident {
    int statm, pagemap; /* of /proc/self, or -1 */
    unsigned count;
    struct resident_segment segments[RESIDENT_SEGMENTS_MAX]; /* `count` of them */
    uint64_t all_bytes;     /* resident memory; 0 when the system does not say */
    uint64_t vm_size_bytes; /* of the address space, the same */
    uint64_t tables_bytes;  /* of that: what pages_map() mapped */
    uint64_t library_bytes; /* of that: the segments */
    uint64_t shared_bytes;  /* files and shared memory, when the segments were looked at */
    uint64_t cost_ns;       /* of a look, as far as is known */
    uint64_t next_ns;       /* no look before, so that looks take only a small part of the time */
};

/* Looking may take at most one part in so many of the time. */
#define LOOK_SHARE 20u

void resident_open(struct resident *resident);
void resident_close(struct resident *resident);

/* A range of memory is the replay's own. NULL is ignored. */
void resident_add(struct resident *resident, const void *at, size_t bytes);

/* Whether it is time to look again. `now_ns`: of measure_now_ns(). */
static inline bool resident_is_due(const struct resident *resident, uint64_t now_ns)
{
    return now_ns >= resident->next_ns;
}

/* Looks at resident memory and tables, and at the rest if that has changed, or with `whole`. */
void resident_look(struct resident *resident, bool whole);

/* Entries of pagemap that are read at once. */
#define PAGEMAP_STEP 512u

/* Which of the pages `next` to `end` - 1, at most PAGEMAP_STEP of them, this process has. Returns
 * on how many the system reported. (mincore() would report what the system has of a file or of
 * shared memory.) */
size_t pagemap_read(int pagemap, uint64_t next, uint64_t end, bool present[PAGEMAP_STEP]);

/* The replay's own bytes, by the latest look. */
static inline uint64_t resident_own_bytes(const struct resident *resident)
{
    return resident->tables_bytes + resident->library_bytes;
}

#endif
