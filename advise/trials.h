/* trials - candidates are tried: the changed trace is written and replayed, and so is the trace as it
 * is, both as far as the round goes; after each round, the worse half is dropped.
 *
 *   round 1: 40 candidates, a part of the trace --> the better half, six times as much of it -->
 *   last round: 10 candidates, the whole trace --> those that seem to gain again, in turns with the trace
 *               as it is, best first, as long as there is time
 *
 * A short trace has only the last round, with all candidates. Where the program left much of what it
 * allocated untouched, replays of the last round are corrected (reading/untouched.h). Memory: that of a change, or of a replay,
 * whichever is more; files in a temporary directory: two streams of three bytes a call. One thread. */
#ifndef MALLOCTAPE_ADVISE_TRIALS_H
#define MALLOCTAPE_ADVISE_TRIALS_H

#include "advise/candidates.h"
#include "change/change_stream.h"
#include "launch/allocators.h"
#include "launch/process.h"
#include "launch/recorded_settings.h"
#include "reading/untouched.h"

enum { TRIAL_RUNS_MAX = 5 };

/* What replays say: medians. NAN: not known. */
struct trial_numbers {
    double peak, mean, end; /* RSS, without the replay's own */
    double cpu_seconds, calls;
};

struct trial {
    const struct candidate *candidate;
    struct change_list list;
    struct change_result result; /* of the latest round */
    struct trial_numbers base_runs[TRIAL_RUNS_MAX], changed_runs[TRIAL_RUNS_MAX];
    struct trial_numbers beginning; /* of a replay that writes to beginnings only, if needed */
    unsigned runs;                  /* of the latest round: how many turns */
    struct trial_numbers base, changed;
    struct trial_numbers least; /* memory: of the replays of the trace as it is */
    double unsure; /* bytes: how far replays differ at the peak; NAN: there is one of each */
    double score;
    unsigned round; /* the last one in which it took part, from 0 */
    bool
        excessive; /* it takes so much more that it was not replayed: `changed` has the peak alone */
    bool outlives;  /* the program still frees many of the objects that `until` has freed */
    bool is_faster; /* by more than the times of replays differ */
    bool failed;    /* it matches nothing, or its replay failed: `why` */
    char why[256];
};

struct trials {
    struct process_directory *directory;
    const char *ordered; /* the trace */
    struct change_trace *trace;
    const struct allocator_found *allocator;
    const struct recorded_settings *settings;
    const char *recorded; /* the recorded allocator's name, if it is the one of replays; or NULL */
    uint64_t calls;       /* of the trace */
    struct trial at[CANDIDATES_MAX];
    size_t count;
    unsigned rounds;                    /* how many there were */
    struct trial_numbers whole;         /* of the whole trace as it is */
    bool untouched;                     /* replays write to much that the program did not */
    double touched;                     /* the share of that which counts; 0: all does */
    struct untouched_replayed replayed; /* under the recorded allocator */
    struct trial_numbers beginning;     /* of the whole trace as it is, if touched > 0 */
    struct trial_numbers span; /* by how much that is less than with writes to all of each object */
    double began;              /* seconds */
    double original_peak, original_end; /* of the process without the recorder; NAN: not known */
    double cpu_seconds;                 /* of the process */
};

/* Tries all; the trials of the last round are first, best first. False: `why` says what is wrong with
 * the trace, or with replays of it. */
bool trials_run(struct trials *trials, const struct candidates *candidates, char *why,
                size_t why_bytes);
void trials_close(struct trials *trials);

/* What a trial saves: positive is less. */
static inline double trial_saves(double base, double changed)
{
    return base - changed;
}

#endif
