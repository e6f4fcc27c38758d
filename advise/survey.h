/* survey - what the objects of each call stack do, in one pass over a trace: enough to tell which
 * changes of code may be worth a try.
 *
 *   calls --by stack--> sites: made, alive at the peak and at the end, soon gone, grown, freed in rows,
 *                       made right after an object of another site ...
 *
 * Memory: 32 bytes for each object alive, 200 for each site, 4 for each node. One thread. */
#ifndef MALLOCTAPE_ADVISE_SURVEY_H
#define MALLOCTAPE_ADVISE_SURVEY_H

#include "change/change_trace.h"
#include "common/live.h"

/* An object is soon gone if it ends at most this many calls after the one that made it. */
enum { SURVEY_SOON_CALLS = 100 };

/* The most frequent one of many, if it is more than half of them: Boyer and Moore. */
struct survey_majority {
    uint64_t value, votes;
    uint64_t same; /* how many have been this value since it took the lead */
};

struct survey_site {
    uint32_t node;
    uint64_t made, bytes;
    uint64_t freed, soon; /* by the program */
    uint64_t in_rows;     /* of these: right after another free by the same thread */
    uint64_t grown_objects, grown_bytes;
    uint64_t late;     /* of those alive: made in the last half of all calls */
    uint64_t greatest; /* size */
    struct survey_majority size,
        before;       /* before: the site of the object that the thread made last, while it lives */
    struct live live; /* its peak is that of the trace */
};

struct survey {
    struct survey_site *sites;
    size_t count, room;
    uint64_t calls, objects, freed, peak_bytes, ns;
    bool is_cut;
};

/* Sites are numbered from 0; `before` of the first object of a thread, and after one that is gone,
 * is SURVEY_NONE. */
#define SURVEY_NONE UINT32_MAX

/* Reads the trace once, or as far as trace->calls_max says. False: `why` says what is wrong. */
bool survey_read(struct survey *survey, const struct change_trace *trace, char *why,
                 size_t why_bytes);
void survey_free(struct survey *survey);

#endif
