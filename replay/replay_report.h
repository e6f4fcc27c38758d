/* replay_report - the numbers of a replay, as a table for people and as JSON. REPORT.md defines each
 * of them. */
#ifndef MALLOCTAPE_REPLAY_REPORT_H
#define MALLOCTAPE_REPLAY_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/numbers.h"
#include "replay/address_check.h"
#include "replay/engine.h"
#include "replay/measure.h"
#include "replay/memory.h"
#include "replay/series.h"
#include "stream/instruction_reader.h"
#include "stream/original.h"

enum report_status { REPORT_COMPLETE, REPORT_CUT, REPORT_FAILED };

struct report {
    enum report_status status;
    struct error error; /* with CUT and FAILED */
    const struct options *options;
    const struct engine *engine;
    const struct allocator *allocator;
    bool cache_switching;
    const char *caches; /* as in engine_state; NULL before a replay */
    const struct instruction_header *header;
    enum instruction_status recording; /* from the end block; only with COMPLETE and not limited */
    bool limited;                      /* by policy.limit_calls, before the end block */
    struct instruction_totals totals;  /* of what was carried out */
    uint64_t peak_live_bytes;
    unsigned busy_threads;     /* with at least one call in LANE_SHARE; 0: not counted */
    uint64_t lane_peaks_bytes; /* with policy.lane_peaks */
    uint64_t break_from, break_to; /* heap_break(), at the end */
    const char *auto_engine;   /* what --engine auto would take; NULL: not known */
    uint64_t realigned; /* calls whose alignment the allocator refused, made with another one */
    uint64_t untouched; /* bytes of large objects that the trace says were never resident */
    uint64_t reallocs, moved; /* how many there were; how many moved their object */
    const char *heap_source;
    const char *release_means; /* NULL: the allocator has none, or it was not asked for */
    uint64_t releases;
    uint64_t freed_at_end;
    struct series series;
    struct original original; /* what the recorded process used */
    struct original_statistics statistics;
    struct memory memory;
    struct latency latency;             /* calibrated */
    struct address_check address_check; /* with policy.verify_addresses */
    struct measurement measurement;
};

/* Whether a kind of call that occurred was carried out as another one. */
bool report_substituted(const struct report *report, unsigned kind);

/* The lines that glibc's trace_run prints (REPORT.md). */
void report_print_trace_run(const struct report *report, FILE *to);

void report_print(const struct report *report, FILE *to);

/* Writes PREFIX.series.csv and PREFIX.latency.csv (REPORT.md, "Series"). False: see *error. */
bool report_write_csv(const struct report *report, const char *prefix, struct error *error);

/* ---- what the table and JSON have in common ---- */

/* Hands out the numbers that both have. */
void report_numbers(const struct report *report, numbers_use *use, void *of);

/* Frees and reallocs of objects whose allocation is not known, except double frees. */
uint64_t report_unknown_frees(const struct report *report);

/* Whether resident memory is less than what live objects asked for, by more than rounding. */
static inline bool report_is_below_live(uint64_t rss_bytes, uint64_t live_bytes)
{
    return (double)rss_bytes < 0.995 * (double)live_bytes;
}

/* Peak RSS without the replay's own memory: the highest look, or more if the system counted a
 * higher peak in between. */
uint64_t report_net_rss_bytes(const struct report *report);

/* The share of objects that were placed where they were in the original; negative when that was not
 * asked for. */
double report_address_match(const struct report *report);

/* Name and version of the allocator. Returns `to`. */
const char *report_allocator(const struct report *report, char *to, size_t bytes);

extern const char *const report_status_names[];    /* by enum report_status */
extern const char *const report_recording_names[]; /* by enum instruction_status */

/* ---- what spoils numbers ---- */

struct warning {
    const char *key; /* REPORT.md has them */
    char text[240];
};

#define WARNINGS_MAX 24u

/* Reads settings of allocators from the environment. Returns the number of warnings. */
unsigned warnings_find(const struct report *report, struct warning warnings[WARNINGS_MAX]);

/* Writes one JSON object and a newline to `path`; "-" is the standard output. False: see *error. */
bool report_write_json(const struct report *report, const char *path, struct error *error);

#endif
