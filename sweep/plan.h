/* sweep/plan - what a sweep compares, as a user writes it: JSON (docs/sweep.md).
 *
 *   { "traces": ["a.raw.lz4", "b.raw.lz4"],
 *     "allocators": ["glibc", {"allocator": "jemalloc", "settings": {"narenas": 1}}],
 *     "search": {"jemalloc": {"dirty_decay_ms": [0, 1000], "narenas": [1, 4]}},
 *     "runs": 5 }
 *
 *   --> a row for each trace, with a list of entries: those of "allocators", then every combination
 *       of "search"
 *
 * or a list of rows ("rows"), each with its trace and, optionally, members that replace the plan's.
 * Errors are reported with their line, before anything is run. */
#ifndef MALLOCTAPE_SWEEP_PLAN_H
#define MALLOCTAPE_SWEEP_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compare/list.h"

enum { PLAN_NAME_BYTES = 80 };

/* One trace. */
struct plan_row {
    char *trace;                /* absolute path */
    char name[PLAN_NAME_BYTES]; /* used in IDs; no other trace has it */
    bool is_raw;                /* a recording, which must be put in order first */
    uint64_t bytes;             /* size of the file */
    uint32_t checksum;          /* of its two ends: tells it from others of the same size */
    struct compare_list list;   /* none twice */
    const char *engine;         /* NULL: compare chooses */
    unsigned runs;
    double limit_s; /* of one replay; negative: compare's default */
    bool latency;   /* whether single calls are timed */
    json_t *words;  /* further options of replay, or NULL */
};

struct plan {
    json_t *json; /* traces as absolute paths; owns texts of the rows */
    struct plan_row *rows;
    size_t rows_count;
    unsigned entries_per_task; /* a trace with more is compared in several tasks */
};

/* Reads the plan at `path`. False: `why` says what is wrong, with the line. */
bool plan_read(struct plan *plan, const char *path, char *why, size_t why_bytes);

void plan_free(struct plan *plan);

/* An entry in the form of --allocators. The caller frees it; NULL: no memory. */
char *plan_entry_text(const struct compare_entry *entry);

/* Prints a plan to begin with for these traces, with all installed allocators. False: no memory. */
bool plan_print(char *const *traces, size_t count);

#endif
