/* report_trace - what a program asks of its allocator, and what holds its memory.
 *
 *   TRACE --reading/--> tally --> report_numbers.c, --+--> text.c         one page of text
 *                                 tables.c            +--> report_json.c  every number
 *                                                     `--> report_html.c  charts of them
 *
 *   two of them --------------------------------------> change.c, report_html.c
 *
 * One thread, one pass. */
#ifndef MALLOCTAPE_REPORT_REPORT_TRACE_H
#define MALLOCTAPE_REPORT_REPORT_TRACE_H

#include "launch/recorded_settings.h"
#include "report/arenas.h"
#include "report/by_code.h"
#include "report/depths.h"
#include "report/owners.h"
#include "report/rounding.h"
#include "report/tally.h"

struct under;

/* A trace and what was counted in it. */
struct report_trace {
    const char *path;
    char *program, *allocator, *recording, *pid; /* empty where the stream does not say */
    char *what_if;                               /* the changes of code that made it, or empty */
    double thin;        /* of one that is thinned (cut --thin): what an object stands for; or 0 */
    char *heap_unknown;                          /* why the heap's bytes are not known, or empty */
    char *foreign_malloc;                        /* the file of another malloc in use, or empty */
    struct recorded_settings settings;
    double start_s;     /* since the epoch; 0: unknown */
    bool is_forked;     /* the process was forked from a recorded one */
    const char *status; /* "complete", "cut" or "damaged" */
    bool ends_at_exec;
    struct tally tally;
    struct arenas arenas;
    struct rounded rounded[ROUNDINGS];
    struct owners owners;        /* known if the trace says what was resident */
    struct by_code code;         /* known if the trace has call stacks */
    const struct under *under;   /* what keeps pages resident, or NULL */
    const struct depths *depths; /* how far calls went, or NULL */
};

/* Reads a whole trace from `file`, which messages call `path`, and writes its sizes to
 * `call_sizes` (call_sizes.h) unless that is NULL. Returns an exit status; with
 * PROGRAM_FAILED the reason has been printed, and `trace` may only be closed. */
int report_read(struct report_trace *trace, const char *path, const char *file,
                const char *call_sizes, const struct by_code_options *code);
void report_close(struct report_trace *trace);

/* Counts an instruction stream up to call number `calls`; by call stacks, too, if it has any.
 * False: see *error. */
bool report_tally_until(struct tally *tally, struct stack_tally *stacks, const char *path,
                        uint64_t calls, struct error *error);

/* The file name of the program, or of the trace. */
const char *report_name(const struct report_trace *trace);

#endif
