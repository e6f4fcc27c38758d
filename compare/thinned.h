/* compare/thinned - results of a trace of which `malloctape cut --thin` has left one object of F, as
 * those of the whole.
 *
 *   memory = base + F * (memory of the replay - base)    base: before the first call
 *
 * Times are not changed: what a program of many short lives costs is what has been left out. */
#ifndef MALLOCTAPE_COMPARE_THINNED_H
#define MALLOCTAPE_COMPARE_THINNED_H

#include <jansson.h>

/* F; 1: the trace is whole. */
double compare_thinned_factor(const json_t *report);

/* Changes the numbers of a replay's report. */
void compare_thinned_scale(json_t *report);

#endif
