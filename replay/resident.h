/* resident - how much memory of the process is resident, and how much of that is the replay's own.
 *
 *   resident = the replay's own                   its program, the libraries that this one needs
 *                                                 (C library, lz4, ...), tables, queues, buffers
 *            + everything else                    the allocator's: its heap, its library, and what
 *                                                 that one brings (the C++ library, say)
 *
 * Stacks count as everything else.
 *
 * Parts of a look differ in what they cost: all resident memory 1 us, private tables 10 us, files
 * and shared memory 100 us. So each is looked at as often as it may be, and its latest size stands
 * in between.
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

/* What is looked at as often as that takes one part in LOOK_SHARE of the time. */
struct resident_part {
    uint64_t bytes;
    uint64_t next_ns; /* not before */
};

struct resident {
    int statm, pagemap; /* of /proc/self, or -1 */
    unsigned looks, count;
    struct resident_segment segments[RESIDENT_SEGMENTS_MAX]; /* `count` of them */
    struct resident_part all;     /* resident memory; 0 when the system does not say */
    struct resident_part tables;  /* of that: what pages_map() mapped */
    struct resident_part library; /* of that: segments, and what pages_map_shared() mapped */
};

/* Looking may take at most one part in so many of the time. */
#define LOOK_SHARE 20u

void resident_open(struct resident *resident);
void resident_close(struct resident *resident);

/* Whether it is time to look again. `now_ns`: of measure_now_ns(). */
static inline bool resident_is_due(const struct resident *resident, uint64_t now_ns)
{
    return now_ns >= resident->all.next_ns;
}

/* Looks at resident memory, and at what is due of the rest; `whole`: at everything. */
void resident_look(struct resident *resident, bool whole);

/* The replay's own bytes, by the latest look. */
static inline uint64_t resident_own_bytes(const struct resident *resident)
{
    return resident->tables.bytes + resident->library.bytes;
}

#endif
