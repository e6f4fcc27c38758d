/* depths - how far into the allocator the calls of a recording had to go, what they waited for,
 * what they took from the system, and what became of spans.
 *
 * A recording says in which order threads entered the structures that the allocator shares between
 * them (FORMAT.md, sequence numbers): the central lists of the size classes, and the page heap; and
 * what happened inside calls. A call that entered none was served by the thread's cache alone. An
 * ordered stream no longer has this information, and an opaque recording never had it.
 *
 * Memory: that of reading/raw_source.h, and 256 bytes for each lane. */
#ifndef MALLOCTAPE_REPORT_DEPTHS_H
#define MALLOCTAPE_REPORT_DEPTHS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/call_kind.h"
#include "reading/path.h"
#include "report/timeline.h"
#include "stream/raw_format.h"

struct depths_waits {
    uint64_t waits, waited_ns;
};

/* A size class and its central list; the last one is the page heap. */
struct depths_class {
    uint64_t bytes; /* of an object */
    uint64_t entries;
    struct depths_waits waits;
    /* Calls for objects of this class, by path. A realloc counts as an allocation of the object
     * that it makes. */
    uint64_t allocations[PATHS], frees[PATHS];
};

struct depths_of_lane {
    struct depths_waits waits;
    uint64_t taken_bytes, released_bytes;
};

struct depths {
    bool known;
    struct depths_class classes[RAW_STRUCTURES];
    struct depths_of_lane lanes[RAW_LANES_MAX];
    struct {
        uint64_t times, bytes;
    } inside[RAW_INSIDE_KINDS];     /* index 0: the first RAW_INSIDE_... */
    uint64_t taken_for[CALL_KINDS]; /* bytes from the system, by the kind of call */
    struct timeline timeline;
};

/* Reads the recording at `path`, a file. Returns an exit status; what is wrong has been printed. */
int depths_read(struct depths *depths, const char *path);

void depths_print(const struct depths *depths, FILE *to);

/* A new object. */
json_t *depths_json(const struct depths *depths);

#endif
