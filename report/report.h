/* report - what a program asks of its allocator, and what holds its memory.
 *
 *   TRACE --ordered (inspect/)--> instruction_reader --> tally --+--> text.c   one page of text
 *                                                                +--> json.c   every number
 *                                                                `--> page.c   charts of them
 *
 *   two of them ------------------------------------------------> change.c, page.c
 *
 * One thread, one pass. */
#ifndef MALLOCTAPE_REPORT_REPORT_H
#define MALLOCTAPE_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "report/depths.h"
#include "report/tally.h"
#include "report/under.h"

/* A trace and what was counted in it. */
struct report_trace {
    const char *path;
    char *program, *allocator, *recording, *pid; /* empty where the stream does not say */
    char *metadata;                              /* of the header */
    double start_s;                              /* since the epoch; 0: unknown */
    const char *status;                          /* "complete", "cut" or "damaged" */
    struct tally tally;
    const struct under *under;   /* what keeps pages resident, or NULL */
    const struct depths *depths; /* how far calls went, or NULL */
};

/* Reads a whole trace, from `file`, which is called `path`, and writes its sizes to
 * `call_sizes` (call_sizes.h) unless that is NULL. Returns an exit status; with
 * PROGRAM_FAILED it has been said why, and `trace` may only be closed. */
int report_read(struct report_trace *trace, const char *path, const char *file,
                const char *call_sizes);
void report_close(struct report_trace *trace);

/* Counts what an instruction stream has as far as its call number `calls`. False: see *error. */
bool report_tally_until(struct tally *tally, const char *path, uint64_t calls, struct error *error);

/* The file name of the program, or of the trace. */
const char *report_name(const struct report_trace *trace);

void report_print(const struct report_trace *trace, FILE *to);

/* Of it, a line for each number that few programs have; each begins with "! ". */
void report_print_unusual(const struct report_trace *trace, FILE *to);

/* A page with charts. False: `why` says what is missing or cannot be written. */
bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes);

/* A new object. NULL without memory. */
json_t *report_json(const struct report_trace *trace);

/* ---- what text and JSON share ---- */

enum report_order {
    REPORT_BY_COUNT,
    REPORT_BY_BYTES,
    REPORT_BY_PEAK_BYTES,
    REPORT_ORDERS, /* of the table in the text */
    REPORT_BY_END_BYTES = REPORT_ORDERS
};

enum { REPORT_TOP = 20 };

/* Puts the numbers of the entries that have most of something into `top`, the most first, the
 * smaller size first among equals; returns how many there are. */
unsigned report_top_sizes(const struct sizes *sizes, enum report_order order,
                          uint32_t top[REPORT_TOP]);

/* What allocators take for all objects that were made, or for those of the peak. */
struct report_rounded {
    uint64_t made, peak;
};
struct report_rounded report_rounded(const struct sizes *sizes, uint64_t (*rule)(uint64_t size));

#endif
