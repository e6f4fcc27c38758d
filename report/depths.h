/* depths - how far into the allocator the calls of a recording had to go.
 *
 * A recording says in which order threads entered the structures that the allocator shares between
 * them (FORMAT.md, sequence numbers): the central lists of the size classes, and the page heap. A
 * call that entered none was served by the thread's cache alone. An ordered stream has no such
 * numbers any more, and an opaque recording never had.
 *
 *   allocations or frees == cache + central + page_heap
 *
 * Memory: that of inspect/raw_source.h, and 16 bytes for each lane. */
#ifndef MALLOCTAPE_REPORT_DEPTHS_H
#define MALLOCTAPE_REPORT_DEPTHS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tracing/raw_format.h"

enum depth { DEPTH_CACHE, DEPTH_CENTRAL, DEPTH_PAGE_HEAP, DEPTHS };

struct depths {
    bool known;
    uint64_t allocations[DEPTHS], frees[DEPTHS]; /* a realloc counts as an allocation */
    uint64_t class_bytes[RAW_STRUCTURES];        /* of the objects of a size class */
    uint64_t class_entries[RAW_STRUCTURES];      /* into its central list */
    uint64_t page_heap_entries;
};

/* Reads the recording at `path`, a file. Returns an exit status; what is wrong has been said. */
int depths_read(struct depths *depths, const char *path);

void depths_print(const struct depths *depths, FILE *to);

/* A new object. */
json_t *depths_json(const struct depths *depths);

#endif
