/* statistics - the names of what an allocator says of itself, from the metadata of a stream.
 *
 *   metadata "statistics=arenas mapped_bytes" --statistics_take()--> names[0] "arenas", ...
 *
 * The values come with the ticks (original.h), in the same order. Those whose names end in "_bytes"
 * are bytes, the others count something. */
#ifndef MALLOCTAPE_STATISTICS_H
#define MALLOCTAPE_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/original.h"

struct statistics_names {
    unsigned count;
    const char *names[ORIGINAL_STATISTICS_MAX];
    char *text; /* which has them */
};

/* Takes the names out of a text, in which it puts null bytes, and which must stay. */
void statistics_split(struct statistics_names *statistics, char *text);

/* Those of a stream; none without memory. */
void statistics_take(struct statistics_names *statistics, const char *metadata, size_t bytes);
void statistics_free(struct statistics_names *statistics);

bool statistics_is_bytes(const char *name);

#endif
