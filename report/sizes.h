/* sizes - what the calls asked for, by size.
 *
 *   size --+--> below SIZES_SMALL: an entry of its own
 *          +--> else an entry of its own, found by hashing, up to SIZES_LARGE_MAX of them
 *          `--> else the entry of a class of sizes (common/histogram.h)
 *
 * The number of an entry never changes, because objects store it. Memory is from pages_map() and
 * bounded by SIZES_LARGE_MAX. */
#ifndef MALLOCTAPE_REPORT_SIZES_H
#define MALLOCTAPE_REPORT_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"
#include "common/live.h"

enum {
    SIZES_SMALL = 4096,
    SIZES_LARGE_FIRST = SIZES_SMALL + HISTOGRAM_BUCKETS,
    SIZES_LARGE_MAX = 1 << 18,
    SIZES_MAX = SIZES_LARGE_FIRST + SIZES_LARGE_MAX
};

struct size_entry {
    uint64_t size;           /* of a class: its lowest */
    uint64_t count;          /* of objects that were made */
    uint64_t bytes;          /* of all of them */
    uint64_t lifetime_calls; /* sum over the objects that have ended */
    uint64_t latest_call;    /* the latest that made one */
    struct live live;
};

struct sizes {
    struct size_entry *entries;
    uint32_t count;          /* of entries in use */
    uint32_t capacity;       /* of entries */
    uint32_t *table;         /* numbers of entries of large sizes, 0: free */
    uint32_t table_capacity; /* a power of two, more than twice the large sizes */
};

bool sizes_open(struct sizes *sizes);
void sizes_close(struct sizes *sizes);

/* The entry of a size of SIZES_SMALL or more: its own, or that of its class if there is no room. */
uint32_t sizes_find_large(struct sizes *sizes, uint64_t size);

static inline uint32_t sizes_find(struct sizes *sizes, uint64_t size)
{
    return size < SIZES_SMALL ? (uint32_t)size : sizes_find_large(sizes, size);
}

static inline bool sizes_is_class(uint32_t entry)
{
    return entry >= SIZES_SMALL && entry < SIZES_LARGE_FIRST;
}

/* The highest size that an entry stands for. */
static inline uint64_t sizes_highest(const struct sizes *sizes, uint32_t entry)
{
    return sizes_is_class(entry) ? histogram_bucket_high(entry - SIZES_SMALL)
                                 : sizes->entries[entry].size;
}

/* Whether an object of it was made, or came with a base. At the end, when all is settled. */
static inline bool size_entry_is_used(const struct size_entry *entry)
{
    return entry->count > 0 || entry->live.peak_objects > 0 || entry->live.objects > 0;
}

/* Whether there were too many sizes, so that some are counted only by class. */
static inline bool sizes_has_classes(const struct sizes *sizes)
{
    for (uint32_t i = SIZES_SMALL; i < SIZES_LARGE_FIRST; i++)
        if (size_entry_is_used(&sizes->entries[i])) return true;
    return false;
}

#endif
