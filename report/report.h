/* report - what a program asks of its allocator, and what holds its memory.
 *
 *   TRACE --reading/--> tally --> report_numbers.c, --+--> text.c         one page of text
 *                                 tables.c            +--> report_json.c  every number
 *                                                     `--> report_html.c  charts of them
 *
 *   two of them --------------------------------------> change.c, report_html.c
 *
 * One thread, one pass. */
#ifndef MALLOCTAPE_REPORT_REPORT_H
#define MALLOCTAPE_REPORT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "launch/recorded_settings.h"
#include "report/arenas.h"
#include "report/by_code.h"
#include "report/depths.h"
#include "report/rounding.h"
#include "report/tally.h"
#include "report/under.h"

/* A trace and what was counted in it. */
struct report_trace {
    const char *path;
    char *program, *allocator, *recording, *pid; /* empty where the stream does not say */
    char *heap_unknown;                          /* why the heap's bytes are not known, or empty */
    struct recorded_settings settings;
    double start_s;     /* since the epoch; 0: unknown */
    bool is_forked;     /* the process was forked from a recorded one */
    const char *status; /* "complete", "cut" or "damaged" */
    struct tally tally;
    struct arenas arenas;
    struct rounded rounded[ROUNDINGS];
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

void report_print(const struct report_trace *trace, FILE *to);

/* Prints a line for each number that few programs have; each begins with "! " and `words`. */
void report_print_unusual(const struct report_trace *trace, const char *words, FILE *to);

/* A page with charts. False: `why` says what is missing or cannot be written. */
bool report_page_write(const struct report_trace *trace, const char *path, char *why,
                       size_t why_bytes);

/* A new object. NULL without memory. */
json_t *report_json(const struct report_trace *trace);

/* Puts the indices of the greatest of `count` numbers, at most `most`, into `top`: greatest first,
 * lower index first among equals, without zeros. Returns how many there are. The numbers are
 * `stride` bytes apart: members of entries. */
unsigned report_top(const uint64_t *first, uint32_t count, size_t stride, uint32_t *top,
                    unsigned most);
#define REPORT_TOP(entries, count, member, top, most) \
    report_top(&(entries)[0].member, count, sizeof(entries)[0], top, most)

#endif
