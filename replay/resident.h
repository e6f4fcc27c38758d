/* resident - how much memory of the process is resident, and how much of that is the replay's own.
 *
 *   resident = the replay's own                   its program, the libraries that this needs (C
 *                                                 library, lz4, ...), tables, queues, buffers;
 *                                                 libraries that the recorded program has, too
 *            + everything else                    the allocator's: its heap, its library, and what
 *                                                 that needs (the C++ library, say)
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

/* Segments of the replay's own program and libraries. */
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
    uint64_t vm_size_bytes; /* size of the address space; 0 when the system does not say */
    uint64_t tables_bytes;  /* of all_bytes: what pages_map() mapped */
    uint64_t library_bytes; /* of all_bytes: the segments */
    uint64_t shared_bytes;  /* files and shared memory, when the segments were looked at */
    uint64_t cost_ns;       /* of a look, as far as is known */
    uint64_t next_ns;       /* earliest time of the next look, so that looks take little time */
};

/* Looks may take at most this fraction (1 / LOOK_SHARE) of the time. */
#define LOOK_SHARE 20u

/* `program_has`: libraries that the recorded program has under any allocator, by their names, with
 * commas between them; NULL: none. */
void resident_open(struct resident *resident, const char *program_has);
void resident_close(struct resident *resident);

/* Counts a range of memory as the replay's own. NULL is ignored. */
void resident_add(struct resident *resident, const void *at, size_t bytes);

/* Whether it is time to look again. `now_ns`: of measure_now_ns(). */
static inline bool resident_is_due(const struct resident *resident, uint64_t now_ns)
{
    return now_ns >= resident->next_ns;
}

/* Looks at resident memory and tables; at the rest only if it has changed, or if `whole`. */
void resident_look(struct resident *resident, bool whole);

/* Entries of pagemap that are read at once. */
#define PAGEMAP_STEP 512u

/* Reads which of the pages `next` to `end` - 1, at most PAGEMAP_STEP of them, this process has
 * mapped in memory. Returns for how many the system answered. (mincore() would also report pages of
 * files or shared memory that only the system holds.) */
size_t pagemap_read(int pagemap, uint64_t next, uint64_t end, bool present[PAGEMAP_STEP]);

/* The replay's own bytes, by the latest look. */
static inline uint64_t resident_own_bytes(const struct resident *resident)
{
    return resident->tables_bytes + resident->library_bytes;
}

#endif
