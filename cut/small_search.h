/* small_search - makes a trace smaller as long as it shows what it shows: delta debugging on its
 * structure.
 *
 *   end --> a part that is enough: a 64th, a 16th, a quarter, a half of the objects
 *       --> threads --> calls without an object --> objects, by halves, quarters, ... single ones
 *       --> reallocs, frees, kinds, sizes --> again, until nothing changes
 *
 * Each candidate is a valid trace, judged by a process of its own (judge.h); several at a time. What
 * is accepted is written to OUT, so that after an interruption the same command goes on from there. */
#ifndef MALLOCTAPE_CUT_SMALL_SEARCH_H
#define MALLOCTAPE_CUT_SMALL_SEARCH_H

#include "cut/judge.h"
#include "cut/small_trace.h"

struct small_search {
    struct small_trace *trace;
    struct judge *judge;
    const struct process_directory *directory;
    const char *output;
    uint64_t calls;   /* of the trace as it was given */
    uint64_t limit_s; /* 0: none */
    bool quiet;

    /* From here on: small_search.c only. */
    uint64_t judged;
    uint64_t began_ns, written_ns;
    unsigned processors;
    bool parted; /* what was accepted last could not be together with others that show it */
    bool failed; /* see why */
    char why[512];
};

/* Whether the trace shows it. */
bool small_search_shows(struct small_search *search);

/* The search, whose time is limited, begins: the trace shows it. */
void small_search_begin(struct small_search *search);

/* Whether a trace without any call shows it, too. */
bool small_search_needs_no_call(struct small_search *search);

/* Searches, until nothing gets smaller, time is over or a signal comes, and writes the result. False:
 * search->why. */
bool small_search_run(struct small_search *search);

#endif
