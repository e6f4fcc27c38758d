/* under - replays a trace under an allocator and finds what keeps its pages resident, at the peak
 * of RSS, at the peak of live bytes and at the end.
 *
 *   TRACE --reading/ordered_file.c--> ordered file --+--> tally (report_read)
 *                                             +--> replay --csv      the call of the most RSS
 *                                             `--> for each snapshot:
 *                                                    replay --limit --snapshot  \
 *                                                    tally as far as that call  / fragments.h
 *
 * Each snapshot is a replay of its own, so that nothing has to be kept in between. */
#ifndef MALLOCTAPE_REPORT_UNDER_H
#define MALLOCTAPE_REPORT_UNDER_H

#include "launch/allocators.h"
#include "launch/process.h"
#include "launch/recorded_settings.h"
#include "report/fragments.h"

struct report_trace;

struct under {
    const char *allocator; /* as the user named it, or the recorded one; NULL: not known yet */
    char engine[16];       /* of replay: auto, after the first replay the one that auto chose */
    struct allocator_found found;
    const struct recorded_settings *settings; /* those of the trace; NULL: none are set */
    const struct by_code *code;               /* of the trace */
    struct process_directory directory;
    char ordered[PROCESS_PATH_BYTES];            /* the file that is replayed */
    struct fragments snapshots[FRAGMENTS_TIMES]; /* in the order of calls, which differ */
    unsigned snapshots_count;
};

/* Whether this is the name of a known allocator; "none" is not. */
bool under_knows(const char *allocator);

/* Finds the allocator (NULL: under_find() takes the recorded one with its settings), and makes the
 * file at under->ordered. False: `why` says why; then nothing has to be closed. */
bool under_open(struct under *under, const char *allocator, const char *trace, char *why,
                size_t why_bytes);

/* Makes the snapshots. `trace`: the counts of the whole file. False: `why` says why. */
bool under_find(struct under *under, const struct report_trace *trace, char *why, size_t why_bytes);

/* Removes the files; a signal that was held back meanwhile then takes effect. */
void under_close(struct under *under);

void under_print(const struct under *under, FILE *to);

/* A new object. */
json_t *under_json(const struct under *under);

#endif
