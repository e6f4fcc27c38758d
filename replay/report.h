/* report - the numbers of a replay, as a table for people and as JSON. REPORT.md defines each of them. */
#ifndef MALLOCTAPE_REPLAY_REPORT_H
#define MALLOCTAPE_REPLAY_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "postprocess/instruction_reader.h"
#include "replay/measure.h"
#include "replay/options.h"

enum report_status { REPORT_COMPLETE, REPORT_CUT, REPORT_FAILED };

struct report {
    enum report_status status;
    struct error error; /* with CUT and FAILED */
    const struct options *options;
    const struct engine *engine;
    const struct allocator *allocator;
    bool cache_switching;
    const struct instruction_header *header;
    enum instruction_status recording; /* of the end block; with COMPLETE and not limited */
    bool limited;                      /* by policy.limit_calls, before the end block */
    struct instruction_totals totals;  /* of what was carried out */
    uint64_t peak_live_bytes;
    struct measurement measurement;
};

/* Whether a kind of call that occurred was carried out as another one. */
bool report_substituted(const struct report *report, unsigned kind);

void report_print(const struct report *report, FILE *to);

/* Writes one JSON object and a newline to `path`; "-" is the standard output. False: see *error. */
bool report_write_json(const struct report *report, const char *path, struct error *error);

#endif
