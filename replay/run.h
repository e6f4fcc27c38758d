/* run - takes a stream from the reader to the engine, and measures.
 *
 *   reader --batch--> prepare --> slices --> engine --> report
 *                                   |
 *       a slice ends at a tick, where the warm-up ends, at the limit, and with the batch
 *
 * Between two slices memory is looked at and the original's time is waited for. One block in
 * OWN_COST_EVERY is carried out without the allocator first, which tells what the replay itself
 * costs.
 *
 * One thread; engines may have more. */
#ifndef MALLOCTAPE_REPLAY_RUN_H
#define MALLOCTAPE_REPLAY_RUN_H

#include "replay/ahead.h"
#include "replay/options.h"
#include "replay/replay_report.h"

/* Carries out everything that the options ask for and fills in the report, except for what the
 * header and the end of the stream say. `ahead` has been opened. report->status and report->error
 * say how it ended. False: it could not begin. */
bool run_stream(const struct options *options, struct ahead *ahead, struct report *report);

#endif
