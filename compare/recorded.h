/* compare/recorded - which entry is the allocator that the recorded program had.
 *
 *   "gperftools 2.16", settings --> tcmalloc, the same settings --> a row of the list, or a new one
 *
 * A new row is replayed and shown like the others, but hidden if it fails: nobody asked for it, unless
 * changes of code are compared with it. */
#ifndef MALLOCTAPE_COMPARE_RECORDED_H
#define MALLOCTAPE_COMPARE_RECORDED_H

#include "compare/comparison.h"

/* Sets compare->recorded; it stays NULL if compare does not know the allocator. Call once the null
 * engine's report is known; the array of rows must have room for one more. False: no memory. */
bool compare_recorded_find(struct compare *compare);

/* Hides the new row if it failed. Call after all replays. */
void compare_recorded_hide(struct compare *compare);

void compare_recorded_close(struct compare *compare);

#endif
