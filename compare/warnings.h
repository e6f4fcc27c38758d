/* compare/warnings - what spoils numbers of a comparison: what reports of replay say, what an
 * allocator printed, and what the trace is of. */
#ifndef MALLOCTAPE_COMPARE_WARNINGS_H
#define MALLOCTAPE_COMPARE_WARNINGS_H

#include <stdbool.h>

struct compare;

/* Fills compare->warnings; the caller frees them. False: no memory. */
bool compare_warnings_collect(struct compare *compare);

#endif
