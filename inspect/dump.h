/* dump - what the dumps of both formats share; dump.c, dump_raw.c and dump_instructions.c only.
 *
 *   dump.c --stream--+--> dump_raw.c            one line a record
 *                    +--> dump_instructions.c   one line an instruction */
#ifndef MALLOCTAPE_DUMP_H
#define MALLOCTAPE_DUMP_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cli.h"
#include "common/call_table.h"
#include "inspect/call_text.h"
#include "reading/stream.h"

#define DUMP_ALL_LANES UINT64_MAX

struct dump {
    bool only_calls;
    bool paths;    /* calls, each with how far it went (path.h) */
    uint64_t lane; /* or DUMP_ALL_LANES */
};

/* Whether to print lines that belong to no lane: headers, ticks, totals. */
static inline bool dump_wants_general(const struct dump *dump)
{
    return !dump->only_calls && dump->lane == DUMP_ALL_LANES && !dump->paths;
}

static inline bool dump_wants_lane(const struct dump *dump, uint32_t lane)
{
    return dump->lane == DUMP_ALL_LANES || dump->lane == lane;
}

/* Prints the beginning of a line. */
static inline void dump_offset(const struct dump *dump, uint64_t offset)
{
    if (!dump->only_calls) printf("%012" PRIx64 " ", offset);
}

/* One line for each line of metadata; `offset` is that of the first. */
void dump_metadata(const struct dump *dump, uint64_t offset, const char *metadata, size_t bytes);

/* One line for each kind that occurred; `counts` has CALL_KINDS numbers. */
void dump_counts(const struct dump *dump, uint64_t offset, const uint64_t *counts);

/* Print a whole stream. Return an exit status; if the stream is bad, *error says how. */
int dump_raw(const struct dump *dump, struct stream *stream, const char *path, struct error *error);
int dump_instructions(const struct dump *dump, struct stream *stream, struct error *error);

/* Prints the objects of either stream. */
int dump_objects(const char *path, struct error *error);

#endif
