/* cut - a part of a trace, as a trace.
 *
 *   TRACE --reading/ordered--> [ before: base/ ]  from  [ the part: cut_copy ]  to
 *                                       |                        |
 *                                       +--- instruction_writer -+--> OUT
 *
 * One pass, call by call: what is held is the base, and of the part the names of its live objects. So
 * TRACE and OUT may be pipes.
 *
 * With a choice of lanes, sizes or code, objects go as a whole: a call stays if its object was made by
 * a call that is chosen. Calls without an object (failed, or of an unknown one) stay if they are
 * chosen themselves. */
#ifndef MALLOCTAPE_CUT_CUT_H
#define MALLOCTAPE_CUT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/instruction_reader.h"
#include "stream/instruction_writer.h"

enum cut_unit { CUT_NOWHERE, CUT_NS, CUT_CALLS };

/* Where a part begins or ends: after the first tick at that time, since recording began, or after so
 * many calls. */
struct cut_bound {
    enum cut_unit unit;
    uint64_t value;
};

#define CUT_RANGES_MAX 64u

struct cut_range {
    uint64_t least, most;
};

struct cut_ranges {
    struct cut_range at[CUT_RANGES_MAX];
    size_t count; /* 0: all */
};

struct anonymous;
struct cut_code;

struct cut_plan {
    struct cut_bound from, to;
    struct cut_ranges lanes, sizes;
    struct cut_code *code; /* or NULL: all */
    bool drops_stacks, drops_addresses, drops_statistics, drops_mappings;
    unsigned moments;            /* struct base_limits */
    struct anonymous *anonymous; /* or NULL: names stay */
    char *linked;                /* linked_line(), or NULL */
};
#define CUT_NO_MOMENTS UINT32_MAX

struct cut_counts {
    uint64_t base_objects, base_bytes,
        base_calls;             /* objects alive there, and calls that make them */
    uint64_t calls, left_out;   /* of the part: written; not chosen */
    uint64_t before, before_ns; /* the part begins there */
    bool begins;                /* the trace goes as far as `from` */
    bool is_cut;                /* the trace is */
};

/* Writes the part to `path`. False: `why` says what is wrong. */
bool cut_stream_write(const struct cut_plan *plan, struct input *input, const char *path,
                      struct cut_counts *counts, char *why, size_t why_bytes);

/* "10m", "1.5s", "1000calls": what `compare --what-if` takes for times. False: it is something else. */
bool cut_bound_parse(struct cut_bound *bound, const char *text);

/* "3", "16-64", "1024-", several with commas. False: it is something else, or too much. */
bool cut_ranges_parse(struct cut_ranges *ranges, const char *text);
bool cut_ranges_have(const struct cut_ranges *ranges, uint64_t value);

#endif
