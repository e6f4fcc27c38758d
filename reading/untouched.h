/* reading/untouched - how much of what a replay writes to, and the recorded program did not, counts.
 *
 *   replays write to all of an object (--touch pages)   P   more than the program's heap had: H
 *   further ones to its beginning (--touch line)        L   less
 *   a replay of changed code has                        L' + (H - L) / (P - L) * (P' - L')
 *
 * A recording does not have which pages of small objects were written to, but how many in all, where it
 * says what was resident. H is what the heap had at the look with most (others.h); or, if that was not
 * near the peak, the peak less what others had then. */
#ifndef MALLOCTAPE_READING_UNTOUCHED_H
#define MALLOCTAPE_READING_UNTOUCHED_H

#include <stdbool.h>

#include "reading/others.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The allocator cannot have had more than this many times the memory of the whole process. */
#define UNTOUCHED_REPLAYED_MOST 1.05

/* Replays under the recorded allocator, at their peak, that write to all of an object and to its
 * beginning. NAN: not known. */
struct untouched_replayed {
    double all, beginning;
};

/* Whether replays write to much that the program did not: `peak` is the process's, without the
 * recorder. */
static inline bool untouched_is_much(double replayed, double peak)
{
    return replayed > UNTOUCHED_REPLAYED_MOST * peak;
}

/* What the allocator had of the process's peak; NAN: not known. */
double untouched_heap_bytes(const struct others *others, double peak);

/* Whether a replay is to be corrected: it has clearly more than the process, or than the program's heap,
 * had. */
bool untouched_is_needed(const struct others *others, double peak, double replayed);

/* The share that counts; 0: not known. */
double untouched_share(const struct others *others, double peak,
                       const struct untouched_replayed *replayed);

static inline double untouched_corrected(double all, double beginning, double share)
{
    return beginning + share * (all - beginning);
}

#ifdef __cplusplus
}
#endif
#endif
