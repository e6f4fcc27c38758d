/* metadata - lines "key=value\n" in the header of a stream. */
#ifndef MALLOCTAPE_METADATA_H
#define MALLOCTAPE_METADATA_H

#include <stdbool.h>
#include <stddef.h>

#include "stream/original.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a key, which is *value_bytes long and ends with no zero; NULL: it is not there. */
const char *metadata_value(const char *metadata, size_t bytes, const char *key,
                           size_t *value_bytes);

/* A copy of it, printable (common/printable.h), that ends with a zero, to be freed; empty if it is
 * not there. NULL: no memory. */
char *metadata_copy(const char *metadata, size_t bytes, const char *key);

/* When the recording began, since the epoch; 0: unknown. */
double metadata_start_s(const char *metadata, size_t bytes);

/* The size of a page of memory where it was recorded; 0: unknown. */
unsigned long metadata_page_bytes(const char *metadata, size_t bytes);

/* Of a trace that `malloctape cut --thin` made: for how many an object stands, on average; 1: only short
 * lives are left out. 0: it is not thinned. */
double metadata_thin(const char *metadata, size_t bytes);

#define METADATA_THIN_TEXT 96

/* Says that, for people: "cut --thin has left out ...". */
void metadata_thin_text(double thin, char text[METADATA_THIN_TEXT]);

/* Whether the recorder was loaded into a process that ran already (FORMAT.md 2.9). */
bool metadata_is_attached(const char *metadata, size_t bytes);

/* Whether the process was forked from a recorded one. */
bool metadata_is_forked(const char *metadata, size_t bytes);

/* ---- the names of an allocator's statistics ----
 *
 *   metadata "statistics=arenas mapped_bytes" --statistics_take()--> names[0] "arenas", ...
 *
 * The values come with the ticks (original.h), in the same order. Those whose names end in "_bytes"
 * are bytes, the others count something. */

struct statistics_names {
    unsigned count;
    const char *names[ORIGINAL_STATISTICS_MAX];
    char *text; /* which has them */
};

/* Takes the names out of a text, in which it puts null bytes, and which must stay. */
void statistics_split(struct statistics_names *statistics, char *text);

/* Takes those of a stream; none if there is no memory. */
void statistics_take(struct statistics_names *statistics, const char *metadata, size_t bytes);
void statistics_free(struct statistics_names *statistics);

bool statistics_is_bytes(const char *name);

/* Whether it is about the process or the program, and not what the allocator says. */
bool statistics_is_of_process(const char *name);

/* The index of the name; ORIGINAL_STATISTICS_MAX: there is none. */
unsigned statistics_find(const struct statistics_names *statistics, const char *name);

/* The same from a stream's metadata; takes no memory. */
unsigned statistics_index(const char *metadata, size_t bytes, const char *name);

#ifdef __cplusplus
}
#endif
#endif
